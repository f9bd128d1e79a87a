"""An algorithm: one segment more in each round trip, half of the window after a loss."""

import remuda


class Aimd(remuda.Controller):
    """One segment more in each round trip, half of the window after a loss, in Python."""

    def resume(self, path: remuda.PathState, now: float) -> remuda.Decision:
        """Starts with the current window of the path."""
        self.mss = path.mss
        self.cwnd = float(path.cwnd)
        self.ssthresh = path.ssthresh or path.bdp
        self.repaired_at = 0.0
        return remuda.Decision(self.cwnd)

    def on_measurement(self, m: remuda.Measurement, now: float) -> remuda.Decision:
        """Doubles the window in each round trip until the first loss; then adds one segment."""
        if (m.lost or m.timed_out) and now >= self.repaired_at:
            self.cwnd = max(self.cwnd / 2, 2 * self.mss)
            self.ssthresh = int(self.cwnd)
            self.repaired_at = now + (m.rtt.mean if m.rtt else 0.2)
        elif self.ssthresh is None or self.cwnd < self.ssthresh:
            self.cwnd += m.acked
        else:
            self.cwnd += self.mss * m.acked / self.cwnd
        return remuda.Decision(self.cwnd)

    def hand_off(self, path: remuda.PathState) -> None:
        """The next arm does no slow start beyond this threshold."""
        path.ssthresh = self.ssthresh
