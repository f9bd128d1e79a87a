"""Asks a built-in arm, inside an arm in Python."""

from __future__ import annotations

from remuda import _native
from remuda.author import Decision, Measurement, PathState


class Embedded:
    """A built-in arm that yours asks.

    An arm that halves the window that CUBIC would use::

        class Shy(remuda.Controller):
            '''Half of what CUBIC would send.'''

            def resume(self, path, now):
                self.cubic = remuda.Embedded("cubic")
                return self.cubic.resume(path, now)

            def on_measurement(self, m, now):
                decision = self.cubic.on_measurement(m, now)
                decision.cwnd /= 2
                return decision

            def hand_off(self, path):
                self.cubic.hand_off(path)

    The arm must need the shared signals only, as your program measures these. Its timers run at
    reports. It gets `rtt_min` for both of its minima, of 10 s and of 300 s.
    """

    def __init__(self, name: str) -> None:
        """An arm of that name, for one flow.

        Raises:
            ValueError: if no arm has that name, or the arm cannot be embedded; with the reason.
        """
        self._arm = _native.Embedded(name)

    def resume(self, path: PathState, now: float) -> Decision:
        """Gives it the path, as `Controller.resume` does."""
        return Decision(*self._arm.resume(path, now))

    def on_measurement(self, m: Measurement, now: float) -> Decision:
        """Gives it a report, as `Controller.on_measurement` does."""
        return Decision(*self._arm.on_measurement(m, now))

    def hand_off(self, path: PathState) -> None:
        """Writes what it knows about the path, as `Controller.hand_off` does."""
        path.cwnd, path.ssthresh, path.rate = self._arm.hand_off()
