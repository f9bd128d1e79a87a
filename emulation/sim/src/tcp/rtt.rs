//! The smoothed RTT and the retransmission timeout: RFC 6298 as in `tcp_rtt_estimator()` of
//! net/ipv4/tcp_input.c. The variance's part of the timeout is at least 200 ms.
//!
//! Differs from Linux: the minimum RTT is over the flow's life, not over 300 s.

/// `TCP_RTO_MIN`.
pub const RTO_MIN_NS: i64 = 200_000_000;
/// `TCP_RTO_MAX`.
pub const RTO_MAX_NS: u64 = 120_000_000_000;
/// `TCP_TIMEOUT_INIT`, RFC 6298 section 2.1.
pub const RTO_INIT_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    srtt_ns: i64,
    /// Four times the mean deviation, as in the kernel.
    mdev_ns: i64,
    mdev_max_ns: i64,
    var_ns: i64,
    /// The variance may fall once this segment is acknowledged.
    round_end: u32,
    min_ns: u64,
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self {
            srtt_ns: 0,
            mdev_ns: 0,
            mdev_max_ns: RTO_MIN_NS,
            var_ns: 0,
            round_end: 0,
            min_ns: u64::MAX,
        }
    }
}

impl RttEstimator {
    /// The smoothed RTT; `None` before the first sample.
    pub fn smoothed_ns(&self) -> Option<u64> {
        (self.srtt_ns > 0).then_some(self.srtt_ns as u64)
    }

    /// The smallest sample; `None` before the first.
    pub fn min_ns(&self) -> Option<u64> {
        (self.min_ns < u64::MAX).then_some(self.min_ns)
    }

    /// Takes a sample for the minimum: the RTT of the last segment that an ACK delivers
    /// (`ca_rtt_us` of `tcp_update_rtt_min()`).
    pub fn note_min(&mut self, rtt_ns: u64) {
        self.min_ns = self.min_ns.min(rtt_ns.max(1));
    }

    /// Takes a sample for the smoothed RTT: the RTT of the first segment that an ACK delivers
    /// (`seq_rtt_us` of `tcp_rtt_estimator()`). `una` and `next` are SND.UNA and SND.NXT.
    pub fn sample(&mut self, rtt_ns: u64, una: u32, next: u32) {
        let rtt_ns = rtt_ns.max(1);
        let rtt = rtt_ns as i64;
        if self.srtt_ns == 0 {
            self.srtt_ns = rtt;
            self.mdev_ns = rtt * 2;
            self.var_ns = self.mdev_ns.max(RTO_MIN_NS);
            self.mdev_max_ns = self.var_ns;
            self.round_end = next;
            return;
        }
        let error = rtt - self.srtt_ns;
        self.srtt_ns = (self.srtt_ns + error / 8).max(1);
        let mut deviation = error.abs() - self.mdev_ns / 4;
        if error < 0 && deviation > 0 {
            deviation /= 8; // a falling RTT must not raise the timeout
        }
        self.mdev_ns += deviation;
        if self.mdev_ns > self.mdev_max_ns {
            self.mdev_max_ns = self.mdev_ns;
            self.var_ns = self.var_ns.max(self.mdev_max_ns);
        }
        if una > self.round_end {
            if self.mdev_max_ns < self.var_ns {
                self.var_ns -= (self.var_ns - self.mdev_max_ns) / 4;
            }
            self.round_end = next;
            self.mdev_max_ns = RTO_MIN_NS;
        }
    }

    /// The timeout, doubled `backoff` times.
    pub fn timeout_ns(&self, backoff: u32) -> u64 {
        let base =
            if self.srtt_ns == 0 { RTO_INIT_NS } else { (self.srtt_ns + self.var_ns) as u64 };
        base.saturating_mul(1 << backoff.min(16)).min(RTO_MAX_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_round_trip_times_out_after_itself_and_200_ms() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.timeout_ns(0), RTO_INIT_NS);
        for at in 0..200 {
            rtt.sample(40_000_000, at, at + 1);
        }
        assert_eq!(rtt.smoothed_ns(), Some(40_000_000));
        assert!((240_000_000..241_000_000).contains(&rtt.timeout_ns(0)), "{}", rtt.timeout_ns(0));
        assert_eq!(rtt.timeout_ns(2), 4 * rtt.timeout_ns(0));
        assert_eq!(rtt.timeout_ns(60), RTO_MAX_NS);
    }
}
