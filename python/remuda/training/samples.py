"""Reads the files of `remuda train antelope --collect`, and computes each arm's value over time.

Each other arm takes over a flow of `FIRST` in a run of its own, all at the same time, over the same
path. So what an arm achieves after that time is what a policy gains by changing to it there: beside
other flows, for example, it still has to win a share.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Numbers = NDArray[np.int64]

LEAST_SUM = 1e-9
"""Sums of time or of payload below this are nothing."""
CELL_S = 0.5
"""The length of the cells in which runs are compared, in seconds: that of a sample."""
FIRST = "learned"
"""The arm from which others take over (`emulation/samples/src/plan.rs`)."""
NEAR_S = 3.0
"""For a state this many seconds or less from the take-over, the other arms are judged from the
take-over on."""


@dataclasses.dataclass(frozen=True)
class Sums:
    """Sums for each arm from the start to each cell: environments x arms x (cells + 1)."""

    span_s: Floats
    delivered: Floats
    lost: Floats
    delay: Floats
    #: An equal share of what the bottleneck could carry.
    share: Floats
    #: What the flows of the arm got of it.
    tested: Floats
    #: An equal share, and what the neighbours got, while there were neighbours.
    share_beside: Floats
    neighbours: Floats

    def between(self, at: tuple[Numbers, Numbers, Numbers]) -> Sums:
        """The sums between two cells of rows (environment, first cell, end cell): rows x arms."""
        environment, first, end = at
        each = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Sums(*(of[environment, :, end] - of[environment, :, first] for of in each))

    def where(self, mask: NDArray[np.bool_], other: Sums) -> Sums:
        """These sums where the mask is true, and the others elsewhere."""
        names = (field.name for field in dataclasses.fields(self))
        return Sums(*(np.where(mask, getattr(self, it), getattr(other, it)) for it in names))

    def terms(self, half_ms: Floats) -> tuple[Floats, ...]:
        """Mean round trip and one-way delay in ms, and what the merit is made of, as in `States`.

        `half_ms` is half of the round trip of each environment without a queue.
        """
        rtt_ms = self.delay / np.maximum(self.delivered, LEAST_SUM)
        delay_ms = np.maximum(rtt_ms - half_ms, half_ms)
        goodput = self.tested / np.maximum(self.share, LEAST_SUM)
        loss = self.lost / np.maximum(self.delivered + self.lost, LEAST_SUM)
        kept = np.minimum(self.neighbours / np.maximum(self.share_beside, LEAST_SUM), 1.0)
        harm = np.where(self.share_beside > LEAST_SUM, 1.0 - kept, 0.0)
        return rtt_ms, delay_ms, goodput, delay_ms / half_ms, loss, harm


@dataclasses.dataclass(frozen=True)
class States:
    """States in which to decide, and what each arm achieved from there on: rows x arms."""

    environment: NDArray[np.uint64]
    kind: list[str]
    #: The arm that has the flow.
    arm: list[str]
    at_s: Floats
    features: Singles
    #: Payload per second without lost bytes, in Mbit/s.
    throughput: Floats
    #: One-way delay in ms: the mean round trip minus half of the round trip without a queue.
    delay_ms: Floats
    #: Mean round trip in ms, weighted by delivered bytes.
    rtt_ms: Floats
    #: What the merit is made of: goodput over an equal share of what the bottleneck could carry,
    goodput: Floats
    #: mean one-way delay over that of the path without a queue,
    delay: Floats
    #: payload lost over payload sent,
    loss: Floats
    #: and 1 less what the neighbours had of an equal share.
    harm: Floats

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.at_s)

    def only(self, mask: NDArray[np.bool_]) -> States:
        """The rows that the mask selects."""
        kind, arm = (
            [name for name, taken in zip(names, mask, strict=True) if taken]
            for names in (self.kind, self.arm)
        )
        arrays = {
            field.name: getattr(self, field.name)[mask]
            for field in dataclasses.fields(self)
            if field.name not in ("kind", "arm")
        }
        return States(kind=kind, arm=arm, **arrays)


def facts(folder: Path) -> dict[str, str]:
    """Facts that the files contain. They must be equal in all files.

    Raises:
        ValueError: if no files exist, or they are of different programs or settings.
    """
    files = sorted(folder.glob("samples-*.parquet"))
    if not files:
        raise ValueError(f"{folder}: no samples-*.parquet here\nfix: collect first, --collect")
    all_facts = [
        {k: v for k, v in pl.read_parquet_metadata(f).items() if ":" not in k} for f in files
    ]
    for file, facts in zip(files, all_facts, strict=True):
        facts.pop("ARROW", None)
        if facts != all_facts[0]:
            rule = "it was made by another program or with other settings than the file before"
            raise ValueError(f"{file}: {rule}\nfix: collect again into an empty folder")
    return all_facts[0]


def environments(folder: Path) -> int:
    """How many environments the files have."""
    files = sorted(folder.glob("samples-*.parquet"))
    return int(pl.scan_parquet(files).select(pl.col("environment").n_unique()).collect().item())


def summed(all_rows: pl.LazyFrame, plans: list[str]) -> tuple[NDArray[np.uint64], Sums, Floats]:
    """The seeds of the environments, sums over them, and their round trips without a queue in ms.

    Args:
        all_rows: of the files.
        plans: the plan of each arm, in the order of arms.

    Raises:
        ValueError: if a sample begins before its flow.
    """
    columns = ["environment", "plan", "from_s", "until_s", "seen_throughput_mbit_per_sec"]
    columns += ["seen_lost_mbit_per_sec", "seen_rtt_mean_ms", "path_rtt_ms"]
    columns += ["share_mbit_per_sec", "tested_mbit_per_sec", "neighbour_mbit_per_sec"]
    fixed = all_rows.select(columns).filter(pl.col("plan").is_in(plans)).collect()
    seeds = np.sort(fixed["environment"].unique().to_numpy())
    environment = np.searchsorted(seeds, fixed["environment"].to_numpy())
    order = {name: place for place, name in enumerate(plans)}
    arm = np.array([order[name] for name in fixed["plan"].to_list()])
    first, end = fixed["from_s"].to_numpy(), fixed["until_s"].to_numpy()
    if first.min() < 0:
        raise ValueError(f"from_s is {first.min()}: must be 0 or more\nfix: collect again")
    rate, lost = (fixed[name].to_numpy() for name in columns[4:6])
    rtt_ms = fixed["seen_rtt_mean_ms"].to_numpy()
    share, tested = (fixed[name].to_numpy() for name in columns[8:10])
    beside = fixed[columns[10]].is_not_null().to_numpy()
    neighbour = fixed[columns[10]].fill_null(0.0).to_numpy()
    cells = int(np.ceil(end.max() / CELL_S))
    shape = (len(seeds), len(plans), cells + 1)
    ones = np.ones(len(first))
    rates = (ones, rate, lost, rtt_ms * rate, share, tested, share * beside, neighbour)
    sums = [np.zeros(shape) for _ in rates]
    # A sample overlaps two or three cells, so its tenths are added one by one.
    for part in np.linspace(0.05, 0.95, 10):
        cell = np.minimum(((first + (end - first) * part) / CELL_S).astype(int), cells - 1) + 1
        share_s = (end - first) / 10
        for total, of in zip(sums, rates, strict=True):
            np.add.at(total, (environment, arm, cell), of * share_s)
    least = np.zeros(len(seeds))
    least[environment] = fixed["path_rtt_ms"].to_numpy()
    return seeds, Sums(*(of.cumsum(axis=2) for of in sums)), least


def plans_of(arms: list[str]) -> list[str]:
    """The plan in which each arm has the flow in the end: throughout, or after `FIRST`."""
    return [arm if arm == FIRST else f"{FIRST}>{arm}" for arm in arms]


def took_over(all_rows: pl.LazyFrame, seeds: NDArray[np.uint64], arms: list[str]) -> Floats:
    """When the other arms took over from `FIRST` in each environment, in seconds of the flow.

    NaN: at least one arm never took over.

    Raises:
        ValueError: if they took over in none.
    """
    plans = [plan for plan in plans_of(arms) if plan != FIRST]
    after = pl.col("plan").is_in(plans) & (pl.col("arm") != FIRST)
    of_plan = all_rows.filter(after).group_by("environment", "plan").agg(pl.col("from_s").min())
    seen = of_plan.group_by("environment").agg(pl.col("from_s").max(), pl.len()).collect()
    seen = seen.filter(pl.col("len") == len(plans))
    if seen.is_empty():
        rule = f"in no environment all of {', '.join(arms)} take over from {FIRST}"
        raise ValueError(f"{rule}\nfix: collect again into an empty folder")
    out = np.full(len(seeds), np.nan)
    out[np.searchsorted(seeds, seen["environment"].to_numpy())] = seen["from_s"].to_numpy()
    return out


def read(folder: Path, arms: list[str], features: list[str], horizon_s: float) -> States:
    """The states of a collection, with what each arm achieves over `horizon_s` from each on.

    The arm that has the flow is judged from the state on. Every other arm is judged in the run in
    which it took over: from the take-over on if the state is within `NEAR_S` of it, otherwise from
    the state on. States more than `NEAR_S` before the take-over, and states with less than a third
    of the horizon after them, are left out.
    """
    # Lists the files once, because a collection may still be growing.
    all_rows = pl.scan_parquet(sorted(folder.glob("samples-*.parquet")))
    seeds, sums, least = summed(all_rows, plans_of(arms))
    columns = ["environment", "kind", "arm", "until_s", *features]
    # A flow may have sent nothing in all runs but a random one.
    ran = (pl.col("state") == 1) & pl.col("environment").is_in(seeds.tolist())
    states = all_rows.filter(ran).select(columns).collect()
    seed = states["environment"].to_numpy()
    environment = np.searchsorted(seeds, seed)
    rows = states.select(features).fill_null(np.nan).to_numpy().astype(np.float32)
    at_s = states["until_s"].to_numpy()
    kind, arm = states["kind"].to_list(), states["arm"].to_list()
    after_s = at_s - took_over(all_rows, seeds, arms)[environment]
    last = sums.span_s.shape[2] - 1

    def over(from_s: Floats) -> Sums:
        first = np.clip((from_s / CELL_S).astype(int), 0, last)
        end = np.clip(first + int(horizon_s / CELL_S), 0, last)
        return sums.between((environment, first, end))

    is_near = np.abs(after_s) <= NEAR_S
    goes_on, fresh = over(at_s), over(np.where(is_near, at_s - np.nan_to_num(after_s), at_s))
    has_it = np.array(arm)[:, None] == np.array(arms)
    seen = goes_on.where(has_it, fresh)
    span = np.maximum(seen.span_s, LEAST_SUM)
    throughput = np.maximum(seen.delivered - seen.lost, 0.0) / span
    half = least[environment, None] / 2
    rtt_ms, delay_ms, *merit = seen.terms(half)
    known = (seen.span_s.min(axis=1) > horizon_s / 3) & (seen.delivered.min(axis=1) > 0)
    known &= after_s >= -NEAR_S
    states_of = States(seed, kind, arm, at_s, rows, throughput, delay_ms, rtt_ms, *merit)
    return states_of.only(known & np.isfinite(delay_ms).all(axis=1))
