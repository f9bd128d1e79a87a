"""`remuda train antelope --collect --engine ray`: the same files as without Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remuda import _ray
from remuda._native import BUILD
from remuda.training import ray_collect

try:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
except ImportError:
    ray = None

needs_ray = pytest.mark.skipif(ray is None, reason="SKIPPED: Ray is not installed here")

ROOT = Path(__file__).parents[2]
REMUDA = Path(os.environ.get("REMUDA_BIN", ROOT / "target/release/remuda"))


def command(
    folder: Path, environments: int, *words: str, python: str = sys.executable
) -> list[str]:
    """The command of a collection in files of 25 environments."""
    assert REMUDA.exists(), f"{REMUDA} is not there; fix: make build"
    what = ["--collect", "--data", str(folder), "--environments", str(environments)]
    return [str(REMUDA), "train", "antelope", *what, "--threads", "2", "--python", python, *words]


def done(*words: Any, **more: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401
    return subprocess.run(command(*words, **more), capture_output=True, text=True, timeout=240)


@needs_ray
def test_a_cluster_makes_the_same_files_and_goes_on_where_it_was(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert done(here, 27).returncode == 0
    ended = done(there, 27, "--engine", "ray")
    assert (ended.returncode, ended.stdout) == (
        0,
        f"27 environments in {there}, 0 kept from before\n",
    )
    names = ["samples-0-25.parquet", "samples-25-27.parquet"]
    assert sorted(path.name for path in there.iterdir()) == names
    for name in names:
        assert (there / name).read_bytes() == (here / name).read_bytes()
    # A missing or incomplete file is made again, and no other.
    whole = (there / names[1]).read_bytes()
    (there / names[1]).write_bytes(whole[: len(whole) // 2])
    untouched = (there / names[0]).stat().st_mtime_ns
    assert "25 kept from before" in done(there, 27, "--engine", "ray").stdout
    assert (there / names[1]).read_bytes() == whole
    assert (there / names[0]).stat().st_mtime_ns == untouched


@needs_ray
def test_ctrl_c_keeps_whole_files_alone(tmp_path: Path) -> None:
    line = command(tmp_path / "data", 2_000, "--engine", "ray")
    running = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 180
    while not list(tmp_path.glob("data/samples-*.parquet")):
        assert time.monotonic() < until, "no file came"
        assert running.poll() is None, running.communicate()
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, output = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "the same command goes on where it was" in output
    assert all(path.suffix == ".parquet" for path in (tmp_path / "data").iterdir())


@pytest.mark.parametrize(
    ("words", "python", "expected"),
    [
        (["--ray-address", "auto"], sys.executable, "--ray-address needs --engine ray"),
        (["--engine", "ray"], "/no/such", "fix: pip install remuda[ray]"),
        (["--engine", "ray"], sys.executable, f"fix: {sys.executable} -m pip install 'ray>="),
    ],
)
def test_what_cannot_be_is_refused_with_the_fix(
    tmp_path: Path, words: list[str], python: str, expected: str
) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('no Ray here')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    line = command(tmp_path / "data", 1, *words, python=python)
    ended = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=60)
    assert ended.returncode != 0
    assert expected in ended.stderr
    assert not ended.stdout


class FakeRay:
    """A cluster that answers at once; also the task object itself."""

    def __init__(self, answer: Callable[[tuple[int, int]], tuple[str, bytes]]) -> None:
        """Sets what a worker answers."""
        self.answer = answer
        self.given: list[tuple[int, int]] = []

    def remote(self, *given: Any, **_options: Any) -> Any:  # noqa: ANN401
        """Returns the decorator of a task; or, as the task, starts it."""
        if not given:
            return lambda _function: self
        assert given[0] == BUILD
        self.given.append(given[1])
        return given[1]

    def wait(self, refs: list[Any], **_limits: Any) -> tuple[list[Any], list[Any]]:  # noqa: ANN401
        """Returns the first task as done."""
        return refs[:1], refs[1:]

    def get(self, ref: tuple[int, int]) -> tuple[str, bytes]:
        """The answer of a worker."""
        return self.answer(ref)


def run(
    folder: Path, answer: Callable[[tuple[int, int]], tuple[str, bytes]], stop_after: int = 99
) -> list[dict[str, Any]]:
    """The messages for five files, two at a time."""
    output: list[dict[str, Any]] = []
    stopped = threading.Event()

    def say(message: dict[str, Any]) -> None:
        output.append(json.loads(json.dumps(message)))
        if len(output) == stop_after:
            stopped.set()

    seeds = [(first, first + 25) for first in range(0, 125, 25)]
    task = ray_collect.Task(folder / "data", 1, {}, seeds)
    ray_collect.run(FakeRay(answer), task, lambda: 2, say, stopped)
    return output


def test_each_file_is_put_into_its_place_and_said(tmp_path: Path) -> None:
    def answer(seeds: tuple[int, int]) -> tuple[str, bytes]:
        return BUILD, f"of {seeds[0]}".encode()

    output = run(tmp_path, answer)
    assert sorted(message["done"] for message in output) == [
        [at, at + 25] for at in range(0, 125, 25)
    ]
    assert (tmp_path / "data/samples-50-75.parquet").read_text() == "of 50"
    assert len(list((tmp_path / "data").iterdir())) == 5
    assert len(run(tmp_path, answer, stop_after=2)) == 2


def test_what_is_no_file_ends_it_and_says_why(tmp_path: Path) -> None:
    def other(_seeds: tuple[int, int]) -> tuple[str, bytes]:
        return "0.0.1 of sources 0", b""

    def none(_seeds: tuple[int, int]) -> tuple[str, bytes]:
        raise ModuleNotFoundError("No module named 'remuda'")

    def odd(_seeds: tuple[int, int]) -> tuple[str, bytes]:
        raise ValueError("the drawing is at fault")

    for answer, why in [
        (other, f"a worker is 0.0.1 of sources 0, and this is {BUILD}"),
        (none, "a worker has no package `remuda`"),
        (odd, "environments 0 to 24: the drawing is at fault"),
        (lambda _seeds: (BUILD, b""), "environments 0 to 24: 0 bytes came back"),
    ]:
        with pytest.raises(_ray.BrokenError) as caught:
            run(tmp_path, answer)
        assert why in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_a_worker_simulates_nothing_for_another_build() -> None:
    assert ray_collect.simulated("other", (0, 25), 1, {}) == (BUILD, b"")
