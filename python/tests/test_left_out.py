"""The table of what leaving a family of paths out of the training costs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax is an extra")

from remuda.training import left_out, ppo


def test_episodes_are_compared_in_pairs() -> None:
    trained = np.log(np.linspace(0.2, 0.9, 24))
    same = left_out.compared("lossy", trained, trained + np.log(0.95))
    assert same.kept == pytest.approx(0.95) and same.low == pytest.approx(same.high)
    assert same.verdict == "yes"
    worse = left_out.compared("lossy", trained, trained + np.log(np.resize([0.7, 0.8], 24)))
    assert worse.low < worse.kept < worse.high < left_out.KEPT and worse.verdict == "**no**"
    unsure = left_out.compared("lossy", trained, trained + np.log(np.resize([0.6, 1.4], 24)))
    assert unsure.verdict == "undecided"


def test_a_family_that_does_not_exist_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert left_out.main(["--out", str(tmp_path), "--families", "wired,nowhere"]) == 1
    assert "nowhere is no family" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_training_that_is_complete_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(family: str | None, steps: int) -> ppo.Settings:
        without = () if family is None else (family,)
        small = {"steps": steps, "rows": 10, "rollout_steps": 8, "width": 8, "evaluations": 2}
        return dataclasses.replace(ppo.Settings(), **small, episode_steps=16, without=without)

    monkeypatch.setattr(left_out, "settings_without", small)
    monkeypatch.setattr(left_out, "EPISODES", 2)
    monkeypatch.setattr(left_out, "ROUNDS", 2)
    page = tmp_path / "page"
    options = ["--out", str(tmp_path), "--steps", "72", "--families", "lossy"]
    assert left_out.main([*options, "--write", str(page)]) == 0
    row = page.read_text().splitlines()[-1]
    assert row.startswith("| lossy | ")

    def never(*_: object) -> bool:
        raise AssertionError("a training was repeated")

    monkeypatch.setattr(ppo, "trained", never)
    assert left_out.main([*options, "--write", str(page)]) == 0
    assert page.read_text().splitlines()[-1] == row
