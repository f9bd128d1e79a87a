"""Boosted trees: training, and the part of their JSON that the agent reads."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import xgboost

from .samples import Floats, Singles

READ = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
"""What the agent reads of a tree (selector/src/trees.rs)."""
DIGITS = 9
"""Leaves keep this many digits: enough for a single, so nothing is lost."""

Settings = dict[str, Any]


def train(rows: Singles, target: Floats, trees: int, settings: Settings) -> dict[str, Any]:
    """Trains one ensemble; what XGBoost saves of it."""
    # One thread each, so that sums are added in one order, and the same data give the same trees.
    fixed = {"objective": "reg:squarederror", "tree_method": "hist", "nthread": 1}
    data = xgboost.DMatrix(rows, np.asarray(target, dtype=np.float32), nthread=1)
    booster = xgboost.train(fixed | settings, data, num_boost_round=trees)
    saved: dict[str, Any] = json.loads(booster.save_raw("json"))
    return saved


def train_all(jobs: list[tuple[Any, ...]], processes: int) -> list[dict[str, Any]]:
    """Trains many, some at a time, in the order of the jobs."""
    if processes == 1:
        return [train(*job) for job in jobs]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(train, *zip(*jobs, strict=True)))


def predict(saved: dict[str, Any], rows: Singles) -> Singles:
    """What XGBoost itself says of rows."""
    booster = xgboost.Booster(model_file=bytearray(json.dumps(saved).encode()))
    said: Singles = booster.predict(xgboost.DMatrix(rows, nthread=1))
    return said


def _short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def read_part(saved: dict[str, Any]) -> dict[str, Any]:
    """The part of what XGBoost saved that the agent reads; a third of it."""
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
