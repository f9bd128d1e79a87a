"""The data and the methods of training: rewards, labels, trees, files."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("xgboost", reason="remuda[train] is not installed")

from remuda.training import (
    antelope,
    antelope_families,
    doubts,
    files,
    rewards,
    samples,
    trees,
    values,
)

ARMS = ["cubic", "bbr"]
FEATURES = ["rtt_min_ms", "rtt_mean_ms", "rate_max_mbit_per_sec"]


def states(throughput: list[float], delay_ms: list[float]) -> samples.States:
    return samples.States(
        np.array([1], dtype=np.uint64),
        ["wired"],
        ["cubic"],
        np.array([1.0]),
        np.zeros((1, 2), dtype=np.float32),
        np.array([throughput]),
        np.array([delay_ms]),
        np.array([delay_ms]),
        *(np.zeros((1, len(throughput))) for _ in range(4)),
    )


@pytest.mark.parametrize(
    ("form", "mode", "want"),
    [
        # Twice the throughput at four times the delay; in the paper's form, as shares.
        ("power", "default", [1.0, 0.5]),
        ("power", "throughput", [0.5, 1.0]),
        ("power", "delay", [1.0, 0.25]),
        # Delays up to 16 times the smallest count as the smallest.
        ("weighed", "default", [0.5, 1.0]),
        ("weighed", "delay", [1.0, 1.0]),
        ("paper", "default", [0.5, 1.0]),
        ("paper", "throughput", [0.5, 1.0]),
    ],
)
def test_rewards_by_hand(form: str, mode: str, want: list[float]) -> None:
    reward = rewards.FORMS[form].reward(states([10.0, 20.0], [20.0, 80.0]), mode)
    assert rewards.shares(reward)[0] == pytest.approx(want)


def collection(
    folder: Path, environments: int, about: dict[str, str] | None = None, wins_steps: int = 0
) -> None:
    """Two arms over 10 s. bbr has twice cubic's throughput in odd environments, else half.

    Both take over after 1 s, and for so many steps they have nothing yet.
    """
    rows = []
    for environment in range(environments):
        bbr = 20.0 if environment % 2 else 5.0
        for plan, has in (("learned>cubic", 10.0), ("learned>bbr", bbr), ("random:0", 7.0)):
            for step in range(20):
                arm = "cubic" if plan == "random:0" else plan.split(">")[step >= 2]
                wins = arm in plan and 2 <= step < 2 + wins_steps
                rate = 7.0 if arm == "learned" else 1e-3 if wins else has
                rows.append(
                    {
                        "environment": environment,
                        "kind": "wired",
                        "neighbours": "none",
                        "path_rtt_ms": 40.0,
                        "plan": plan,
                        "arm": arm,
                        "from_s": step * 0.5,
                        "until_s": step * 0.5 + 0.5,
                        "seen_throughput_mbit_per_sec": rate,
                        "seen_lost_mbit_per_sec": rate / 10,
                        "seen_rtt_mean_ms": 50.0,
                        "share_mbit_per_sec": 20.0,
                        "tested_mbit_per_sec": rate * 0.9,
                        "neighbour_mbit_per_sec": None,
                        "state": step % 2,
                        "rtt_min_ms": 40.0,
                        "rtt_mean_ms": 41.0 + environment % 2,
                        "rate_max_mbit_per_sec": 20.0,
                    }
                )
    facts = {"arms": ",".join(ARMS), "features": ",".join(FEATURES), "schema_version": "1"}
    facts |= {"schema_hash": "00", "plans": "1", "commit": "abc"} | (about or {})
    frame = pl.DataFrame(
        rows, schema_overrides={"environment": pl.UInt64, "neighbour_mbit_per_sec": pl.Float64}
    )
    frame.write_parquet(folder / f"samples-0-{environments}.parquet", metadata=facts)


def arguments(folder: Path, *more: str) -> argparse.Namespace:
    base = ["--data", str(folder), "--out", str(folder / "m" / "model.json"), "--processes=1"]
    return antelope.arguments([*base, "--trees=5", "--horizon-s=4", *more])


def test_what_an_arm_makes_of_the_path_is_what_its_run_has(tmp_path: Path) -> None:
    collection(tmp_path, 2)
    got = samples.read(tmp_path, ARMS, FEATURES, horizon_s=4.0)
    assert len(got) > 20
    # Without lost bytes; the one-way delay is 50 ms minus half of 40.
    odd = got.environment == 1
    assert got.throughput[odd] == pytest.approx(np.tile([9.0, 18.0], (odd.sum(), 1)))
    assert got.throughput[~odd] == pytest.approx(np.tile([9.0, 4.5], ((~odd).sum(), 1)))
    assert got.delay_ms == pytest.approx(np.full((len(got), 2), 30.0))
    assert got.rtt_ms == pytest.approx(np.full((len(got), 2), 50.0))
    # States with less than a third of the horizon after them are left out.
    assert got.at_s.max() <= 10 - 4 / 3
    # What the arm before had does not count.
    assert {"learned", *ARMS} == set(got.arm)


def test_an_environment_with_a_random_run_alone_is_left_out(tmp_path: Path) -> None:
    collection(tmp_path, 3)
    (file,) = tmp_path.glob("*.parquet")
    rows = pl.read_parquet(file)
    is_left = (pl.col("environment") != 1) | (pl.col("plan") == "random:0")
    rows.filter(is_left).write_parquet(file)
    got = samples.read(tmp_path, ARMS, FEATURES, horizon_s=4.0)
    assert set(got.environment) == {0, 2}
    assert got.throughput == pytest.approx(np.tile([9.0, 4.5], (len(got), 1)))


def test_samples_without_a_take_over_are_refused(tmp_path: Path) -> None:
    collection(tmp_path, 2)
    with pytest.raises(ValueError, match="in no environment all of bbr, copa take over from"):
        samples.read(tmp_path, ["bbr", "copa"], FEATURES, horizon_s=4.0)


def test_arms_are_judged_from_the_time_on_at_which_they_took_over(tmp_path: Path) -> None:
    collection(tmp_path, 2, wins_steps=4)
    got = samples.read(tmp_path, ARMS, FEATURES, horizon_s=4.0)
    odd, arm = got.environment == 1, np.array(got.arm)
    # From 1 s on, when both took over: nothing in 2 of 4 s.
    before = odd & (arm == "learned")
    half = np.tile([4.5, 9.0], (before.sum(), 1))
    assert before.sum() == 2 and got.throughput[before] == pytest.approx(half, rel=1e-3)
    # The arm that has the flow goes on from the state, and the other one would take over.
    at_3_s = odd & (arm == "cubic") & (got.at_s == 3.0)
    assert got.throughput[at_3_s][0] == pytest.approx([9.0, 9.0], rel=1e-3)
    at_4_s = odd & (arm == "bbr") & (got.at_s == 4.0)
    assert got.throughput[at_4_s][0] == pytest.approx([4.5, 18.0], rel=1e-3)


def test_a_model_is_trained_written_and_predicts_what_xgboost_does(tmp_path: Path) -> None:
    collection(tmp_path, 20)
    options = arguments(tmp_path)
    scores = antelope.train(options)
    assert scores["default"] > 0.99 > scores["default_best_fixed_arm"]
    document = json.loads(options.out.read_text())
    assert document["card"]["environments_held_out"] == 4
    assert document["arms"] == ARMS
    # Values of two arms, and the doubts of one in each mode.
    assert len(document["checks"]) == antelope.CHECKS + 4 + 3
    assert document["home"] == "cubic"  # both are as good on the whole
    # bbr has 18 or 4.5 of 20 Mbit/s; 30 ms are 1.5 times half of 40.
    assert scores["value_throughput_rmse"] < 0.3 * np.log(18 / 4.5)
    assert scores["value_delay_rmse"] < 0.01
    model = files.read(options.out)
    row = np.array([[40.0, 42.0, 20.0]], dtype=np.float32)
    assert model.predict("delay", "cubic", row) == pytest.approx([np.log(1.5)], abs=1e-3)
    assert model.predict("throughput", "bbr", row) > model.predict("throughput", "cubic", row)
    first = options.out.read_bytes()
    antelope.train(options)
    assert options.out.read_bytes() == first


def test_values_by_hand() -> None:
    names = ["rtt_min_ms", "rate_max_mbit_per_sec"]
    features = np.array([[40, 20], [np.nan, 20], [40, np.nan], [40, 0]], dtype=np.float32)
    known = values.known(features, names)
    assert known.tolist() == [True, False, False, True]
    # Half of the largest rate, then nothing; 50 ms minus 20, then less than half of 40.
    got = values.of(features[known], names, np.array([10.0, 0.0]), np.array([50.0, 30.0]))
    assert got["throughput"] == pytest.approx([np.log(0.5), 0.0])
    assert got["delay"] == pytest.approx([np.log(1.5), 0.0])


def test_a_joint_model_has_members_that_differ(tmp_path: Path) -> None:
    collection(tmp_path, 20)
    options = arguments(tmp_path, "--kind=joint", "--members=2")
    antelope.train(options)
    members = json.loads(options.out.read_text())["modes"]["default"]["all"]
    assert len(members) == 2
    assert members[0] != members[1]


def test_data_that_are_none_are_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="collect first"):
        samples.facts(tmp_path)
    collection(tmp_path, 1)
    collection(tmp_path, 2, {"commit": "another"})
    with pytest.raises(ValueError, match="made by another program"):
        samples.facts(tmp_path)


def test_the_part_that_the_agent_reads_is_smaller_and_whole() -> None:
    rng = np.random.default_rng(1)
    rows = rng.random((200, 3), dtype=np.float32)
    saved = trees.train(rows, rows.sum(axis=1).astype(float), 5, {"max_depth": 3, "seed": 1})
    part = trees.read_part(saved)
    assert len(json.dumps(part)) < len(json.dumps(saved)) / 2
    ours, theirs = (it["learner"]["gradient_booster"]["model"]["trees"] for it in (part, saved))
    for mine, other in zip(ours, theirs, strict=True):
        singles = [np.float32(value) for value in mine["split_conditions"]]
        assert singles == [np.float32(value) for value in other["split_conditions"]]
        leaves = np.array(mine["split_conditions"])[np.array(mine["left_children"]) == trees.LEAF]
        assert all(leaf == float(f"{leaf:.5g}") for leaf in leaves)


def test_a_family_left_out_is_judged_by_what_each_driver_misses_there() -> None:
    merits = {"antelope": [0.9, 0.5], "cubic": [0.45, 0.25], "bbr": [0.6, 0.5]}
    rows = [
        {"environment": f"path-{at}", "seed": 1, "driver": driver, "merit": merit}
        for driver, of in merits.items()
        for at, merit in enumerate(of)
    ]
    row = antelope_families.compared("thin", "cubic", "bbr", pl.DataFrame(rows))
    assert (row.fixed_misses, row.policy_misses) == pytest.approx((50.0, 0.0))
    assert (row.best, row.best_misses) == ("bbr", pytest.approx(100 / 6))
    assert (row.low, row.high) == pytest.approx((-50.0, -50.0))
    page = antelope_families.page([row], "abc", 3_600)
    assert "On 1 of 1 families" in page
    assert "| thin | cubic | 50.0 | 16.7 | 0.0 | -50.0 (-50.0 to -50.0) | bbr 16.7 |" in page


def test_where_a_gain_is_doubted_the_home_arm_is_chosen() -> None:
    scores = np.array([[0.5, 0.7], [0.5, 0.7]])
    doubt = np.array([[0.0, 0.1], [0.0, 0.5]])
    assert doubts.choice(scores, doubt, 0, 0.5).tolist() == [1, 0]
    assert doubts.choice(scores, doubt, 0, 0.0).tolist() == [1, 1]
