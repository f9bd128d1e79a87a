"""LingBo's trainer, and the network that ships."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from remuda.training import export, lingbo

MODELS = Path(__file__).parents[2] / "algorithms" / "models"


def test_jax_gives_what_the_rust_test_expects() -> None:
    want = np.fromfile(MODELS / "lingbo.expected", "<f4")
    got = lingbo.checks(MODELS / "lingbo.safetensors")
    assert len(want) == 10_000
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_the_shipped_network_scores_as_it_did() -> None:
    args = lingbo.Args(paths=128, decisions=50)
    got = lingbo.scores(lingbo.exported(MODELS / "lingbo.safetensors"), args, 2_000_000)
    assert got["loss"] < 0.016, got
    assert got["all_utilisation"] > 0.83, got
    assert got["all_queue_rtts"] < 0.17, got
    assert got["wired_queue_rtts"] < 0.10, got
    assert got["loss_utilisation"] > 0.81, got


def test_the_card_is_of_the_shipped_network() -> None:
    card = json.loads((MODELS / "lingbo.json").read_text())
    assert card["layers"] == json.loads(json.dumps([vars(it) for it in lingbo.layers()]))
    assert card["inputs"] == json.loads(json.dumps([vars(it) for it in lingbo.inputs()]))
    weights = lingbo.Args(**card["hyperparameters"])
    assert weights == lingbo.Args(), "the defaults make the shipped network"


def test_the_expert_leaves_alpha_deviations_in_the_queue() -> None:
    paths = lingbo.Paths(np.random.default_rng(3), 64)
    for _ in range(30):
        paths.act(paths.expert().astype(float))
    still = (paths.rate_changes == 0) & (paths.rtt_changes == 0) & (paths.loss == 0)
    used = np.minimum(paths.history[:, 2, -1] / paths.rate_now, 1)
    assert np.median(used[still]) > 0.9


def test_weights_that_are_no_numbers_are_not_written(tmp_path: Path) -> None:
    card = export.Card("a", "a", [], [], [], "", [], 1, {})
    with pytest.raises(ValueError, match="no finite number"):
        export.write(tmp_path / "a.safetensors", {"a": np.array([np.nan], np.float32)}, card)
    with pytest.raises(ValueError, match="must be named"):
        export.write(tmp_path / "a.bin", {}, card)
    assert not list(tmp_path.iterdir())
