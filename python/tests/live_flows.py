"""Live flows for tests: a model that predicts them, and files in the agent's format."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from remuda.training import atomic, files, trees

ARMS = ["cubic", "bbr", "vegas", "copa"]
FEATURES = ["rate_max_mbit_per_sec", "rtt_min_ms", "queue"]
HASH = "5c4e3a"
RATE_MAX, RTT_MIN = 20.0, 40.0
Off = Callable[[str, float], float]
"""For an arm and a queue: ln(the true throughput / the throughput that the model predicts)."""


def wanted(kind: str, arm: int, queue: float) -> float:
    """The value of an arm on a path, as the model is trained to predict it."""
    return -0.3 * arm * queue if kind == "throughput" else 0.5 + 0.2 * arm * queue


def model(path: Path) -> None:
    """Writes a model that predicts `wanted`."""
    atomic.write(path, model_text())


@functools.cache
def model_text() -> bytes:
    """The file of a model that predicts `wanted`."""
    rng = np.random.default_rng(1)
    rows = np.column_stack([np.full(4_000, RATE_MAX), np.full(4_000, RTT_MIN), rng.random(4_000)])
    rows = rows.astype(np.float32)
    values: dict[str, dict[str, Any]] = {"throughput": {}, "delay": {}}
    checks = []
    for kind, of in values.items():
        for at, arm in enumerate(ARMS):
            target = np.array([wanted(kind, at, queue) for queue in rows[:, 2]])
            saved = trees.train(rows, target, 20, {"max_depth": 4, "eta": 0.3, "seed": 1})
            of[arm] = trees.read_part(saved)
            says = trees.predict(saved, rows[:1])[0]
            checks.append(files.check(f"value_{kind}", arm, rows[0], says))
    document = {"format": 3, "policy": "antelope", "schema_version": 1, "schema_hash": HASH}
    document |= {"kind": "per_arm", "arms": ARMS, "card": {}, "modes": {}}
    whole = {"checks": checks, "values": values, "online": None}
    return files.text_of(document | whole)


def head(began_unix_us: int = 1_000_000, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """The first line of a file."""
    line = {"format": 1, "schema_version": 1, "schema_hash": HASH, "features": FEATURES}
    return line | {"version": "0.1.0", "began_unix_us": began_unix_us} | changes


def row(flow: int, arm: str, from_s: float, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A sample of half a second."""
    line: dict[str, Any] = {"flow": flow, "arm": arm, "from_s": from_s, "until_s": from_s + 0.5}
    seen = {"seen_throughput_mbit_per_sec": 10.0, "seen_lost_mbit_per_sec": 0.0}
    line |= seen | {"seen_rtt_mean_ms": 60.0, "features": [RATE_MAX, RTT_MIN, 0.5]}
    return line | changes


def write(path: Path, lines: list[Any]) -> None:
    """Writes a file of lines; a text is written unchanged."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for text in texts))


def flows(folder: Path, count: int, off: Off, *, worse: bool = False, seed: int = 1) -> None:
    """Writes flows of 20 s that change their arm once; `off` is the error of the model.

    Each flow has a random error, and so has each half second. If `worse`, bbr drives flows only
    where the queue is above 0.5.
    """
    rng = np.random.default_rng(seed)
    lines: list[Any] = [head()]
    for flow in range(1, count + 1):
        queue, luck = rng.random(), rng.normal(0.0, 0.2)
        arms = rng.choice(len(ARMS), 2)
        if worse and queue <= 0.5:
            arms = rng.choice([0, 2, 3], 2)
        for step in range(40):
            at = int(arms[step // 20])
            error = luck + off(ARMS[at], queue) + rng.normal(0.0, 0.2)
            seen = RATE_MAX * np.exp(wanted("throughput", at, queue) + error)
            half = RTT_MIN / 2
            rtt_ms = half + half * np.exp(wanted("delay", at, queue) + rng.normal(0.0, 0.05))
            changes = {"seen_throughput_mbit_per_sec": seen, "seen_rtt_mean_ms": rtt_ms}
            features = [RATE_MAX, RTT_MIN, float(np.float32(queue))]
            lines.append(row(flow, ARMS[at], step / 2, features=features, **changes))
    write(folder / "samples-0000000001.jsonl", lines)
