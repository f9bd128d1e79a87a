//! A rate that changes at given moments, and stops during outages.
//!
//! A packet in transmission when the rate changes goes on at the new rate. A packet that meets an
//! outage stops, and goes on after it. No bit is lost: the arithmetic is exact, as with a constant
//! rate.

use crate::bottleneck::{BIT_NANOS, work_of};
use crate::schedule::{Cursor, Schedule};
use crate::time::Nanos;

/// The speed of the bottleneck at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speed {
    Stopped,
    BitsPerSec(u64),
    Unlimited,
}

/// Rate and outages, read forwards in time.
#[derive(Clone, Debug)]
pub(crate) struct SpeedClock {
    /// `None`: no limit.
    bits_per_sec: Option<Cursor<u64>>,
    outage: Option<Cursor<bool>>,
}

impl SpeedClock {
    pub(crate) fn new(
        bits_per_sec: Option<Schedule<u64>>,
        outages: Option<Schedule<bool>>,
    ) -> Self {
        Self { bits_per_sec: bits_per_sec.map(Cursor::new), outage: outages.map(Cursor::new) }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.bits_per_sec.is_some()
    }

    /// The rate at `now` (0 in an outage), and until when it holds at least.
    pub(crate) fn bits_per_sec(&mut self, now: Nanos) -> (u64, Nanos) {
        let (speed, until) = self.at(now);
        match speed {
            Speed::Stopped => (0, until),
            Speed::BitsPerSec(rate) => (rate, until),
            Speed::Unlimited => (u64::MAX, until),
        }
    }

    /// The speed at `now`, and until when it holds at least.
    fn at(&mut self, now: Nanos) -> (Speed, Nanos) {
        let (mut speed, mut until) = (Speed::Unlimited, Nanos::MAX);
        if let Some(rate) = &mut self.bits_per_sec {
            speed = Speed::BitsPerSec(rate.at(now));
            until = rate.until();
        }
        if let Some(outage) = &mut self.outage {
            if outage.at(now) {
                return (Speed::Stopped, outage.until());
            }
            until = until.min(outage.until());
        }
        (speed, until)
    }
}

/// A bottleneck with a changing rate.
#[derive(Clone, Debug)]
pub(crate) struct VaryingRate {
    clock: SpeedClock,
    /// The end of the last transmission, in whole nanoseconds. `rest` holds the fraction.
    free_at: Nanos,
    /// Work left over, at the rate that holds at `free_at`.
    rest: u64,
}

impl VaryingRate {
    pub(crate) fn new(clock: SpeedClock) -> Self {
        Self { clock, free_at: Nanos::ZERO, rest: 0 }
    }

    /// When a packet that is ready at `now` has been sent. Rounded up, so that the link is never
    /// faster than its rate.
    pub(crate) fn send(&mut self, bytes: u32, now: Nanos) -> Nanos {
        if now > self.end() {
            self.free_at = now;
            self.rest = 0;
        }
        let mut work = work_of(bytes) + self.rest;
        let mut at = self.free_at;
        while work > 0 && at < Nanos::MAX {
            let (speed, until) = self.clock.at(at);
            match speed {
                Speed::Stopped => at = until,
                Speed::Unlimited => work = 0,
                Speed::BitsPerSec(rate) if work / rate < (until - at).0 => {
                    at = at + Nanos(work / rate);
                    work %= rate;
                    break;
                }
                Speed::BitsPerSec(rate) => {
                    work -= rate * (until - at).0;
                    at = until;
                }
            }
        }
        (self.free_at, self.rest) = (at, work);
        self.end()
    }

    fn end(&self) -> Nanos {
        self.free_at + Nanos(u64::from(self.rest > 0))
    }
}

/// How much the rate could have sent, millisecond by millisecond, for the log.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    clock: SpeedClock,
    /// The millisecond that `next_by` returns next.
    ms: u64,
    /// Work of earlier milliseconds that did not fill a whole byte.
    carried: u64,
}

impl Meter {
    pub(crate) fn new(clock: SpeedClock, from: Nanos) -> Self {
        Self { clock, ms: from.as_millis(), carried: 0 }
    }

    /// The end of the next millisecond and its capacity in bytes, if it has ended by `now`.
    pub(crate) fn next_by(&mut self, now: Nanos) -> Option<(Nanos, u64)> {
        let end = Nanos::from_millis(self.ms + 1);
        if end > now {
            return None;
        }
        let mut at = Nanos::from_millis(self.ms);
        let mut work = self.carried;
        while at < end {
            let (speed, until) = self.clock.at(at);
            let until = until.min(end);
            if let Speed::BitsPerSec(rate) = speed {
                work += rate * (until - at).0;
            }
            at = until;
        }
        self.ms += 1;
        self.carried = work % BIT_NANOS;
        Some((end, work / BIT_NANOS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bottleneck::ConstantRate;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn clock(steps_ms: &[(u64, u64)], outages_ms: &[(u64, u64)]) -> SpeedClock {
        let rates = steps_ms.iter().map(|(at, rate)| (Nanos::from_millis(*at), *rate)).collect();
        let outages = outages_ms
            .iter()
            .flat_map(|(from, to)| [(*from, true), (*to, false)])
            .map(|(at, out)| (Nanos::from_millis(at), out))
            .collect();
        SpeedClock::new(
            Some(Schedule::new(12_000_000, rates, None)),
            Some(Schedule::new(false, outages, None)),
        )
    }

    /// When each of `count` packets of 1500 bytes, which all come at `from_ms`, has been sent.
    fn sent(clock: SpeedClock, from_ms: u64, count: usize) -> Vec<u64> {
        let mut rate = VaryingRate::new(clock);
        let from = Nanos::from_millis(from_ms);
        (0..count).map(|_| rate.send(1500, from).0).collect()
    }

    #[test]
    fn a_packet_goes_on_at_the_new_rate() {
        // A packet takes 1 ms; from 2 ms on half a millisecond; from 3 ms on 2 ms.
        let steps = [(2, 24_000_000), (3, 6_000_000)];
        assert_eq!(sent(clock(&steps, &[]), 0, 5), [MS, 2 * MS, 2 * MS + MS / 2, 3 * MS, 5 * MS]);
        // Half of the third packet goes at the first rate, the other half at twice that.
        let steps = [(2, 24_000_000)];
        let mut rate = VaryingRate::new(clock(&steps, &[]));
        let start = Nanos(MS / 2);
        let ends: Vec<u64> = (0..3).map(|_| rate.send(1500, start).0).collect();
        assert_eq!(ends, [3 * MS / 2, 2 * MS + MS / 4, 2 * MS + 3 * MS / 4]);
    }

    #[test]
    fn an_outage_stops_what_is_being_sent_and_loses_nothing_of_it() {
        let mut rate = VaryingRate::new(clock(&[], &[(2, 502)]));
        let start = Nanos(MS / 2);
        let ends: Vec<u64> = (0..2).map(|_| rate.send(1500, start).0).collect();
        assert_eq!(ends, [3 * MS / 2, 502 * MS + MS / 2]);
        // A packet that ends as the outage begins has left. A packet that comes during it waits for
        // its end.
        assert_eq!(sent(clock(&[], &[(2, 502)]), 0, 3), [MS, 2 * MS, 503 * MS]);
        assert_eq!(sent(clock(&[], &[(2, 502)]), 100, 2), [503 * MS, 504 * MS]);
    }

    #[test]
    fn without_a_rate_an_outage_holds_all_until_its_end() {
        let outages = vec![(Nanos(5), true), (Nanos(9), false)];
        let clock = SpeedClock::new(None, Some(Schedule::new(false, outages, None)));
        let mut rate = VaryingRate::new(clock);
        let ends = [3, 5, 8, 9, 12].map(|at| rate.send(1500, Nanos(at)).0);
        assert_eq!(ends, [3, 9, 9, 9, 12]);
    }

    #[test]
    fn a_meter_adds_up_to_the_rate() {
        let mut meter = Meter::new(clock(&[(2, 100)], &[(1, 2)]), Nanos::ZERO);
        let mut bytes = |ms: u64| meter.next_by(Nanos::from_millis(ms)).map(|(_, bytes)| bytes);
        assert_eq!([bytes(0), bytes(1), bytes(2)], [None, Some(1500), Some(0)]);
        // 100 bits/s: a byte every 80 ms.
        assert_eq!((3..=162).filter_map(bytes).sum::<u64>(), 2);
    }

    proptest! {
        #[test]
        fn a_rate_that_never_changes_is_a_constant_one(
            rate in 1_000u64..100_000_000_000,
            packets in proptest::collection::vec((0u64..5_000_000, 40u32..9_000), 1..50),
        ) {
            let clock = SpeedClock::new(Some(Schedule::constant(rate)), None);
            let (mut varying, mut constant) = (VaryingRate::new(clock), ConstantRate::new(rate));
            let mut now = Nanos::ZERO;
            for (gap, bytes) in packets {
                now = now + Nanos(gap);
                prop_assert_eq!(varying.send(bytes, now), constant.send(bytes, now));
            }
        }

        #[test]
        fn steps_to_the_same_rate_change_nothing(
            rate in 1_000_000u64..1_000_000_000,
            mut at in proptest::collection::vec(0u64..100_000_000, 1..20),
            packets in proptest::collection::vec((0u64..3_000_000, 40u32..1_500), 1..50),
        ) {
            at.sort_unstable();
            let steps = at.into_iter().map(|at| (Nanos(at), rate)).collect();
            let clock = SpeedClock::new(Some(Schedule::new(rate, steps, None)), None);
            let (mut varying, mut constant) = (VaryingRate::new(clock), ConstantRate::new(rate));
            let mut now = Nanos::ZERO;
            for (gap, bytes) in packets {
                now = now + Nanos(gap);
                prop_assert_eq!(varying.send(bytes, now), constant.send(bytes, now));
            }
        }
    }
}
