//! When the bottleneck sends: at a constant rate, at the moments of a trace, or at once.

use crate::time::Nanos;
use crate::trace::Trace;
use crate::varying::VaryingRate;
use std::sync::Arc;

/// The work of one byte, in bits/s times nanoseconds: at 1 bit/s a byte takes eight seconds.
pub(crate) const BIT_NANOS: u64 = 8 * 1_000_000_000;

/// A constant rate. The arithmetic is exact: the fraction of a nanosecond that one packet leaves
/// over counts for the next.
#[derive(Clone, Debug)]
pub(crate) struct ConstantRate {
    bits_per_sec: u64,
    /// The end of the last transmission, in whole nanoseconds. `rest` holds the fraction.
    free_at: Nanos,
    /// The fraction of a nanosecond, in units of 1 / `bits_per_sec`.
    rest: u64,
    last: Airtime,
}

/// How long a packet takes to send. Stored because most packets have the length of the one before,
/// and a division costs more than the rest of `send`.
#[derive(Clone, Copy, Debug)]
struct Airtime {
    bytes: u32,
    whole: Nanos,
    /// The fraction of a nanosecond, in units of 1 / `bits_per_sec`.
    rest: u64,
}

impl ConstantRate {
    pub(crate) fn new(bits_per_sec: u64) -> Self {
        let last = Airtime { bytes: 0, whole: Nanos::ZERO, rest: 0 };
        Self { bits_per_sec, free_at: Nanos::ZERO, rest: 0, last }
    }

    /// The time at which a packet that is ready at `now` has been sent. It is rounded up, so that
    /// the link is never faster than its rate.
    #[inline]
    pub(crate) fn send(&mut self, bytes: u32, now: Nanos) -> Nanos {
        if now > self.end() {
            self.free_at = now;
            self.rest = 0;
        }
        if bytes != self.last.bytes {
            let work = work_of(bytes);
            let whole = Nanos(work / self.bits_per_sec);
            self.last = Airtime { bytes, whole, rest: work % self.bits_per_sec };
        }
        self.free_at = self.free_at + self.last.whole;
        self.rest += self.last.rest;
        if self.rest >= self.bits_per_sec {
            self.rest -= self.bits_per_sec;
            self.free_at = self.free_at + Nanos(1);
        }
        self.end()
    }

    #[inline]
    fn end(&self) -> Nanos {
        self.free_at + Nanos(u64::from(self.rest > 0))
    }
}

/// The work of sending a packet, in bits/s times nanoseconds.
pub(crate) fn work_of(bytes: u32) -> u64 {
    // More than 2^31 bytes would overflow 64 bits. An IP packet has at most 2^16.
    u64::from(bytes.min(1 << 20)) * BIT_NANOS
}

/// The position in a trace that is being played.
#[derive(Clone, Debug)]
pub(crate) struct TraceClock {
    trace: Arc<Trace>,
    once: bool,
    base: Nanos,
    next: usize,
    /// The next opportunity; `None` after the end of a trace that plays once.
    at: Option<Nanos>,
}

impl TraceClock {
    pub(crate) fn new(trace: Arc<Trace>, once: bool) -> Self {
        let mut clock = Self { trace, once, base: Nanos::ZERO, next: 0, at: None };
        clock.at = Some(clock.moment());
        clock
    }

    /// The next opportunity; `None` after the end of a trace that plays once.
    #[inline]
    pub(crate) fn next_opportunity(&self) -> Option<Nanos> {
        self.at
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.at.is_none()
    }

    /// Moves past the next opportunity, whether a packet uses it or not.
    pub(crate) fn step(&mut self) {
        self.next += 1;
        if self.next == self.trace.timestamps_ms().len() {
            self.next = 0;
            self.base = self.base + self.trace.period();
            if self.once {
                self.at = None;
                return;
            }
        }
        self.at = Some(self.moment());
    }

    /// Moves past every opportunity up to and at `now`. Skips whole rounds at once.
    pub(crate) fn skip_past(&mut self, now: Nanos) {
        if self.at.is_none_or(|at| at > now) {
            return;
        }
        let rounds = (now - self.base).0 / self.trace.period().0;
        if self.once && rounds > 0 {
            self.at = None;
            return;
        }
        if rounds > 1 {
            // Go to the round before the one that holds `now`: its last timestamp may be `now`
            // itself.
            self.base = self.base + Nanos((rounds - 1) * self.trace.period().0);
            self.next = 0;
            self.at = Some(self.moment());
        }
        while self.next_opportunity().is_some_and(|at| at <= now) {
            self.step();
        }
    }

    fn moment(&self) -> Nanos {
        self.base + Nanos::from_millis(u64::from(self.trace.timestamps_ms()[self.next]))
    }
}

/// A rate known in advance: the end of a transmission is known when it begins.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    Unlimited,
    Constant(ConstantRate),
    Varying(Box<VaryingRate>),
}

impl Pace {
    /// When a packet that is ready at `now` has been sent.
    #[inline]
    pub(crate) fn send(&mut self, bytes: u32, now: Nanos) -> Nanos {
        match self {
            Self::Unlimited => now,
            Self::Constant(rate) => rate.send(bytes, now),
            Self::Varying(rate) => rate.send(bytes, now),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Bottleneck {
    Paced(Pace),
    Trace(TraceClock),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_thousand_odd_packets_end_on_the_exact_nanosecond() {
        // 1500 bytes at 7 Mbit/s take 1714285.714... ns; 7000 of them exactly 12 s.
        let mut rate = ConstantRate::new(7_000_000);
        let mut end = Nanos::ZERO;
        for _ in 0..7_000 {
            end = rate.send(1500, Nanos::ZERO);
        }
        assert_eq!(end, Nanos::from_millis(12_000));
    }

    #[test]
    fn an_idle_link_starts_afresh() {
        let mut rate = ConstantRate::new(12_000_000);
        assert_eq!(rate.send(1500, Nanos::ZERO), Nanos::from_millis(1));
        assert_eq!(rate.send(1500, Nanos::from_millis(5)), Nanos::from_millis(6));
        assert_eq!(rate.send(1500, Nanos::from_millis(5)), Nanos::from_millis(7));
    }

    fn clock(stamps: &str, once: bool) -> TraceClock {
        TraceClock::new(Arc::new(Trace::parse("t", stamps).unwrap()), once)
    }

    fn stamps(clock: &mut TraceClock, count: usize) -> Vec<u64> {
        let mut out = Vec::new();
        while let Some(at) = clock.next_opportunity().filter(|_| out.len() < count) {
            out.push(at.as_millis());
            clock.step();
        }
        out
    }

    #[test]
    fn the_next_round_starts_where_the_last_ended() {
        assert_eq!(stamps(&mut clock("0\n2\n2\n5\n", false), 9), [0, 2, 2, 5, 5, 7, 7, 10, 10]);
        assert_eq!(stamps(&mut clock("3\n", false), 4), [3, 6, 9, 12]);
        assert_eq!(stamps(&mut clock("0\n2\n5\n", true), 9), [0, 2, 5]);
    }

    proptest! {
        #[test]
        fn skipping_equals_walking(
            mut steps in proptest::collection::vec(0u32..20, 1..8),
            now_ms in 0u64..500,
            once: bool,
        ) {
            steps[0] += 1;
            let text: Vec<_> = steps
                .iter()
                .scan(0, |at, step| { *at += step; Some(at.to_string()) })
                .collect();
            let mut walked = clock(&text.join("\n"), once);
            let mut skipped = walked.clone();
            let now = Nanos::from_millis(now_ms);
            while walked.next_opportunity().is_some_and(|at| at <= now) {
                walked.step();
            }
            skipped.skip_past(now);
            prop_assert_eq!(skipped.next_opportunity(), walked.next_opportunity());
            prop_assert_eq!(skipped.is_finished(), walked.is_finished());
        }
    }
}
