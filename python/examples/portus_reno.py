"""An algorithm written for pyportus 0.6.1, unchanged."""
# ruff: noqa: ANN001, ANN201, ANN204

import pyportus as portus


class RenoFlow:
    """The state of one flow."""

    INIT_CWND = 10

    def __init__(self, datapath, datapath_info):
        """Starts in slow start."""
        self.datapath = datapath
        self.datapath_info = datapath_info
        self.init_cwnd = float(self.datapath_info.mss * RenoFlow.INIT_CWND)
        self.cwnd = self.init_cwnd
        self.datapath.set_program("default", [("Cwnd", int(self.cwnd))])

    def on_report(self, r):
        """Halves the window after a loss; otherwise adds one segment for each window."""
        if r.loss > 0 or r.sacked > 0:
            self.cwnd /= 2
        else:
            self.cwnd += self.datapath_info.mss * (r.acked / self.cwnd)
        self.cwnd = max(self.cwnd, self.init_cwnd)
        self.datapath.update_field("Cwnd", int(self.cwnd))


class PortusReno(portus.AlgBase):
    """Reno, as in pyportus' example."""

    def datapath_programs(self):
        """One program, which reports acknowledged and lost data in each round trip."""
        return {
            "default": """\
                (def (Report
                    (volatile acked 0)
                    (volatile sacked 0)
                    (volatile loss 0)
                    (volatile timeout false)
                    (volatile rtt 0)
                    (volatile inflight 0)
                ))
                (when true
                    (:= Report.inflight Flow.packets_in_flight)
                    (:= Report.rtt Flow.rtt_sample_us)
                    (:= Report.acked (+ Report.acked Ack.bytes_acked))
                    (:= Report.sacked (+ Report.sacked Ack.packets_misordered))
                    (:= Report.loss Ack.lost_pkts_sample)
                    (:= Report.timeout Flow.was_timeout)
                    (fallthrough)
                )
                (when (|| Report.timeout (> Report.loss 0))
                    (report)
                    (:= Micros 0)
                )
                (when (> Micros Flow.rtt_sample_us)
                    (report)
                    (:= Micros 0)
                )
            """
        }

    def new_flow(self, datapath, datapath_info):
        """Creates one object for each flow."""
        return RenoFlow(datapath, datapath_info)


if __name__ == "__main__":
    portus.start("unix", PortusReno())
