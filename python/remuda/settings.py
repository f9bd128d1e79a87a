"""The settings of an environment, its features, and its spaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from remuda import _native
from remuda._native import Scenario

Range = float | tuple[float, float]
"""One value, or the lowest and the highest value to draw from."""

_RANGES = (
    "bandwidth_mbit_per_sec",
    "rtt_ms",
    "queue_bdp",
    "loss_percent",
    "start_ratio",
    "jitter_ms",
    "jitter_correlation",
    "stagger_s",
)


class Feature(NamedTuple):
    """A number of an observation."""

    name: str
    unit: str
    """`1` for a ratio."""
    low: float
    high: float
    about: str


FEATURES: tuple[Feature, ...] = tuple(Feature(*feature) for feature in _native.FEATURES)
"""The numbers that an observation has of each step, in order: ratios only."""

SIZE_FEATURES: tuple[Feature, ...] = tuple(Feature(*it) for it in _native.SIZE_FEATURES)
"""The numbers that follow them with `features="sizes"`."""

METRICS: tuple[str, ...] = _native.METRICS
"""The figures that `info` has of a step, in the order of the native part."""


FLAGS = ("active", "starts")
"""The last of `METRICS`, which are true or false."""

FAMILIES: dict[str, str] = dict(_native.FAMILIES)
"""The families of paths to train on, and what the paths of each have in common."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CongestionSettings:
    """The settings of an environment.

    By default, each episode has its own link, drawn from ranges: a number, or `(low, high)`.
    Bandwidth, round trip, queue and start are drawn so that their logarithm is uniform; the others
    are uniform. `scenario` is one scenario for all episodes. A training set is one of `scenarios`,
    `suite`, or `families` with `without` and `draws`: each episode draws one of its environments.
    In environments of suites and families, the flow under test is driven.
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
    jitter_ms: Range = 0.0
    """The standard deviation of the delay: 0 to 10000."""
    jitter_correlation: Range = 0.0
    """The correlation of one packet's jitter with the next one's: 0 to 0.9999."""
    stagger_s: Range = 0.0
    """The time between the starts of two driven flows, on links drawn from ranges: 0 to 1000."""
    scenario: str | PathLike[str] | Mapping[str, Any] | Scenario | None = None
    """A scenario for all episodes instead: its one flow with `driver = "external"` is driven, and
    starts with `init_cwnd_pkts` in each round trip. Each episode has its own seed."""
    scenarios: Sequence[str | PathLike[str] | Mapping[str, Any] | Scenario] | None = None
    """Scenarios, each with one to `flows` external flows. Each episode has its own seed."""
    suite: str | None = None
    """A suite of `remuda matrix`: its name, the path of its file, or the range of seeds of a
    family, as `drawn:0..9600` or `cellular:0..500`."""
    families: Sequence[str] | None = None
    """Names of `FAMILIES`, or `drawn`, which mixes several. Each is equally likely."""
    without: str | Sequence[str] = ()
    """Families to leave out; of all, if `families` is not set."""
    draws: range | Sequence[int] | None = None
    """The seeds that families draw from. By default below 1000000; higher ones are held out. If
    `families` is not set, the family is `drawn`, or with `without` all others."""
    flows: int = 1
    """How many flows of one simulation your program drives: 1 to 100. A scenario or a draw may have
    fewer. A draw with more gives the others to `companion`."""
    neighbours: Sequence[str] = ()
    """Arms or policies of further flows, on links drawn from ranges."""
    companion: str = "cubic"
    """The arm or policy of flows that a draw wants to be like the driven one, beyond `flows`."""
    alone: bool = False
    """Leave out the flows beside the driven ones in environments of scenarios, suites, families."""
    step_rtts: float = 1.0
    """How long a step is, in round trips without queueing: 0.1 to 100."""
    episode_steps: int | None = 400
    """The steps of an episode; `None`: until the scenario ends."""
    history: int = 10
    """The number of steps in an observation: 1 to 1000."""
    features: Literal["ratios", "sizes"] = "ratios"
    """The numbers of each step: `FEATURES`, or with `"sizes"` also `SIZE_FEATURES`, which tell a
    flow with a large share of the bottleneck from one with a small share."""
    control: Literal["rate", "window", "arm"] = "rate"
    """What an action changes: the sending rate, with a window of twice what the rate needs; the
    window, without pacing; or the arm that drives the flow, by its place in `arms`."""
    arms: Sequence[str] = ()
    """The arms to choose from, with `control="arm"`: 2 to 64. A flow starts with the first."""
    action_scale: float = 0.25
    """How much an action of 1 changes: the factor is 1 plus this. Aurora uses 0.025."""
    reward: Literal["linear", "merit"] = "linear"
    """`linear`: a sum with the three weights below. `merit`: the logarithm of the merit by which
    arms are ranked, of each step."""
    reward_scale: float = 1.0
    """What the reward is multiplied by: 1e-6 to 1e6."""
    preference: tuple[float, float] = (1.0, 1.0)
    """How much throughput and delay count in a merit: each 0 to 1."""
    throughput_weight: float = 1.0
    """Of a linear reward: that of a full link."""
    delay_weight: float = 0.25
    """Of a linear reward: the cost of a queueing delay of one base round trip."""
    loss_weight: float = 1.5
    """Of a linear reward: the cost of losing all packets."""

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
        self._add_paths(values)
        values["preference"] = _pair("preference", self.preference)
        for name, kinds, rule in _KINDS:
            value = values[name]
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise ValueError(f"`{name}` is {value!r}: {rule}")
        for name in ("episode_steps", "history", "flows"):
            if values[name] is not None and not 1 <= values[name] < 2**31:
                raise ValueError(f"`{name}` is {values[name]}: must be at least 1")
        return values

    def _add_paths(self, values: dict[str, Any]) -> None:
        """Adds what says where episodes happen."""
        given = [
            name
            for name in ("scenario", "scenarios", "suite", "families")
            if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise ValueError(f"`{given[1]}` is set beside `{given[0]}`: a set has one of them")
        for name in ("without", "families", "neighbours", "arms"):
            values[name] = _names(name, values[name])
        if given and given[0] != "families" and (values["without"] or self.draws is not None):
            name = "without" if values["without"] else "draws"
            raise ValueError(f"`{name}` is set beside `{given[0]}`: it is for families")
        if not isinstance(self.alone, bool):
            raise ValueError(f"`alone` is {self.alone!r}: must be True or False")
        is_set = given not in ([], ["scenario"]) or values["without"] or self.draws is not None
        if self.alone and not is_set:
            rule = "it is for `scenarios`, `suite` and families, which have flows of their own"
            raise ValueError(f"`alone` is True: {rule}")
        values["draws"] = [] if self.draws is None else _spans(self.draws)
        if not given and values["without"]:
            values["families"] = []
        elif not given and self.draws is not None:
            values["families"] = ["drawn"]
        if isinstance(self.scenario, Mapping):
            values["scenario"] = dict(self.scenario)
        if self.scenarios is not None:
            if isinstance(self.scenarios, str | bytes | Mapping):
                raise ValueError("`scenarios` must be a list; for one, use `scenario`")
            each = list(self.scenarios)
            values["scenarios"] = [dict(it) if isinstance(it, Mapping) else it for it in each]


_NUMBER = (int, float, np.integer, np.floating)
_COUNT = (int, np.integer)
_KINDS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("step_rtts", _NUMBER, "must be a number"),
    ("episode_steps", (*_COUNT, type(None)), "must be a whole number or None"),
    ("history", _COUNT, "must be a whole number"),
    ("features", (str,), 'must be "ratios" or "sizes"'),
    ("control", (str,), 'must be "rate", "window" or "arm"'),
    ("reward", (str,), 'must be "linear" or "merit"'),
    ("reward_scale", _NUMBER, "must be a number"),
    ("flows", _COUNT, "must be a whole number"),
    ("suite", (str, type(None)), "must be a text"),
    ("companion", (str,), "must be the name of an arm or a policy"),
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


def _names(name: str, value: Any) -> list[str] | None:  # noqa: ANN401  # checked here
    """The names of a list; one text is one name."""
    if value is None:
        return None
    names = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(one, str) for one in names):
        raise ValueError(f"`{name}` is {value!r}: must be a list of names")
    return names


def _spans(draws: Any) -> list[tuple[int, int]]:  # noqa: ANN401  # checked here
    """The seeds as ranges, each with its first seed and the one after its last."""
    rule = "must be a range, or a list of whole numbers from 0 to 2**63 - 1"
    is_steady = isinstance(draws, range) and draws.step == 1
    spans = [(draws.start, draws.stop)] if is_steady else [(one, one + 1) for one in draws]
    for low, high in spans:
        if not isinstance(low, _COUNT) or not 0 <= low < high <= 2**63:
            raise ValueError(f"`draws` is {draws!r}: {rule}")
    if not spans:
        raise ValueError(f"`draws` is {draws!r}: {rule}")
    return [(int(low), int(high)) for low, high in spans]


def features_of(settings: CongestionSettings) -> tuple[Feature, ...]:
    """The numbers that an observation has of each step, in order."""
    return FEATURES if settings.features == "ratios" else FEATURES + SIZE_FEATURES


def observation_space(settings: CongestionSettings) -> Box[np.float32]:
    """The features of `history` steps, one step after the other, the newest last."""
    features, history = features_of(settings), settings.history
    low = np.tile(np.array([feature.low for feature in features], dtype=np.float32), history)
    high = np.tile(np.array([feature.high for feature in features], dtype=np.float32), history)
    return Box(low, high, dtype=np.float32)


def action_space(settings: CongestionSettings) -> Box[np.float32] | Discrete[np.int64]:
    """One number from -1 to 1, or the place of an arm."""
    if settings.control == "arm":
        return Discrete(len(settings.arms))
    return Box(-1.0, 1.0, shape=(1,), dtype=np.float32)
