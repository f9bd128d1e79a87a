"""Measures what leaving a family out costs: `python -P -m remuda.training.left_out --out DIR`.

The arm `learned` is trained without one family of paths, family by family, and compared on that
family with a network that was trained with it. All trainings have one reduced budget. A training
that is complete is not repeated, so the same command continues after a stop.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import stats

from remuda.training import atomic, export, ppo, worlds

Array = Any

STEPS = 600_000
"""The budget of each training, in steps of all flows together: a tenth of the shipped one's."""
ROUNDS = 40
"""How many rounds of held-out paths of a family both networks are compared in."""
EPISODES = 48
"""How many episodes a round has."""
KEPT = 0.9
"""The target: how much of its merit a network keeps on the family that it was not trained on."""


class Row(NamedTuple):
    """The comparison on one family."""

    family: str
    trained: float
    """The mean merit of the network that was trained with the family."""
    untrained: float
    """The same without it."""
    kept: float
    """The second by the first, as the geometric mean over rounds."""
    low: float
    """The lower end of the 95 % interval of `kept`."""
    high: float
    """Its upper end."""

    @property
    def verdict(self) -> str:
        """Whether the interval is beyond the target."""
        if self.low >= KEPT:
            return "yes"
        return "**no**" if self.high < KEPT else "undecided"


def settings_without(family: str | None, steps: int) -> ppo.Settings:
    """The settings of a training that leaves out `family`; `None` leaves out nothing."""
    without = () if family is None else (family,)
    return dataclasses.replace(ppo.Settings(), steps=steps, without=without, evaluations=2)


def is_trained(file: Path, settings: ppo.Settings) -> bool:
    """Whether weights and their card are there, of a training with these settings."""
    card = file.with_suffix(".json")
    if not (file.exists() and card.exists()):
        return False
    known = json.loads(card.read_text())["hyperparameters"]
    return bool(known == json.loads(json.dumps(dataclasses.asdict(settings))))


def weights(out: Path, family: str | None, steps: int) -> Path | None:
    """Trains, unless it is done. Returns the file, or `None` if the training was stopped."""
    settings = settings_without(family, steps)
    file = out / f"{'all' if family is None else 'without-' + family}-{steps}.safetensors"
    if is_trained(file, settings):
        ppo.say(f"{file} is there")
        return file
    ppo.say(f"trains {file}")
    return file if ppo.trained(settings, file) else None


def merits(settings: ppo.Settings, file: Path, family: str) -> Array:
    """The logarithm of the merit, as a mean over the episodes of each round."""
    params, of_card = ppo.exported(file)
    act, sums = jax.jit(ppo.policy), []
    seeds = [worlds.HELD_OUT + 13_000 * it for it in range(ROUNDS)]
    flows = ppo.Flows(settings, [worlds.world(settings, family, EPISODES, it) for it in seeds])
    for _ in range(settings.episode_steps):
        hidden = np.where(flows.resets[:, None], np.float32(0), flows.hidden)
        inputs = (flows.inputs - of_card["offset"]) * of_card["scale"]
        mean, hidden = act(params, inputs, hidden)
        flows.hidden = np.asarray(hidden)
        sums.append(flows.step(np.asarray(mean))[0])
    return np.mean(sums, axis=0).reshape(ROUNDS, EPISODES).mean(axis=1)


def compared(family: str, trained: Array, untrained: Array) -> Row:
    """Compares two networks in the same rounds of a family.

    A round is one observation: its episodes may be of one path, or of two flows that share one.
    """
    lost = untrained - trained
    half = stats.t.ppf(0.975, len(lost) - 1) * lost.std(ddof=1) / np.sqrt(len(lost))
    kept = [float(np.exp(lost.mean() + by)) for by in (0, -half, half)]
    return Row(family, float(np.exp(trained.mean())), float(np.exp(untrained.mean())), *kept)


def page(rows: list[Row], steps: int) -> str:
    """The page."""
    about = (
        "`make learned-families` writes this page. For each family of paths"
        " (`python/remuda/training/worlds.py`) the network of `learned` was trained without it, and"
        f" once with all, with one seed and for the same {steps:,} steps; the shipped weights had"
        f" {ppo.Settings().steps:,}. The merit is the geometric mean over {ROUNDS} rounds of"
        f" {EPISODES} held-out episodes of the family, the same for both. The interval is of 95 %"
        " over rounds (Student's t), so it says nothing of other seeds of the training. "
        "The merit is that of the training: no step counts less than"
        f" e to the power of {ppo.Settings().reward_least:g}. The target: 0.9 of the merit is kept."
        f" Commit {export.commit()}."
    )
    lines = [
        "# What the arm learned loses on paths that it was not trained on",
        "",
        textwrap.fill(about, 100),
        "",
        "| family left out | merit, trained with it | trained without it | kept | target | met |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        kept = f"{row.kept:.3f} ({row.low:.3f} to {row.high:.3f})"
        lines.append(
            f"| {row.family} | {row.trained:.3f} | {row.untrained:.3f} | {kept} "
            f"| ≥ {KEPT} | {row.verdict} |"
        )
    return "\n".join([*lines, ""])


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, prog="remuda.training.left_out")
    parser.add_argument("--out", type=Path, required=True, help="folder of the trained weights")
    parser.add_argument("--write", type=Path, help="the page to write; else it is printed")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of each training")
    parser.add_argument(
        "--families",
        type=lambda text: text.split(","),
        default=worlds.names(),
        metavar="A,B",
        help="the families to leave out, one at a time; all by default",
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Trains and compares. Returns the exit status."""
    options = arguments(argv)
    try:
        worlds.families(dataclasses.replace(ppo.Settings(), families=tuple(options.families)))
        trained = weights(options.out, None, options.steps)
        if trained is None:
            return 130
        rows = []
        for family in options.families:
            untrained = weights(options.out, family, options.steps)
            if untrained is None:
                return 130
            settings = settings_without(None, options.steps)
            both = (merits(settings, file, family) for file in (trained, untrained))
            rows.append(compared(family, *both))
            ppo.say(f"{family}: keeps {rows[-1].kept:.3f}")
        text = page(rows, options.steps)
        if options.write:
            atomic.write(options.write, text.encode())
        else:
            print(text)
        return 0
    except (ValueError, OSError) as error:
        print(f"remuda: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
