"""Write a congestion-control algorithm in Python, and run it as an arm like the others.

Derive a class from `Controller`, which reacts to reports::

    class Halves(remuda.Controller):
        '''One segment more a round trip, half after a loss.'''

        def resume(self, path, now):
            self.cwnd, self.mss = path.cwnd, path.mss
            return remuda.Decision(self.cwnd)

        def on_measurement(self, m, now):
            if m.lost or m.timed_out:
                self.cwnd = max(self.cwnd / 2, 2 * self.mss)
            else:
                self.cwnd += self.mss * m.acked / self.cwnd
            return remuda.Decision(self.cwnd)

Then `remuda sim SCENARIO --author halves.py --set 'flows.*.driver=halves'` runs it in the
simulator, and `remuda run halves.py` on live flows. The algorithm runs in its own process: if it is
slow, it delays only its own flows. An exception puts its flow into fallback, and the agent logs an
event with the traceback. The process prints each exception once, to standard error, and `remuda
sim` ends with status 1.

Units: bytes, bytes per second, seconds. NumPy's numbers are as good as Python's.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import ClassVar


@dataclass(slots=True)
class PathState:
    """The knowledge about a path, which a flow keeps when its arm changes.

    `None` stands for an unknown value.
    """

    mss: int
    """Maximum segment size, in bytes."""
    cwnd: int
    """The current window, in bytes."""
    rate: int | None = None
    """The current pacing rate, in bytes per second; `None`: the datapath derives it from the
    window."""
    ssthresh: int | None = None
    """Slow-start threshold, in bytes; `None` until the path has shown a loss."""
    srtt: float | None = None
    """Smoothed round trip (RFC 6298), in seconds."""
    rttvar: float = 0.0
    """The variation of the round trip (RFC 6298), in seconds."""
    in_flight: int = 0
    """The most bytes in flight in the last report."""
    rtt_min: float | None = None
    """The shortest round trip in 10 s, in seconds."""
    rtt_min_long: float | None = None
    """The shortest round trip in 300 s, in seconds."""
    rtt_max: float | None = None
    """The longest round trip in 10 s, in seconds."""
    delivery_rate: int | None = None
    """The highest delivery rate in 10 s, in bytes per second."""
    ecn: bool = False
    """Whether the connection uses ECN."""
    app_limited: bool = False
    """Whether the application limited the rate in the last report."""
    local: tuple[str, int] | None = None
    """Address and port of the sender."""
    remote: tuple[str, int] | None = None
    """Address and port of the receiver."""

    @property
    def bdp(self) -> int | None:
        """Bytes that the path holds without a queue; `None` if unknown."""
        if self.delivery_rate is None or self.rtt_min is None:
            return None
        return int(self.delivery_rate * self.rtt_min)


@dataclass(slots=True)
class RttSamples:
    """The round trips of one report, in seconds."""

    last: float
    """The last sample."""
    min: float
    """The smallest."""
    max: float
    """The largest."""
    mean: float
    """The arithmetic mean."""
    std: float
    """The standard deviation."""
    count: int
    """The number of samples, at least 1."""


@dataclass(slots=True)
class Measurement:
    """One report of the datapath: what happened since the previous report."""

    acked: int
    """Bytes newly acknowledged, in order."""
    delivered: int
    """Bytes newly delivered, in order or not."""
    lost: int
    """Segments newly marked lost."""
    ecn_marked: int
    """Segments newly delivered with an ECN mark."""
    timed_out: bool
    """A retransmission timeout fired."""
    rtt: RttSamples | None
    """The round-trip samples; `None` without samples."""
    send_rate: int
    """The largest send rate sampled, in bytes per second."""
    delivery_rate: int
    """The largest delivery rate sampled, in bytes per second."""
    in_flight: int
    """The most bytes that were in flight."""
    app_limited: bool
    """The application had no data to send for part of the time, so rates are lower bounds."""
    in_recovery: bool
    """The datapath is repairing losses or a timeout."""
    cwnd: int
    """The current window, in bytes."""
    own: dict[str, int]
    """The program's own report fields, by name.

    Reports that arrive while your code is busy are merged into one: counts are summed, minima and
    maxima cover all of them, and every other field has its last value.
    """


@dataclass(slots=True)
class Decision:
    """What the datapath does next."""

    cwnd: float
    """The congestion window, in bytes."""
    rate: float | None = None
    """The pacing rate, in bytes per second; `None`: the datapath derives it from the window."""


class Controller:
    """The congestion control of one flow. Each flow has its own object of your class.

    Class attributes describe the arm; all of them have defaults.
    """

    name: ClassVar[str] = ""
    """The arm's name; by default the name of the class, in lower case with _ between its words."""
    summary: ClassVar[str] = ""
    """One line about the arm; by default the first line of the class's docstring."""
    report: ClassVar[str] = ""
    """Declares one more report field, such as `(volatile bunched 0)`. The program has room for one
    beside the 15 shared fields. `#` begins a comment in all parts of a program."""
    control: ClassVar[str] = ""
    """Declares control registers, such as `(factor 2)`, 16 at most; `registers` sets them."""
    rules: ClassVar[str] = ""
    """Clauses of the program after those of the shared signals; they run at every ACK."""
    report_rule: ClassVar[str] = ""
    """When to report; by default several times in each round trip, and at once after a loss."""
    reports_per_round: ClassVar[int] = 4
    """How many reports in each round trip, with the default rule."""

    def resume(self, path: PathState, now: float) -> Decision:
        """Starts a flow, or takes one over from another arm. `now` is in seconds.

        The agent does not let the first decision raise the window above `path.cwnd`.
        """
        raise NotImplementedError

    def on_measurement(self, m: Measurement, now: float) -> Decision:
        """Processes one report and returns a decision. `now` is in seconds."""
        raise NotImplementedError

    def hand_off(self, path: PathState) -> None:
        """Writes what the controller knows about the path, for the arm that takes the flow over.

        The agent uses `path.cwnd`, `path.ssthresh` and `path.rate`. At the call, cwnd and rate have
        the values of the last decision. The agent calls this method after each decision, so that a
        change of the arm need not wait for it.
        """

    def registers(self) -> dict[str, int]:
        """The values of the control registers, by name; each decision sets them."""
        return {}


NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


def name_of(arm: type[Controller]) -> str:
    """The name of the arm."""
    if "name" in vars(arm) and arm.name:
        return arm.name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", arm.__name__).lower()


def summary_of(arm: type[Controller]) -> str:
    """One line about the arm."""
    if arm.summary:
        return arm.summary
    text = inspect.cleandoc(arm.__doc__ or "") if arm.__doc__ != Controller.__doc__ else ""
    return text.splitlines()[0] if text else f"{arm.__name__}, in Python"
