"""Arms in Python, in the simulator and on this kernel's TCP."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remuda import Embedded

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(__file__).parents[1] / "examples"
REMUDA = Path(os.environ.get("REMUDA_BIN", ROOT / "target/release/remuda"))

SCENARIO = """
duration_s = 10
seed = 1
[links.down]
rate_mbit_per_sec = 24
delay_ms = 20
queue = { kind = "droptail", limit_bdp = 1 }
[links.up]
delay_ms = 20
[[flows]]
driver = "cubic"
"""


def remuda(*arguments: str | Path, ok: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs the command, with this Python for authors."""
    assert REMUDA.exists(), f"{REMUDA} is not there; fix: make build"
    command = [str(REMUDA), *map(str, arguments)]
    environment = {**os.environ, "REMUDA_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode == 0) is ok, done.stderr
    return done


def ran(
    tmp_path: Path, file: Path, *settings: str, scenario: str = SCENARIO, ok: bool = True
) -> subprocess.CompletedProcess[str]:
    """One run in the simulator, with its result as JSON on standard output."""
    path = tmp_path / "scenario.toml"
    path.write_text(scenario)
    sets = [part for setting in settings for part in ("--set", setting)]
    return remuda("sim", path, "--author", file, *sets, "--json", "--quiet", ok=ok)


def simulated(tmp_path: Path, file: Path, *settings: str, scenario: str = SCENARIO) -> dict:
    """The results of the only run, as JSON."""
    return json.loads(ran(tmp_path, file, *settings, scenario=scenario).stdout)


@pytest.mark.parametrize(
    ("arm", "goodput"), [("aimd", 20.0), ("paced", 18.0), ("portus_reno", 15.0)]
)
def test_an_example_fills_most_of_a_link_and_the_same_way_twice(
    tmp_path: Path, arm: str, goodput: float
) -> None:
    file = EXAMPLES / f"{arm}.py"
    first = simulated(tmp_path, file, f"flows.*.driver={arm}")
    assert first["flows"][0]["goodput_mbit_per_sec"] > goodput
    assert simulated(tmp_path, file, f"flows.*.driver={arm}") == first


@pytest.mark.parametrize("arm", ["cubic", "bbr", "learned"])
def test_an_arm_that_only_asks_a_built_in_one_does_what_that_does(tmp_path: Path, arm: str) -> None:
    file = tmp_path / "asks.py"
    file.write_text(
        "import remuda\n"
        "class Asks(remuda.Controller):\n"
        "    def resume(self, path, now):\n"
        f"        self.arm = remuda.Embedded({arm!r})\n"
        "        return self.arm.resume(path, now)\n"
        "    def on_measurement(self, m, now):\n"
        "        return self.arm.on_measurement(m, now)\n"
        "    def hand_off(self, path):\n"
        "        self.arm.hand_off(path)\n"
    )
    flows = [simulated(tmp_path, file, f"flows.*.driver={it}")["flows"][0] for it in (arm, "asks")]
    built_in, asked = flows
    # A report to Python lacks what few arms use: how much of the window was used, and trains.
    assert asked["goodput_mbit_per_sec"] == pytest.approx(built_in["goodput_mbit_per_sec"], rel=0.1)
    assert asked["rtt_mean_ms"] == pytest.approx(built_in["rtt_mean_ms"], rel=0.25)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("vivace", "it needs Report.crossed_bytes"),
        ("dctcp2", "is no arm"),
        ("anole", "itself"),
    ],
)
def test_an_arm_that_cannot_be_embedded_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Embedded(name)


def test_a_flow_is_switched_to_python_and_back(tmp_path: Path) -> None:
    orders = "flows.*.switches=[{ at_s = 3, to = 'aimd' }, { at_s = 6, to = 'bbr' }]"
    result = simulated(tmp_path, EXAMPLES / "aimd.py", orders)
    made = [(switch["from"], switch["to"]) for switch in result["flows"][0]["switches"]]
    assert made == [("cubic", "aimd"), ("aimd", "bbr")]
    assert result["flows"][0]["goodput_mbit_per_sec"] > 19


def test_an_exception_in_the_simulator_costs_a_fallback_and_is_said(tmp_path: Path) -> None:
    file = tmp_path / "breaks.py"
    text = (EXAMPLES / "aimd.py").read_text().replace("Aimd", "Breaks")
    raises = "if now > 2: raise KeyError('two')\n        if (m.lost"
    file.write_text(text.replace("if (m.lost", raises))
    settings = ["flows.*.driver=breaks", "flows.*.count=3"]
    done = ran(tmp_path, file, *settings, ok=False)
    assert done.returncode == 1
    result = json.loads(done.stdout)
    for flow in result["flows"]:
        (switch,) = flow["switches"]
        assert (switch["from"], switch["to"]) == ("breaks", "reno")
        assert "KeyError: 'two'" in switch["why"]
    assert sum(flow["goodput_mbit_per_sec"] for flow in result["flows"]) > 15
    # Three flows met the exception; the author's process prints its traceback once.
    assert done.stderr.count("Traceback") == 1
    assert "remuda: breaks raised an exception" in done.stderr
    assert f'File "{file}"' in done.stderr
    assert "in 3 of 3 flows, an arm failed" in done.stderr


NUMPY_ARM = """
import numpy as np
import remuda

class Numbers(remuda.Controller):
    control = "(factor 2)"
    rules = "(when false (:= Cwnd factor))"
    reports_per_round = np.int64(4)

    def resume(self, path, now):
        self.count = 0
        return remuda.Decision(np.int64(path.cwnd), rate=np.float32(1e6))

    def on_measurement(self, m, now):
        self.count += 1
        kinds = [np.int32, np.uint64, np.float32, np.float64, np.float16, int, float]
        kind = kinds[self.count % len(kinds)]
        return remuda.Decision(kind(28960), rate=None if self.count % 2 else np.int32(2_000_000))

    def hand_off(self, path):
        path.ssthresh = np.uint32(30_000)

    def registers(self):
        return {"factor": np.int16(7)}
"""


def test_numbers_of_numpy_are_as_good_as_pythons(tmp_path: Path) -> None:
    file = tmp_path / "numbers_of_numpy.py"
    file.write_text(NUMPY_ARM)
    result = simulated(tmp_path, file, "flows.*.driver=numbers")
    assert result["flows"][0]["switches"] == []
    assert result["flows"][0]["delivered_bytes"] > 10**6


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("np.bool_(True)", "TypeError: Decision.cwnd is np.True_, not a number"),
        ("np.float32('nan')", "ValueError: Decision.cwnd is np.float32(nan): it must be finite"),
        ("np.int64(-1)", "ValueError: Decision.cwnd is np.int64(-1): it must be finite"),
        ("np.array([30000.0])", "TypeError: Decision.cwnd is array([30000.]), not a number"),
    ],
)
def test_what_is_no_number_of_bytes_is_refused_by_name(
    tmp_path: Path, value: str, rule: str
) -> None:
    file = tmp_path / "numbers.py"
    file.write_text(NUMPY_ARM.replace("kind(28960)", value))
    done = ran(tmp_path, file, "flows.*.driver=numbers", ok=False)
    assert rule in done.stderr, done.stderr


def test_an_exception_in_resume_is_said_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "refuses.py"
    text = (EXAMPLES / "aimd.py").read_text().replace("Aimd", "Refuses")
    file.write_text(text.replace("self.mss = path.mss", "raise ValueError('not this path')"))
    done = ran(tmp_path, file, "flows.*.driver=refuses", ok=False)
    assert done.stderr.count("Traceback") == 1
    result = json.loads(done.stdout)
    (switch,) = result["flows"][0]["switches"]
    assert (switch["from"], switch["to"]) == ("refuses", "reno")
    assert "ValueError: not this path" in switch["why"]


def test_what_an_author_prints_is_no_part_of_the_results(tmp_path: Path) -> None:
    file = tmp_path / "prints.py"
    text = (EXAMPLES / "aimd.py").read_text().replace("Aimd", "Prints")
    file.write_text(text.replace("self.mss = path.mss", "print('resumed'); self.mss = path.mss"))
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    arguments = ["--author", file, "--set", "flows.*.driver=prints", "--json", "--quiet"]
    done = remuda("sim", path, *arguments)
    json.loads(done.stdout)
    assert "resumed" in done.stderr


AIMD_OF_PORTUS = """
import portus

class Aimd(portus.AlgBase):
    def datapath_programs(self):
        return {"each_round": '''
            (def (Report (volatile acked 0) (volatile lost 0)))
            (when true
                (:= Report.acked (+ Report.acked Ack.bytes_acked))
                (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
                (fallthrough))
            (when (> Micros Flow.rtt_sample_us) (report) (:= Micros 0))'''}

    def new_flow(self, datapath, info):
        datapath.set_program("each_round", [("Cwnd", info.init_cwnd)])
        return Flow(datapath, info)

class Flow:
    def __init__(self, datapath, info):
        self.datapath = datapath
        self.mss = info.mss
        self.cwnd = info.init_cwnd

    def on_report(self, r):
        self.cwnd = max(self.cwnd // 2, 2 * self.mss) if r.lost else self.cwnd + self.mss
        self.datapath.update_fields([("Cwnd", self.cwnd)])

if __name__ == "__main__":
    portus.start("unix", Aimd())
"""


def test_an_aimd_agent_as_the_guide_of_ccp_has_one_is_an_arm(tmp_path: Path) -> None:
    file = tmp_path / "aimd_agent.py"
    file.write_text(AIMD_OF_PORTUS)
    result = simulated(tmp_path, file, "flows.*.driver=aimd")
    (flow,) = result["flows"]
    assert not flow["switches"]
    assert flow["goodput_mbit_per_sec"] > 15


MIXED = """
import pyportus

class Flow:
    def __init__(self, datapath):
        self.datapath = datapath
        self.reports = 0
        datapath.set_program("one", [("Cwnd", 30_000)])

    def on_report(self, r):
        self.reports += 1
        fields = vars(r)
        if fields.keys() == {"old", "acked"}:
            assert r.old == 1 and r.acked > 1, fields
            other = "two"
        else:
            assert fields == {"other": 2}, fields
            other = "one"
        if self.reports % 10 == 0:
            self.datapath.set_program(other, [("Cwnd", 30_000)])

class Mixed(pyportus.AlgBase):
    def datapath_programs(self):
        return {
            "one": '''
                # what is declared here comes after the report's
                (def (volatile Report.old 1) (Report (volatile acked 0)))
                (when true
                    # bytes (in order)
                    (:= Report.acked (+ Report.acked Ack.bytes_acked)) # so far
                    (fallthrough))
                (when (> Micros 10000) (report) (:= Micros 0)) # ten milliseconds''',
            "two": '''
                (def (Report (volatile other 2)))
                (when (> Micros 10000) (report) (:= Micros 0))''',
        }

    def new_flow(self, datapath, info):
        return Flow(datapath)
"""


@pytest.mark.parametrize("delay_ms", [0, 30])
def test_a_report_is_read_by_its_own_programs_names(tmp_path: Path, delay_ms: int) -> None:
    file = tmp_path / "mixed.py"
    file.write_text(MIXED)
    settings = ("flows.*.driver=mixed", f"control_delay_ms={delay_ms}")
    (flow,) = simulated(tmp_path, file, *settings)["flows"]
    assert flow["switches"] == [], flow["switches"]
    assert flow["goodput_mbit_per_sec"] > 1


TYPO = "(when true (:= Report.mine Flow.rtt_smaple_us) (fallthrough))"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"rules = '{TYPO}'", "rtt_sample_us"),
        (f"rules = '{TYPO}'", "`rules`, line 1, column 28:"),
        ("rules = '(when true (report)'", "program wrong/report, `rules`, line 1, column 1"),
        ("control = '# twice\\n(a 1)) (b 2)'", "`control`, line 2, column 6: this ) closes"),
        ("control = '(volatile_one 1)'", "portus reads volatile where a name begins so"),
        ("report = '(volatile a 0) (volatile b 0)'", "1 at most"),
        ("name = 'cubic'", "is there already"),
        ("reports_per_round = 0", "reports_per_round = 0"),
    ],
)
def test_a_mistake_in_a_program_or_a_name_is_said_before_anything_runs(
    tmp_path: Path, body: str, expected: str
) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "import remuda\nclass Wrong(remuda.Controller):\n"
        f"    report = '(volatile mine 0)'\n    {body}\n"
        "    def resume(self, path, now):\n        return remuda.Decision(path.cwnd)\n"
    )
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    done = remuda("sim", path, "--author", file, ok=False)
    assert expected in done.stderr
    assert "wrong" in done.stderr


# -- on this kernel's TCP


class Agent:
    """An agent of this test, and flows over loopback."""

    def __init__(self, folder: Path) -> None:
        """Starts the agent."""
        self.run_dir = folder / "run"
        self.name = f"py{os.getpid()}"
        arguments = ["--run-dir", str(self.run_dir), "--name", self.name, "--arm", "cubic"]
        self.processes = [subprocess.Popen([str(REMUDA), "agent", *arguments])]
        self.sockets: list[socket.socket] = []
        self.stop = threading.Event()
        self.wait(lambda: (self.run_dir / "author.sock").exists())

    def ask(self, *arguments: str) -> str:
        """Runs a command that talks to the agent."""
        head, *rest = arguments
        return remuda(head, "--run-dir", self.run_dir, *rest).stdout

    def run(self, file: Path, *arguments: str) -> subprocess.Popen[str]:
        """Adds an author's arms, until the process ends."""
        command = [str(REMUDA), "run", "--run-dir", str(self.run_dir), *arguments, str(file)]
        environment = {**os.environ, "REMUDA_PYTHON": sys.executable}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        assert process.stdout is not None
        assert "until Ctrl-C" in process.stdout.readline()
        return process

    def flow(self) -> None:
        """Starts a connection over loopback that always has data to send."""
        listener = socket.create_server(("127.0.0.1", 0))
        sender = socket.create_connection(listener.getsockname())
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.name.encode())
        receiver, _ = listener.accept()
        listener.close()
        self.sockets += [sender, receiver]

        def send() -> None:
            block = bytes(16_384)
            while not self.stop.is_set():
                try:
                    sender.sendall(block)
                except OSError:
                    return
                time.sleep(0.002)

        def receive() -> None:
            while not self.stop.is_set():
                try:
                    if not receiver.recv(65_536):
                        return
                except OSError:
                    return

        for work in (send, receive):
            threading.Thread(target=work, daemon=True).start()

    def rows(self) -> list[dict]:
        """The live flows."""
        return [json.loads(line) for line in self.ask("flows", "--json").splitlines()]

    def events(self, name: str) -> list[dict]:
        """The recorded events of this name."""
        lines = (self.run_dir / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def wait(self, holds: object) -> None:
        """Waits until a condition holds."""
        for _ in range(400):
            if holds():
                return
            time.sleep(0.02)
        raise AssertionError("the condition did not become true")

    def end(self) -> None:
        """Ends all flows and processes."""
        self.stop.set()
        for end in self.sockets:
            end.close()
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(timeout=20)
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """An agent, if the tests run as root."""
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)")
    started = Agent(tmp_path)
    yield started
    started.end()


def test_a_python_arm_takes_live_flows_and_gives_them_back(agent: Agent) -> None:
    agent.flow()
    agent.flow()
    author = agent.run(EXAMPLES / "aimd.py", "--take", "all")
    agent.wait(lambda: [row["arm"] for row in agent.rows()] == ["aimd", "aimd"])
    before = agent.rows()

    def report_on() -> bool:
        pairs = zip(agent.rows(), before, strict=True)
        return all(now["reports"] > then["reports"] + 20 for now, then in pairs)

    agent.wait(report_on)
    agent.ask("set", str(before[0]["id"]), "bbr")
    agent.wait(lambda: [row["arm"] for row in agent.rows()] == ["bbr", "aimd"])
    agent.ask("set", str(before[0]["id"]), "aimd")
    author.send_signal(signal.SIGINT)
    assert author.wait(timeout=20) == 0
    agent.wait(lambda: [row["arm"] for row in agent.rows()] == ["reno", "reno"])
    agent.flow()
    agent.wait(lambda: len(agent.rows()) == 3)
    assert agent.rows()[2]["arm"] == "cubic", "new flows get what they got before"
    agent.wait(lambda: agent.events("author_went"))
    assert agent.events("author_went")[0]["arms"] == ["aimd"]


def test_an_exception_costs_its_flow_a_fallback_and_an_event(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "breaks.py"
    file.write_text(
        "import remuda\nclass Breaks(remuda.Controller):\n"
        "    def resume(self, path, now):\n"
        "        self.reports = 0\n        return remuda.Decision(path.cwnd)\n"
        "    def on_measurement(self, m, now):\n"
        "        self.reports += 1\n"
        "        if self.reports == 50: raise KeyError('fifty')\n"
        "        return remuda.Decision(max(m.cwnd, 14480))\n"
    )
    agent.flow()
    agent.flow()
    agent.run(file)
    first = agent.rows()[0]["id"]
    agent.ask("set", str(first), "breaks")
    agent.wait(lambda: agent.events("failed"))
    (failed,) = agent.events("failed")
    assert failed["flow"] == first
    assert "KeyError: 'fifty'" in failed["reason"]
    agent.wait(lambda: [row["arm"] for row in agent.rows()] == ["reno", "cubic"])


def author_of(command: subprocess.Popen[str]) -> int:
    """The process that `remuda run` has started."""
    (child,) = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
    return int(child)


def test_an_author_that_is_killed_costs_its_flows_a_fallback(agent: Agent) -> None:
    agent.flow()
    command = agent.run(EXAMPLES / "aimd.py", "--take", "all")
    agent.wait(lambda: [row["arm"] for row in agent.rows()] == ["aimd"])
    os.kill(author_of(command), signal.SIGKILL)
    agent.wait(lambda: [row["arm"] for row in agent.rows()] == ["reno"])
    assert command.wait(timeout=20) == 1
    assert "ended" in agent.events("failed")[0]["reason"]


def test_a_command_that_is_killed_takes_its_author_along(agent: Agent) -> None:
    agent.flow()
    command = agent.run(EXAMPLES / "aimd.py", "--take", "all")
    agent.wait(lambda: [row["arm"] for row in agent.rows()] == ["aimd"])
    author = Path(f"/proc/{author_of(command)}")
    command.kill()
    command.wait(timeout=20)
    agent.wait(lambda: not author.exists() or not (author / "cmdline").read_bytes())
    agent.wait(lambda: [row["arm"] for row in agent.rows()] == ["reno"])


def test_an_author_ends_with_its_agent(agent: Agent) -> None:
    agent.flow()
    command = agent.run(EXAMPLES / "aimd.py", "--take", "all")
    agent.wait(lambda: [row["arm"] for row in agent.rows()] == ["aimd"])
    agent.processes[0].send_signal(signal.SIGINT)
    assert command.wait(timeout=20) == 1


def test_a_busy_author_delays_nobody_elses_reports(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "busy.py"
    file.write_text(
        "import time, remuda\nclass Busy(remuda.Controller):\n"
        "    def resume(self, path, now):\n        return remuda.Decision(path.cwnd)\n"
        "    def on_measurement(self, m, now):\n"
        "        end = time.monotonic() + 0.2\n"
        "        while time.monotonic() < end: pass\n"
        "        return remuda.Decision(max(m.cwnd, 14480))\n"
    )
    agent.flow()
    agent.flow()
    agent.run(file)
    busy, other = (row["id"] for row in agent.rows())
    agent.ask("set", str(busy), "busy")
    agent.wait(lambda: agent.rows()[0]["arm"] == "busy")
    before = agent.rows()
    time.sleep(2)
    after = agent.rows()
    assert after[1]["reports"] - before[1]["reports"] > 100, "the other one reports on"
    assert after[0]["arm"] == "busy", "200 ms are within the limit"
    assert not agent.events("failed")
    assert other == after[1]["id"]


LIVE_SUITE = """
title = "For tests"
source = "this file"
[scenario]
duration_s = 3
links.down.rate_mbit_per_sec = 12
links.down.delay_ms = 10
links.down.queue = { kind = "droptail", limit_bdp = 2 }
links.up = { delay_ms = 10 }
flows = [{ driver = "tested" }]
[[families]]
name = "alone"
group = "A"
path = "wired"
"""
BREAKS_LATE = """
import remuda
class Breaks(remuda.Controller):
    def resume(self, path, now):
        return remuda.Decision(path.cwnd)
    def on_measurement(self, m, now):
        if now > 1: raise KeyError('a second')
        return remuda.Decision(30000)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: needs root (CAP_BPF, CAP_NET_ADMIN)")
def test_a_matrix_on_real_tcp_has_python_arms_beside_ours(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(LIVE_SUITE)
    (tmp_path / "breaks.py").write_text(BREAKS_LATE)
    what = ["--engine", "live", "--suite", tmp_path / "own.toml", "--json"]
    what += ["--out", tmp_path / "out", "--author", EXAMPLES / "aimd.py"]
    done = remuda("matrix", *what, "--arm", "aimd,reno")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["driver"], row["engine"]) for row in rows] == [("aimd", "live"), ("reno", "live")]
    assert all(row["utilisation"] > 0.7 for row in rows), rows
    what += ["--author", tmp_path / "breaks.py"]
    failed = remuda("matrix", *what, "--arm", "breaks", ok=False)
    assert "breaks lost its flow to another arm" in failed.stderr
    assert "KeyError: 'a second'" in failed.stderr
