//! A policer: a token bucket that drops packets beyond its rate and burst.
//!
//! RFC 2697 section 3, with one rate and one burst. The bucket holds `burst` bytes, is full at the
//! start, and fills at the rate. A packet passes if the bucket holds enough tokens for it, and
//! takes them; otherwise it is dropped. No packet waits, so a policer adds no delay.

use crate::bottleneck::{BIT_NANOS, work_of};
use crate::time::Nanos;

/// Decides which packets exceed a rate.
#[derive(Clone, Debug)]
pub struct Policer {
    bits_per_sec: u64,
    /// Tokens count bits/s times nanoseconds, so that each nanosecond adds a whole number of them.
    full: u64,
    tokens: u64,
    at: Nanos,
}

impl Policer {
    pub fn new(bits_per_sec: u64, burst_bytes: u64) -> Self {
        let full = burst_bytes.saturating_mul(BIT_NANOS);
        Self { bits_per_sec, full, tokens: full, at: Nanos::ZERO }
    }

    /// Whether a packet that comes at `now` passes. `now` must not decrease from call to call.
    pub fn admits(&mut self, bytes: u32, now: Nanos) -> bool {
        let gained = (now - self.at).0.saturating_mul(self.bits_per_sec);
        self.tokens = self.tokens.saturating_add(gained).min(self.full);
        self.at = now;
        let cost = work_of(bytes);
        let admits = cost <= self.tokens;
        if admits {
            self.tokens -= cost;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        // 12 Mbit/s: a packet a millisecond, after a burst of ten.
        let mut policer = Policer::new(12_000_000, 15_000);
        let mut passed_at =
            |ms| (0..20).filter(|_| policer.admits(1500, Nanos::from_millis(ms))).count();
        assert_eq!([passed_at(0), passed_at(1), passed_at(4), passed_at(1000)], [10, 1, 3, 10]);
    }

    #[test]
    fn a_packet_larger_than_the_burst_never_passes() {
        let mut policer = Policer::new(12_000_000, 1499);
        assert!(!policer.admits(1500, Nanos::from_millis(1_000)));
        assert!(policer.admits(1499, Nanos::from_millis(1_000)));
    }

    proptest! {
        /// RFC 2697: any span passes at most the burst plus the rate times the span.
        #[test]
        fn no_span_passes_more_than_burst_and_rate(
            rate in 10_000u64..1_000_000_000,
            burst in 1_500u64..100_000,
            packets in proptest::collection::vec((0u64..10_000_000, 40u32..1_500), 1..100),
        ) {
            let mut policer = Policer::new(rate, burst);
            let mut now = Nanos::ZERO;
            let mut passed = Vec::new();
            for (gap, bytes) in packets {
                now = now + Nanos(gap);
                if policer.admits(bytes, now) {
                    passed.push((now, bytes));
                }
            }
            for (start, (from, _)) in passed.iter().enumerate() {
                let mut bits = 0;
                for (until, bytes) in &passed[start..] {
                    bits += u128::from(*bytes) * 8;
                    let span_ns = u128::from((*until - *from).0);
                    let allowed = u128::from(burst) * 8_000_000_000 + span_ns * u128::from(rate);
                    prop_assert!(bits * 1_000_000_000 <= allowed);
                }
            }
        }
    }
}
