"""Boosted trees: training, and the part of their JSON that the agent reads."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost

from .samples import Floats, Numbers, Singles

READ = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
"""The parts of a tree that the agent reads (`selector/src/trees.rs`)."""
DIGITS = 9
"""The agent reads numbers with this many digits: enough for single precision."""
LEAF_DIGITS = 5
"""Leaves are rounded to this many digits, so that the file is smaller. A score of a hundred trees
changes by less than 0.001."""
LEAF = -1
"""The left child of a leaf, as XGBoost writes it."""

DEPTH_MAX = 10
"""The agent accepts no deeper tree,"""
TREES_MAX = 4_096
"""and no more trees."""

Settings = dict[str, Any]


def train(
    rows: Singles, target: Floats, trees: int, settings: Settings, weight: Floats | None = None
) -> dict[str, Any]:
    """Trains one ensemble, and rounds its leaves. Without weights, all rows have the same weight.

    Returns:
        The model as XGBoost saves it.
    """
    # One thread: sums are then added in the same order, and the same data give the same trees.
    fixed = {"objective": "reg:squarederror", "tree_method": "hist", "nthread": 1}
    data = xgboost.DMatrix(rows, np.asarray(target, dtype=np.float32), weight=weight, nthread=1)
    booster = xgboost.train(fixed | settings, data, num_boost_round=trees)
    saved: dict[str, Any] = json.loads(booster.save_raw("json"))
    for tree in saved["learner"]["gradient_booster"]["model"]["trees"]:
        numbers = zip(tree["left_children"], tree["split_conditions"], strict=True)
        tree["split_conditions"] = [
            float(f"{it:.{LEAF_DIGITS}g}") if left == LEAF else it for left, it in numbers
        ]
    return saved


def train_all(jobs: list[tuple[Any, ...]], processes: int) -> list[dict[str, Any]]:
    """Trains several ensembles in parallel. Returns them in the order of the jobs."""
    if processes == 1:
        return [train(*job) for job in jobs]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(train, *zip(*jobs, strict=True)))


def predict(saved: dict[str, Any], rows: Singles) -> Singles:
    """XGBoost's own predictions for rows."""
    booster = xgboost.Booster(model_file=bytearray(json.dumps(saved).encode()))
    predictions: Singles = booster.predict(xgboost.DMatrix(rows, nthread=1))
    return predictions


def _short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def read_part(saved: dict[str, Any]) -> dict[str, Any]:
    """The part of a saved model that the agent reads; a third of it."""
    learner = saved["learner"]
    booster = learner["gradient_booster"]
    trees = [
        {
            name: [_short(it) for it in tree[name]] if name == "split_conditions" else tree[name]
            for name in READ
        }
        for tree in booster["model"]["trees"]
    ]
    model = {"trees": trees, "tree_info": booster["model"]["tree_info"]}
    param = learner["learner_model_param"]
    return {
        "learner": {
            "gradient_booster": {"name": booster["name"], "model": model},
            "learner_model_param": {key: param[key] for key in ("base_score", "num_feature")},
            "objective": {"name": learner["objective"]["name"]},
        }
    }


@dataclass(frozen=True)
class Tree:
    """One tree, with an entry for each node; a leaf is its own child."""

    left: Numbers
    right: Numbers
    feature: Numbers
    number: Singles
    missing_left: Numbers
    depth: int

    def walk(self, rows: Singles) -> Singles:
        """The leaf of each row."""
        node = np.zeros(len(rows), dtype=np.int64)
        each = np.arange(len(rows))
        for _ in range(self.depth):
            value = rows[each, self.feature[node]]
            missing = np.isnan(value) & (self.missing_left[node] != 0)
            is_left = (value < self.number[node]) | missing
            node = np.where(is_left, self.left[node], self.right[node])
        leaf: Singles = self.number[node]
        return leaf


@dataclass(frozen=True)
class Ensemble:
    """Trees from a file, checked. Our own code evaluates them, as XGBoost trusts its input."""

    base: np.float32
    width: int
    trees: list[Tree]

    @staticmethod
    def read(what: str, saved: object, width: int) -> Ensemble:
        """Checks and reads what `read_part` has written.

        Raises:
            ValueError: if the trees break a rule; the message names `what`.
        """
        try:
            return _ensemble(saved, width)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{what}: {type(error).__name__}, {error}") from error

    def predict(self, rows: Singles) -> Singles:
        """The same predictions as XGBoost's: leaves are added in the order of the trees."""
        predictions = np.full(len(rows), self.base, dtype=np.float32)
        for tree in self.trees:
            predictions += tree.walk(rows)
        return predictions


def _ensemble(saved: Any, width: int) -> Ensemble:  # noqa: ANN401
    learner = saved["learner"]
    booster, param = learner["gradient_booster"], learner["learner_model_param"]
    if booster["name"] != "gbtree" or learner["objective"]["name"] != "reg:squarederror":
        raise ValueError("it must be trees (gbtree) of reg:squarederror")
    if param["num_feature"] != str(width):
        raise ValueError(f"num_feature must be {width}")
    base = np.float32(param["base_score"].strip("[]"))
    trees = booster["model"]["trees"]
    if not isinstance(trees, list) or len(trees) > TREES_MAX or not np.isfinite(base):
        raise ValueError(f"it must be at most {TREES_MAX} trees on a finite base_score")
    return Ensemble(base, width, [_tree(tree, width) for tree in trees])


def _tree(saved: Any, width: int) -> Tree:  # noqa: ANN401
    left, right, feature, missing_left = (
        np.array(saved[name], dtype=np.int64) for name in (*READ[:3], READ[4])
    )
    number = np.array(saved[READ[3]], dtype=np.float32)
    each = (left, right, feature, number, missing_left)
    count = len(left)
    if count == 0 or any(of.shape != (count,) for of in each) or not np.isfinite(number).all():
        raise ValueError("a tree must be arrays of one length, of finite numbers")
    leaf = (left == -1) & (right == -1)
    inner = ~leaf
    at = np.arange(count)
    # XGBoost numbers children after their parents, so there can be no cycle.
    for child in (left, right):
        if not ((child[inner] > at[inner]) & (child[inner] < count)).all():
            raise ValueError("a child must be a later node")
    if not ((feature[inner] >= 0) & (feature[inner] < width)).all():
        raise ValueError("a node must compare one of the features")
    depth = np.zeros(count, dtype=np.int64)
    for node in np.flatnonzero(inner):
        for child in (left[node], right[node]):
            depth[child] = max(depth[child], depth[node] + 1)
    if depth.max() > DEPTH_MAX:
        raise ValueError(f"a tree may have {DEPTH_MAX} levels of comparisons at most")
    left, right = np.where(leaf, at, left), np.where(leaf, at, right)
    feature = np.where(leaf, 0, feature)
    return Tree(left, right, feature, number, missing_left, int(depth.max()))
