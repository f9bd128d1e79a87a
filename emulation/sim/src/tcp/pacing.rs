//! Pacing as the kernel does it without fq (net/ipv4/tcp_output.c). A burst holds what the rate
//! sends in a millisecond, and at least two segments. After a burst the sender waits for the time
//! that its payload takes at that rate.

/// `sk_pacing_shift`: a burst is what the rate sends in 1/1024 s.
const BURST_SHIFT: u32 = 10;
/// `net.ipv4.tcp_min_tso_segs`.
const BURST_PKTS_MIN: u32 = 2;
/// The most bytes in one skb.
const BURST_BYTES_MAX: u64 = 65_536;

/// The pacing state of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    rate_bytes_per_sec: Option<u64>,
    /// `tcp_wstamp_ns`.
    next_ns: u64,
}

impl Pacer {
    /// The pacing rate in bytes per second; `None` if the sender is not paced.
    pub fn rate(&self) -> Option<u64> {
        self.rate_bytes_per_sec
    }

    pub fn set_rate(&mut self, rate_bytes_per_sec: Option<u64>) {
        self.rate_bytes_per_sec = rate_bytes_per_sec.map(|rate| rate.max(1));
    }

    /// When the next burst may be sent; 0 if the sender is not paced.
    pub fn next_ns(&self) -> u64 {
        if self.rate_bytes_per_sec.is_some() { self.next_ns } else { 0 }
    }

    /// The number of segments in a burst.
    pub fn burst_pkts(&self, mss_bytes: u32) -> u32 {
        let Some(rate) = self.rate_bytes_per_sec else {
            return u32::MAX;
        };
        let bytes = (rate >> BURST_SHIFT).min(BURST_BYTES_MAX);
        ((bytes / u64::from(mss_bytes.max(1))) as u32).max(BURST_PKTS_MIN)
    }

    /// `tcp_update_skb_after_send()`: a burst of `pkts` segments was sent at `now_ns`. If the burst
    /// was late, the next one comes earlier by that much, but at most by half of the burst's time.
    pub fn sent(&mut self, pkts: u32, mss_bytes: u32, now_ns: u64) {
        let Some(rate) = self.rate_bytes_per_sec else {
            return;
        };
        let bytes = u64::from(pkts) * u64::from(mss_bytes);
        let took_ns = bytes * 1_000_000_000 / rate;
        let late_ns = now_ns.saturating_sub(self.next_ns);
        self.next_ns = self.next_ns.max(now_ns) + took_ns - (took_ns / 2).min(late_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_keep_the_rate() {
        let mut pacer = Pacer::default();
        assert_eq!((pacer.burst_pkts(1_448), pacer.next_ns()), (u32::MAX, 0));
        pacer.set_rate(Some(12_000_000)); // 8 full segments in 1/1024 s
        assert_eq!(pacer.burst_pkts(1_448), 8);
        pacer.sent(8, 1_500, 0);
        assert_eq!(pacer.next_ns(), 1_000_000);
        pacer.sent(8, 1_500, 1_400_000);
        assert_eq!(pacer.next_ns(), 2_000_000, "0.4 ms late: the next burst comes 0.4 ms earlier");
        pacer.sent(8, 1_500, 9_000_000);
        assert_eq!(pacer.next_ns(), 9_500_000, "at most half of the burst's time is made up");
    }
}
