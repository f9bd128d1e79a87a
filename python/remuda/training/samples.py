"""Reads what `remuda train antelope --collect` has written, and says what each arm was worth when.

Every run of an environment sees the same path at the same time: what an arm's own run did from a
moment on is what the arm would have made of any other run's state at that moment, but for the
switch.
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

CELL_S = 0.5
"""Cells of the grid on which runs are compared, in seconds: as long as a sample."""


@dataclasses.dataclass(frozen=True)
class Sums:
    """What each arm did, summed up from the start to each cell: environments x arms x cells + 1."""

    span_s: Floats
    delivered: Floats
    lost: Floats
    delay: Floats

    def between(self, at: tuple[Numbers, Numbers, Numbers]) -> Sums:
        """Of some rows (environment, first cell, end cell), of each arm: rows x arms."""
        environment, first, end = at
        each = (self.span_s, self.delivered, self.lost, self.delay)
        return Sums(*(of[environment, :, end] - of[environment, :, first] for of in each))


@dataclasses.dataclass(frozen=True)
class States:
    """States to decide in, and what each arm made of the path from there on: rows x arms."""

    environment: NDArray[np.uint64]
    kind: list[str]
    at_s: Floats
    features: Singles
    #: Payload a second, less what was lost, in Mbit/s.
    throughput: Floats
    #: One-way delay in ms: the mean round trip less half of that without a queue.
    delay_ms: Floats
    #: Mean round trip in ms, each weighed by what was delivered.
    rtt_ms: Floats

    def __len__(self) -> int:
        """How many."""
        return len(self.at_s)

    def only(self, mask: NDArray[np.bool_]) -> States:
        """Those that the mask has."""
        kind = [name for name, taken in zip(self.kind, mask, strict=True) if taken]
        return States(
            self.environment[mask],
            kind,
            self.at_s[mask],
            self.features[mask],
            self.throughput[mask],
            self.delay_ms[mask],
            self.rtt_ms[mask],
        )


def facts(folder: Path) -> dict[str, str]:
    """What the files say of themselves, which must be the same of all.

    Raises:
        ValueError: if there are none, or they are of different programs or settings.
    """
    files = sorted(folder.glob("samples-*.parquet"))
    if not files:
        raise ValueError(f"{folder}: it has no samples-*.parquet\nfix: collect first, --collect")
    said = [{k: v for k, v in pl.read_parquet_metadata(f).items() if ":" not in k} for f in files]
    for file, facts in zip(files, said, strict=True):
        facts.pop("ARROW", None)
        if facts != said[0]:
            rule = "it was made by another program or with other settings than the file before"
            raise ValueError(f"{file}: {rule}\nfix: collect again into an empty folder")
    return said[0]


def _sums(all_rows: pl.LazyFrame, arms: list[str]) -> tuple[NDArray[np.uint64], Sums, Floats]:
    columns = ["environment", "plan", "from_s", "until_s", "seen_throughput_mbit_per_sec"]
    columns += ["seen_lost_mbit_per_sec", "seen_rtt_mean_ms", "path_rtt_ms"]
    fixed = all_rows.select(columns).filter(pl.col("plan").is_in(arms)).collect()
    seeds = np.sort(fixed["environment"].unique().to_numpy())
    environment = np.searchsorted(seeds, fixed["environment"].to_numpy())
    order = {name: place for place, name in enumerate(arms)}
    arm = np.array([order[name] for name in fixed["plan"].to_list()])
    first, end = fixed["from_s"].to_numpy(), fixed["until_s"].to_numpy()
    rate, lost = (fixed[name].to_numpy() for name in columns[4:6])
    rtt_ms = fixed["seen_rtt_mean_ms"].to_numpy()
    cells = int(np.ceil(end.max() / CELL_S))
    shape = (len(seeds), len(arms), cells + 1)
    span, delivered, gone, delay = (np.zeros(shape) for _ in range(4))
    # A sample lies across two cells or three: a tenth of it after the other.
    for part in np.linspace(0.05, 0.95, 10):
        cell = np.minimum(((first + (end - first) * part) / CELL_S).astype(int), cells - 1) + 1
        share_s = (end - first) / 10
        np.add.at(span, (environment, arm, cell), share_s)
        np.add.at(delivered, (environment, arm, cell), rate * share_s)
        np.add.at(gone, (environment, arm, cell), lost * share_s)
        np.add.at(delay, (environment, arm, cell), rtt_ms * rate * share_s)
    sums = Sums(*(of.cumsum(axis=2) for of in (span, delivered, gone, delay)))
    least = np.zeros(len(seeds))
    least[environment] = fixed["path_rtt_ms"].to_numpy()
    return seeds, sums, least


def read(folder: Path, arms: list[str], features: list[str], horizon_s: float) -> States:
    """The states of a collection, with what each arm did over `horizon_s` after each.

    Left out: states so late that less than a third of the horizon is left.
    """
    # Looked for once: a collection may still be growing.
    all_rows = pl.scan_parquet(sorted(folder.glob("samples-*.parquet")))
    seeds, sums, least = _sums(all_rows, arms)
    columns = ["environment", "kind", "until_s", *features]
    states = all_rows.filter(pl.col("state") == 1).select(columns).collect()
    seed = states["environment"].to_numpy()
    environment = np.searchsorted(seeds, seed)
    rows = states.select(features).fill_null(np.nan).to_numpy().astype(np.float32)
    at_s = states["until_s"].to_numpy()
    last = sums.span_s.shape[2] - 1
    first = np.clip((at_s / CELL_S).astype(int), 0, last)
    end = np.clip(first + int(horizon_s / CELL_S), 0, last)
    seen = sums.between((environment, first, end))
    span = np.maximum(seen.span_s, 1e-9)
    throughput = np.maximum(seen.delivered - seen.lost, 0.0) / span
    half = least[environment, None] / 2
    rtt_ms = seen.delay / np.maximum(seen.delivered, 1e-9)
    delay_ms = np.maximum(rtt_ms - half, half)
    known = (seen.span_s.min(axis=1) > horizon_s / 3) & (seen.delivered.min(axis=1) > 0)
    kind = states["kind"].to_list()
    states_of = States(seed, kind, at_s, rows, throughput, delay_ms, rtt_ms)
    return states_of.only(known & np.isfinite(delay_ms).all(axis=1))
