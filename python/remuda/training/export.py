"""Writes a trained network as the two files that the arms read: weights and card.

`algorithms/src/network/card.rs` describes the card. The weights are a safetensors file of float32
tensors whose last axis is that of the outputs, so a dense layer computes `x @ weight + bias`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from . import atomic

Array = npt.NDArray[np.float32]

FORMAT = 1
"""The version of the card's format."""


@dataclass(frozen=True)
class Input:
    """One input of a network, or a history of one, the oldest value first."""

    name: str
    low: float
    """The least value in training."""
    high: float
    """The largest value in training."""
    count: int = 1
    offset: float = 0.0
    """The first layer gets `(value - offset) * scale`."""
    scale: float = 1.0


@dataclass(frozen=True)
class Layer:
    """One layer. It reads a part of the tape: the inputs, then the outputs of earlier layers."""

    name: str
    shape: dict[str, Any]
    """`{"type": "dense", "outputs": 64}`; or `conv1d`, `gru` or `lstm`."""
    reads: tuple[int, int]
    activation: str = "none"
    """none, tanh, relu, sigmoid or softmax."""


@dataclass(frozen=True)
class Card:
    """What is known of a network."""

    name: str
    kind: str
    """What it is for: an arm takes networks of its own kind only."""
    inputs: list[Input]
    layers: list[Layer]
    outputs: list[str]
    data: str
    families: list[str]
    seed: int
    hyperparameters: dict[str, Any]
    scores: dict[str, Any] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)


def drawn(low: Array, high: Array, count: int) -> Array:
    """Inputs to check an evaluator with: `count` rows, uniform between `low` and `high`.

    By splitmix64, as the tests of algorithms/src/learned and algorithms/src/lingbo draw them.
    """
    with np.errstate(over="ignore"):
        z = np.arange(1, count * len(low) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    uniform = (z >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)
    return low + (high - low) * uniform.reshape(count, len(low))


def commit() -> str:
    """The commit of the sources in the current folder, or `unknown`."""
    ask = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(ask, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def write(path: Path, tensors: dict[str, npt.NDArray[np.float32]], card: Card) -> None:
    """Writes the weights to `path` and the card beside them, with the suffix `.json`.

    Raises:
        ValueError: if a weight is no finite number, or the path has another suffix.
    """
    if path.suffix != ".safetensors":
        raise ValueError(f"{path}: the file of weights must be named .safetensors")
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise ValueError(f"{name}: a weight is no finite number; the training has diverged")
    arrays = {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()}
    weights = save(arrays)
    document = {
        "format": FORMAT,
        "name": card.name,
        "kind": card.kind,
        "weights": hashlib.sha256(weights).hexdigest(),
        "inputs": [vars(it) for it in card.inputs],
        "layers": [vars(it) for it in card.layers],
        "outputs": card.outputs,
        "data": card.data,
        "families": card.families,
        "commit": commit(),
        "seed": card.seed,
        "hyperparameters": card.hyperparameters,
        "scores": card.scores,
        "limits": card.limits,
    }
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    atomic.write(path, weights)
    atomic.write(path.with_suffix(".json"), text.encode())
