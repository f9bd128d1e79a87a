"""The environments in which the arm `learned` is trained, and what a step is worth there.

A family is a kind of paths: of a flow alone, or beside a flow of another arm.
"""

from __future__ import annotations

import itertools
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
ALONE: dict[str, dict[str, Any]] = {
    "wired": {"bandwidth_mbit_per_sec": (2, 100), "loss_percent": 0},
    "shallow": {"bandwidth_mbit_per_sec": (2, 50), "queue_bdp": (0.2, 0.8), "loss_percent": 0},
    "deep": {"bandwidth_mbit_per_sec": (2, 30), "queue_bdp": (3, 20), "loss_percent": 0},
    "lossy": {"bandwidth_mbit_per_sec": (2, 50), "loss_percent": (0.05, 5)},
    "thin": {"bandwidth_mbit_per_sec": (0.2, 2), "rtt_ms": (20, 200), "queue_bdp": (0.5, 10)},
    "satellite": {"bandwidth_mbit_per_sec": (2, 20), "rtt_ms": (300, 700), "loss_percent": (0, 2)},
}
"""Families of one flow on a path of its own: the settings of their environments."""
BESIDE = ("copa",)
"""Families of a flow beside another one: the other's arm. Arms that fill the buffer are left out:
in trials, networks trained beside them filled it too, also where the rate had just fallen."""
VARYING = {"steps": 80, "fades": 12}
"""Families of rates that change: for how many round trips a rate stays."""
ABOUT = (
    "Simulated paths with drop-tail queues: alone on constant rates of 0.2 to 100 Mbit/s and 10 to"
    " 700 ms with up to 5 % loss, and on rates of 8 to 80 Mbit/s that fall to as little as a fifth;"
    " and beside one flow of copa on 4 to 40 Mbit/s."
)


def names() -> list[str]:
    """All families."""
    return [*ALONE, *VARYING, *(f"beside_{arm}" for arm in BESIDE)]


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


def beside(arm: str) -> list[dict[str, Any]]:
    """Paths with a flow of another arm, which starts first."""
    scenarios = []
    for rate_mbit_per_sec, rtt_ms, queue_bdp in itertools.product((4, 12, 40), (20, 80), (1, 4)):
        bdp_pkts = max(2, round(rate_mbit_per_sec * 1e3 / 8 * rtt_ms / 1500))
        delay = {"delay_ms": rtt_ms / 2}
        queue = {"kind": "droptail", "limit_bdp": queue_bdp}
        scenarios.append(
            {
                "name": f"beside-{arm}",
                "duration_s": rtt_ms * 600 / 1e3,
                "links": {
                    "down": {"rate_mbit_per_sec": rate_mbit_per_sec, "queue": queue, **delay},
                    "up": delay,
                },
                "flows": [
                    {"driver": arm},
                    {
                        "driver": "external",
                        "start_s": rtt_ms * 40 / 1e3,
                        "init_cwnd_pkts": max(2, bdp_pkts // 3),
                    },
                ],
            }
        )
    return scenarios


def varying(stay_rtts: int) -> list[dict[str, Any]]:
    """Paths whose rate falls and rises again; the highest counts as the bandwidth."""
    scenarios, rng = [], np.random.default_rng(stay_rtts)
    for rate_mbit_per_sec, rtt_ms, queue_bdp in itertools.product((8, 24, 80), (20, 80), (1, 4)):
        delay = {"delay_ms": rtt_ms / 2}
        changes = [
            {
                "at_s": at * rtt_ms / 1e3,
                "rate_mbit_per_sec": rate_mbit_per_sec * float(rng.choice([0.2, 0.4, 0.7, 1.0])),
            }
            for at in range(stay_rtts, 290, stay_rtts)
        ]
        down = {
            "rate_mbit_per_sec": rate_mbit_per_sec,
            "queue": {"kind": "droptail", "limit_bdp": queue_bdp},
            "rate_steps": changes,
            **delay,
        }
        bdp_pkts = round(rate_mbit_per_sec * 1e3 / 8 * rtt_ms / 1500)
        scenarios.append(
            {
                "name": f"varying-{stay_rtts}",
                "duration_s": rtt_ms * 300 / 1e3,
                "links": {"down": down, "up": delay},
                "flows": [{"driver": "external", "init_cwnd_pkts": max(2, bdp_pkts // 2)}],
            }
        )
    return scenarios


def worlds_of(settings: Settings, family: str, count: int, seed: int) -> list[World]:
    """So many flows of a family, each in an environment of its own."""
    if family in ALONE:
        return [World(settings, settings_of(settings, **ALONE[family]), count, seed, 1)]
    is_alone = family in VARYING
    arm = family.removeprefix("beside_")
    scenarios = varying(VARYING[family]) if is_alone else beside(arm)
    shares = np.diff(np.linspace(0, count, len(scenarios) + 1).astype(int))
    made = []
    for at, (scenario, share) in enumerate(zip(scenarios, shares, strict=True)):
        if share > 0:
            of = settings_of(settings, scenario=scenario)
            made.append(World(settings, of, int(share), seed + at * 1_000, 1 if is_alone else 2))
    return made


class World:
    """Environments of one family, in which so many flows share the bottleneck."""

    def __init__(
        self,
        settings: Settings,
        of: remuda.CongestionSettings,
        count: int,
        seed: int,
        sharing: int,
    ) -> None:
        """Starts an episode in each."""
        self._settings, self._sharing = settings, sharing
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
        return observations, rewards(seen, self._sharing), ends


USED = ("throughput_mbit_per_sec", "bandwidth_mbit_per_sec", "rtt_ms", "base_rtt_ms", "loss_rate")


def rewards(info: dict[str, Array], sharing: int) -> Array:
    """The logarithm of the merit of a step: the default preference of algorithms/src/merit.rs.

    What a flow gets above an equal share, its neighbour lacks.
    """
    payload = info["bandwidth_mbit_per_sec"] * 1448 / 1500 / sharing
    share = info["throughput_mbit_per_sec"] / payload
    delay = np.maximum(info["rtt_ms"] / info["base_rtt_ms"], 1)
    harm = np.maximum(share - 1, 0) / (sharing - 1) if sharing > 1 else np.zeros_like(share)
    least = 0.01
    kept = 5 * np.log(np.maximum(1 - info["loss_rate"], least))
    spared = 2 * np.log(np.maximum(1 - harm, least))
    return 2 * np.log(np.clip(share, least, 1)) - np.log(delay) + kept + spared


def training(settings: Settings, rows: int, seed: int) -> list[World]:
    """The environments of a round, with so many flows together."""
    names = families(settings)
    counts = np.diff(np.linspace(0, rows, len(names) + 1).astype(int))
    return [
        world
        for at, (name, count) in enumerate(zip(names, counts, strict=True))
        for world in worlds_of(settings, name, int(count), seed % 10_000 * 100_000 + at * 13_000)
    ]


def held_out(settings: Settings) -> Iterator[tuple[str, list[World]]]:
    """The environments of the evaluation, family by family."""
    for name in names():
        yield name, worlds_of(settings, name, settings.evaluations, HELD_OUT)
