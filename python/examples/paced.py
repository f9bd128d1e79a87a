"""A rate instead of a window, and a field and a register of the program's own."""

import remuda


class Paced(remuda.Controller):
    """Sends at what the path delivers, a quarter more in one round trip of eight, in Python."""

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
        """Starts at what the path is known to deliver, or at a window a round trip."""
        self.mss = path.mss
        self.rtt = path.rtt_min or path.srtt or 0.1
        self.rate = float(path.delivery_rate or path.cwnd / self.rtt)
        self.fastest = [self.rate]
        self.rounds, self.round_ends = 0, now + self.rtt
        return self.decision()

    def on_measurement(self, m: remuda.Measurement, now: float) -> remuda.Decision:
        """Learns the fastest delivery of ten round trips, and the shortest round trip."""
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
        """Two round trips of it in flight at most."""
        return remuda.Decision(max(2 * self.rate * self.rtt, 4 * self.mss), self.rate)

    def registers(self) -> dict[str, int]:
        """What counts as crowded: a quarter more than the path holds."""
        return {"limit_bytes": int(1.25 * max(self.fastest) * self.rtt)}
