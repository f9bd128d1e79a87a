"""Trains Antelope's model: `python -P -m remuda.training.antelope --data DIR --out FILE`.

Zhou et al., Antelope (ICNP 2021), section IV-A: one regressor of boosted trees for each arm and
mode. It predicts an arm's reward as a share of the best arm's reward: the arm with the largest mean
share loses the least. `--kind joint` trains one regressor for all arms, which gets the arm as
features, and several members of each, which differ where they have little data.

A model of `per_arm` also knows how far it was wrong on kinds of paths that its scores were not
trained on (`doubts`).

Beside the scores the model predicts what the agent will measure with each arm (`values`). The agent
compares this with what happened, and live flows correct it (`remuda.training.online`).

Environments whose seed is a multiple of five are held out, with all their rows.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from . import atomic, doubts, files, samples, trees, values
from .rewards import FORMS, MODES, shares
from .samples import Floats, Singles, States

HELD_OUT = 5
"""One of this many environments is held out."""
WEIGHTS = {
    "policed": 0.3,
    "shallow": 0.2,
    "grouped": 0.2,
    "acks": 0.5,
    "rerouted": 0.3,
    "satellite": 2.0,
}
"""What a state weighs, by the kind of its path; other kinds weigh 1. Kinds below 1 are met by few
flows: in its first seconds a flow sees the same on many kinds of paths, and then the common kind is
the better guess. Kinds above 1 are met more often than the training has them. The weights were
chosen by hand, with a look at the development sets."""
AT_HOME = 4.0
"""The weight of a state whose flow has the home arm; other states weigh 1. Most flows have the home
arm most of the time. The weight was chosen by hand, with a look at the development sets."""
CHECKS = 16
"""The file gets this many predictions of scores by XGBoost, and one of each other ensemble. The
agent must predict the same bits."""
VALUES = {
    "max_depth": 4,
    "eta": 0.2,
    "min_child_weight": 10,
    "subsample": 0.8,
    "colsample_bytree": 0.7,
}
"""The settings for values. With twelve times the leaves the error is 5 to 9 % lower in throughput,
and 3 % in delay."""
VALUES_TREES = 40
OTHER_MODES_TREES = 1 / 3
"""Scores of the modes `throughput` and `delay` have this share of the trees of the default mode,
and twice its learning rate: most flows have the default mode, and the file may have 8 MB."""
LIMITS = (
    "Trained on simulated paths of 0.1 Mbit/s to 1 Gbit/s and 0.5 to 700 ms. Scores are those of"
    " single flows and of up to 21 flows alike; harm to transfers of a fixed size is not in them."
)


Parts = dict[str, dict[str, dict[str, Any]]]


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"train: {text}", file=sys.stderr, flush=True)


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, prog="remuda train antelope")
    parser.add_argument("--data", type=Path, required=True, help="folder of the collection")
    parser.add_argument("--out", type=Path, required=True, help="file of the model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=("per_arm", "joint"), default="per_arm")
    parser.add_argument("--members", type=int, default=1, help="ensembles for each score")
    parser.add_argument(
        "--trees",
        type=int,
        default=96,
        help="of each score of the default mode; other modes have a third",
    )
    parser.add_argument("--depth", type=int, default=7)
    parser.add_argument(
        "--rate", type=float, default=0.15, help="learning rate of the default mode; others: double"
    )
    parser.add_argument("--form", choices=tuple(FORMS), default="merit", help="form of the reward")
    parser.add_argument("--horizon-s", type=float, default=12.0, help="time to judge arms by")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--without", action="append", default=[], metavar="KIND", help="leave this kind of path out"
    )
    parser.add_argument(
        "--one-mode",
        action="store_true",
        help="train the default mode only, and have its scores in the others: for comparisons",
    )
    parser.add_argument(
        "--home", metavar="ARM", help="the home arm; by default the best one over kinds of paths"
    )
    parser.add_argument(
        "--arms", metavar="NAMES", help="choose among these arms only, separated by commas"
    )
    return parser.parse_args(argv)


def of_arm(rows: samples.Singles, arm: int, arms: int) -> samples.Singles:
    """The rows for one arm as inputs of a joint model."""
    which = np.zeros((len(rows), arms), dtype=np.float32)
    which[:, arm] = 1
    return np.hstack([rows, which])


def trees_of(options: argparse.Namespace, mode: str) -> int:
    """How many trees a score of the mode has."""
    share = 1.0 if mode == "default" else OTHER_MODES_TREES
    trees: int = round(options.trees * share)
    return max(1, trees)


def settings_of(options: argparse.Namespace, mode: str) -> dict[str, Any]:
    """The settings of the trees for scores of the mode."""
    return {
        "max_depth": options.depth,
        "eta": options.rate * (1.0 if mode == "default" else 2.0),
        # States of one run are similar, so each leaf must have states of several runs.
        "min_child_weight": 140,
        "subsample": 0.8,
        "colsample_bytree": 0.7,
        "seed": options.seed,
    }


def weights_of(states: States, home: str) -> Singles:
    """What each state weighs."""
    each = zip(states.kind, states.arm, strict=True)
    weights = [WEIGHTS.get(kind, 1.0) * (AT_HOME if arm == home else 1.0) for kind, arm in each]
    return np.array(weights, dtype=np.float32)


def jobs_of(
    rows_of: tuple[States, Singles],
    targets: dict[str, Floats],
    arms: list[str],
    options: argparse.Namespace,
) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    """The trainings: mode and arm of each ensemble, and the arguments of each training.

    Args:
        rows_of: states, and what each weighs.
        targets: the share of each arm in each state, by mode.
        arms: their names.
        options: of the command.
    """
    states, weights = rows_of
    names: list[tuple[str, str]] = []
    jobs: list[tuple[Any, ...]] = []
    rng = np.random.default_rng(options.seed)
    seeds = np.unique(states.environment)
    for member in range(options.members):
        # A single ensemble learns from all environments; each of several from its own four fifths.
        drawn = seeds if options.members == 1 else rng.permutation(seeds)[: len(seeds) * 4 // 5]
        taken = np.isin(states.environment, drawn)
        rows = states.features[taken]
        weight = weights[taken]
        for mode, target in targets.items():
            count = trees_of(options, mode)
            settings = settings_of(options, mode) | {"seed": options.seed + member}
            if options.kind == "joint":
                all_rows = np.vstack([of_arm(rows, at, len(arms)) for at in range(len(arms))])
                names.append((mode, "all"))
                all_weights = np.tile(weight, len(arms))
                job = (all_rows, target[taken].T.ravel(), count, settings, all_weights)
                jobs.append(job)
                continue
            for at, arm in enumerate(arms):
                names.append((mode, arm))
                jobs.append((rows, target[taken, at], count, settings, weight))
    return names, jobs


def predicted(
    model: dict[str, dict[str, list[dict[str, Any]]]],
    mode: str,
    rows: samples.Singles,
    arms: list[str],
) -> Floats:
    """The mean score of each arm in each row."""
    columns = []
    for at, arm in enumerate(arms):
        joint = "all" in model[mode]
        inputs = of_arm(rows, at, len(arms)) if joint else rows
        members = model[mode]["all" if joint else arm]
        columns.append(np.mean([trees.predict(saved, inputs) for saved in members], axis=0))
    return np.column_stack(columns).astype(float)


def scores(
    target: dict[str, Floats], predictions: dict[str, Floats], states: States
) -> dict[str, float]:
    """The mean share of the best arm's reward that choices get, by mode and by kind of path."""
    out: dict[str, float] = {}
    for mode, share in target.items():
        got = share[np.arange(len(share)), predictions[mode].argmax(axis=1)]
        out[mode] = float(got.mean())
        out[f"{mode}_best_fixed_arm"] = float(share.mean(axis=0).max())
        if mode != "default":
            continue
        kinds = np.array(states.kind)
        for kind in sorted(set(states.kind)):
            out[f"default_{kind}"] = float(got[kinds == kind].mean())
        for low, high in ((0.0, 1.0), (1.0, 3.0), (3.0, 10.0), (10.0, 30.0)):
            then = (states.at_s >= low) & (states.at_s < high)
            if then.any():
                out[f"default_from_{low:g}_s"] = float(got[then].mean())
    return {name: round(value, 4) for name, value in out.items()}


def checks(
    model: dict[str, dict[str, list[dict[str, Any]]]], rows: samples.Singles, arms: list[str]
) -> list[dict[str, Any]]:
    """Some rows with XGBoost's prediction for each."""
    out = []
    for at, row in enumerate(rows[np.linspace(0, len(rows) - 1, CHECKS).astype(int)]):
        mode, arm = list(model)[at % len(model)], arms[at % len(arms)]
        joint = "all" in model[mode]
        inputs = row[None, :]
        inputs = of_arm(inputs, arms.index(arm), len(arms)) if joint else inputs
        prediction = trees.predict(model[mode]["all" if joint else arm][0], inputs)[0]
        out.append(files.check(mode, arm, row, prediction))
    return out


def train_values(
    training: States, held_out: States, facts: dict[str, str], options: argparse.Namespace
) -> tuple[Parts, list[dict[str, Any]], dict[str, float]]:
    """Trains what the agent will measure with each arm. Returns ensembles, checks, and errors.

    The errors are those of the held-out states, in natural logarithms: 0.1 is about 10 %.
    """
    arms, names = facts["arms"].split(","), facts["features"].split(",")
    training, targets = values.of_states(training, names)
    held_out, wanted = values.of_states(held_out, names)
    if not len(training) or not len(held_out):
        raise ValueError("no state knows its path's rate and round trip: collect more environments")
    settings = VALUES | {"seed": options.seed}
    which = [(kind, at) for kind in values.KINDS for at in range(len(arms))]
    jobs = [(training.features, targets[kind][:, at], VALUES_TREES, settings) for kind, at in which]
    parts: Parts = {kind: {} for kind in values.KINDS}
    some, squares = [], {kind: np.zeros(len(arms)) for kind in values.KINDS}
    rows = np.linspace(0, len(held_out) - 1, len(which)).astype(int)
    for (kind, at), row, saved in zip(
        which, rows, trees.train_all(jobs, options.processes), strict=True
    ):
        parts[kind][arms[at]] = trees.read_part(saved)
        got = trees.predict(saved, held_out.features)
        squares[kind][at] = np.mean((got - wanted[kind][:, at]) ** 2)
        some.append(files.check(f"value_{kind}", arms[at], held_out.features[row], got[row]))
    errors = {f"value_{kind}_rmse": float(np.sqrt(squares[kind].mean())) for kind in values.KINDS}
    return parts, some, {name: round(value, 4) for name, value in errors.items()}


def home_of(states: States, share: Floats, arms: list[str], given: str | None) -> int:
    """The place of the home arm."""
    if given is None:
        return doubts.home(states, share)
    if given not in arms:
        raise ValueError(f"--home: {given} is not one of {', '.join(arms)}")
    return arms.index(given)


def train_doubts(
    rows_of: tuple[States, Singles],
    targets: dict[str, Floats],
    home: int,
    facts: dict[str, str],
    options: argparse.Namespace,
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]], dict[str, float]]:
    """Trains how wrong scores are.

    Args:
        rows_of: states, and what each weighs.
        targets: the share of each arm in each state, by mode.
        home: the place of the home arm.
        facts: of the collection.
        options: of the command.

    Returns:
        The doubts of each mode, checks, and scores.
    """
    states, weight = rows_of
    arms = facts["arms"].split(",")
    others = [arm for at, arm in enumerate(arms) if at != home]
    say(f"{doubts.FOLDS} groups of kinds of paths, for doubts of {len(others)} arms each")
    parts: dict[str, dict[str, Any]] = {}
    some: list[dict[str, Any]] = []
    measured: dict[str, float] = {}
    for mode, target in targets.items():
        trees_for = (settings_of(options, mode), trees_of(options, mode))
        said = doubts.left_out((states, weight), target, trees_for, options.processes)
        jobs = doubts.jobs((states.features, weight), target, said, (home, options.seed))
        saved = trees.train_all(jobs, options.processes)
        parts[mode] = {arm: trees.read_part(it) for arm, it in zip(others, saved, strict=True)}
        doubt = np.zeros(target.shape)
        for arm, it in zip(others, saved, strict=True):
            square = trees.predict(it, states.features)
            doubt[:, arms.index(arm)] = np.sqrt(np.maximum(square, 0.0))
            row = states.features[arms.index(arm) * len(states) // len(arms)]
            prediction = trees.predict(it, row[None, :])[0]
            some.append(files.check(f"doubt_{mode}", arm, row, prediction))
        if mode == "default":
            measured = doubts.compared(states, target, said, doubt, home)
    return parts, some, {name: round(value, 4) for name, value in measured.items()}


def train(options: argparse.Namespace) -> dict[str, float]:
    """Trains, evaluates on held-out environments, and writes the model. Returns the scores."""
    facts = samples.facts(options.data)
    if options.arms:
        unknown = set(options.arms.split(",")) - set(facts["arms"].split(","))
        if unknown:
            raise ValueError(f"--arms: not sampled: {', '.join(sorted(unknown))}")
        facts["arms"] = options.arms
    arms = facts["arms"].split(",")
    names = facts["features"].split(",")
    states = samples.read(options.data, arms, names, options.horizon_s)
    unknown = set(options.without) - set(states.kind)
    if unknown:
        raise ValueError(f"--without: no such kind of path: {', '.join(sorted(unknown))}")
    states = states.only(np.array([kind not in options.without for kind in states.kind]))
    is_held_out = states.environment % HELD_OUT == 0
    training, held_out = states.only(~is_held_out), states.only(is_held_out)
    if not len(training) or not len(held_out):
        raise ValueError(f"{options.data}: too few environments to hold some out; collect more")
    counts = [len(np.unique(of.environment)) for of in (training, held_out)]
    say(f"{len(training)} states of {counts[0]} environments; {counts[1]} environments held out")
    form = FORMS[options.form]
    modes = ["default"] if options.one_mode else list(MODES)
    targets = {mode: shares(form.reward(training, mode)) for mode in modes}
    home = home_of(training, targets["default"], arms, options.home)
    weighed = (training, weights_of(training, arms[home]))
    which, jobs = jobs_of(weighed, targets, arms, options)
    say(f"{len(jobs)} ensembles for scores")
    model: dict[str, dict[str, list[dict[str, Any]]]] = {mode: {} for mode in modes}
    for (mode, arm), saved in zip(which, trees.train_all(jobs, options.processes), strict=True):
        model[mode].setdefault(arm, []).append(saved)
    got = {mode: predicted(model, mode, held_out.features, arms) for mode in modes}
    want = {mode: shares(form.reward(held_out, mode)) for mode in modes}
    measured = scores(want, got, held_out)
    parts = {
        mode: {arm: [trees.read_part(it) for it in of] for arm, of in model[mode].items()}
        for mode in model
    }
    say(f"{len(values.KINDS) * len(arms)} ensembles for values")
    seen, seen_checks, errors = train_values(training, held_out, facts, options)
    measured |= errors
    doubted: dict[str, dict[str, Any]] | None = None
    doubt_checks: list[dict[str, Any]] = []
    if options.kind == "per_arm":
        doubted, doubt_checks, of_left_out = train_doubts(weighed, targets, home, facts, options)
        measured |= of_left_out
    card = {
        "name": options.out.stem,
        "data": f"environments {states.environment.min()} to {states.environment.max()}, "
        f"{facts['plans']} random plans each; reward {options.form} over {options.horizon_s:g} s",
        "commit": facts.get("commit", "unknown"),
        "seed": options.seed,
        "environments_trained": counts[0],
        "environments_held_out": counts[1],
        "rows": len(training),
        "scores": measured,
        "limits": LIMITS,
    }
    for mode in MODES:
        parts.setdefault(mode, parts["default"])
        if doubted is not None:
            doubted.setdefault(mode, doubted["default"])
    document = {
        "format": files.FORMAT,
        "policy": "antelope",
        "schema_version": int(facts["schema_version"]),
        "schema_hash": facts["schema_hash"],
        "kind": options.kind,
        "arms": arms,
        "home": arms[home],
        "card": card,
        "checks": checks(model, held_out.features, arms) + seen_checks + doubt_checks,
        "modes": parts,
        "doubts": doubted,
        "values": seen,
        "online": None,
    }
    atomic.write(options.out, files.text_of(document))
    return measured


def main() -> int:
    """Runs the command. Returns its exit status."""
    options = arguments()
    try:
        measured = train(options)
    except (OSError, ValueError) as error:
        print(f"remuda train antelope: {error}", file=sys.stderr)
        return 1
    for name, value in measured.items():
        print(f"{name:28} {value:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
