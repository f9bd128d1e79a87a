"""Reading the agent's samples of live flows: outcomes, and what is left out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("xgboost", reason="remuda[train] is not installed")

from live_flows import ARMS, HASH, head, row, write

from remuda.training import live

FIRST = "samples-0000000001.jsonl"


def read(folder: Path) -> tuple[live.Outcomes, live.Count]:
    return live.read(folder, HASH, 3, ARMS)


def drive(flow: int, arm: str, from_s: float, steps: int, **changes: object) -> list[Any]:
    return [row(flow, arm, from_s + step / 2, **changes) for step in range(steps)]


def test_an_outcome_is_what_the_arm_made_of_the_path_from_there_on(tmp_path: Path) -> None:
    # 5 s of cubic, then bbr: 5 s at 10 Mbit/s and 60 ms, 5 s at 2 Mbit/s minus 1 and 100 ms.
    slow = {"seen_throughput_mbit_per_sec": 2.0, "seen_lost_mbit_per_sec": 1.0}
    bbr = [*drive(1, "bbr", 5.0, 10), *drive(1, "bbr", 10.0, 10, seen_rtt_mean_ms=100.0, **slow)]
    write(tmp_path / FIRST, [head(), *drive(1, "cubic", 0.0, 10), *bbr])
    got, count = read(tmp_path)
    # For cubic: 4.5 s are left after the first sample and 4 s after the second, then less than 4 s.
    # The state before bbr's first sample is the end of cubic's last one.
    assert [ARMS[arm] for arm in got.arm] == ["cubic"] * 2 + ["bbr"] * 13
    assert (count.files, count.rows, count.flows, count.outcomes) == (1, 30, 1, 15)
    assert count.lines() == ["15 outcomes of 1 flows: 30 rows in 1 files"]
    cubic, bbr_first = 0, 2
    assert got.value["throughput"][cubic] == pytest.approx(np.log(10 / 20))
    assert got.value["delay"][cubic] == pytest.approx(np.log((60 - 20) / 20))
    # 10 s of bbr: (50 + 10 - 5) / 10 s; round trips are weighted by delivered bytes.
    mean_ms = (60 * 50 + 100 * 10) / 60
    assert got.value["throughput"][bbr_first] == pytest.approx(np.log(5.5 / 20))
    assert got.value["delay"][bbr_first] == pytest.approx(np.log((mean_ms - 20) / 20))
    assert got.features[0] == pytest.approx([20.0, 40.0, 0.5])


def test_an_outcome_ends_with_the_horizon_and_at_a_gap(tmp_path: Path) -> None:
    late = drive(1, "bbr", 12.5, 20, seen_throughput_mbit_per_sec=1.0)
    gap = drive(2, "bbr", 0.0, 10) + drive(2, "bbr", 6.1, 10)
    write(tmp_path / FIRST, [head(), *drive(1, "bbr", 0.0, 25), *late, *gap])
    got, _ = read(tmp_path)
    # From 0.5 s on 12 s at 10 Mbit/s, and from 1 s on half a second less.
    rates = 20 * np.exp(got.value["throughput"])
    assert rates[:2] == pytest.approx([10.0, (10 * 11.5 + 0.5) / 12])
    # bbr drives flow 2 twice for 5 s; each time has outcomes of 4.5 s and 4 s.
    assert np.bincount(got.flow).tolist()[1] == 4


def test_one_flow_does_not_own_the_model(tmp_path: Path) -> None:
    write(tmp_path / FIRST, [head(), *drive(1, "bbr", 0.0, 500), *drive(2, "bbr", 0.0, 20)])
    got, _ = read(tmp_path)
    assert np.bincount(got.flow).tolist() == [live.FLOW_ROWS_MAX, 12]


def test_a_flow_goes_on_in_the_next_file_and_another_agent_begins_anew(tmp_path: Path) -> None:
    write(tmp_path / FIRST, [head(1), *drive(7, "bbr", 0.0, 10)])
    write(tmp_path / "samples-0000000002.jsonl", [head(2), *drive(7, "bbr", 5.0, 10)])
    write(tmp_path / "samples-0000000010.jsonl", [head(3), *drive(7, "bbr", 0.0, 20)])
    got, count = read(tmp_path)
    assert got.names == ["1:7", "3:7"]
    assert np.bincount(got.flow).tolist() == [12, 12]
    assert not count.left_out


GOOD = drive(1, "bbr", 0.0, 20)
BAD = [
    ("{", "a line is not a JSON object"),
    ("[1]", "a line is not a JSON object"),
    ("[" * 60_000, "a line is not a JSON object"),
    (f'{{"flow":{"9" * 5_000}}}', "a line is not a JSON object"),
    (json.dumps(row(1, "bbr", 9.0, seen_rtt_mean_ms=float("nan"))), "a line is not a JSON object"),
    ("x" * 200_000, "a line is longer than 65536 bytes"),
    (row(-1, "bbr", 9.0), "flow must be"),
    (row(1 << 32, "bbr", 9.0), "flow must be"),
    (row(True, "bbr", 9.0), "flow must be"),
    (row(1, "reno", 9.0), "its arm is not one"),
    (row(1, ["bbr"], 9.0), "its arm is not one"),
    (row(1, "bbr", 9.0, until_s=9.0), "until_s must be after"),
    (row(1, "bbr", -1.0), "from_s must be a number from 0 to"),
    (row(1, "bbr", 9.0) | {"from_s": "9"}, "from_s must be"),
    (row(1, "bbr", 9.0, until_s=1e308), "until_s must be a number from 0 to 1e+08"),
    (row(1, "bbr", 9.0, seen_throughput_mbit_per_sec=1e308), "seen_throughput_mbit_per_sec must"),
    (row(1, "bbr", 9.0, seen_lost_mbit_per_sec=-1), "seen_lost_mbit_per_sec must"),
    (row(1, "bbr", 9.0, seen_rtt_mean_ms=None), "seen_rtt_mean_ms must"),
    ('{"flow":1e999}', "flow must be"),
    (row(1, "bbr", 9.0, features=[1, 2]), "features must be 3 numbers"),
    (row(1, "bbr", 9.0, features={}), "features must be 3 numbers"),
    (row(1, "bbr", 9.0, features=[1, 2, 1e308]), "a feature must be null, or"),
    (row(1, "bbr", 9.0, features=[1, 2, "3"]), "a feature must be null, or"),
    (row(1, "bbr", 2.0), "a flow's time goes backwards"),
]


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_a_line_that_breaks_a_rule_is_left_out_and_counted(
    tmp_path: Path, bad: str | dict[str, Any], why: str
) -> None:
    write(tmp_path / FIRST, [head(), *GOOD, bad, *drive(2, "bbr", 0.0, 20)])
    got, count = read(tmp_path)
    assert np.bincount(got.flow).tolist() == [12, 12]
    ((reason, times),) = count.left_out.items()
    assert reason.startswith(why)
    assert times == 1
    assert f"left out: 1 times: {why}" in "\n".join(count.lines())


HEADS: list[tuple[Any, str]] = [
    ("", "Expecting value"),
    ("[]", "it must be an object"),
    ("[" * 60_000, "recursion"),
    (head(format=2), "format 2: it must be 1"),
    (head(format="\x1b[2J"), r"format '\x1b[2J'"),
    (head(schema_hash="00aa"), "features are of another schema, '00aa', not 5c4e3a"),
    (head(began_unix_us=-1), "began_unix_us must be"),
    (head(features=["a"]), "features must be 3 names"),
    (head(features=["a", "a", "b"]), "features must be 3 names"),
    (head(features=["a", "b", "c"]), "features must have rate_max_mbit_per_sec"),
    ("x" * 100_000, "its first line is incomplete"),
]


@pytest.mark.parametrize(("first", "why"), HEADS)
def test_a_file_of_another_form_is_left_out_and_said(
    tmp_path: Path, first: str | dict[str, Any], why: str
) -> None:
    write(tmp_path / FIRST, [first, *GOOD])
    write(tmp_path / "samples-0000000002.jsonl", [head(2), *GOOD])
    got, count = read(tmp_path)
    assert np.bincount(got.flow).tolist() == [12]
    assert why in count.files_left_out[FIRST]
    assert f"left out: {FIRST}: " in count.lines()[1]


def test_what_is_no_plain_file_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "else" / "file.jsonl", [head(), *GOOD])
    (tmp_path / FIRST).symlink_to(tmp_path / "else" / "file.jsonl")
    os.mkfifo(tmp_path / "samples-0000000002.jsonl")
    (tmp_path / "samples-0000000003.jsonl").mkdir()
    (tmp_path / "samples-x.jsonl").write_text("mine")
    got, count = read(tmp_path)
    assert len(got) == 0
    assert len(count.files_left_out) == 3


def test_a_file_that_is_written_or_goes_meanwhile_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / FIRST, [head(), *GOOD])
    with (tmp_path / FIRST).open("a") as file:
        file.write(json.dumps(row(1, "bbr", 10.0))[:-9])
    gone = tmp_path / "samples-0000000002.jsonl"
    monkeypatch.setattr(Path, "iterdir", lambda self: iter([self / FIRST, gone]))
    got, count = read(tmp_path)
    assert len(got) == 12
    assert not count.left_out
    assert "No such file" in count.files_left_out[gone.name]


def test_of_too_much_the_newest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2, 3):
        lines = [head(number), *drive(number, "bbr", 0.0, 100)]
        write(tmp_path / f"samples-000000000{number}.jsonl", lines)
    size = (tmp_path / FIRST).stat().st_size
    monkeypatch.setattr(live, "BYTES_MAX", size * 3 // 2)
    got, count = read(tmp_path)
    assert got.names == ["2:2", "3:3"]
    assert 95 <= count.rows - 50 <= 100
    assert list(count.files_left_out) == [FIRST]


def test_states_that_know_too_little_and_outcomes_beyond_belief_are_left_out(
    tmp_path: Path,
) -> None:
    unknown = drive(1, "bbr", 0.0, 20, features=[None, 40.0, 0.5])
    silent = drive(2, "bbr", 0.0, 20, seen_throughput_mbit_per_sec=0.0, seen_rtt_mean_ms=0.0)
    beyond = drive(3, "bbr", 0.0, 20, seen_throughput_mbit_per_sec=1e5, features=[1e-6, 40.0, 0.5])
    write(tmp_path / FIRST, [head(), *unknown, *silent, *beyond])
    got, count = read(tmp_path)
    assert len(got) == 0
    assert count.left_out == {"an outcome is not plausible": 12}
