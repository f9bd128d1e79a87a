"""The trainer of the policy tcp_rl, and the networks that ship."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax is an extra")

import remuda
from remuda.training import tcp_rl
from remuda.training import tcp_rl_networks as networks
from remuda.training import tcp_rl_steps as world

MODELS = Path(__file__).parents[2] / "selector" / "models"


def test_jax_gives_what_the_rust_test_expects() -> None:
    want = np.fromfile(MODELS / "tcp_rl.expected", "<f4").reshape(networks.CHECKS, -1)
    np.testing.assert_allclose(networks.checks(MODELS / "tcp_rl.safetensors"), want, atol=1e-5)


def test_the_cards_have_every_setting() -> None:
    for name in ("tcp_rl", "tcp_rl_change"):
        card = json.loads((MODELS / f"{name}.json").read_text())
        assert card["hyperparameters"] == dataclasses.asdict(tcp_rl.Settings())


def test_a_step_has_the_states_that_the_policy_reads() -> None:
    paths = [world.Path(10, 40, 0, 100), world.Path(20, 80, 1, 100)]
    result = remuda.run(world.scenario(paths, 20), seed=1)
    steps = world.steps(result, paths, 20)
    assert len(steps) >= 6
    assert {step.phase for step in steps} == {0, 1}
    assert sum(step.is_mixed for step in steps) == 1
    for step in steps:
        rate, rtt, rtt_min, loss = step.state
        assert 1e5 < rate < 21e6 and rtt_min <= rtt < 1 and 0 <= loss < 0.2


PINNED = {(10, 40, 0): 0.9, (50, 80, 1): 0.9, (100, 20, 2): 0.9, (20, 100, 10): 0.9}
"""Paths, and what the shipped networks reach there at least, as a share of the best arm's power."""


def test_the_shipped_networks_score_as_they_did() -> None:
    def powers(driver: str) -> np.ndarray:
        runs = []
        for rate, rtt, loss in PINNED:
            table = world.scenario([world.Path(rate, rtt, loss)], 40)
            table["flows"] = [{"driver": driver}]
            runs.append(table)
        flows = [it.flows for it in remuda.run_many(runs, [1] * len(runs))]
        return np.array([it["goodput_mbit_per_sec"][0] / it["one_way_mean_ms"][0] for it in flows])

    best = np.max([powers(arm) for arm in ("copa", "bbr", "learned", "vivace")], axis=0)
    shares = powers("tcp_rl") / best
    assert (shares >= np.array(list(PINNED.values()))).all(), shares
