//! The control of a flow without an agent: NewReno, as in RFC 9002 section 7 and appendix B.
//!
//! Differs from RFC 9002: a flow that an agent drove continues from its present window. Its
//! threshold is what the path last delivered in a round trip, if that is more than the window,
//! because a probe may just have set the window to a few packets. The fallback of Linux TCP
//! (datapath/tcp/reno.h) does the same.

/// RFC 9002 section 7.2: the minimum congestion window, in datagrams.
pub const CWND_MIN_DATAGRAMS: u64 = 2;

#[derive(Clone, Copy, Debug)]
pub struct Reno {
    /// In bytes; `u64::MAX` before the first loss.
    ssthresh_bytes: u64,
    /// Bytes acknowledged in congestion avoidance since the window last grew.
    acked_bytes: u64,
}

impl Reno {
    /// RFC 9002 section 7.3.1: a new path starts in slow start.
    pub fn new() -> Self {
        Self { ssthresh_bytes: u64::MAX, acked_bytes: 0 }
    }

    /// Continues a flow that the agent drove; `delivered_per_rtt_bytes` is what the path last
    /// delivered in a round trip.
    pub fn take_over(cwnd_bytes: u64, delivered_per_rtt_bytes: u64) -> Self {
        Self { ssthresh_bytes: cwnd_bytes.max(delivered_per_rtt_bytes), acked_bytes: 0 }
    }

    /// `OnPacketAcked`: returns the window after `bytes` acknowledged bytes that were sent outside
    /// of recovery.
    pub fn acked(&mut self, cwnd_bytes: u64, bytes: u64, mss_bytes: u64) -> u64 {
        if cwnd_bytes < self.ssthresh_bytes {
            return cwnd_bytes + bytes;
        }
        // max_datagram_size * acked / congestion_window, without losing fractions.
        self.acked_bytes += bytes;
        if self.acked_bytes < cwnd_bytes {
            return cwnd_bytes;
        }
        self.acked_bytes -= cwnd_bytes;
        cwnd_bytes + mss_bytes
    }

    /// `OnCongestionEvent`, called once a recovery period. Returns the window after it.
    pub fn reduce(&mut self, cwnd_bytes: u64, mss_bytes: u64) -> u64 {
        self.ssthresh_bytes = (cwnd_bytes / 2).max(CWND_MIN_DATAGRAMS * mss_bytes);
        self.acked_bytes = 0;
        self.ssthresh_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_200;

    /// Acknowledges packets one by one, and compares the window after each, in packets.
    fn check(mut reno: Reno, cwnd: u64, acks: usize, want: &[u64]) {
        let mut cwnd = cwnd * MSS;
        let mut got = Vec::new();
        for _ in 0..acks {
            cwnd = reno.acked(cwnd, MSS, MSS);
            got.push(cwnd / MSS);
        }
        assert_eq!(got, want);
    }

    #[test]
    fn slow_start_grows_by_what_is_acknowledged() {
        check(Reno::new(), 10, 4, &[11, 12, 13, 14]);
    }

    #[test]
    fn congestion_avoidance_grows_by_a_datagram_a_window() {
        check(Reno::take_over(4 * MSS, 0), 4, 10, &[4, 4, 4, 5, 5, 5, 5, 5, 6, 6]);
    }

    #[test]
    fn a_take_over_in_the_middle_of_a_probe_is_back_at_what_the_path_delivers() {
        check(Reno::take_over(4 * MSS, 7 * MSS), 4, 5, &[5, 6, 7, 7, 7]);
    }

    #[test]
    fn a_loss_halves_and_never_below_two_datagrams() {
        for (cwnd, want) in [(10, 5), (4, 2), (3, 2), (2, 2)] {
            assert_eq!(Reno::new().reduce(cwnd * MSS, MSS), want * MSS, "{cwnd}");
        }
    }
}
