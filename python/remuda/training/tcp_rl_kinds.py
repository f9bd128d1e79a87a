"""Environments of many kinds of paths, with neighbours, for the training of the policy `tcp_rl`.

They are the first of those that antelope is trained on (`emulation/samples`), and the reward is the
merit by which arms are ranked. In each environment every arm drives the flow alone, over the same
path at the same time. So what an arm earned from a moment on is what it would have earned from any
other arm's run at that moment, apart from the effects of the change. Arms that antelope does not
choose from do not run there, and are not picked on such paths.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from remuda import _native
from remuda.training import rewards, samples
from remuda.training.tcp_rl_steps import ARMS

Array = Any

WANTS = tuple(rewards.MODES.values())
"""What applications want: both, throughput, short delays."""
FIRST_S, FIRST_RTTS = 0.5, 5
"""The length of a flow's first step, as the policy has it."""
STEPS_S = ((2.0, 7.0), (8.0, 13.0), (14.0, 19.0))
"""Spans of later steps."""
FILE = 25
"""The environments of a file."""
HORIZON_S = 15.0
"""Rewards are of so many seconds after a step."""
LEAST_REWARD = -4.0
"""No arm has less, and those that did not run have this."""


class Kinds(NamedTuple):
    """Axes of the states: the environment, the arm, the step, and `tcp_rl_steps.STATES`.

    Axes of the rewards: what the application wants, the environment, the step, the arm.
    """

    states: Array
    rewards: Array


def collect(folder: Path, count: int) -> None:
    """Simulates so many environments into the folder, one on each processor at a time.

    Those that are there are kept.
    """

    def one(first: int) -> None:
        _native.collect(folder, (first, min(first + FILE, count)), 0, {"for": "tcp_rl"})

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, range(0, count, FILE)))


def read(folder: Path) -> Kinds:
    """The steps of a collection, and the merit of each arm after them, below that of the best."""
    all_rows = pl.scan_parquet(sorted(folder.glob("samples-*.parquet")))
    ran = set(all_rows.select(pl.col("plan").unique()).collect()["plan"])
    arms = [arm for arm in ARMS if arm in ran]
    seeds, sums, least_ms = samples.summed(all_rows, arms)
    floors_ms = _floors(all_rows, seeds, arms)
    environments = np.arange(len(seeds))
    cells = sums.span_s.shape[2] - 1
    half_ms = least_ms[:, None] / 2
    states, below = [], []
    for begin_s, end_s in [(0.0, None), *STEPS_S]:
        length_s = np.maximum(FIRST_S, FIRST_RTTS * least_ms / 1e3) if end_s is None else 0.0
        until_s = np.full(len(seeds), end_s or 0.0) + length_s
        first = np.full(len(seeds), int(begin_s / samples.CELL_S))
        end = np.ceil(until_s / samples.CELL_S).astype(int)
        seen = sums.between((environments, first, end))
        rtt_ms = seen.terms(half_ms)[0]
        floor_ms = floors_ms[:, :, first[0] : end.max()].min(axis=2)
        floor_ms = np.where(np.isfinite(floor_ms), floor_ms, least_ms[:, None])
        # A run that has delivered nothing has the path's round trip.
        rtt_ms = np.where(seen.delivered > 0, rtt_ms, least_ms[:, None])
        rate = 1e6 * seen.delivered / np.maximum(seen.span_s, samples.LEAST_SUM)
        loss = seen.lost / np.maximum(seen.delivered + seen.lost, samples.LEAST_SUM)
        rtt_s, floor_s = rtt_ms / 1e3, np.minimum(floor_ms, rtt_ms) / 1e3
        states.append(np.stack([rate, rtt_s, floor_s, loss], -1))
        last = np.minimum(end + int(HORIZON_S / samples.CELL_S), cells)
        terms = sums.between((environments, end, last)).terms(half_ms)[2:]
        merits = [rewards.merit_of(terms, wants) for wants in WANTS]
        logs = np.log(np.maximum(np.stack(merits), 1e-9))
        below.append(np.maximum(logs - logs.max(-1, keepdims=True), LEAST_REWARD))
    places = [ARMS.index(arm) for arm in arms]
    all_states = np.zeros((len(seeds), len(ARMS), len(states), 4), np.float32)
    all_states[:, places] = np.stack(states, 2)
    all_below = np.full((len(WANTS), len(seeds), len(below), len(ARMS)), LEAST_REWARD, np.float32)
    all_below[..., places] = np.stack(below, 2)
    return Kinds(all_states, all_below)


def _floors(all_rows: pl.LazyFrame, seeds: Array, arms: list[str]) -> Array:
    """The least round trip in ms around each cell, where it was noted; otherwise infinite."""
    columns = ["environment", "plan", "until_s", "rtt_floor_over_min", "rtt_min_ms"]
    noted = pl.col("plan").is_in(arms) & (pl.col("state") == 1)
    rows = all_rows.filter(noted).select(columns).collect()
    environment = np.searchsorted(seeds, rows["environment"].to_numpy())
    order = {name: place for place, name in enumerate(arms)}
    arm = np.array([order[name] for name in rows["plan"].to_list()])
    cell = (rows["until_s"].to_numpy() / samples.CELL_S).astype(int)
    floor = rows["rtt_floor_over_min"].to_numpy() * rows["rtt_min_ms"].to_numpy()
    found = np.full((len(seeds), len(arms), cell.max() + 2), np.inf)
    known = np.isfinite(floor)
    np.minimum.at(found, (environment[known], arm[known], cell[known]), floor[known])
    return found
