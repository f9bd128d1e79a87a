"""`remuda matrix --engine ray`: on clusters on this machine, one of which loses a worker."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from remuda import _ray, _work
from remuda._native import BUILD

try:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster
except ImportError:
    ray = None

needs_ray = pytest.mark.skipif(ray is None, reason="SKIPPED: Ray is not installed here")

ROOT = Path(__file__).parents[2]
REMUDA = Path(os.environ.get("REMUDA_BIN", ROOT / "target/release/remuda"))

SUITE = """
title = "For tests"
source = "this file"
[scenario]
duration_s = 120
links.down = { delay_ms = 10, queue.kind = "droptail" }
links.up = { delay_ms = 10 }
flows = [{ driver = "tested" }]
[[families]]
name = "buffer"
group = "B"
path = "wired"
scenario.links.down.rate_mbit_per_sec = 48
scenario.links.down.loss_percent = 0.01
axes = [{ name = "queue_bdp", keys = ["links.down.queue.limit_bdp"], values = [0.5, 4] }]
[[families]]
name = "traced"
group = "E"
path = "cellular"
scenario.links.down.trace = "cell.csv"
scenario.links.down.queue.limit_packets = 200
"""
RUNS = 3 * 2 * 8
"""Environments, arms, seeds."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a suite and its trace."""
    (tmp_path / "mine.toml").write_text(SUITE)
    (tmp_path / "cell.csv").write_text("0,24\n1,6\n2,36\n3,12\n")
    return tmp_path


def command(*words: str, out: str = "out", python: str = sys.executable) -> list[str]:
    """The command of a matrix over the suite."""
    assert REMUDA.exists(), f"{REMUDA} is not there; fix: make build"
    what = ["--suite", "mine.toml", "--seeds", "1..8", "--out", out, "--python", python]
    return [str(REMUDA), "matrix", *what, *words]


def done(folder: Path, *words: str, out: str = "out") -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    line = command(*words, out=out)
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=240)


def kept(out: Path) -> int:
    """How many rows have been stored so far."""
    return sum(1 for _ in out.glob("runs/*/*.json"))


def wait(what: Callable[[], bool], expected: str) -> None:
    """Waits until a condition holds."""
    until = time.monotonic() + 120
    while not what():
        assert time.monotonic() < until, expected
        time.sleep(0.02)


def named(pid: int) -> str:
    """The name of a process; empty if it has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return "" if ") Z " in state else state[state.index("(") : state.rindex(")")]


def descendants(pid: int) -> dict[int, str]:
    """All descendants of a process, by name."""
    found = {}
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found |= {child: named(child)} | descendants(child)
    return found


def at_work(raylet: int) -> list[int]:
    """The worker processes that run a task now: Ray names them by the task."""
    found = []
    for pid in descendants(raylet):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_text().startswith("ray::run_batch"):
                found.append(pid)
    return found


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head node that runs nothing; the test adds workers."""
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 2**27}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    cluster.shutdown()


@needs_ray
@pytest.mark.filterwarnings("default")
def test_a_worker_that_is_killed_half_way_loses_nothing(
    folder: Path,
    cluster: Any,  # noqa: ANN401
) -> None:
    workers = [cluster.add_node(num_cpus=1, object_store_memory=2**27) for _ in range(2)]
    local = done(folder, "--quiet", out="local")
    assert local.returncode == 0, local.stderr
    line = command("--engine", "ray", "--ray-address", cluster.address, out="ray")
    running = subprocess.Popen(line, cwd=folder, stderr=subprocess.PIPE, text=True)
    wait(lambda: kept(folder / "ray") >= RUNS // 3, "a third of the runs")
    raylet = workers[0].all_processes["raylet"][0].process
    wait(lambda: at_work(raylet.pid) != [], "a run on that worker")
    for pid in [*at_work(raylet.pid), raylet.pid]:
        os.kill(pid, signal.SIGKILL)
    before = kept(folder / "ray")
    _, output = running.communicate(timeout=240)
    assert running.returncode == 0, output
    assert before < RUNS, "it was over before a worker was killed"
    assert raylet.wait(timeout=20) == -signal.SIGKILL
    assert f"{RUNS} of {RUNS} runs" in output
    tables = [folder / out / "matrix.parquet" for out in ("local", "ray")]
    here, there = (pq.read_table(table) for table in tables)
    assert here.num_rows == RUNS
    assert there.equals(here, check_metadata=True)
    assert tables[0].read_bytes() == tables[1].read_bytes()


@needs_ray
@pytest.mark.filterwarnings("default")
def test_ctrl_c_keeps_what_a_cluster_of_its_own_has_run(folder: Path) -> None:
    line = command("--engine", "ray", "--jobs", "2")
    running = subprocess.Popen(line, cwd=folder, stderr=subprocess.PIPE, text=True)
    wait(lambda: kept(folder / "out") >= 2, "two runs")
    below = descendants(running.pid)
    assert any("raylet" in name for name in below.values()), below
    running.send_signal(signal.SIGINT)
    _, output = running.communicate(timeout=60)
    assert running.returncode != 0
    assert f"of {RUNS} runs done; run the same command again" in output
    rows = pq.read_table(folder / "out/matrix.parquet").num_rows
    assert 2 <= rows == kept(folder / "out") < RUNS
    wait(lambda: not any(named(pid) == name for pid, name in below.items()), f"an end of {below}")


AUTHORED = """import remuda
from gains import GAIN
class Half(remuda.Controller):
    def resume(self, path, now):
        self.cwnd, self.mss = path.cwnd, path.mss
        return remuda.Decision(self.cwnd)
    def on_measurement(self, m, now):
        if m.lost or m.timed_out:
            self.cwnd = max(self.cwnd / 2, 2 * self.mss)
        else:
            self.cwnd += GAIN * self.mss * m.acked / self.cwnd
        return remuda.Decision(self.cwnd)
class Odd(Half):
    def on_measurement(self, m, now):
        raise ValueError('seven')
"""


@needs_ray
@pytest.mark.filterwarnings("default")
def test_an_author_s_arms_run_there_as_here_with_what_they_import(folder: Path) -> None:
    (folder / "half.py").write_text(AUTHORED)
    (folder / "gains.py").write_text("GAIN = 1\n")
    (folder / "mine.toml").write_text(SUITE.replace("= 120", "= 10"))
    words = ["--author", "half.py", "--arm", "half,cubic", "--quiet"]
    ray_here = ["--engine", "ray", "--jobs", "2"]
    for out, engine in [("local", []), ("ray", ray_here)]:
        ended = done(folder, *words, *engine, out=out)
        assert (ended.returncode, ended.stderr) == (0, "")
    tables = [folder / out / "matrix.parquet" for out in ("local", "ray")]
    assert tables[0].read_bytes() == tables[1].read_bytes()
    # The modules that a file imports are part of the key of kept runs.
    rows = kept(folder / "ray")
    (folder / "gains.py").write_text("GAIN = 3\n")
    ended = done(folder, *words, *ray_here, out="ray")
    assert (ended.returncode, kept(folder / "ray")) == (0, 2 * rows)
    assert tables[0].read_bytes() != tables[1].read_bytes()
    # An error of an arm has the same text as in a local run.
    words[3] = "odd"
    lost = "lost its flow"
    output = [
        [line for line in done(folder, *words, *engine).stderr.splitlines() if lost in line]
        for engine in ([], ray_here)
    ]
    assert len(output[0]) == 3 * 8
    assert "ValueError: seven" in output[0][0]
    assert output[0] == output[1]


@pytest.mark.parametrize(
    ("words", "python", "expected"),
    [
        (["--ray-address", "auto"], sys.executable, "--ray-address needs --engine ray"),
        (["--engine", "ray"], "/no/such", "cannot start /no/such -P -m remuda._ray"),
        (["--engine", "ray"], sys.executable, f"fix: {sys.executable} -m pip install 'ray>="),
    ],
)
def test_what_cannot_be_is_refused_with_the_fix(
    folder: Path, words: list[str], python: str, expected: str
) -> None:
    (folder / "ray.py").write_text("raise ImportError('no Ray here')\n")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    line = command(*words, python=python)
    ended = subprocess.run(
        line, cwd=folder, capture_output=True, text=True, env=environment, timeout=60
    )
    assert ended.returncode != 0
    assert expected in ended.stderr
    assert not ended.stdout


class FakeRay:
    """A cluster of three processors that answers at once; also the task object itself."""

    def __init__(self, answer: Callable[[list[int]], _work.Answer]) -> None:
        """Sets what a worker answers."""
        self.answer = answer
        self.batches: list[list[int]] = []

    def cluster_resources(self) -> dict[str, float]:
        """The resources of the cluster."""
        return {"CPU": 3.0}

    def remote(self, *given: Any, **_options: Any) -> Any:  # noqa: ANN401
        """Returns the decorator of a task; or, as the task, starts it."""
        if not given:
            return lambda _function: self
        build, works, names, *texts = given
        assert (build, [f"text of {name}" for name in names]) == (BUILD, texts)
        self.batches.append([index for index, _ in works])
        return len(self.batches) - 1

    def put(self, text: str) -> str:
        """Stores a trace."""
        return text

    def wait(self, refs: list[int], **_limits: Any) -> tuple[list[int], list[int]]:  # noqa: ANN401
        """Returns all tasks as done."""
        return refs, []

    def get(self, ref: int) -> _work.Answer:
        """The answer of a worker."""
        return self.answer(self.batches[ref])


def answers(fake: FakeRay, jobs: int, limit: int | None = None) -> list[dict[str, Any]]:
    """Runs so many jobs by an engine, every third with the text of a trace; returns its answers."""
    output: list[dict[str, Any]] = []
    engine = _ray.Engine(fake, lambda line: output.append(json.loads(line)), limit)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    lines.put(json.dumps({"text": {"name": "t", "text": "text of t"}}))
    for index in range(jobs):
        texts = ["t"] if index % 3 == 0 else []
        lines.put(json.dumps({"job": {"index": index, "texts": texts, "work": "{}"}}))
    while lines.qsize():
        engine.receive(lines.get() or "")
    while engine.waiting or engine.alone or engine.under_way:
        engine.give()
        assert len(engine.under_way) <= (limit or 6)
        engine.gather()
    lines.put(None)
    engine.run(lines)
    return output


def ran(each_s: float) -> Callable[[list[int]], _work.Answer]:
    """A worker in which every run takes this long."""

    def answer(batch: list[int]) -> _work.Answer:
        lines = [json.dumps({"done": index}) for index in batch]
        return _work.Answer(BUILD, each_s * len(batch), lines)

    return answer


@pytest.mark.parametrize(
    ("each_s", "jobs", "limit", "largest"),
    [(0.001, 300, None, 32), (0.1, 300, None, 5), (9.0, 30, None, 1), (0.001, 9, 2, 3)],
)
def test_short_runs_go_together_and_long_ones_alone(
    each_s: float, jobs: int, limit: int | None, largest: int
) -> None:
    fake = FakeRay(ran(each_s))
    output = answers(fake, jobs, limit)
    assert sorted(message["done"] for message in output) == list(range(jobs))
    assert max(len(batch) for batch in fake.batches) == largest


def test_a_batch_that_fails_is_run_one_by_one_and_costs_the_one() -> None:
    def answer(batch: list[int]) -> _work.Answer:
        if 40 in batch:
            raise OSError("the worker died")
        return ran(0.01)(batch)

    fake = FakeRay(answer)
    output = answers(fake, 60)
    failed = [message["failed"] for message in output if "failed" in message]
    assert failed == [{"index": 40, "why": "the worker died"}]
    assert len(output) == 60
    assert [40] in fake.batches


def test_a_worker_of_another_build_ends_it() -> None:
    def other(_batch: list[int]) -> _work.Answer:
        return _work.Answer("0.0.1 of sources 0", 0.0, [])

    def none(_batch: list[int]) -> _work.Answer:
        raise ModuleNotFoundError("No module named 'remuda'")

    for answer, why in [
        (other, f"a worker is 0.0.1 of sources 0, and this is {BUILD}"),
        (none, "a worker has no package `remuda`"),
    ]:
        with pytest.raises(_ray.BrokenError, match="fix: install remuda") as caught:
            answers(FakeRay(answer), 3)
        assert why in str(caught.value)


def test_a_worker_runs_nothing_for_another_build() -> None:
    assert _work.run_batch("other", [(0, "{}")], []) == _work.Answer(BUILD, 0.0, [])
    answer = _work.run_batch(BUILD, [(7, "{}")], [])
    (line,) = answer.lines
    assert json.loads(line)["failed"]["index"] == 7
    assert "missing field `environment`" in line
