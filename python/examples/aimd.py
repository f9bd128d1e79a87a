"""A controller of one's own: one segment more a round trip, half after a loss."""

import remuda


class Aimd(remuda.Controller):
    """One segment more a round trip, half after a loss, in Python."""

    def resume(self, path: remuda.PathState, now: float) -> remuda.Decision:
        """Goes on from the window the path has."""
        self.mss = path.mss
        self.cwnd = float(path.cwnd)
        self.ssthresh = path.ssthresh or path.bdp
        self.repaired_at = 0.0
        return remuda.Decision(self.cwnd)

    def on_measurement(self, m: remuda.Measurement, now: float) -> remuda.Decision:
        """Doubles a round trip until the first loss; then grows by a segment."""
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
        """Whoever comes next starts no slow start beyond this."""
        path.ssthresh = self.ssthresh
