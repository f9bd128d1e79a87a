"""An algorithm that sets a rate, with its own report field and control register."""

import remuda


class Paced(remuda.Controller):
    """Sends at the path's delivery rate, in one of eight round trips a quarter more, in Python."""

    # The datapath counts how many ACKs found more in flight than `limit_bytes`.
    report = "(volatile crowded 0)"
    control = "(limit_bytes 100000)"
    rules = """
(when (> Flow.bytes_in_flight limit_bytes)
    (:= Report.crowded (+ Report.crowded 1))
    (fallthrough)
)
"""

    def resume(self, path: remuda.PathState, now: float) -> remuda.Decision:
        """Starts at the known delivery rate, or at one window in each round trip."""
        self.mss = path.mss
        self.rtt = path.rtt_min or path.srtt or 0.1
        self.rate = float(path.delivery_rate or path.cwnd / self.rtt)
        self.fastest = [self.rate]
        self.rounds, self.round_ends = 0, now + self.rtt
        return self.decision()

    def on_measurement(self, m: remuda.Measurement, now: float) -> remuda.Decision:
        """Remembers the highest delivery rate of ten round trips, and the shortest round trip."""
        if m.rtt:
            self.rtt = min(self.rtt, m.rtt.min)
        if m.delivery_rate and not m.app_limited:
            self.fastest[-1] = max(self.fastest[-1], m.delivery_rate)
        if now >= self.round_ends:
            self.rounds += 1
            self.round_ends = now + self.rtt
            self.fastest = [*self.fastest[-9:], 0.0]
        crowded = m.own["crowded"] > 0
        gain = 0.75 if crowded and self.rounds % 8 == 1 else 1.25 if self.rounds % 8 == 0 else 1.0
        self.rate = max(max(self.fastest) * gain, 2 * self.mss / self.rtt)
        return self.decision()

    def decision(self) -> remuda.Decision:
        """At most two round trips' worth of data in flight."""
        return remuda.Decision(max(2 * self.rate * self.rtt, 4 * self.mss), self.rate)

    def registers(self) -> dict[str, int]:
        """The limit above which an ACK counts as crowded: a quarter more than the path holds."""
        return {"limit_bytes": int(1.25 * max(self.fastest) * self.rtt)}
