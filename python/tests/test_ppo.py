"""The trainer of the arm learned, and the network that ships."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax is an extra")

from remuda.training import ppo, worlds

MODELS = Path(__file__).parents[2] / "algorithms" / "models"
SETTINGS = ppo.Settings(
    steps=18 * 8 * 4, rows=18, rollout_steps=8, round_updates=2, width=8, evaluations=2
)


def test_a_training_that_was_stopped_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "HELD_OUT", 5)
    assert ppo.trained(SETTINGS, tmp_path / "whole.safetensors")
    stopped = tmp_path / "stopped.safetensors"
    real, calls = ppo.rolled_out, []

    def interrupted(*args: object) -> ppo.Rollout:
        calls.append(1)
        if len(calls) == 3:
            ppo.signal.raise_signal(ppo.signal.SIGINT)
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(ppo, "rolled_out", interrupted)
    assert not ppo.trained(SETTINGS, stopped)
    assert not stopped.exists()
    monkeypatch.setattr(ppo, "rolled_out", real)
    assert ppo.trained(SETTINGS, stopped)
    assert stopped.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    other = dataclasses.replace(SETTINGS, seed=2)
    with pytest.raises(ValueError, match="the checkpoint is of other settings"):
        ppo.trained(other, stopped)


def test_what_does_not_exist_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="nowhere is no family; the families are: wired"):
        worlds.families(dataclasses.replace(SETTINGS, without=("nowhere",)))
    kept = worlds.families(dataclasses.replace(SETTINGS, without=("wired", "thin")))
    assert "wired" not in kept and "lossy" in kept


@pytest.mark.parametrize("family", worlds.names())
def test_each_family_can_be_stepped_and_depends_on_the_seed(family: str) -> None:
    firsts = []
    for seed in (1, 1, 2):
        world = worlds.world(SETTINGS, family, 4, seed)
        observations, rewards, ends = world.step(np.zeros(4, np.float32))
        assert np.isfinite(rewards).all() and not ends.any()
        firsts.append(observations)
    np.testing.assert_array_equal(firsts[0], firsts[1])
    assert not np.array_equal(firsts[0], firsts[2])


def test_goodput_is_measured_by_what_the_link_could_carry() -> None:
    info = {
        "throughput_mbit_per_sec": np.array([20.0]),
        "bandwidth_mbit_per_sec": np.array([10.0]),
        "capacity_mbit_per_sec": np.array([40.0]),
        "rtt_ms": np.array([40.0]),
        "base_rtt_ms": np.array([40.0]),
        "loss_rate": np.array([0.0]),
    }
    payload = 1448 / 1500
    now = worlds.rewards(info, 1, is_steady=True)
    assert now == pytest.approx(2 * np.log(20 / (40 * payload)))
    mean = worlds.rewards(info, 1, is_steady=False)
    assert mean == pytest.approx(2 * np.log(20 / (10 * payload)))
    more_than_half = worlds.rewards(
        {**info, "throughput_mbit_per_sec": np.array([30.0])}, 2, is_steady=True
    )
    assert more_than_half < worlds.rewards(info, 2, is_steady=True), "the other flow lacks it"


def test_advantages_are_in_units_of_their_spread_in_each_family() -> None:
    family = np.array([0, 0, 1, 1])
    gains = np.array([[1.0, 3.0, 10.0, 30.0], [3.0, 1.0, 30.0, 10.0]])
    got = np.asarray(ppo.levelled(gains, family, dataclasses.replace(SETTINGS, spread_least=0.0)))
    np.testing.assert_allclose(got, [[-1, 1, -1, 1], [1, -1, 1, -1]], atol=1e-5)


def test_an_odd_number_of_flows_is_refused() -> None:
    options = ppo.arguments(["--out", "x.safetensors", "--rows", "9"])
    with pytest.raises(ValueError, match="--rows is 9: must be even"):
        ppo.settings_from(options)


def test_jax_gives_what_the_rust_test_expects() -> None:
    want = np.fromfile(MODELS / "learned.expected", "<f4")
    assert len(want) == ppo.CHECKS
    np.testing.assert_allclose(ppo.checks(MODELS / "learned.safetensors"), want, atol=1e-5)


def test_the_card_has_every_setting() -> None:
    card = json.loads((MODELS / "learned.json").read_text())
    fields = {field.name for field in dataclasses.fields(ppo.Settings)}
    assert set(card["hyperparameters"]) == fields
    assert set(card["scores"]) == set(worlds.names())


PINNED = {"wired": -0.66, "lossy": -1.19, "steps": -0.66, "wifi": -3.45}
"""What the shipped weights scored on a small set, less 0.1: 5 % of the goodput."""


def test_the_shipped_weights_score_as_they_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "names", lambda: list(PINNED))
    params, of_card = ppo.exported(MODELS / "learned.safetensors")
    settings = ppo.Settings(evaluations=12, episode_steps=128)
    got = ppo.evaluated(settings, params, (of_card["offset"], of_card["scale"]))
    for family, least in PINNED.items():
        assert got[family]["reward"] > least, got
