"""Write a congestion-control algorithm in Python, and run it as an arm equal to the others.

Subclass `Controller`, and say what to do with a report::

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
simulator, and `remuda run halves.py` on live flows. It runs in a process of its own: what it takes
long for delays its own flows alone. An exception costs its flow a fallback, and is an event with
its traceback.

Units: bytes, bytes per second, seconds.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import ClassVar


@dataclass(slots=True)
class PathState:
    """What is known of a path, whoever learned it: all that survives a switch.

    `None` is what is not known.
    """

    mss: int
    """Maximum segment size, in bytes."""
    cwnd: int
    """The window in force, in bytes."""
    rate: int | None = None
    """The pacing rate in force, in bytes per second; `None`: the datapath's, from the window."""
    ssthresh: int | None = None
    """Slow-start threshold, in bytes; `None` until the path has shown a loss."""
    srtt: float | None = None
    """Smoothed round trip (RFC 6298), in seconds."""
    rttvar: float = 0.0
    """Its variance (RFC 6298), in seconds."""
    in_flight: int = 0
    """The most bytes in flight in the last report."""
    rtt_min: float | None = None
    """Shortest round trip of 10 s, in seconds."""
    rtt_min_long: float | None = None
    """Shortest round trip of 300 s, in seconds."""
    rtt_max: float | None = None
    """Longest round trip of 10 s, in seconds."""
    delivery_rate: int | None = None
    """Fastest delivery of 10 s, in bytes per second."""
    ecn: bool = False
    """The peers negotiated ECN."""
    app_limited: bool = False
    """The last report was limited by the application."""
    local: tuple[str, int] | None = None
    """Address and port of the sender."""
    remote: tuple[str, int] | None = None
    """Address and port of the receiver."""

    @property
    def bdp(self) -> int | None:
        """Bytes that the path holds without a queue, if that is known."""
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
    """How many; at least 1."""


@dataclass(slots=True)
class Measurement:
    """One report of the datapath, since the one before."""

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
    """Round trips sampled; `None` if there was none."""
    send_rate: int
    """The largest send rate sampled, in bytes per second."""
    delivery_rate: int
    """The largest delivery rate sampled, in bytes per second."""
    in_flight: int
    """The most bytes that were in flight."""
    app_limited: bool
    """The application had nothing to send for a part of it: rates are lower bounds."""
    in_recovery: bool
    """The datapath repairs losses or a timeout."""
    cwnd: int
    """The window in force, in bytes."""
    own: dict[str, int]
    """The program's own report fields, by name.

    What is reported while you are busy comes as one report: counts are summed, extremes stay the
    most extreme, and of other volatile fields and those that are not it has the last value.
    """


@dataclass(slots=True)
class Decision:
    """What the datapath should do next."""

    cwnd: float
    """The congestion window, in bytes."""
    rate: float | None = None
    """The pacing rate, in bytes per second; `None` leaves pacing to the datapath."""


class Controller:
    """One flow's congestion control. There is an object of your class for each flow.

    Class attributes say what the arm is; all have defaults.
    """

    name: ClassVar[str] = ""
    """The arm's name; by default the class's, in lower case with _ between its words."""
    summary: ClassVar[str] = ""
    """One line about it; by default the first of the class's docstring."""
    report: ClassVar[str] = ""
    """Declares one more report field, as `(volatile bunched 0)`: beside 15 shared ones there is
    room for one. `#` begins a comment in all parts of a program."""
    control: ClassVar[str] = ""
    """Declares control registers, as `(factor 2)`, 16 at most: `registers` sets them."""
    rules: ClassVar[str] = ""
    """Clauses of the program, after those of the shared signals: they see every ACK."""
    report_rule: ClassVar[str] = ""
    """When to report; by default each part of a round trip, and at once after a loss."""
    reports_per_round: ClassVar[int] = 4
    """How often in a round trip to report, if the rule is the default one."""

    def resume(self, path: PathState, now: float) -> Decision:
        """Starts a flow, or takes one over from another arm. `now` is in seconds.

        The first decision never raises the window above `path.cwnd`: the agent sees to it.
        """
        raise NotImplementedError

    def on_measurement(self, m: Measurement, now: float) -> Decision:
        """Takes in one report and decides. `now` is in seconds."""
        raise NotImplementedError

    def hand_off(self, path: PathState) -> None:
        """Writes what it knows of the path, for whoever takes the flow over.

        `path.cwnd`, `path.ssthresh` and `path.rate` are taken from it; they hold what was decided
        last. It is called after each decision, so that nobody has to wait for it later.
        """

    def registers(self) -> dict[str, int]:
        """What the control registers are to hold, by name; set together with each decision."""
        return {}


NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


def name_of(arm: type[Controller]) -> str:
    """The name the arm goes by."""
    if "name" in vars(arm) and arm.name:
        return arm.name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", arm.__name__).lower()


def summary_of(arm: type[Controller]) -> str:
    """One line about the arm."""
    if arm.summary:
        return arm.summary
    text = inspect.cleandoc(arm.__doc__ or "") if arm.__doc__ != Controller.__doc__ else ""
    return text.splitlines()[0] if text else f"{arm.__name__}, in Python"
