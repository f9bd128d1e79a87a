"""How wrong a model is on kinds of paths that it was not trained on, and which arm is home.

The kinds of paths are divided into `FOLDS` groups. For each group, scores are trained on the other
groups and predicted for this one. Doubts are ensembles. From the same features they predict the
squared error of the difference between an arm's score and the home arm's. By default the home arm
is the arm of the best mean score over kinds.

`compared` asks doubts about the states that they were trained on, so what it says of choices with
a caution above 0 is a little too good.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import trees
from .samples import Floats, Numbers, Singles, States

FOLDS = 4
SETTINGS = {
    "max_depth": 4,
    "eta": 0.25,
    "min_child_weight": 120,
    "subsample": 0.8,
    "colsample_bytree": 0.7,
}
TREES = 16
CAUTIONS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
"""The values of the policy's `caution` that the card compares."""


def of_kinds(states: States, share: Floats) -> tuple[list[str], Floats]:
    """The kinds of paths, and the mean share of each arm in each: kinds x arms."""
    kinds = np.array(states.kind)
    names = sorted(set(states.kind))
    return names, np.array([share[kinds == name].mean(axis=0) for name in names])


def home(states: States, share: Floats) -> int:
    """The place of the home arm."""
    return int(of_kinds(states, share)[1].mean(axis=0).argmax())


def folds(states: States) -> Numbers:
    """The group of each state: that of its kind, or of its environment if there is one kind."""
    names = sorted(set(states.kind))
    if len(names) < FOLDS:
        return np.asarray(states.environment % np.uint64(FOLDS), dtype=np.int64)
    place = {name: at % FOLDS for at, name in enumerate(names)}
    return np.array([place[name] for name in states.kind])


def left_out(
    rows: tuple[States, Singles],
    target: Floats,
    settings: tuple[dict[str, Any], int],
    processes: int,
) -> Floats:
    """The score of each arm in each state, by ensembles that were not trained on its kind.

    Args:
        rows: states, and what each weighs.
        target: the share of each arm in each state.
        settings: of the trees, and how many.
        processes: trainings at a time.
    """
    (states, weight), (options, count) = rows, settings
    group = folds(states)
    jobs, where = [], []
    for fold in range(FOLDS):
        train, ask = group != fold, group == fold
        if not train.any() or not ask.any():
            continue
        for arm in range(target.shape[1]):
            of_arm = (states.features[train], target[train, arm])
            jobs.append((*of_arm, count, options, weight[train]))
            where.append((ask, arm))
    out = np.zeros(target.shape)
    for (ask, arm), saved in zip(where, trees.train_all(jobs, processes), strict=True):
        out[ask, arm] = trees.predict(saved, states.features[ask])
    return out


def jobs(
    rows: tuple[Singles, Singles], target: Floats, scores: Floats, home: tuple[int, int]
) -> list[tuple[Any, ...]]:
    """The trainings of the doubts of a mode, for each arm except the home arm.

    Args:
        rows: the features of each state, and what it weighs.
        target: the share of each arm in each state.
        scores: what `left_out` says of it.
        home: the place of the home arm, and the seed of the training.
    """
    (features, weight), (home_arm, seed) = rows, home
    truth = target - target[:, [home_arm]]
    said = scores - scores[:, [home_arm]]
    square = (said - truth) ** 2
    settings = SETTINGS | {"seed": seed}
    arms = (arm for arm in range(target.shape[1]) if arm != home_arm)
    return [(features, square[:, arm], TREES, settings, weight) for arm in arms]


def choice(scores: Floats, doubt: Floats, home_arm: int, caution: float) -> Numbers:
    """The place of the arm that the policy would pick in each state."""
    gain: Floats = scores - scores[:, [home_arm]] - caution * doubt
    picked: Numbers = gain.argmax(axis=1)
    return picked


def compared(
    states: States, share: Floats, scores: Floats, doubt: Floats, home_arm: int
) -> dict[str, float]:
    """What choices on kinds left out get, and what the home arm gets: mean shares over kinds."""
    kinds = np.array(states.kind)
    names = sorted(set(states.kind))
    rows = np.arange(len(share))
    out: dict[str, float] = {}

    def mean(got: Floats) -> float:
        return float(np.mean([got[kinds == name].mean() for name in names]))

    out["left_out_home_arm"] = mean(share[:, home_arm])
    for caution in CAUTIONS:
        got = share[rows, choice(scores, doubt, home_arm, caution)]
        out[f"left_out_caution_{caution:g}"] = mean(got)
    return out
