"""Files of models: read and checked.

`selector/models/README.md` has the form. A model comes from outside: what of it is used is checked
before it is, trees are walked by our own code, and what they say must be what the file says
XGBoost did.
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

FORMAT = 2
"""The form of the file."""
BYTES_MAX = 64 << 20
"""A longer file is no model."""
ARMS_MAX = 32
FEATURES_MAX = 256


@dataclass(frozen=True)
class Online:
    """What live flows have taught a model, for each kind of value."""

    shared: dict[str, Ensemble]
    corrections: dict[str, dict[str, Ensemble]]
    """Of those arms of which enough was seen."""
    rows: int
    flows: int


@dataclass(frozen=True)
class Model:
    """A model, as far as live flows are held against it."""

    document: dict[str, Any]
    """All of it."""
    hash: str
    """SHA-256 of the file, in hex."""
    arms: list[str]
    schema_hash: str
    width: int
    """How many features a row has."""
    base: dict[str, dict[str, Ensemble]]
    """What is to be seen of each arm, for each kind of value."""
    online: Online | None

    def ensemble(self, part: str, kind: str, arm: str) -> Ensemble | None:
        """One of them, as `checks` names it: `part` is value, shared or correction."""
        if part == "value":
            return self.base.get(kind, {}).get(arm)
        if self.online is None:
            return None
        if part == "shared":
            return self.online.shared.get(kind)
        return self.online.corrections.get(kind, {}).get(arm) if part == "correction" else None

    def predict(self, kind: str, arm: str, rows: Singles) -> Floats:
        """A value of an arm in each row, with what live flows have taught."""
        said: Floats = self.base[kind][arm].predict(rows).astype(float)
        if self.online is not None:
            said = said + self.online.shared[kind].predict(rows)
            if arm in self.online.corrections[kind]:
                said = said + self.online.corrections[kind][arm].predict(rows)
        return said


def without_online(model: Model) -> Model:
    """The same model as it was before it saw a live flow."""
    return replace(model, online=None)


def check(mode: str, arm: str, row: Singles, said: Any) -> dict[str, Any]:  # noqa: ANN401
    """An entry of `checks`: a row, and what XGBoost says of it."""
    features = [None if np.isnan(value) else float(value) for value in row]
    return {"mode": mode, "arm": arm, "features": features, "says": float(said)}


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
        raise ValueError(f"{what}: it must have arms of the model alone")
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
        raise ValueError("arms: each must be there once")
    return value


def _width(document: dict[str, Any], arms: list[str]) -> int:
    """How many features a row has, as the first ensemble says; the others must agree."""
    try:
        first = document["values"][values.KINDS[0]][arms[0]]
        width = int(first["learner"]["learner_model_param"]["num_feature"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("values: it must have ensembles of a known number of features") from error
    if not 0 < width <= FEATURES_MAX:
        raise ValueError(f"values: there may be 1 to {FEATURES_MAX} features, not {width}")
    return width


def _verify(model: Model, value: object) -> None:
    """Whether our walk of the trees says what XGBoost did, to the bit."""
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
            asked = np.array([[np.nan if it is None else it for it in features]], np.float32)
            theirs = np.float32(row["says"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"checks: check {number} must be of numbers") from error
        ours = ensemble.predict(asked)[0]
        if ours != theirs:
            where = "where the model was trained"
            raise ValueError(f"checks: check {number} is {ours}, and was {theirs} {where}")


def parse(text: bytes) -> Model:
    """Reads a model.

    Raises:
        ValueError: it is none that can be used; the message says which part and the rule.
    """
    try:
        document = _object("the model", json.loads(text))
    except RecursionError as error:
        raise ValueError("it is not a model: nested too deep") from error
    if document.get("format") != FORMAT or document.get("policy") != "antelope":
        said = f"format {document.get('format')!r} of {document.get('policy')!r}"
        raise ValueError(f"it must be format {FORMAT} of antelope, not {said[:80]}")
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
        OSError: it cannot be read.
        ValueError: it is none that can be used; the message names it, the rule and the fix.
    """
    with path.open("rb") as file:
        text = file.read(BYTES_MAX + 1)
    fix = "fix: train it anew with this program, `remuda train antelope`"
    if len(text) > BYTES_MAX:
        raise ValueError(f"{path}: it must be at most {BYTES_MAX} bytes\n{fix}")
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}\n{fix}") from error
