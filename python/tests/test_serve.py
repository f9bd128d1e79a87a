"""The frames of an author's process; this test acts as the host."""

import ipaddress
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remuda import _serve
from remuda._serve import NONE

EXAMPLES = Path(__file__).parents[1] / "examples"
ARM = """import remuda
class A(remuda.Controller):
    {}
    def resume(self, path, now): ...
"""


class Host:
    """The other end of an author's process."""

    def __init__(self, file: Path, *arguments: str) -> None:
        """Starts the process."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        command = [sys.executable, "-P", "-m", "remuda._serve", str(file), str(theirs.fileno())]
        command += arguments
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def hear(self) -> bytes:
        """Receives one frame."""
        return self.socket.recv(_serve.FRAME_BYTES_MAX)

    def resume(
        self,
        flow: int,
        cwnd: int = 14_480,
        srtt_us: int = 40_000,
        ends: tuple[bytes, int, bytes, int] = (bytes(16), 0, bytes(16), 0),
    ) -> bytes:
        """Starts a flow. Returns the answer."""
        path = (1_448, cwnd, NONE, NONE, srtt_us, 20_000, 0, srtt_us, srtt_us, srtt_us, NONE)
        self.socket.send(_serve.RESUME_FRAME.pack(_serve.RESUME, flow, 1, 0, 0, *path, 0, *ends))
        return self.hear()

    def measure(self, flow: int, own: list[int], acked: int = 14_480, lost: int = 0) -> bytes:
        """Sends a report of a flow. Returns the answer."""
        rtt = (41_000, 40_000, 42_000, 82_000, 2 * 41_000**2, 2)
        words = (acked, acked, lost, 0, *rtt, 360_000, 361_000, 14_480, 14_480)
        head = _serve.MEASURE_FRAME.pack(_serve.MEASURE, flow, 2, 1_000_000, *words, 0, 0, len(own))
        self.socket.send(head + struct.pack(f"<{len(own)}Q", *own))
        return self.hear()

    def end(self) -> int:
        """Closes the socket, and waits for the process to end."""
        self.socket.close()
        return self.process.wait(timeout=20)


@pytest.fixture
def start() -> Iterator[list[Host]]:
    """Hosts that end with the test."""
    hosts: list[Host] = []
    yield hosts
    for host in hosts:
        host.socket.close()
        host.process.kill()
        host.process.wait()


def started(hosts: list[Host], file: Path, *arguments: str) -> tuple[Host, dict[str, object]]:
    host = Host(file, *arguments)
    hosts.append(host)
    hello = host.hear()
    assert hello[0] == _serve.HELLO, hello
    return host, json.loads(hello[1:])


def failure(frame: bytes) -> str:
    """The text of a `FAILED` frame."""
    assert frame[0] == _serve.FAILED
    return frame[5:].decode()


def decision(frame: bytes) -> tuple[int, ...]:
    assert frame[0] == _serve.DECISION, frame[5:].decode()
    return _serve.DECISION_FRAME.unpack_from(frame)


def test_data_that_is_read_and_not_declared_is_told_once(
    start: list[Host], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("declared.csv", "other.csv"):
        (tmp_path / name).write_text("1")
    reads = "".join(
        f"open(os.path.join(os.path.dirname(__file__), {name!r})).read()\n"
        for name in ("declared.csv", "other.csv", "other.csv")
    )
    file = tmp_path / "arm.py"
    head = "import os\nDATA_FILES = ['declared.csv']\n"
    file.write_text(head + reads + ARM.format('name, summary = "reader", "reads"'))
    host, _ = started(start, file)
    host.end()
    said = capfd.readouterr().err
    assert said.count("other.csv, which is not declared") == 1, said
    assert "reads declared.csv" not in said


@pytest.mark.parametrize(
    ("name", "own", "registers"),
    [
        ("aimd", [], []),
        ("paced", ["crowded"], ["limit_bytes"]),
        ("portus_reno", ["acked", "sacked", "loss", "timeout", "rtt", "inflight"], []),
    ],
)
def test_every_example_says_what_it_is_and_drives_a_flow(
    start: list[Host], name: str, own: list[str], registers: list[str]
) -> None:
    host, hello = started(start, EXAMPLES / f"{name}.py")
    (arm,) = hello["arms"]
    assert arm["name"] == name
    assert [(p["own"], p["registers"]) for p in arm["programs"]] == [(own, registers)]
    first = decision(host.resume(7))
    assert (first[1], first[2]) == (7, 1)
    fields = [14_480 if field == "acked" else 0 for field in own]
    later = decision(host.measure(7, fields))
    assert later[3] > 0
    host.socket.send(_serve.FLOW_FRAME.pack(_serve.CLOSE, 7))
    assert host.end() == 0


def test_an_exception_is_its_flows_alone_with_the_traceback(
    start: list[Host], tmp_path: Path
) -> None:
    file = tmp_path / "fails.py"
    file.write_text(
        "import remuda\n"
        "class Fails(remuda.Controller):\n"
        "    def resume(self, path, now):\n"
        "        return remuda.Decision(path.cwnd)\n"
        "    def on_measurement(self, m, now):\n"
        "        if m.lost:\n"
        "            raise ValueError('no idea what to do')\n"
        "        return remuda.Decision(m.cwnd)\n"
    )
    host, _ = started(start, file)
    decision(host.resume(1))
    decision(host.resume(2))
    failed = host.measure(1, [], lost=3)
    assert failed[0] == _serve.FAILED
    assert _serve.FLOW_FRAME.unpack_from(failed)[1] == 1
    text = failed[5:].decode()
    assert "line 7" in text
    assert "no idea what to do" in text
    decision(host.measure(2, []))


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        ("sys.exit('enough')", "SystemExit: enough"),
        (r"raise ValueError('\udcff')", r"ValueError: \udcff"),
        ("raise ValueError('x' * 100_000 + 'the end')", "xxxthe end"),
    ],
)
def test_whatever_is_raised_ends_its_flow_and_not_the_file(
    start: list[Host], tmp_path: Path, raised: str, expected: str
) -> None:
    file = tmp_path / "raises.py"
    file.write_text(
        "import sys, remuda\n"
        "class Raises(remuda.Controller):\n"
        "    def resume(self, path, now):\n"
        "        return remuda.Decision(path.cwnd)\n"
        "    def on_measurement(self, m, now):\n"
        f"        {raised}\n"
    )
    host, _ = started(start, file)
    decision(host.resume(1))
    failed = host.measure(1, [])
    assert expected in failure(failed)
    assert len(failed) <= _serve.FAILED_BYTES_MAX + 5
    decision(host.resume(2))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2**32 - 1", "control register factor is 4294967295: it must be below 4294967295"),
        ("-1", "control register factor is -1"),
        ("'a'", "control register factor is 'a'"),
    ],
)
def test_a_control_register_has_32_bits(
    start: list[Host], tmp_path: Path, value: str, expected: str
) -> None:
    file = tmp_path / "sets.py"
    file.write_text(
        "import remuda\n"
        "class Sets(remuda.Controller):\n"
        "    control = '(factor 2)'\n"
        "    def resume(self, path, now): return remuda.Decision(path.cwnd)\n"
        f"    def registers(self): return {{'factor': {value}}}\n"
    )
    host, _ = started(start, file)
    assert expected in failure(host.resume(1))


@pytest.mark.parametrize("name", ["json", "remuda", "socket"])
def test_a_file_may_have_the_name_of_a_module(start: list[Host], tmp_path: Path, name: str) -> None:
    (tmp_path / "struct.py").write_text("1 / 0\n")
    (tmp_path / "neighbour.py").write_text("HALF = 2\n")
    file = tmp_path / f"{name}.py"
    file.write_text(
        "import json, struct, remuda, neighbour\n"
        "class Named(remuda.Controller):\n"
        "    def resume(self, path, now):\n"
        "        json.dumps(struct.pack('<B', 1).hex())\n"
        "        return remuda.Decision(path.cwnd / neighbour.HALF)\n"
    )
    host, hello = started(start, file)
    assert hello["arms"][0]["name"] == "named"
    assert decision(host.resume(1))[3] == 7_240


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("None", "must be a remuda.Decision"),
        ("remuda.Decision('much')", "Decision.cwnd is 'much'"),
        ("remuda.Decision(float('nan'))", "finite"),
        ("remuda.Decision(-1)", "not negative"),
        ("remuda.Decision(1e6, -5)", "Decision.rate"),
    ],
)
def test_a_decision_that_is_none_is_an_exception_that_says_so(
    start: list[Host], tmp_path: Path, value: str, expected: str
) -> None:
    file = tmp_path / "odd.py"
    file.write_text(
        "import remuda\n"
        "class Odd(remuda.Controller):\n"
        f"    def resume(self, path, now):\n        return {value}\n"
    )
    host, _ = started(start, file)
    assert expected in failure(host.resume(1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n", "no class in it derives from remuda.Controller"),
        ("import remuda\n1 / 0\n", "ZeroDivisionError"),
        (
            "import remuda\nclass A(remuda.Controller):\n    name = 'No Name'\n"
            "    def resume(self, path, now): ...\n",
            "is not a valid name of an arm",
        ),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        (ARM.format("report = 5"), "A.report is 5, not str"),
        (ARM.format("name = b'a'"), "A.name is b'a', not str"),
        (ARM.format("reports_per_round = '4'"), "A.reports_per_round is '4', not int"),
        (ARM.format("rules = ' ' * 70_000"), "bytes: 65536 at most"),
    ],
)
def test_a_file_that_cannot_be_run_says_why(
    start: list[Host], tmp_path: Path, text: str, expected: str
) -> None:
    file = tmp_path / "unfit.py"
    file.write_text(text)
    host = Host(file)
    start.append(host)
    failed = host.hear()
    assert failed[0] == _serve.FAILED
    assert expected in failed[5:].decode()
    assert host.process.wait(timeout=20) == 1


def test_the_program_of_pyportus_is_read_as_portus_reads_it() -> None:
    declares = "(def (Report (volatile acked 0) (rtt 0)) (volatile Report.old 1) (factor 2))"
    text = f"{declares}\n(when true (report))"
    program = _serve.whole_program("p", text)
    assert (program.own, program.registers) == (["acked", "rtt", "old"], ["factor"])
    commented = "# (def (Report (no 0)))\n" + text.replace("(rtt 0)", "# ) (no 0)\n(rtt 0) # (\n")
    again = _serve.whole_program("p", commented)
    assert (again.own, again.registers) == (program.own, program.registers)
    assert _serve.declared("(volatile a 0) # (b 0)\n(c 1)") == ["a", "c"]


PORTUS = """
import ipaddress
import sys
import {module} as portus

class Flow:
    def __init__(self, window):
        self.window = window

    def on_report(self, r):
        pass

class Windowed(portus.AlgBase):
    def __init__(self, factor):
        self.factor = factor

    def datapath_programs(self):
        return {{"p": "(def (Report (volatile acked 0))) (when true (report))"}}

    def new_flow(self, datapath, info):
        got = (info.src_ip, info.src_port, info.dst_ip, info.dst_port)
        assert got == {expected}, got
        datapath.set_program("p", [("Cwnd", info.init_cwnd // self.factor)])
        return Flow(info.init_cwnd)

{guard}
    portus.start("unix", Windowed(int(sys.argv[1])))
    {end}
"""


@pytest.mark.parametrize("module", ["portus", "pyportus"])
@pytest.mark.parametrize("guard", ["if True:", 'if __name__ == "__main__":'])
@pytest.mark.parametrize("end", ["pass", "sys.exit(0)"])
def test_a_file_for_portus_runs_with_its_own_arguments_and_knows_the_addresses(
    tmp_path: Path, start: list[Host], module: str, guard: str, end: str
) -> None:
    if guard == "if True:":
        end = "pass"  # a file that exits during its import has no arms
    file = tmp_path / "windowed.py"
    expected = (0x0A000001, 443, 0xC0A80007, 50_123)
    file.write_text(PORTUS.format(module=module, guard=guard, end=end, expected=expected))
    host, hello = started(start, file, "2", "--more")
    assert [arm["name"] for arm in hello["arms"]] == ["windowed"]
    mapped = bytes(10) + b"\xff\xff"
    ends = (mapped + bytes([10, 0, 0, 1]), 443, mapped + bytes([192, 168, 0, 7]), 50_123)
    assert decision(host.resume(1, cwnd=14_480, ends=ends))[3] == 7_240
    assert host.end() == 0


def test_addresses_of_ipv6_are_whole_in_a_path_and_zero_in_portus(
    tmp_path: Path, start: list[Host]
) -> None:
    local = ipaddress.IPv6Address("2001:db8::1").packed
    remote = ipaddress.IPv6Address("2001:db8::2").packed
    file = tmp_path / "seen.py"
    file.write_text(
        "import remuda\nclass Seen(remuda.Controller):\n"
        "    def resume(self, path, now):\n"
        "        assert path.local == ('2001:db8::1', 443), path.local\n"
        "        assert path.remote == ('2001:db8::2', 9), path.remote\n"
        "        return remuda.Decision(path.cwnd)\n"
    )
    host, _ = started(start, file)
    decision(host.resume(1, ends=(local, 443, remote, 9)))
    file = tmp_path / "windowed.py"
    text = PORTUS.format(module="portus", guard="if True:", end="pass", expected=(0, 443, 0, 9))
    file.write_text(text)
    host, _ = started(start, file, "1")
    decision(host.resume(1, ends=(local, 443, remote, 9)))


def test_an_unknown_address_is_zero(tmp_path: Path, start: list[Host]) -> None:
    file = tmp_path / "windowed.py"
    text = PORTUS.format(module="portus", guard="if True:", end="pass", expected=(0, 0, 0, 0))
    file.write_text(text)
    host, _ = started(start, file, "1")
    decision(host.resume(1))
