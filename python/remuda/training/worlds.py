"""The environments in which the arm `learned` is trained, and what a step is worth there.

A family is a kind of paths. Most have one flow; on some, flows that follow the network share a path
with each other, or one with a flow of another arm.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

import remuda

if TYPE_CHECKING:
    from remuda.training.ppo import Settings

Array = Any

HELD_OUT = 1_000_000_000
"""Evaluations use environments from this seed on; trainings stay below."""
ENV_SCALE = 1.0
"""The environment's own `action_scale`: it has room for the action and the segment added to it."""


@dataclasses.dataclass(frozen=True)
class Paths:
    """The ranges of a family of paths with a drop-tail queue.

    The rate changes at random times, as on real paths: networks that seldom saw it rise learned to
    send at the same rate for ever.
    """

    rate_mbit_per_sec: tuple[float, float]
    """The highest rate."""
    rtt_ms: tuple[float, float]
    queue_bdp: tuple[float, float] = (0.5, 6)
    """The queue, in products of the highest rate and the round trip."""
    loss_percent: tuple[float, float] = (0, 0)
    jitter_ms: tuple[float, float] = (0, 0)
    jitter_correlation: tuple[float, float] = (0, 0)
    stay_rtts: float = 80
    """For how many round trips a rate stays, in the mean of an exponential distribution."""
    least: float = 0.15
    """The lowest rate over the highest one."""
    flows: int = 1
    """How many flows share the path and follow the network."""
    neighbours: tuple[str, ...] = ()
    """The arms of one more flow, which starts first; each is equally likely. None: no such flow."""

    @property
    def sharing(self) -> int:
        """How many flows a path has."""
        return self.flows + (1 if self.neighbours else 0)


PATHS = {
    "wired": Paths((2, 400), (3, 150)),
    "shallow": Paths((2, 100), (5, 150), (0.2, 0.8)),
    "deep": Paths((2, 50), (5, 150), (3, 20)),
    "lossy": Paths((2, 100), (5, 150), loss_percent=(0.05, 5)),
    "thin": Paths((0.2, 2), (20, 200), (0.5, 10)),
    "satellite": Paths((2, 20), (300, 700), loss_percent=(0, 2)),
    "jitter": Paths((1, 60), (10, 100), jitter_ms=(0.5, 15), jitter_correlation=(0, 0.97)),
    "steps": Paths((1, 200), (5, 200), stay_rtts=40, least=0.1),
    "fades": Paths((1, 100), (5, 200), stay_rtts=12, least=0.1),
    "selves": Paths((4, 100), (5, 150), flows=2, stay_rtts=160, least=0.4),
    "beside": Paths(
        (4, 80), (10, 120), stay_rtts=200, least=0.6, neighbours=("cubic", "reno", "bbr", "copa")
    ),
}
"""The families with drop-tail queues."""
PATHS_OF_ROUND = 24
"""How many paths of such a family a round has."""
IN_FLIGHT_MAX = 2_000
"""At most so many packets fill such a path: more would take the time of all others."""
MTU_BITS = 12_000
"""The bits of a packet."""
NEIGHBOUR_FIRST_RTTS = 40
"""How many round trips a neighbour is there before."""
DRAWN = {
    "cells": "cellular",
    "wifi": "wifi",
    "orbits": "satellite",
    "policed": "policed",
    "aqm": "aqm",
    "grouped": "grouped",
    "mixed": "drawn",
}
"""Families of one flow, which emulation/samples/src/family.rs draws: their names there."""
SHARE_MAX = 10.0
"""More goodput on such a path than this, in mean rates of its link, counts as this."""
ABOUT = (
    "Simulated paths, which a flow has to itself. With drop-tail queues: rates of 0.03 to 400"
    " Mbit/s that change up to tenfold, 3 to 700 ms, with up to 5 % loss or a jitter of up to 15"
    " ms. As emulation/samples draws them: cells, Wi-Fi, satellites, policers, AQMs, grouped ACKs"
    " and the mixture."
)


def names() -> list[str]:
    """All families."""
    return [*PATHS, *DRAWN]


def families(settings: Settings) -> list[str]:
    """The families of a training.

    Raises:
        ValueError: if there is no family of a name.
    """
    for name in (*settings.families, *settings.without):
        if name not in names():
            raise ValueError(f"{name} is no family; the families are: {', '.join(names())}")
    kept = [name for name in settings.families or names() if name not in settings.without]
    if not kept:
        raise ValueError("no family is left to train on: leave out fewer")
    return kept


def settings_of(settings: Settings, **changes: Any) -> remuda.CongestionSettings:  # noqa: ANN401
    """The settings of the environments."""
    return remuda.CongestionSettings(
        **{
            "control": "window",
            "features": "sizes",
            "history": 1,
            "action_scale": ENV_SCALE,
            "episode_steps": settings.episode_steps,
            "start_ratio": (0.3, 3.0),
            **changes,
        }
    )


def scenarios(settings: Settings, of: Paths, seed: int) -> list[dict[str, Any]]:
    """Paths of a family, drawn anew for each round."""
    rng = np.random.default_rng(seed)
    return [scenario(settings, of, rng) for _ in range(PATHS_OF_ROUND)]


def scenario(settings: Settings, of: Paths, rng: np.random.Generator) -> dict[str, Any]:
    """A path whose rate falls and rises, and its flows."""

    def magnitude(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    rtt_ms = magnitude(*of.rtt_ms)
    low, high = of.rate_mbit_per_sec
    in_flight_most = IN_FLIGHT_MAX * MTU_BITS / 1e3 / rtt_ms
    highest = magnitude(low, max(low, min(high, in_flight_most)))
    first = highest * magnitude(of.least, 1)
    changes, at_rtts = [], rng.exponential(of.stay_rtts)
    end_rtts = settings.episode_steps + 50
    while at_rtts < end_rtts:
        rate = highest * magnitude(of.least, 1)
        changes.append({"at_s": at_rtts * rtt_ms / 1e3, "rate_mbit_per_sec": rate})
        at_rtts += 1 + rng.exponential(of.stay_rtts)
    pkts_per_mbit = rtt_ms * 1e3 / MTU_BITS
    queue_pkts = max(10, round(highest * pkts_per_mbit * magnitude(*of.queue_bdp)))
    delay = {"delay_ms": rtt_ms / 2}
    down = {
        "rate_mbit_per_sec": first,
        "queue": {"kind": "droptail", "limit_packets": queue_pkts},
        "rate_steps": changes,
        "loss_percent": float(rng.uniform(*of.loss_percent)),
        "jitter_std_ms": float(rng.uniform(*of.jitter_ms)),
        "jitter_correlation": float(rng.uniform(*of.jitter_correlation)),
        **delay,
    }
    share_pkts = first * pkts_per_mbit / of.sharing
    start_s = NEIGHBOUR_FIRST_RTTS * rtt_ms / 1e3 if of.neighbours else 0.0
    flows: list[dict[str, Any]] = []
    for _ in range(of.flows):
        window_pkts = max(2, round(share_pkts * magnitude(0.3, 3)))
        one = {"driver": "external", "init_cwnd_pkts": window_pkts, "start_s": start_s}
        flows.append(one)
    if of.neighbours:
        flows.append({"driver": str(rng.choice(of.neighbours))})
    return {
        "name": "training",
        "duration_s": start_s + rtt_ms * end_rtts / 1e3,
        "links": {"down": down, "up": delay},
        "flows": flows,
    }


def draws_of(seed: int) -> range:
    """The seeds from which a family is drawn: those of evaluations are apart."""
    held_out = 1_000_000
    return range(held_out, 2 * held_out) if seed >= HELD_OUT else range(held_out)


def world(settings: Settings, family: str, count: int, seed: int) -> World:
    """So many flows of a family, which is an even number."""
    if family in DRAWN:
        of = settings_of(settings, families=[DRAWN[family]], draws=draws_of(seed), alone=True)
        return World(settings, of, count, seed, sharing=1, is_steady=False)
    paths = PATHS[family]
    of = settings_of(settings, scenarios=scenarios(settings, paths, seed), flows=paths.flows)
    return World(settings, of, count, seed, sharing=paths.sharing, is_steady=True)


class World:
    """Environments of one family, in which so many flows share the bottleneck.

    If the link is steady between its changes, goodput is measured by what the link could carry in
    the same step. Else some steps can carry nothing, and goodput is measured by the mean rate.
    """

    def __init__(
        self,
        settings: Settings,
        of: remuda.CongestionSettings,
        count: int,
        seed: int,
        *,
        sharing: int,
        is_steady: bool,
    ) -> None:
        """Starts an episode in each."""
        self._settings, self._sharing, self._is_steady = settings, sharing, is_steady
        self._env = remuda.CongestionVecEnv(count, of, autoreset_mode=AutoresetMode.SAME_STEP)
        self.first, info = self._env.reset(seed=seed)
        self._window_pkts = info["cwnd_pkts"]

    def step(self, actions: Array) -> tuple[Array, Array, Array]:
        """Steps all; returns inputs, rewards, and whether the episode ended.

        A window is multiplied by the action's factor, and gets `added_pkts` segments.
        """
        actions = np.clip(actions, -1, 1)
        up, down = (
            1 + self._settings.action_scale * actions,
            1 - self._settings.action_scale * actions,
        )
        factor = np.where(actions >= 0, up, 1 / down)
        factor += self._settings.added_pkts / np.maximum(self._window_pkts, 1)
        inverse = np.where(factor >= 1, factor - 1, 1 - 1 / factor) / ENV_SCALE
        given = inverse.astype(np.float32).reshape(-1, 1)
        observations, _, terminated, truncated, info = self._env.step(given)
        ends = terminated | truncated
        self._window_pkts = info["cwnd_pkts"]
        seen = info
        if ends.any():
            last = info["final_info"]
            seen = {key: np.where(ends, last[key], info[key]) for key in USED}
        return observations, rewards(seen, self._sharing, is_steady=self._is_steady), ends


USED = (
    "throughput_mbit_per_sec",
    "bandwidth_mbit_per_sec",
    "capacity_mbit_per_sec",
    "rtt_ms",
    "base_rtt_ms",
    "loss_rate",
)


def rewards(info: dict[str, Array], sharing: int, *, is_steady: bool) -> Array:
    """The logarithm of the merit of a step: the default preference of algorithms/src/merit.rs.

    What a flow gets above an equal share, its neighbour lacks.
    """
    capacity, share_max = info["bandwidth_mbit_per_sec"], SHARE_MAX
    if is_steady:
        now, share_max = info["capacity_mbit_per_sec"], 1.0
        capacity = np.where(now > 0, now, capacity)
    payload = capacity * 1448 / 1500 / sharing
    share = info["throughput_mbit_per_sec"] / payload
    delay = np.maximum(info["rtt_ms"] / info["base_rtt_ms"], 1)
    harm = np.maximum(share - 1, 0) / (sharing - 1) if sharing > 1 else np.zeros_like(share)
    least = 0.01
    kept = 5 * np.log(np.maximum(1 - info["loss_rate"], least))
    spared = 2 * np.log(np.maximum(1 - harm, least))
    return 2 * np.log(np.clip(share, least, share_max)) - np.log(delay) + kept + spared


def shares(settings: Settings, rows: int) -> Array:
    """How many of the flows each family has."""
    return 2 * np.diff(np.linspace(0, rows // 2, len(families(settings)) + 1).astype(int))


def family_of_rows(settings: Settings, rows: int) -> Array:
    """The place of each flow's family."""
    return np.repeat(np.arange(len(families(settings))), shares(settings, rows))


def training(settings: Settings, rows: int, seed: int) -> list[World]:
    """The environments of a round, with so many flows together."""
    return [
        world(settings, name, int(count), seed % 10_000 * 100_000 + at * 13_000)
        for at, (name, count) in enumerate(
            zip(families(settings), shares(settings, rows), strict=True)
        )
        if count > 0
    ]


def held_out(settings: Settings) -> Iterator[tuple[str, World]]:
    """The environments of the evaluation, family by family."""
    for name in names():
        yield name, world(settings, name, settings.evaluations, HELD_OUT)
