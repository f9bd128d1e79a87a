"""Online training: what a model learns from live flows, and when it is used."""

from __future__ import annotations

import argparse
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("xgboost", reason="remuda[train] is not installed")

from live_flows import ARMS, RATE_MAX, RTT_MIN, Off, flows, head, model, row, write

from remuda.training import files, online

HALF = float(np.log(0.5))
QUEUES = np.linspace(0.0, 1.0, 50)
PATHS = np.column_stack([np.full(50, RATE_MAX), np.full(50, RTT_MIN), QUEUES]).astype(np.float32)


def right(_arm: str, _queue: float) -> float:
    return 0.0


def bbr_half(arm: str, _queue: float) -> float:
    return HALF if arm == "bbr" else 0.0


def all_half(_arm: str, _queue: float) -> float:
    return HALF


def half_of_long_queues(_arm: str, queue: float) -> float:
    return HALF if queue > 0.5 else 0.0


def arguments(folder: Path, *, parent: str = "model.json") -> argparse.Namespace:
    names = {"--model": parent, "--samples": "samples", "--out": "models/candidate.json"}
    return online.arguments([word for at, of in names.items() for word in (at, str(folder / of))])


def trained(folder: Path, off: Off, count: int = 150, **more: int) -> str:
    if not (folder / "model.json").exists():
        model(folder / "model.json")
    flows(folder / "samples", count, off, **more)
    return online.train(arguments(folder))


def candidate(folder: Path) -> files.Model:
    return files.read(folder / "models/candidate.json")


def corrections(of: files.Model, kind: str = "throughput") -> dict[str, float]:
    assert of.online is not None
    own = of.online.corrections[kind]
    return {arm: float(ensemble.predict(PATHS).mean()) for arm, ensemble in own.items()}


def test_an_arm_that_gets_half_is_corrected_and_the_others_are_not(tmp_path: Path) -> None:
    output = trained(tmp_path, bbr_half)
    assert output.startswith("written: ")
    path = tmp_path / "models/candidate.json"
    assert [stat.S_IMODE(of.stat().st_mode) for of in (path, path.parent)] == [0o600, 0o700]
    got = candidate(tmp_path)
    means = corrections(got)
    assert means.pop("bbr") == pytest.approx(HALF, abs=0.2)
    assert list(means.values()) == pytest.approx([0.0] * 3, abs=0.1)
    assert list(corrections(got, "delay").values()) == pytest.approx([0.0] * 4, abs=0.02)
    parent = files.read(tmp_path / "model.json")
    assert got.document["online"]["parent"] == parent.hash
    assert {key for key in got.document if got.document[key] != parent.document[key]} == {
        "online",
        "checks",
    }
    modes = {check["mode"] for check in got.document["checks"]}
    assert {"shared_delay", "correction_throughput", "value_delay"} <= modes
    # The same flows give the same bytes, and teach the corrected model nothing more.
    first = path.read_bytes()
    assert online.train(arguments(tmp_path)) == output
    assert path.read_bytes() == first
    again = online.train(arguments(tmp_path, parent="models/candidate.json"))
    assert again.startswith("kept: no better than the model in force")
    # Once the arm again does what the model predicted first, its correction vanishes.
    flows(tmp_path / "samples", 150, right, seed=2)
    back = online.train(arguments(tmp_path, parent="models/candidate.json"))
    assert back.startswith("written: ")
    assert list(corrections(candidate(tmp_path)).values()) == pytest.approx([0.0] * 4, abs=0.1)


def test_a_model_that_is_right_stays(tmp_path: Path) -> None:
    assert trained(tmp_path, right).startswith("kept: no better")
    assert not (tmp_path / "models").exists()


def test_what_all_arms_share_changes_no_choice(tmp_path: Path) -> None:
    assert "it chooses as the one in force" in trained(tmp_path, all_half)
    got = candidate(tmp_path)
    assert corrections(got) == {}
    assert got.online is not None
    shared = got.online.shared["throughput"].predict(PATHS).mean()
    assert shared == pytest.approx(HALF, abs=0.1)


def test_an_arm_is_not_blamed_for_the_paths_it_is_ridden_on(tmp_path: Path) -> None:
    trained(tmp_path, half_of_long_queues, worse=True)
    got = candidate(tmp_path)
    assert got.online is not None
    shared = got.online.shared["throughput"].predict(PATHS)
    assert shared[QUEUES > 0.6].mean() == pytest.approx(HALF, abs=0.15)
    assert shared[QUEUES < 0.4].mean() == pytest.approx(0.0, abs=0.15)
    assert corrections(got).get("bbr", 0.0) == pytest.approx(0.0, abs=0.1)


def test_one_long_odd_flow_moves_nothing(tmp_path: Path) -> None:
    model(tmp_path / "model.json")
    flows(tmp_path / "samples", 150, right)
    odd = {"seen_throughput_mbit_per_sec": 0.0, "seen_lost_mbit_per_sec": 1e5}
    long = [row(9, "bbr", step / 2, **odd) for step in range(5_000)]
    write(tmp_path / "samples/samples-0000000002.jsonl", [head(2), *long])
    assert online.train(arguments(tmp_path)).startswith("kept: no better")


def test_too_few_flows_teach_nothing(tmp_path: Path) -> None:
    assert "are too few, of 50 flows" in trained(tmp_path, bbr_half, 20)
    # Arms with little data get no correction.
    few = online.enough(read_outcomes(tmp_path), len(ARMS))
    assert few == []
    for path in (tmp_path / "samples").iterdir():
        path.unlink()
    assert "kept: 0 flows" in online.train(arguments(tmp_path))


def read_outcomes(folder: Path) -> online.Outcomes:
    of = files.read(folder / "model.json")
    return online.live.read(folder / "samples", of.schema_hash, of.width, of.arms)[0]


def test_what_cannot_be_read_is_said_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model(tmp_path / "model.json")
    monkeypatch.setattr("sys.argv", ["online", *words(tmp_path)])
    assert online.main() == online.REFUSED
    assert "fix: name the agent's folder" in capsys.readouterr().err
    (tmp_path / "model.json").write_text("{}")
    assert online.main() == online.REFUSED
    assert "it must be format 3 of antelope" in capsys.readouterr().err


def words(folder: Path) -> list[str]:
    options = vars(arguments(folder))
    names = ("model", "samples", "out")
    return [word for name in names for word in (f"--{name}", str(options[name]))]


def broken(document: Any, path: str, value: Any) -> bytes:  # noqa: ANN401
    *parents, last = path.strip("/").split("/")
    at = document
    for key in parents:
        at = at[int(key)] if isinstance(at, list) else at[key]
    at[int(last) if isinstance(at, list) else last] = value
    return json.dumps(document).encode()


TREE = "/values/delay/bbr/learner/gradient_booster/model/trees/0"
REFUSED = [
    ("/format", 1, "it must be format 3"),
    ("/arms", [], "arms: it must be 1 to 32 names"),
    ("/arms", ["bbr", "bbr"], "arms: no name may occur twice"),
    ("/values", {}, "values: it must have ensembles"),
    ("/values/delay", {}, "values: there must be an entry for each arm"),
    ("/values/delay/reno", {}, "values.delay: it must have only arms of the model"),
    ("/values/delay/bbr", {}, "values.delay.bbr: KeyError"),
    ("/values/delay/bbr/learner/objective/name", "x", "it must be trees"),
    ("/values/delay/bbr/learner/learner_model_param/num_feature", "4", "num_feature must be 3"),
    ("/values/delay/bbr/learner/learner_model_param/base_score", "[nan]", "a finite base_score"),
    (f"{TREE}/left_children", [], "a tree must be arrays of one length"),
    (f"{TREE}/left_children/0", 0, "a child must be a later node"),
    (f"{TREE}/left_children/0", 1 << 40, "a child must be a later node"),
    (f"{TREE}/split_indices/0", 3, "a node must compare one of the features"),
    (f"{TREE}/split_conditions/0", 1e308, "finite"),
    (f"{TREE}/split_conditions/0", None, "finite"),
    ("/online", {}, "online: rows and flows must be counts"),
    ("/online", {"rows": 1, "flows": 1, "shared": {}}, "online.shared.throughput"),
    ("/checks", None, "checks: it must be a list"),
    ("/checks/0", {}, "checks: check 0 must have a mode"),
    ("/checks/0/says", 7.0, "checks: check 0 is"),
    ("/checks/0/says", "x", "checks: check 0 must be of numbers"),
    ("/checks/0/features", [1], "checks: check 0 must have the features"),
]


@pytest.mark.parametrize(("path", "value", "why"), REFUSED)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_a_model_that_breaks_a_rule_is_refused_and_named(
    tmp_path: Path,
    path: str,
    value: Any,  # noqa: ANN401
    why: str,
) -> None:
    model(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_bytes(broken(document, path, value))
    with pytest.raises(ValueError, match="fix: train it again") as caught:
        files.read(tmp_path / "model.json")
    assert why in str(caught.value)
    assert "model.json" in str(caught.value)


def test_a_model_cut_off_or_nested_is_refused(tmp_path: Path) -> None:
    model(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_bytes()
    for bad in (b"", text[: len(text) // 2], b"[" * 100_000, b"\xff", b"[1]"):
        with pytest.raises(ValueError):
            files.parse(bad)


ROOT = Path(__file__).parents[2]
REMUDA = Path(os.environ.get("REMUDA_BIN", ROOT / "target/release/remuda"))


def command(folder: Path, *more: str, python: str = sys.executable) -> list[str]:
    """A command for an agent with this state directory."""
    assert REMUDA.exists(), f"{REMUDA} is not there; fix: make build"
    what = ["--online", "--state-dir", str(folder), "--python", python]
    return [str(REMUDA), "train", "antelope", *what, *more]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--samples", "/no/such"], "fix: name the agent's folder, --samples DIR"),
        (["--model", "/no/such"], "No such file or directory: '/no/such'"),
        (["--config", "/no/such"], "/no/such: there is no such file"),
        (["--python", "/no/such"], "fix: pip install remuda[train]"),
        (["--every", "1x"], "a number and s, m, h or d, such as 30m"),
        (["--collect"], "cannot be used with"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path: Path, words: list[str], expected: str) -> None:
    (tmp_path / "models").mkdir()
    model(tmp_path / "models/current.json")
    line = command(tmp_path)
    if words[0] == "--python":
        line = command(tmp_path, python=words[1])
        words = []
    ended = subprocess.run([*line, *words], capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert expected in ended.stderr
    assert not ended.stdout


def test_the_command_trains_again_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    model(tmp_path / "models/current.json")
    flows(tmp_path / "samples", 60, right)
    line = command(tmp_path, "--every", "1h")
    running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline().startswith("kept: no better")
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=20) == 0
    running.communicate()
    # In the middle of a training, which ends as well.
    flows(tmp_path / "samples", 2_000, bbr_half)
    line = command(tmp_path)
    running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert "outcomes of 2000 flows" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    out, output = running.communicate(timeout=20)
    assert running.returncode != 0
    assert not out
    assert "stopped: nothing was written" in output
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["current.json"]
