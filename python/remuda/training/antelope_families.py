"""Judges antelope on families left out: `python -P -m remuda.training.antelope_families --help`.

For each family of paths a model is trained without that kind of path, on the same samples, and runs
on fresh paths of the family, beside every arm. It is compared with the best fixed arm of the kinds
that it was trained on, and with its home arm. A model or a matrix that is complete is kept, so the
same command continues after a stop.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from remuda._native import FAMILIES

from . import antelope, atomic, doubts, rewards, samples

FIRST = 700_000
"""The seed of the first path; trainings draw below 100,000."""
PATHS = 60
"""Fresh paths of each family."""
DRAWS = 2_000
"""Bootstrap samples of an interval."""
WORSE_MAX = 3.0
"""The target: on no family more points worse than the home arm,"""
BETTER_LEAST = 6
"""and better on so many."""


class Row(NamedTuple):
    """The comparison on one family; misses are in percent of the best merit of each path."""

    family: str
    fixed: str
    """The best fixed arm of the other kinds of paths, by the samples."""
    fixed_misses: float
    home_misses: float
    policy_misses: float
    low: float
    """The lower end of the 95 % interval of what the policy misses beyond that arm."""
    high: float
    """Its upper end."""
    best: str
    """The arm that misses least on the family, which no choice could know,"""
    best_misses: float
    """and what it misses."""


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"antelope families: {text}", file=sys.stderr, flush=True)


def model(data: Path, out: Path, family: str, more: list[str]) -> Path:
    """Trains without the family, unless that is done. Returns the file."""
    file = out / f"without-{family}.json"
    argv = ["--data", str(data), "--out", str(file), "--without", family, "--one-mode"]
    argv += more
    about = out / f"without-{family}.options"
    known = json.dumps([argv, samples.facts(data)], sort_keys=True)
    if file.exists() and about.exists() and about.read_text() == known:
        say(f"{file} is there")
        return file
    say(f"trains {file}")
    antelope.train(antelope.arguments(argv))
    atomic.write(about, known.encode())
    return file


def matrix(remuda: Path, file: Path, out: Path, family: str, arms: list[str]) -> pl.DataFrame:
    """Runs the policy with that model, and every arm, on fresh paths of the family."""
    folder = out / f"matrix-{family}"
    command = [str(remuda), "matrix", "--suite", f"{family}:{FIRST}..{FIRST + PATHS}"]
    command += ["--arm", ",".join(["antelope", *arms]), "--weights", f"antelope={file}"]
    command += ["--out", str(folder), "--keep", str(out / "runs")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return pl.read_parquet(folder / "matrix.parquet")


def misses(table: pl.DataFrame) -> dict[str, NDArray[np.float64]]:
    """What each driver misses of the best on each path, in percent, in one order of paths."""
    keys = ["environment", "seed"]
    best = pl.col("merit").max().over(keys)
    table = table.with_columns(misses=100 * (1 - pl.col("merit") / best)).sort(keys)
    whole = table.pivot(on="driver", index=keys, values="misses").drop_nulls()
    return {name: whole[name].to_numpy() for name in whole.columns if name not in keys}


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean."""
    rng = np.random.default_rng(1)
    means = values[rng.integers(0, len(values), (DRAWS, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def compared(family: str, fixed: str, home: str, table: pl.DataFrame) -> Row:
    """The row of a family."""
    of = misses(table)
    arms = {name: float(values.mean()) for name, values in of.items() if name != "antelope"}
    best = min(arms, key=lambda name: arms[name])
    policy = float(of["antelope"].mean())
    low, high = interval(of["antelope"] - of[fixed])
    return Row(family, fixed, arms[fixed], arms[home], policy, low, high, best, arms[best])


def verdict(rows: list[Row]) -> str:
    """Whether both targets are met, in words."""
    better = sum(row.high < 0 for row in rows)
    below = sum(row.policy_misses < row.fixed_misses for row in rows)
    worse = [row.family for row in rows if row.policy_misses - row.fixed_misses > WORSE_MAX]
    than_home = sum(row.policy_misses < row.home_misses for row in rows)
    return (
        f"On {below} of {len(rows)} families the policy misses less than the best fixed arm of the"
        f" others, on {better} of them with the interval below 0; asked: at least {BETTER_LEAST}."
        f" More than {WORSE_MAX:g} points worse: {', '.join(worse) or 'on none'}. It misses less"
        f" than its home arm on {than_home}."
    )


def page(rows: list[Row], commit: str, environments: int) -> str:
    """The page."""
    about = (
        f"`make antelope-families` writes this page. For each of {len(rows)} of the"
        f" {len(FAMILIES)} families of paths (`emulation/samples/src/family.rs`) a model of"
        " `antelope` was trained without that kind of path, on the samples of"
        f" {environments:,} environments, with the settings of the"
        f" shipped model for the default preference; it ran on {PATHS} fresh paths of the family,"
        " simulated, beside every arm that it chooses from. The best fixed arm is that of the other"
        " kinds of paths, by the same samples; the home arm is the one that the policy begins with."
        " Misses: how far the merit is below the best of each path, in percent, as a mean. In"
        " brackets the 95 % bootstrap interval over paths. The shipped model was trained with all"
        " families. It is the choice that has not seen a family: the arm `learned` was trained on"
        " paths of its own (`python/remuda/training/worlds.py`), some of which are drawn as these"
        f" are. Commit {commit}."
    )
    lines = [
        "# Antelope on kinds of paths that it was not trained on",
        "",
        textwrap.fill(about, 100),
        "",
        textwrap.fill(verdict(rows), 100),
        "",
        "| family left out | best fixed arm of the others | misses | home arm misses "
        "| antelope misses | beyond the best fixed | best arm there |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        difference = row.policy_misses - row.fixed_misses
        lines.append(
            f"| {row.family} | {row.fixed} | {row.fixed_misses:.1f} | {row.home_misses:.1f} "
            f"| {row.policy_misses:.1f} | {difference:+.1f} ({row.low:+.1f} to {row.high:+.1f}) "
            f"| {row.best} {row.best_misses:.1f} |"
        )
    return "\n".join([*lines, ""])


def arguments(argv: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Parses the arguments; those after `--` are for each training."""
    parser = argparse.ArgumentParser(description=__doc__, prog="remuda.training.antelope_families")
    parser.add_argument("--data", type=Path, required=True, help="folder of the samples")
    parser.add_argument("--out", type=Path, required=True, help="folder of models and matrices")
    parser.add_argument("--remuda", type=Path, required=True, help="the command")
    parser.add_argument("--write", type=Path, help="the page to write; else it is printed")
    parser.add_argument(
        "--families",
        type=lambda text: text.split(","),
        default=[name for name, _ in FAMILIES],
        metavar="A,B",
        help="the families to leave out, one at a time; all by default",
    )
    return parser.parse_known_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Trains, runs and compares. Returns the exit status."""
    options, more = arguments(argv)
    try:
        facts = samples.facts(options.data)
        arms = facts["arms"].split(",")
        training = antelope.arguments(["--data", str(options.data), "--out", "unused", *more])
        names = facts["features"].split(",")
        states = samples.read(options.data, arms, names, training.horizon_s)
        share = rewards.shares(rewards.FORMS["merit"].reward(states, "default"))
        rows = []
        for family in options.families:
            file = model(options.data, options.out, family, more)
            document = json.loads(file.read_text())
            table = matrix(options.remuda, file, options.out, family, document["arms"])
            others = np.array([kind != family for kind in states.kind])
            fixed = arms[doubts.home(states.only(others), share[others])]
            rows.append(compared(family, fixed, document["home"], table))
            say(f"{family}: {rows[-1]}")
        count = samples.environments(options.data)
        text = page(rows, facts.get("commit", "unknown"), count)
        if options.write:
            atomic.write(options.write, text.encode())
        else:
            print(text)
        return 0
    except (OSError, ValueError) as error:
        print(f"remuda: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
