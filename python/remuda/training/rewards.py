"""Rewards of arms: the paper's equations, and those for the training of models.

Zhou et al., Antelope (ICNP 2021), section IV-A, equations 1 to 3. The agent computes the same in
`selector/src/antelope/reward.rs`.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from remuda._native import merits

from .samples import Floats, States

MODES = {"default": (1.0, 1.0), "throughput": (1.0, 0.0), "delay": (0.0, 1.0)}
"""The paper's modes, by the weights of throughput and delay (zeta and theta)."""
LEAST = 1e-3
"""The least throughput in Mbit/s: keeps logarithms finite."""


@dataclasses.dataclass(frozen=True)
class Form:
    """How throughput and delay are combined into one number."""

    name: str
    delta: float
    """Delays up to this multiple of the smallest count as the smallest (equation 2)."""

    def reward(self, states: States, mode: str) -> Floats:
        """The reward of each arm in each state: rows x arms."""
        zeta, theta = MODES[mode]
        if self.name == "merit":
            return merit(states, (zeta, theta))
        throughput = np.maximum(states.throughput, LEAST)
        least = states.delay_ms.min(axis=1, keepdims=True)
        delay = np.where(states.delay_ms <= self.delta * least, least, states.delay_ms)
        if self.name == "paper":
            most = throughput.max(axis=1, keepdims=True)
            paper: Floats = (zeta * throughput + (1 - zeta) * most) / np.maximum(theta * delay, 1)
            return paper
        weighed: Floats = throughput**zeta * (least / delay) ** theta
        return weighed


def merit(states: States, preference: tuple[float, float]) -> Floats:
    """The merit by which arms are ranked, of each arm in each state: rows x arms."""
    terms = (states.goodput, states.delay, states.loss, states.harm)
    return merit_of(terms, preference)


def merit_of(terms: tuple[Floats, ...], preference: tuple[float, float]) -> Floats:
    """The merit of goodput, delay, loss and harm, as `States` has them."""
    out = np.empty(terms[0].shape)
    goodput, delay, loss, harm = (np.ascontiguousarray(it, dtype=float).ravel() for it in terms)
    merits(goodput, delay, loss, harm, out.reshape(-1), preference)
    return out


FORMS = {
    "merit": Form("merit", 1.0),
    "power": Form("weighed", 1.0),
    "weighed": Form("weighed", 16.0),
    "paper": Form("paper", 512.0),
}
"""`merit` is the default: that by which arms are ranked (`algorithms/src/merit.rs`)."""


def shares(reward: Floats) -> Floats:
    """Rewards as shares of the best arm's reward in the same state."""
    share: Floats = reward / np.maximum(reward.max(axis=1, keepdims=True), 1e-12)
    return share
