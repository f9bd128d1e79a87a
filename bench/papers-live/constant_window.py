"""A window that never changes, as an arm to compare others with."""

import remuda

PKTS = 100


class ConstantWindow(remuda.Controller):
    """Keeps a window of 100 segments, whatever happens."""

    def resume(self, path: remuda.PathState, now: float) -> remuda.Decision:
        """Raises the window to its size at the first report, as the agent bounds this decision."""
        self.cwnd = PKTS * path.mss
        return remuda.Decision(self.cwnd)

    def on_measurement(self, m: remuda.Measurement, now: float) -> remuda.Decision:
        """Keeps the window."""
        return remuda.Decision(self.cwnd)
