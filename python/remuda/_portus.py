"""The modules `pyportus` and `portus` for files that are written for pyportus 0.6.1.

Such a file runs unchanged; the guide of CCP uses `import portus`.

Differs from pyportus:
  - `start` stores the algorithm and returns; the host runs it;
  - an exception in `new_flow` or `on_report` puts its flow into fallback, and the agent goes on;
  - `datapath_programs` is called, and not read from the source, so it may compute its programs;
  - a rate or window that is negative or not a number is an error, with the line that set it.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from remuda.author import Controller, Decision, Measurement, PathState

STARTED: list[AlgBase] = []


class AlgBase:
    """The base class of an algorithm, as in pyportus."""

    def datapath_programs(self) -> dict[str, str]:
        """Returns the datapath programs by name. Each algorithm defines this method."""
        raise NotImplementedError

    def new_flow(self, datapath: Datapath, datapath_info: DatapathInfo) -> Any:  # noqa: ANN401
        """Creates the object that drives a flow, with a method `on_report(self, report)`."""
        raise NotImplementedError


@dataclass(slots=True)
class DatapathInfo:
    """The identity of a flow: addresses and ports as integers in host order, 0 for IPv6."""

    sock_id: int
    init_cwnd: int
    mss: int
    src_ip: int = 0
    src_port: int = 0
    dst_ip: int = 0
    dst_port: int = 0


class Datapath:
    """The controls of a flow's datapath. Changes take effect when `on_report` returns."""

    def __init__(self, names: list[str], cwnd: int) -> None:
        """Starts without a program."""
        self._names = names
        self._program = 0
        self._fields: dict[str, int] = {"Cwnd": cwnd}

    def set_program(
        self, program_name: str, fields: Iterable[tuple[str, int]] | None = None
    ) -> None:
        """Makes the flow run another program."""
        if program_name not in self._names:
            raise ValueError(
                f"no datapath program {program_name!r}: the programs are {self._names}"
            )
        self._program = self._names.index(program_name)
        kept = {"Cwnd", "Rate"} & self._fields.keys()
        self._fields = {name: self._fields[name] for name in kept}
        self.update_fields(fields or [])

    def update_field(self, reg_name: str, value: int) -> None:
        """Sets a register: `Cwnd`, `Rate`, or one that the program declares."""
        self.update_fields([(reg_name, value)])

    def update_fields(self, fields: Iterable[tuple[str, int]]) -> None:
        """Sets several registers."""
        self._fields.update({name.removeprefix("Control."): value for name, value in fields})


def integers(end: tuple[str, int] | None) -> tuple[int, int]:
    """An address and a port as CCP represents them; the address of IPv6 is 0."""
    if end is None:
        return 0, 0
    address = ipaddress.ip_address(end[0])
    return (int(address) if address.version == 4 else 0), end[1]


class Adapted(Controller):
    """Runs a pyportus algorithm as an arm; each algorithm has its own subclass."""

    algorithm: ClassVar[AlgBase]
    programs: ClassVar[dict[str, str]]

    def resume(self, path: PathState, now: float) -> Decision:
        """Starts a new flow, or takes one over: pyportus does not distinguish these."""
        self._datapath = Datapath(list(self.programs), path.cwnd)
        own = id(self) & 0xFFFFFFFF
        ends = (*integers(path.local), *integers(path.remote))
        info = DatapathInfo(own, path.cwnd, path.mss, *ends)
        self._flow = self.algorithm.new_flow(self._datapath, info)
        return self._decision()

    def on_measurement(self, m: Measurement, now: float) -> Decision:
        """Passes the report's fields as attributes."""
        self._flow.on_report(SimpleNamespace(**m.own))
        return self._decision()

    def program(self) -> int:
        """The number of the program that the flow runs."""
        return self._datapath._program

    def registers(self) -> dict[str, int]:
        """The control registers that the algorithm has set."""
        fields = self._datapath._fields
        return {name: fields[name] for name in fields if name not in ("Cwnd", "Rate")}

    def _decision(self) -> Decision:
        fields = self._datapath._fields
        return Decision(fields["Cwnd"], fields.get("Rate") or None)


def adapted(algorithm: AlgBase) -> type[Adapted]:
    """Returns the arm that runs an algorithm."""
    name = type(algorithm).__name__
    programs = dict(algorithm.datapath_programs())
    if not programs:
        raise ValueError(f"{name}.datapath_programs() returned no program")
    body = {
        "__doc__": type(algorithm).__doc__,
        "algorithm": algorithm,
        "programs": programs,
    }
    return type(name, (Adapted,), body)


def start(ipc: str, algorithm: AlgBase, **_options: object) -> bool:
    """Stores the algorithm. The host decides with which datapath it runs."""
    STARTED.append(algorithm)
    return True


def install() -> None:
    """Makes `import pyportus` and `import portus` return this module."""
    module = ModuleType("pyportus", __doc__)
    vars(module).update(
        AlgBase=AlgBase, DatapathBase=Datapath, DatapathInfo=DatapathInfo, start=start
    )
    for name in ("pyportus", "portus"):
        sys.modules.setdefault(name, module)


def is_script(module: ModuleType, file: Path) -> bool:
    """Whether the file starts a pyportus algorithm only when it runs as a script."""
    defines = any(
        isinstance(value, type) and issubclass(value, AlgBase) and value is not AlgBase
        for value in vars(module).values()
    )
    guard = re.compile(r"^if __name__ == ['\"]__main__['\"]", re.MULTILINE)
    return defines and not STARTED and guard.search(file.read_text()) is not None


def algorithms_of(module: ModuleType) -> list[AlgBase]:
    """The algorithms that the file has started; without any, one of each class that it defines."""
    if STARTED:
        return list(STARTED)
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    return [c() for c in classes if issubclass(c, AlgBase) and c.__module__ == module.__name__]
