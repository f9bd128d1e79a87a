"""The settings of an environment, its features, and its spaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from remuda import _native
from remuda._native import Scenario

Range = float | tuple[float, float]
"""One value, or the lowest and the highest value to draw from."""

_RANGES = ("bandwidth_mbit_per_sec", "rtt_ms", "queue_bdp", "loss_percent", "start_ratio")


class Feature(NamedTuple):
    """A number of an observation."""

    name: str
    unit: str
    """`1` for a ratio."""
    low: float
    high: float
    about: str


FEATURES: tuple[Feature, ...] = tuple(Feature(*feature) for feature in _native.FEATURES)
"""The numbers that an observation has of each step, in order."""

METRICS: tuple[str, ...] = _native.METRICS
"""The figures that `info` has of a step, in the order of the native part."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CongestionSettings:
    """The settings of an environment.

    Without a `scenario`, each episode has its own link, drawn from five ranges: a number, or `(low,
    high)`. Bandwidth, round trip, queue and start are drawn so that their logarithm is uniform;
    loss is uniform.
    """

    bandwidth_mbit_per_sec: Range = (1.0, 20.0)
    """The bottleneck's rate, in IP bytes: 0.05 to 10000."""
    rtt_ms: Range = (10.0, 100.0)
    """The round trip without queueing: 0.1 to 10000."""
    queue_bdp: Range = (0.2, 4.0)
    """The bottleneck's drop-tail queue, in bandwidth-delay products: 0.01 to 1000."""
    loss_percent: Range = (0.0, 1.0)
    """Loss without congestion: 0 to 90."""
    start_ratio: Range = (0.3, 1.5)
    """The first sending rate, as a multiple of the bandwidth: 0.001 to 100. As in Aurora."""
    scenario: str | PathLike[str] | Mapping[str, Any] | Scenario | None = None
    """A scenario for all episodes instead: its one flow with `driver = "external"` is driven, and
    starts with `init_cwnd_pkts` in each round trip. Each episode has its own seed."""
    step_rtts: float = 1.0
    """How long a step is, in round trips without queueing: 0.1 to 100."""
    episode_steps: int | None = 400
    """The steps of an episode; `None`: until the scenario ends."""
    history: int = 10
    """The number of steps in an observation: 1 to 1000."""
    control: Literal["rate", "window"] = "rate"
    """What an action changes: the sending rate, with a window of twice what the rate needs; or the
    window, without pacing."""
    action_scale: float = 0.25
    """How much an action of 1 changes: the factor is 1 plus this. Aurora uses 0.025."""
    throughput_weight: float = 1.0
    """The reward of a full link."""
    delay_weight: float = 0.25
    """The cost of a queueing delay of one base round trip."""
    loss_weight: float = 1.5
    """The cost of losing all packets."""

    @classmethod
    def of(
        cls, settings: CongestionSettings | None, changes: Mapping[str, Any]
    ) -> CongestionSettings:
        """Returns `settings`, or the default ones, with some values changed.

        Raises:
            ValueError: if a setting does not exist; the message names it.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in changes:
            if name not in known:
                raise ValueError(f"`{name}` is not a setting; the settings are: {', '.join(known)}")
        return dataclasses.replace(settings or cls(), **changes)

    def to_native(self) -> dict[str, Any]:
        """The settings as the native part needs them.

        Raises:
            ValueError: if a value has a wrong type; the message names the setting.
        """
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in _RANGES:
            values[name] = _pair(name, values[name])
        if isinstance(self.scenario, Mapping):
            values["scenario"] = dict(self.scenario)
        for name, kinds, rule in _KINDS:
            value = values[name]
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise ValueError(f"`{name}` is {value!r}: {rule}")
        for name in ("episode_steps", "history"):
            if values[name] is not None and not 1 <= values[name] < 2**31:
                raise ValueError(f"`{name}` is {values[name]}: must be at least 1")
        return values


_NUMBER = (int, float, np.integer, np.floating)
_COUNT = (int, np.integer)
_KINDS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("step_rtts", _NUMBER, "must be a number"),
    ("episode_steps", (*_COUNT, type(None)), "must be a whole number or None"),
    ("history", _COUNT, "must be a whole number"),
    ("control", (str,), 'must be "rate" or "window"'),
    ("action_scale", _NUMBER, "must be a number"),
    ("throughput_weight", _NUMBER, "must be a number"),
    ("delay_weight", _NUMBER, "must be a number"),
    ("loss_weight", _NUMBER, "must be a number"),
)


def _pair(name: str, value: Any) -> tuple[float, float]:  # noqa: ANN401  # checked here
    """`(low, high)` of a range."""
    try:
        low, high = (value, value) if isinstance(value, _NUMBER) else value
        return float(low), float(high)
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` is {value!r}: must be a number or (low, high)") from None


def observation_space(history: int) -> Box[np.float32]:
    """The features of `history` steps, one step after the other, the newest last."""
    low = np.tile(np.array([feature.low for feature in FEATURES], dtype=np.float32), history)
    high = np.tile(np.array([feature.high for feature in FEATURES], dtype=np.float32), history)
    return Box(low, high, dtype=np.float32)


def action_space() -> Box[np.float32]:
    """One number from -1 to 1."""
    return Box(-1.0, 1.0, shape=(1,), dtype=np.float32)
