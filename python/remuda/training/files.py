"""Reads and checks the files of models.

`selector/models/README.md` describes the format. A model comes from outside, so every part is
checked before use. Our own code evaluates the trees, and must give the predictions by XGBoost that
the file contains.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import values
from .samples import Floats, Singles
from .trees import Ensemble

FORMAT = 3
"""The version of the file format."""
BYTES_MAX = 64 << 20
"""A longer file cannot be a model."""
ARMS_MAX = 32
FEATURES_MAX = 256


@dataclass(frozen=True)
class Online:
    """What a model has learned from live flows, for each kind of value."""

    shared: dict[str, Ensemble]
    corrections: dict[str, dict[str, Ensemble]]
    """Only arms with enough data have one."""
    rows: int
    flows: int


@dataclass(frozen=True)
class Model:
    """The parts of a model that live flows are compared with."""

    document: dict[str, Any]
    """The whole file, as JSON."""
    hash: str
    """SHA-256 of the file, in hex."""
    arms: list[str]
    schema_hash: str
    width: int
    """How many features a row has."""
    base: dict[str, dict[str, Ensemble]]
    """The prediction for each arm, for each kind of value."""
    online: Online | None

    def ensemble(self, part: str, kind: str, arm: str) -> Ensemble | None:
        """The ensemble that an entry of `checks` names: `part` is value, shared or correction."""
        if part == "value":
            return self.base.get(kind, {}).get(arm)
        if self.online is None:
            return None
        if part == "shared":
            return self.online.shared.get(kind)
        return self.online.corrections.get(kind, {}).get(arm) if part == "correction" else None

    def predict(self, kind: str, arm: str, rows: Singles) -> Floats:
        """Predicts a value of an arm for each row, corrected by what live flows have taught."""
        prediction: Floats = self.base[kind][arm].predict(rows).astype(float)
        if self.online is not None:
            prediction = prediction + self.online.shared[kind].predict(rows)
            if arm in self.online.corrections[kind]:
                prediction = prediction + self.online.corrections[kind][arm].predict(rows)
        return prediction


def without_online(model: Model) -> Model:
    """The model without what it has learned from live flows."""
    return replace(model, online=None)


def check(mode: str, arm: str, row: Singles, prediction: Any) -> dict[str, Any]:  # noqa: ANN401
    """An entry of `checks`: a row, and XGBoost's prediction for it."""
    features = [None if np.isnan(value) else float(value) for value in row]
    return {"mode": mode, "arm": arm, "features": features, "says": float(prediction)}


def text_of(document: dict[str, Any]) -> bytes:
    """The bytes of a model's file."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _object(what: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what}: it must be an object")
    return value


def _ensembles(what: str, value: object, arms: list[str], width: int) -> dict[str, Ensemble]:
    of = _object(what, value)
    if not set(of) <= set(arms):
        raise ValueError(f"{what}: it must have only arms of the model")
    return {arm: Ensemble.read(f"{what}.{arm}", saved, width) for arm, saved in of.items()}


def _kinds(what: str, value: object, arms: list[str], width: int) -> dict[str, dict[str, Ensemble]]:
    of = _object(what, value)
    if set(of) != set(values.KINDS):
        raise ValueError(f"{what}: it must have throughput and delay")
    return {kind: _ensembles(f"{what}.{kind}", of[kind], arms, width) for kind in values.KINDS}


def _online(value: object, arms: list[str], width: int) -> Online | None:
    if value is None:
        return None
    online = _object("online", value)
    rows, flows = (online.get(name) for name in ("rows", "flows"))
    if type(rows) is not int or type(flows) is not int or min(rows, flows) < 0:
        raise ValueError("online: rows and flows must be counts")
    shared = _object("online.shared", online.get("shared"))
    read = {
        kind: Ensemble.read(f"online.shared.{kind}", shared.get(kind), width)
        for kind in values.KINDS
    }
    corrections = _kinds("online.corrections", online.get("corrections"), arms, width)
    return Online(read, corrections, rows, flows)


def _arms(value: object) -> list[str]:
    fine = isinstance(value, list) and all(isinstance(arm, str) for arm in value)
    if not isinstance(value, list) or not fine or not 0 < len(value) <= ARMS_MAX:
        raise ValueError(f"arms: it must be 1 to {ARMS_MAX} names")
    if len(set(value)) < len(value):
        raise ValueError("arms: no name may occur twice")
    return value


def _width(document: dict[str, Any], arms: list[str]) -> int:
    """How many features a row has, according to the first ensemble; the others must agree."""
    try:
        first = document["values"][values.KINDS[0]][arms[0]]
        width = int(first["learner"]["learner_model_param"]["num_feature"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("values: it must have ensembles of a known number of features") from error
    if not 0 < width <= FEATURES_MAX:
        raise ValueError(f"values: there may be 1 to {FEATURES_MAX} features, not {width}")
    return width


def _verify(model: Model, value: object) -> None:
    """Checks that our evaluation of the trees gives XGBoost's predictions, to the bit."""
    if not isinstance(value, list):
        raise ValueError("checks: it must be a list")
    for number, entry in enumerate(value):
        row = _object(f"checks: check {number}", entry)
        mode = row.get("mode")
        if not isinstance(mode, str):
            raise ValueError(f"checks: check {number} must have a mode")
        part, _, kind = mode.partition("_")
        ensemble = model.ensemble(part, kind, str(row.get("arm")))
        if ensemble is None:
            continue
        features = row.get("features")
        if not isinstance(features, list) or len(features) != ensemble.width:
            raise ValueError(f"checks: check {number} must have the features of the model")
        try:
            inputs = np.array([[np.nan if it is None else it for it in features]], np.float32)
            theirs = np.float32(row["says"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"checks: check {number} must be of numbers") from error
        ours = ensemble.predict(inputs)[0]
        if ours != theirs:
            where = "where the model was trained"
            raise ValueError(f"checks: check {number} is {ours}, but was {theirs} {where}")


def parse(text: bytes) -> Model:
    """Reads a model.

    Raises:
        ValueError: if the model cannot be used; the message names the part and the rule.
    """
    try:
        document = _object("the model", json.loads(text))
    except RecursionError as error:
        raise ValueError("it is not a model: nested too deep") from error
    if document.get("format") != FORMAT or document.get("policy") != "antelope":
        found = f"format {document.get('format')!r} of {document.get('policy')!r}"
        raise ValueError(f"it must be format {FORMAT} of antelope, not {found[:80]}")
    schema_hash = document.get("schema_hash")
    if not isinstance(schema_hash, str):
        raise ValueError("schema_hash: it must be a text")
    arms = _arms(document.get("arms"))
    width = _width(document, arms)
    base = _kinds("values", document.get("values"), arms, width)
    if any(len(of) < len(arms) for of in base.values()):
        raise ValueError("values: there must be an entry for each arm")
    online = _online(document.get("online"), arms, width)
    digest = hashlib.sha256(text).hexdigest()
    model = Model(document, digest, arms, schema_hash, width, base, online)
    _verify(model, document.get("checks"))
    return model


def read(path: Path) -> Model:
    """Reads the file of a model.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the model cannot be used; the message names file, rule and fix.
    """
    with path.open("rb") as file:
        text = file.read(BYTES_MAX + 1)
    fix = "fix: train it again with this program, `remuda train antelope`"
    if len(text) > BYTES_MAX:
        raise ValueError(f"{path}: it must be at most {BYTES_MAX} bytes\n{fix}")
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}\n{fix}") from error
