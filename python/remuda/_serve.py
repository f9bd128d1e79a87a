"""Runs the arms of one file for a host at the other end of a socket: `python -P -m remuda._serve`.

A frame is a datagram of a SOCK_SEQPACKET socket: its kind in one byte, then little-endian integers,
as in the structures below. Times are in microseconds, rates in bytes per second. The largest value
or 0 stands for an unknown value, as noted. `ccp-agent/src/author/frame.rs` is the other end.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import ipaddress
import json
import math
import numbers
import os
import re
import runpy
import socket
import struct
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from remuda import _portus
from remuda.author import (
    NAME,
    Controller,
    Decision,
    Measurement,
    PathState,
    RttSamples,
    name_of,
    summary_of,
)

PROTOCOL_VERSION = 2

HELLO, DECISION, FAILED = 1, 2, 3
RESUME, MEASURE, CLOSE = 10, 11, 12

FRAME_BYTES_MAX = 65_536
REPORTED_MAX = 64
"""The most exceptions of one file that are printed."""
FAILED_BYTES_MAX = 16_384
NONE = 2**64 - 1
NONE32 = 2**32 - 1
"""The value of a control register that was never set: it keeps its initial value."""

# kind, flow, seq, arm, now; mss, cwnd, rate, ssthresh, srtt, rttvar, in flight, rtt_min,
# rtt_min_long, rtt_max, delivery rate (NONE: unknown); flags: 1 ecn, 2 app-limited; address and
# port of the sender and of the receiver, IPv4 as a mapped IPv6 address (zeros: unknown)
RESUME_FRAME = struct.Struct("<BIIIQ11QB16sH16sH")
# kind, flow, seq, now; acked, delivered, lost, marked; RTT last, min, max, sum, sum of squares,
# count; send rate, delivery rate, in flight, cwnd; flags: 1 timed out, 2 app-limited, 4 in
# recovery; number of the program that reported; number of own fields, which follow. If several
# reports were merged into one, volatile own fields are combined as the program combines them, and
# the other own fields are those of the last report.
MEASURE_FRAME = struct.Struct("<BIIQ14QBBB")
# kind, flow, seq; cwnd, rate (NONE: none); for the hand-off: cwnd, ssthresh, rate (NONE: none);
# number of the program to run; number of registers, which follow as u32, in the order declared
DECISION_FRAME = struct.Struct("<BII5QBB")
FLOW_FRAME = struct.Struct("<BI")


class Unfit(Exception):  # noqa: N818, as it is no error of ours
    """A file that cannot be run. The message contains the reason."""


@dataclass(slots=True)
class Flow:
    """One flow, and the controller that drives it."""

    controller: Controller
    path: PathState
    programs: list[Program]

    def program(self) -> int:
        """The number of the program that the flow shall run."""
        made = self.controller
        return made.program() if isinstance(made, _portus.Adapted) else 0


@dataclass(frozen=True, slots=True)
class Program:
    """What a program declares in addition to the shared signals."""

    name: str
    text: str
    """The complete program; empty if the host builds it around the shared signals."""
    own: list[str]
    registers: list[str]


def load(file: Path) -> ModuleType:
    """Imports the file, under a name that no other module has.

    Its folder is last in the search path, so that the file and its neighbours replace no module of
    the same name. A file for pyportus that starts its algorithm only as a script also runs as a
    script.
    """
    name = f"remuda_author_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Unfit(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(file.parent.resolve()))
    spec.loader.exec_module(module)
    if _portus.is_script(module, file):
        try:
            runpy.run_path(str(file), run_name="__main__")
        except SystemExit:
            if not _portus.STARTED:
                raise
    return module


def watch_data(file: Path) -> None:
    """Warns of each data file below the author's folder that is read and not declared, once.

    A matrix keeps results by the content of modules and of the files that a module lists in
    `DATA_FILES`. It does not notice a change of any other file.
    """
    root, told = file.parent.resolve(), set[Path]()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str):
            return
        flags = arguments[2]
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            return
        path = Path(os.path.realpath(arguments[0]))
        is_code = path.suffix in {".py", ".pyc", ".so"}
        if is_code or path in told or not path.is_relative_to(root) or not path.is_file():
            return
        told.add(path)
        for module in list(sys.modules.values()):
            own, declared = getattr(module, "__file__", None), getattr(module, "DATA_FILES", None)
            if own and isinstance(declared, list):
                folder = Path(os.path.realpath(own)).parent
                if any(path == folder / name for name in declared):
                    return
        name = path.relative_to(root)
        print(
            f"{file}: warning: this file reads {name}, which is not declared: a matrix would not "
            f'notice a change of {name}\nfix: DATA_FILES = ["{name}"] in the module that reads it',
            file=sys.stderr,
        )

    sys.addaudithook(hook)


def without_comments(text: str) -> str:
    """The text of a program without comments."""
    return re.sub(r"#[^\n]*", "", text)


def declared(text: str) -> list[str]:
    """The names that a program's declarations declare: `(volatile name 0) (other 1)`."""
    words = without_comments(text).replace("(", " ( ").replace(")", " ) ").split()
    names: list[str] = []
    for at, word in enumerate(words):
        if word == "(" and at + 1 < len(words):
            volatile = words[at + 1] == "volatile"
            names += words[at + 1 + volatile : at + 2 + volatile]
    return names


def blocks(text: str) -> list[str]:
    """The parenthesised groups of the outermost level."""
    found, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        if letter == "(":
            if depth == 0:
                begin = at
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth == 0:
                found.append(text[begin : at + 1])
    return found


def whole_program(name: str, text: str) -> Program:
    """What a whole program declares: `(def (Report (volatile acked 0)) (factor 2))`."""
    code = blocks(without_comments(text))
    head = next((block for block in code if re.match(r"\(\s*def\b", block)), "()")
    own: list[str] = []
    control: list[str] = []
    for block in blocks(re.sub(r"^\(\s*def", "", head)[:-1]):
        report = re.match(r"\(\s*Report\b", block)
        if report:
            own += declared(block[report.end() : -1])
        elif prefixed := re.match(r"\(\s*(?:volatile\s+)?(Report\.)?(\w+)", block):
            (own if prefixed[1] else control).append(prefixed[2])
    return Program(name, text, own, control)


def programs_of(arm: type[Controller]) -> list[Program]:
    """The programs of an arm, in order."""
    if issubclass(arm, _portus.Adapted):
        return [whole_program(name, text) for name, text in arm.programs.items()]
    return [Program("report", "", declared(arm.report), declared(arm.control))]


ATTRIBUTES: dict[str, tuple[type, str]] = {
    "name": (str, "str"),
    "summary": (str, "str"),
    "report": (str, "str"),
    "control": (str, "str"),
    "rules": (str, "str"),
    "report_rule": (str, "str"),
    # NumPy's integers too.
    "reports_per_round": (numbers.Integral, "int"),
}


def checked(arm: type[Controller]) -> type[Controller]:
    """Returns the arm. Fails if a class attribute has a wrong type."""
    for name, (kind, called) in ATTRIBUTES.items():
        value = getattr(arm, name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise Unfit(f"{arm.__name__}.{name} is {value!r}, not {called}")
    return arm


def arms_of(module: ModuleType) -> list[type[Controller]]:
    """The arms that the file defines, in its order."""
    classes = [value for value in vars(module).values() if inspect.isclass(value)]
    own = [c for c in classes if issubclass(c, Controller) and c.__module__ == module.__name__]
    arms = [checked(c) for c in own if c.resume is not Controller.resume]
    arms += [_portus.adapted(algorithm) for algorithm in _portus.algorithms_of(module)]
    if not arms:
        raise Unfit(f"{module.__file__}: no class in it derives from remuda.Controller")
    names = [name_of(arm) for arm in arms]
    for name in names:
        if not NAME.fullmatch(name):
            rule = "use a to z, 0 to 9 and _, a letter first"
            raise Unfit(f"{name!r} is not a valid name of an arm: {rule}")
        if names.count(name) > 1:
            raise Unfit(f"two arms are called {name!r}: set `name` of one")
    return arms


def described(arm: type[Controller]) -> dict[str, Any]:
    """The description of an arm for the host."""
    return {
        "name": name_of(arm),
        "summary": summary_of(arm),
        "report": arm.report,
        "control": arm.control,
        "rules": arm.rules,
        "report_rule": arm.report_rule,
        "reports_per_round": int(arm.reports_per_round),
        "programs": [asdict(program) for program in programs_of(arm)],
    }


def announcement(arms: list[type[Controller]]) -> bytes:
    """The frame `HELLO`, which describes the arms and their programs."""
    about = [described(arm) for arm in arms]
    text = json.dumps({"version": PROTOCOL_VERSION, "arms": about}).encode()
    if len(text) >= FRAME_BYTES_MAX:
        raise Unfit(f"its arms with programs take {len(text)} bytes: {FRAME_BYTES_MAX} at most")
    return bytes([HELLO]) + text


def failed(number: int, text: str) -> bytes:
    """The frame `FAILED` of a flow, or of the whole file (0). A long text is cut at its start."""
    encoded = text.encode(errors="backslashreplace")
    return FLOW_FRAME.pack(FAILED, number) + encoded[-FAILED_BYTES_MAX:]


def seconds(micros: int) -> float | None:
    """A time in seconds; `None` if it is unknown."""
    return None if micros == NONE else micros / 1e6


def known(value: int) -> int | None:
    """A number; `None` if it is unknown."""
    return None if value == NONE else value


def end_of(address: bytes, port: int) -> tuple[str, int] | None:
    """Address and port of one end of a connection; `None` if unknown."""
    if not any(address):
        return None
    ip = ipaddress.IPv6Address(address)
    return str(ip.ipv4_mapped or ip), port


def path_of(words: tuple[Any, ...]) -> PathState:
    """The path in a `RESUME` frame."""
    mss, cwnd, rate, ssthresh, srtt, rttvar, in_flight, rtt_min, rtt_long, rtt_max, fastest = words[
        :11
    ]
    return PathState(
        mss=mss,
        cwnd=cwnd,
        rate=known(rate),
        ssthresh=known(ssthresh),
        srtt=seconds(srtt),
        rttvar=rttvar / 1e6,
        in_flight=in_flight,
        rtt_min=seconds(rtt_min),
        rtt_min_long=seconds(rtt_long),
        rtt_max=seconds(rtt_max),
        delivery_rate=known(fastest),
        ecn=bool(words[11] & 1),
        app_limited=bool(words[11] & 2),
        local=end_of(*words[12:14]),
        remote=end_of(*words[14:16]),
    )


def rtt_of(words: tuple[int, ...]) -> RttSamples | None:
    """The round-trip samples of a report; `None` without samples."""
    last, least, most, total, squares, count = words
    if not count:
        return None
    mean = total / count
    variance = max(squares / count - mean * mean, 0.0)
    return RttSamples(
        last=last / 1e6,
        min=least / 1e6,
        max=most / 1e6,
        mean=mean / 1e6,
        std=math.sqrt(variance) / 1e6,
        count=count,
    )


def measurement_of(frame: bytes, programs: list[Program]) -> tuple[int, Measurement]:
    """The time and the report in a `MEASURE` frame."""
    words = MEASURE_FRAME.unpack_from(frame)
    own = programs[words[19]].own
    now_us, acked, delivered, lost, marked = words[3:8]
    send_rate, delivery_rate, in_flight, cwnd, flags = words[14:19]
    fields = words[20]
    values = struct.unpack_from(f"<{fields}Q", frame, MEASURE_FRAME.size)
    m = Measurement(
        acked=acked,
        delivered=delivered,
        lost=lost,
        ecn_marked=marked,
        timed_out=bool(flags & 1),
        rtt=rtt_of(words[8:14]),
        send_rate=send_rate,
        delivery_rate=delivery_rate,
        in_flight=in_flight,
        app_limited=bool(flags & 2),
        in_recovery=bool(flags & 4),
        cwnd=cwnd,
        own=dict(zip(own, values, strict=False)),
    )
    return now_us, m


def whole(value: Any, what: str) -> int:  # noqa: ANN401, as an author may return anything
    """A number of bytes as an integer. The error for another value contains that value.

    NumPy's numbers of every width count as numbers, and its bools, like Python's, do not.
    """
    is_number = isinstance(value, int | float | numbers.Real) and not isinstance(value, bool)
    if not is_number:
        raise TypeError(f"{what} is {value!r}, not a number")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{what} is {value!r}: it must be finite and not negative")
    return min(int(value), NONE - 1)


def optional(value: Any, what: str) -> int:  # noqa: ANN401, as above
    """The same for a value that may be `None`."""
    return NONE if value is None else whole(value, what)


def register(value: Any, name: str) -> int:  # noqa: ANN401, as above
    """The value of a control register of 32 bits. The largest value is reserved for `not set`."""
    word = whole(value, f"control register {name}")
    if word >= NONE32:
        raise ValueError(f"control register {name} is {value!r}: it must be below {NONE32}")
    return word


class Server:
    """The arms of one file, and their flows."""

    def __init__(self, arms: list[type[Controller]]) -> None:
        """Starts without flows."""
        self.arms = arms
        self.flows: dict[int, Flow] = {}
        self.reported: set[tuple[object, ...]] = set()

    def answer(self, frame: bytes) -> bytes | None:
        """The answer to a frame; `None` if it needs no answer."""
        kind = frame[0]
        if kind == CLOSE:
            self.flows.pop(FLOW_FRAME.unpack_from(frame)[1], None)
            return None
        _, number, seq = struct.unpack_from("<BII", frame)
        try:
            decision = self.resume(frame) if kind == RESUME else self.measure(frame)
            return self.decided(number, seq, decision)
        except (Exception, SystemExit) as error:
            flow = self.flows.pop(number, None)
            self.report(flow, error)
            return failed(number, traceback.format_exc())

    def report(self, flow: Flow | None, error: BaseException) -> None:
        """Prints an exception where the author sits: once for each line that raises it."""
        frames = traceback.extract_tb(error.__traceback__)
        place = (type(error), *((frame.filename, frame.lineno) for frame in frames[-1:]))
        if place in self.reported or len(self.reported) >= REPORTED_MAX:
            return
        self.reported.add(place)
        arm = "an arm" if flow is None else name_of(type(flow.controller))
        text = "".join(traceback.format_exception(error))
        # A closed standard error ends nothing.
        with contextlib.suppress(OSError, ValueError):
            print(
                f"remuda: {arm} raised an exception, and reno drives its flow from here on "
                f"(printed once, also if other flows meet it)\n{text}",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def resume(self, frame: bytes) -> Decision:
        """Starts a flow, or takes one over."""
        _, number, _, arm, now_us, *words = RESUME_FRAME.unpack(frame)
        path = path_of(tuple(words))
        made: Controller = self.arms[arm]()
        self.flows[number] = Flow(made, path, programs_of(self.arms[arm]))
        return made.resume(path, now_us / 1e6)

    def measure(self, frame: bytes) -> Decision:
        """Processes a flow's report."""
        _, number, _ = struct.unpack_from("<BII", frame)
        flow = self.flows[number]
        now_us, m = measurement_of(frame, flow.programs)
        return flow.controller.on_measurement(m, now_us / 1e6)

    def decided(self, number: int, seq: int, decision: Decision) -> bytes:
        """The frame of a decision, with the values for a hand-off at this moment."""
        flow = self.flows[number]
        if not isinstance(decision, Decision):
            raise TypeError(f"the result must be a remuda.Decision, not {decision!r}")
        cwnd = whole(decision.cwnd, "Decision.cwnd")
        rate = optional(decision.rate, "Decision.rate")
        path = flow.path
        path.cwnd, path.rate = cwnd, known(rate)
        flow.controller.hand_off(path)
        values, program = flow.controller.registers(), flow.program()
        declares = flow.programs[program].registers
        for name in values.keys() - set(declares):
            raise ValueError(f"no control register {name!r}: {declares} are declared")
        words = [register(values[name], name) if name in values else NONE32 for name in declares]
        return DECISION_FRAME.pack(
            DECISION,
            number,
            seq,
            cwnd,
            rate,
            whole(path.cwnd, "path.cwnd"),
            optional(path.ssthresh, "path.ssthresh"),
            optional(path.rate, "path.rate"),
            program,
            len(words),
        ) + b"".join(word.to_bytes(4, "little") for word in words)


def serve(host: socket.socket, arms: list[type[Controller]]) -> None:
    """Answers frames until the host closes the socket."""
    server = Server(arms)
    while frame := host.recv(FRAME_BYTES_MAX):
        answer = server.answer(frame)
        if answer is not None:
            host.send(answer)


def main() -> int:
    """Runs `python -P -m remuda._serve FILE FD [ARGUMENT...]`."""
    file, fd = Path(sys.argv[1]), int(sys.argv[2])
    sys.argv = [sys.argv[1], *sys.argv[3:]]
    host = socket.socket(fileno=os.dup(fd))
    os.close(fd)
    _portus.install()
    watch_data(file)
    try:
        arms = arms_of(load(file))
        hello = announcement(arms)
    except Unfit as unfit:
        refusal = str(unfit)
    except (Exception, SystemExit):
        refusal = traceback.format_exc()
    else:
        # If the host has closed the socket, this process ends. The host reacts to Ctrl-C.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
            host.send(hello)
            serve(host, arms)
        return 0
    host.send(failed(0, refusal))
    return 1


if __name__ == "__main__":
    sys.exit(main())
