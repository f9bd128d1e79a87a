"""Corrects a model by live flows: `python -P -m remuda.training.online --model M --samples D`.

The prediction of the model for each state is compared with the outcome. The errors are learned in
two sets of boosted trees, both regularised towards zero:

- `shared`: the errors on these paths that do not depend on the arm. They change no choice.
- `corrections`, one for each arm with enough data: how the arm differs on these paths from all
  arms.

Only arms that have driven flows on similar paths can show to which part an error belongs. So
`shared` is learned first, and the error of an arm is measured from the median of the arms: the
error of a single arm that differs is its own, and an error of all arms belongs to none.

One flow in five is held out, by a hash of its identity, so that every training holds out the same
flows. The result is written if its error on these flows is smaller than that of the model in force,
beyond chance. New corrections, which alone change choices, are included if their own error is
smaller than that of the corrections in force, beyond chance; otherwise the corrections in force
stay.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import atomic, files, live, trees, values
from .files import Model
from .live import Outcomes
from .samples import Floats

HELD_OUT = 5
"""One of this many flows is held out."""
FLOWS_LEAST = 50
"""With fewer flows nothing is learned: ten held-out flows would show nothing."""
ARM_FLOWS_LEAST = 20
"""An arm gets a correction if this many of the flows used it,"""
ARM_ROWS_LEAST = 200
"""with this many outcomes."""
FLOW_WEIGHT_MAX = 10.0
"""The most weight of a flow: its outcomes are similar, so they count like ten different ones."""
CLIP = math.log(16)
"""Errors are cut to this, in training and in evaluation, so that one odd flow decides nothing."""
PRIOR = 50.0
"""Each leaf is regularised as if it had this many outcomes without an error, of five flows."""
SHARED = {"max_depth": 3, "eta": 0.15, "lambda": PRIOR, "min_child_weight": 50.0}
SHARED_TREES = 30
OWN = {"max_depth": 2, "eta": 0.15, "lambda": PRIOR, "min_child_weight": 50.0}
OWN_TREES = 25
ROUNDS = 3
"""How often shared errors and those of arms are separated, each from what the other leaves."""
CHECKS = 4
"""The number of checks of each shared ensemble. Each correction has one."""
RESAMPLES = 2_000
"""The number of resamples in the bootstrap over flows."""

REFUSED = 2
"""The exit status if an argument or a file is wrong; 1 is the status of a Python exception."""

Part = dict[str, Any]
"""The part of an ensemble that the agent reads (`trees.read_part`)."""


@dataclass(frozen=True)
class Judged:
    """The errors of two models on the same held-out flows."""

    before: float
    """Root of the mean squared error of the logarithm of power; each flow has the same weight."""
    after: float
    gain: tuple[float, float]
    """How much the squared error falls: a 95 % interval, by a bootstrap over flows."""

    @property
    def is_better(self) -> bool:
        """Whether the gain is beyond chance."""
        return self.gain[0] > 0

    def __str__(self) -> str:
        """The errors and the gain in one line."""
        low, high = self.gain
        return f"{self.before:.3f} -> {self.after:.3f}, squared {low:+.4f} to {high:+.4f} less"


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"train: {text}", file=sys.stderr, flush=True)


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the arguments."""
    about = "Corrects a model of Antelope by live flows."
    parser = argparse.ArgumentParser(description=about, prog="remuda train antelope --online")
    parser.add_argument("--model", type=Path, required=True, help="file of the model in force")
    parser.add_argument("--samples", type=Path, required=True, help="folder of the agent's samples")
    parser.add_argument("--out", type=Path, required=True, help="file of the new model")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


def is_held_out(name: str) -> bool:
    """Whether a flow is held out; the same in every training."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % HELD_OUT == 0


def weights(outcomes: Outcomes) -> Floats:
    """The weight of each outcome, so that no flow weighs more than `FLOW_WEIGHT_MAX`."""
    _, at, count = np.unique(outcomes.flow, return_inverse=True, return_counts=True)
    weight: Floats = np.minimum(1.0, FLOW_WEIGHT_MAX / count)[at]
    return weight


def errors(outcomes: Outcomes, model: Model) -> dict[str, Floats]:
    """Outcomes minus the model's predictions, by kind of value; clipped."""
    out = {}
    for kind in values.KINDS:
        predicted = np.zeros(len(outcomes))
        for arm in np.unique(outcomes.arm):
            of = outcomes.arm == arm
            predicted[of] = model.predict(kind, model.arms[arm], outcomes.features[of])
        out[kind] = np.clip(outcomes.value[kind] - predicted, -CLIP, CLIP)
    return out


def enough(outcomes: Outcomes, arms: int) -> list[int]:
    """The arms with enough data for a correction."""
    found = []
    for arm in range(arms):
        flows = outcomes.flow[outcomes.arm == arm]
        if len(flows) >= ARM_ROWS_LEAST and len(np.unique(flows)) >= ARM_FLOWS_LEAST:
            found.append(arm)
    return found


@dataclass
class Learned:
    """What live flows teach, in the form of the model's file, and rows for its checks."""

    shared: dict[str, Part]
    corrections: dict[str, dict[str, Part]]
    checks: list[dict[str, Any]]


def _own(left: Floats, outcomes: Outcomes, weight: Floats, arms: list[int]) -> Floats:
    """The mean error of each arm, relative to the median of the arms."""
    means = {}
    for arm in arms:
        of = outcomes.arm == arm
        means[arm] = float((left[of] * weight[of]).sum() / (weight[of].sum() + PRIOR))
    centre = float(np.median(list(means.values()))) if means else 0.0
    offsets = np.zeros(1 + max(outcomes.arm, default=0))
    for arm, mean in means.items():
        offsets[arm] = mean - centre
    return offsets


def learn(outcomes: Outcomes, base: Model, seed: int) -> Learned:
    """Learns the errors of a model without online parts."""
    weight = weights(outcomes)
    arms = enough(outcomes, len(base.arms))
    fixed = {"base_score": 0.0, "subsample": 0.8, "colsample_bytree": 0.7, "seed": seed}
    learned = Learned({}, {}, [])
    rows = outcomes.features
    for kind, error in errors(outcomes, base).items():
        offsets = np.zeros(len(base.arms))
        for _ in range(ROUNDS):
            target = error - offsets[outcomes.arm]
            shared = trees.train(rows, target, SHARED_TREES, SHARED | fixed, weight)
            predicted = trees.predict(shared, rows)
            left = np.clip(error - predicted, -CLIP, CLIP)
            offsets = _own(left, outcomes, weight, arms)
        learned.shared[kind] = trees.read_part(shared)
        some = np.linspace(0, len(rows) - 1, CHECKS).astype(int)
        learned.checks += [
            files.check(f"shared_{kind}", "", rows[at], predicted[at]) for at in some
        ]
        learned.corrections[kind] = {}
        for arm in arms:
            of = np.flatnonzero(outcomes.arm == arm)
            seen = weight[of].sum()
            target = left[of] * seen / (seen + PRIOR)
            own = trees.train(rows[of], target, OWN_TREES, OWN | fixed, weight[of])
            name, row = base.arms[arm], rows[of[-1]]
            learned.corrections[kind][name] = trees.read_part(own)
            own_predicted = trees.predict(own, row[None, :])[0]
            learned.checks.append(files.check(f"correction_{kind}", name, row, own_predicted))
    return learned


def power_errors(outcomes: Outcomes, model: Model) -> Floats:
    """The mean squared error of the logarithm of power, for each flow that has outcomes."""
    error = errors(outcomes, model)
    squared = np.clip(error["throughput"] - error["delay"], -CLIP, CLIP) ** 2
    _, at, count = np.unique(outcomes.flow, return_inverse=True, return_counts=True)
    mean: Floats = np.bincount(at, weights=squared) / count
    return mean


def judge(before: Floats, after: Floats, seed: int) -> Judged:
    """Compares squared errors of the same flows."""
    gain = before - after
    rng = np.random.default_rng(seed)
    drawn = [gain[rng.integers(0, len(gain), len(gain))].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    root_before, root_after = (math.sqrt(float(of.mean())) for of in (before, after))
    return Judged(root_before, root_after, (float(low), float(high)))


def corrected(model: Model, learned: Learned, seen: tuple[int, int], *, own: bool) -> bytes:
    """The model's file with what was learned; without `own`, with its previous corrections."""
    document = dict(model.document)
    had = document.get("online") or {"corrections": {kind: {} for kind in values.KINDS}}
    document["online"] = {
        "parent": model.hash,
        "rows": seen[0],
        "flows": seen[1],
        "shared": learned.shared,
        "corrections": learned.corrections if own else had["corrections"],
    }
    anew = ("shared_", "correction_") if own else ("shared_",)
    old = [check for check in document["checks"] if not check["mode"].startswith(anew)]
    new = [check for check in learned.checks if check["mode"].startswith(anew)]
    document["checks"] = old + new
    return files.text_of(document)


def by_arm(outcomes: Outcomes, model: Model) -> list[str]:
    """Lines of a table: the model's errors for each arm, and for the newest flows."""
    error = errors(outcomes, model)
    lines = ["arm             flows  outcomes  throughput  delay   (mean of ln seen / predicted)"]
    for arm, name in enumerate(model.arms):
        of = outcomes.arm == arm
        if of.any():
            flows = len(np.unique(outcomes.flow[of]))
            means = [float(error[kind][of].mean()) for kind in values.KINDS]
            lines.append(f"{name:14}{flows:7}{of.sum():10}{means[0]:+12.3f}{means[1]:+7.3f}")
    power = power_errors(outcomes, model)
    newest = max(1, len(power) // 5)
    roots = [math.sqrt(float(of.mean())) for of in (power[:-newest], power[-newest:]) if len(of)]
    lines.append(
        f"error of ln power: {', then of the newest fifth of flows '.join(map(_3, roots))}"
    )
    return lines


def _3(value: float) -> str:
    return f"{value:.3f}"


def train(options: argparse.Namespace) -> str:
    """Trains, evaluates, and writes the model if it is better. Returns the line to print."""
    model = files.read(options.model)
    outcomes, count = live.read(options.samples, model.schema_hash, model.width, model.arms)
    for line in count.lines():
        say(line)
    held = np.array([is_held_out(name) for name in outcomes.names], dtype=bool)[outcomes.flow]
    learned_from, held_out = outcomes.only(~held), outcomes.only(held)
    flows = [len(np.unique(of.flow)) for of in (learned_from, held_out)]
    if sum(flows) < FLOWS_LEAST or min(flows) < FLOWS_LEAST // HELD_OUT:
        least = f"{FLOWS_LEAST} flows, {FLOWS_LEAST // HELD_OUT} of them held out"
        return f"kept: {flows[0]} flows and {flows[1]} held out are too few, of {least}"
    for line in by_arm(outcomes, model):
        say(line)
    base = files.without_online(model)
    learned = learn(learned_from, base, options.seed)
    seen = (len(learned_from), flows[0])
    own, shared = (corrected(model, learned, seen, own=own) for own in (True, False))
    each = [power_errors(held_out, files.parse(text)) for text in (own, shared)]
    in_force = power_errors(held_out, model)
    judged = {
        "all": judge(in_force, each[0], options.seed),
        "shared": judge(in_force, each[1], options.seed),
        "corrections": judge(each[1], each[0], options.seed),
    }
    for name, it in judged.items():
        say(f"{name}: error of ln power of {flows[1]} flows held out {it}")
    what = "corrections" if judged["corrections"].is_better else "shared"
    text, verdict = (own, judged["all"]) if what == "corrections" else (shared, judged["shared"])
    if not verdict.is_better:
        return f"kept: no better than the model in force, error of ln power {verdict}"
    options.out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic.write(options.out, text, 0o600)
    arms = ", ".join(sorted(learned.corrections["throughput"])) or "no arm"
    new = f"corrections of {arms}" if what == "corrections" else "it chooses as the one in force"
    return f"written: {options.out}: {new}; error of ln power {verdict}"


def main() -> int:
    """Runs the command. Returns 0 if a model was written or kept, else `REFUSED`."""
    options = arguments()
    try:
        print(train(options))
    except FileNotFoundError as error:
        fix = "fix: name the agent's folder, --samples DIR; an agent with [samples] enabled has one"
        print(f"remuda train antelope --online: {error}\n{fix}", file=sys.stderr)
        return REFUSED
    except (OSError, ValueError) as error:
        print(f"remuda train antelope --online: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
