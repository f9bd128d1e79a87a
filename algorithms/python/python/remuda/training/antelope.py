"""Trains Antelope's model: `python -P -m remuda.training.antelope --data DIR --out FILE`.

Zhou et al., Antelope (ICNP 2021), section IV-A: one regressor of boosted trees for each arm and
mode. What they predict is an arm's reward as a share of the best arm's: the arm of the largest mean
share is the one that loses the least. `--kind joint` trains one regressor for all arms, which gets
the arm as features, and several of each, which differ where they know little.

Environments whose seed is a multiple of five are held out, with all their rows.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from . import samples, trees
from .rewards import FORMS, MODES, shares
from .samples import Floats, States

HELD_OUT = 5
"""One environment in so many is held out."""
CHECKS = 16
"""So many predictions of XGBoost's own go into the file; the agent must predict the same bits."""
LIMITS = (
    "Trained on simulated paths of 4 to 200 Mbit/s, 1 to 200 ms and 0.1 to 6 BDPs of buffer. Beyond"
    " these, and on paths whose bottleneck is no drop-tail queue, scores are extrapolated."
)


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
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.2, help="learning rate")
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
            "min_child_weight": 10,
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
        features = [None if np.isnan(value) else float(value) for value in row]
        out.append({"mode": mode, "arm": arm, "features": features, "says": float(said)})
    return out


def write(path: Path, document: dict[str, Any]) -> None:
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)


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
        "format": 1,
        "policy": "antelope",
        "schema_version": int(facts["schema_version"]),
        "schema_hash": facts["schema_hash"],
        "kind": said.kind,
        "arms": arms,
        "card": card,
        "checks": checks(model, held_out.features, arms),
        "modes": parts,
    }
    write(said.out, document)
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
