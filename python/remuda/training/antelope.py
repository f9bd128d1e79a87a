"""Trains Antelope's model: `python -P -m remuda.training.antelope --data DIR --out FILE`.

Zhou et al., Antelope (ICNP 2021), section IV-A: one regressor of boosted trees for each arm and
mode. What they predict is an arm's reward as a share of the best arm's: the arm of the largest mean
share is the one that loses the least. `--kind joint` trains one regressor for all arms, which gets
the arm as features, and several of each, which differ where they know little.

Beside the scores the model predicts what will be seen of each arm (`values`): what the agent holds
against what happened, and what live flows correct (`remuda.training.online`).

Environments whose seed is a multiple of five are held out, with all their rows.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from . import atomic, files, samples, trees, values
from .rewards import FORMS, MODES, shares
from .samples import Floats, States

HELD_OUT = 5
"""One environment in so many is held out."""
CHECKS = 16
"""So many predictions of scores by XGBoost itself go into the file, and one of each other
ensemble's; the agent must predict the same bits."""
VALUES = {
    "max_depth": 4,
    "eta": 0.2,
    "min_child_weight": 10,
    "subsample": 0.8,
    "colsample_bytree": 0.7,
}
"""How values are trained. Twelve times the leaves err 5 to 9 % less in throughput, 3 % in delay."""
VALUES_TREES = 40
LIMITS = (
    "Trained on simulated paths of 4 to 200 Mbit/s, 1 to 200 ms and 0.1 to 6 BDPs of buffer. Beyond"
    " these, and on paths whose bottleneck is no drop-tail queue, scores are extrapolated."
)


Parts = dict[str, dict[str, dict[str, Any]]]


def say(text: str) -> None:
    """A line of progress."""
    print(f"train: {text}", file=sys.stderr, flush=True)


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """What is to be trained."""
    parser = argparse.ArgumentParser(description=__doc__, prog="remuda train antelope")
    parser.add_argument("--data", type=Path, required=True, help="folder of the collection")
    parser.add_argument("--out", type=Path, required=True, help="file of the model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=("per_arm", "joint"), default="per_arm")
    parser.add_argument("--members", type=int, default=1, help="ensembles of each score")
    parser.add_argument("--trees", type=int, default=70)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.17, help="learning rate")
    parser.add_argument("--form", choices=tuple(FORMS), default="power", help="of the reward")
    parser.add_argument("--horizon-s", type=float, default=12.0, help="over which arms are judged")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(argv)


def of_arm(rows: samples.Singles, arm: int, arms: int) -> samples.Singles:
    """Rows as a joint model gets them for one arm."""
    which = np.zeros((len(rows), arms), dtype=np.float32)
    which[:, arm] = 1
    return np.hstack([rows, which])


def jobs_of(
    states: States, targets: dict[str, Floats], arms: list[str], said: argparse.Namespace
) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    """What is to be trained: mode and arm of each ensemble, and how."""
    names: list[tuple[str, str]] = []
    jobs: list[tuple[Any, ...]] = []
    rng = np.random.default_rng(said.seed)
    seeds = np.unique(states.environment)
    for member in range(said.members):
        # One ensemble learns from all environments; each of several from its own four fifths.
        drawn = seeds if said.members == 1 else rng.permutation(seeds)[: len(seeds) * 4 // 5]
        taken = np.isin(states.environment, drawn)
        rows = states.features[taken]
        settings = {
            "max_depth": said.depth,
            "eta": said.rate,
            # States of one run are much alike: a leaf is to have those of several.
            "min_child_weight": 60,
            "subsample": 0.8,
            "colsample_bytree": 0.7,
            "seed": said.seed + member,
        }
        for mode, target in targets.items():
            if said.kind == "joint":
                all_rows = np.vstack([of_arm(rows, at, len(arms)) for at in range(len(arms))])
                names.append((mode, "all"))
                jobs.append((all_rows, target[taken].T.ravel(), said.trees, settings))
                continue
            for at, arm in enumerate(arms):
                names.append((mode, arm))
                jobs.append((rows, target[taken, at], said.trees, settings))
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
        asked = of_arm(rows, at, len(arms)) if joint else rows
        members = model[mode]["all" if joint else arm]
        columns.append(np.mean([trees.predict(saved, asked) for saved in members], axis=0))
    return np.column_stack(columns).astype(float)


def scores(target: dict[str, Floats], said: dict[str, Floats], states: States) -> dict[str, float]:
    """How good picks are: the mean share of the best arm's reward, by mode and by kind of path."""
    out: dict[str, float] = {}
    for mode, share in target.items():
        got = share[np.arange(len(share)), said[mode].argmax(axis=1)]
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
    """Some rows, and what XGBoost says of each."""
    out = []
    for at, row in enumerate(rows[np.linspace(0, len(rows) - 1, CHECKS).astype(int)]):
        mode, arm = list(model)[at % len(model)], arms[at % len(arms)]
        joint = "all" in model[mode]
        asked = row[None, :]
        asked = of_arm(asked, arms.index(arm), len(arms)) if joint else asked
        said = trees.predict(model[mode]["all" if joint else arm][0], asked)[0]
        out.append(files.check(mode, arm, row, said))
    return out


def train_values(
    kept: States, held_out: States, facts: dict[str, str], said: argparse.Namespace
) -> tuple[Parts, list[dict[str, Any]], dict[str, float]]:
    """Trains what will be seen of each arm: the ensembles, a check of each, and their errors.

    The errors are of the states held out, in natural logarithms: 0.1 is some 10 %.
    """
    arms, names = facts["arms"].split(","), facts["features"].split(",")
    kept, targets = values.of_states(kept, names)
    held_out, wanted = values.of_states(held_out, names)
    if not len(kept) or not len(held_out):
        raise ValueError("no state knows its path's rate and round trip: collect more environments")
    settings = VALUES | {"seed": said.seed}
    which = [(kind, at) for kind in values.KINDS for at in range(len(arms))]
    jobs = [(kept.features, targets[kind][:, at], VALUES_TREES, settings) for kind, at in which]
    parts: Parts = {kind: {} for kind in values.KINDS}
    some, squares = [], {kind: np.zeros(len(arms)) for kind in values.KINDS}
    rows = np.linspace(0, len(held_out) - 1, len(which)).astype(int)
    for (kind, at), row, saved in zip(
        which, rows, trees.train_all(jobs, said.processes), strict=True
    ):
        parts[kind][arms[at]] = trees.read_part(saved)
        got = trees.predict(saved, held_out.features)
        squares[kind][at] = np.mean((got - wanted[kind][:, at]) ** 2)
        some.append(files.check(f"value_{kind}", arms[at], held_out.features[row], got[row]))
    errors = {f"value_{kind}_rmse": float(np.sqrt(squares[kind].mean())) for kind in values.KINDS}
    return parts, some, {name: round(value, 4) for name, value in errors.items()}


def train(said: argparse.Namespace) -> dict[str, float]:
    """Trains, measures on what is held out, and writes the model; the scores."""
    facts = samples.facts(said.data)
    arms = facts["arms"].split(",")
    names = facts["features"].split(",")
    states = samples.read(said.data, arms, names, said.horizon_s)
    is_held_out = states.environment % HELD_OUT == 0
    kept, held_out = states.only(~is_held_out), states.only(is_held_out)
    if not len(kept) or not len(held_out):
        raise ValueError(f"{said.data}: too few environments to hold some out; collect more")
    counts = [len(np.unique(of.environment)) for of in (kept, held_out)]
    say(f"{len(kept)} states of {counts[0]} environments; {counts[1]} environments held out")
    form = FORMS[said.form]
    targets = {mode: shares(form.reward(kept, mode)) for mode in MODES}
    which, jobs = jobs_of(kept, targets, arms, said)
    say(f"{len(jobs)} ensembles of {said.trees} trees")
    model: dict[str, dict[str, list[dict[str, Any]]]] = {mode: {} for mode in MODES}
    for (mode, arm), saved in zip(which, trees.train_all(jobs, said.processes), strict=True):
        model[mode].setdefault(arm, []).append(saved)
    got = {mode: predicted(model, mode, held_out.features, arms) for mode in MODES}
    want = {mode: shares(form.reward(held_out, mode)) for mode in MODES}
    measured = scores(want, got, held_out)
    parts = {
        mode: {arm: [trees.read_part(it) for it in of] for arm, of in model[mode].items()}
        for mode in model
    }
    say(f"{len(values.KINDS) * len(arms)} ensembles of what will be seen")
    seen, seen_checks, errors = train_values(kept, held_out, facts, said)
    measured |= errors
    card = {
        "name": said.out.stem,
        "data": f"environments {states.environment.min()} to {states.environment.max()}, "
        f"{facts['plans']} random plans each; reward {said.form} over {said.horizon_s:g} s",
        "commit": facts.get("commit", "unknown"),
        "seed": said.seed,
        "environments_trained": counts[0],
        "environments_held_out": counts[1],
        "rows": len(kept),
        "scores": measured,
        "limits": LIMITS,
    }
    document = {
        "format": files.FORMAT,
        "policy": "antelope",
        "schema_version": int(facts["schema_version"]),
        "schema_hash": facts["schema_hash"],
        "kind": said.kind,
        "arms": arms,
        "card": card,
        "checks": checks(model, held_out.features, arms) + seen_checks,
        "modes": parts,
        "values": seen,
        "online": None,
    }
    atomic.write(said.out, files.text_of(document))
    return measured


def main() -> int:
    """The command; its exit status."""
    said = arguments()
    try:
        measured = train(said)
    except (OSError, ValueError) as error:
        print(f"remuda train antelope: {error}", file=sys.stderr)
        return 1
    for name, value in measured.items():
        print(f"{name:28} {value:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
