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
    steps=18 * 8 * 4, rows=18, rollout_steps=8, round_updates=2, width=8, evaluations=1
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


def test_jax_gives_what_the_rust_test_expects() -> None:
    want = np.fromfile(MODELS / "learned.expected", "<f4")
    assert len(want) == ppo.CHECKS
    np.testing.assert_allclose(ppo.checks(MODELS / "learned.safetensors"), want, atol=1e-5)


def test_the_card_has_every_setting() -> None:
    card = json.loads((MODELS / "learned.json").read_text())
    fields = {field.name for field in dataclasses.fields(ppo.Settings)}
    assert set(card["hyperparameters"]) == fields
    assert set(card["scores"]) == set(worlds.names())


PINNED = {"wired": -0.44, "lossy": -0.56, "steps": -0.93}
"""What the shipped weights scored on a small set, less 0.1: 5 % of the goodput."""


def test_the_shipped_weights_score_as_they_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "names", lambda: list(PINNED))
    params, of_card = ppo.exported(MODELS / "learned.safetensors")
    settings = ppo.Settings(evaluations=12, episode_steps=128)
    got = ppo.evaluated(settings, params, (of_card["offset"], of_card["scale"]))
    for family, least in PINNED.items():
        assert got[family]["reward"] > least, got
