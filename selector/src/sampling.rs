//! Cuts the time in which an arm has a flow into samples: what it knew, and what came of it.
//!
//! Training and the running agent sample by the same code, as they cut data units by the same
//! ([`crate::features`]).

use crate::features::{Unit, Units};
use crate::span_totals::SpanTotals;
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, Sample};
use std::time::Duration;

/// A sample lasts so long at least: short beside a policy's dwell, and long beside a round trip.
const PERIOD: Duration = Duration::from_millis(500);

/// The data units and the samples of one flow.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    units: Units,
    latest: Option<Unit>,
    since: Time,
    last: Time,
    totals: SpanTotals,
    sample: Option<Sample>,
}

impl Sampling {
    /// Of a flow that starts, or is taken over, now.
    pub fn begin(now: Time) -> Self {
        Self { since: now, last: now, ..Self::default() }
    }

    /// Takes in a report of the flow, which `arm` has; the data unit, if one ends with it.
    pub fn add(&mut self, m: &Measurement, arm: &'static str, now: Time) -> Option<Unit> {
        self.totals.add(m, now - self.last);
        self.last = now;
        let unit = self.units.add(m, arm, now);
        self.latest = unit.or(self.latest);
        if now - self.since >= PERIOD {
            self.cut(arm, now);
        }
        unit
    }

    /// Another arm has the flow now: what the one before did is not mixed with what it does.
    pub fn switched(&mut self, from: &'static str, now: Time) {
        self.cut(from, now);
        (self.since, self.totals) = (now, SpanTotals::default());
    }

    fn cut(&mut self, arm: &'static str, now: Time) {
        let (Some(latest), Some(seen)) = (self.latest, self.totals.seen()) else { return };
        let features = latest.features.0.into();
        self.sample = Some(Sample { arm, from: self.since, until: now, seen, features });
        (self.since, self.totals) = (now, SpanTotals::default());
    }

    /// The sample that has ended, once.
    pub fn sample(&mut self) -> Option<Sample> {
        self.sample.take()
    }

    /// The sample that has ended, which [`Self::sample`] still takes.
    pub fn ended(&self) -> Option<&Sample> {
        self.sample.as_ref()
    }

    /// The moment of the last report.
    pub fn now(&self) -> Time {
        self.last
    }

    /// The last data unit that has ended.
    pub fn latest(&self) -> Option<&Unit> {
        self.latest.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::RttSamples;
    use remuda_algorithms::units::{Bytes, Packets};

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn report(bytes: u64, rtt_ms: u64) -> Measurement {
        let rtt = RttSamples { count: 20, ..RttSamples::one(Duration::from_millis(rtt_ms)) };
        let sum_us = rtt_ms * 20_000;
        Measurement {
            delivered: Bytes(bytes),
            rtt: Some(RttSamples { sum_us, ..rtt }),
            mss: Bytes(1_000),
            ..Measurement::QUIET
        }
    }

    #[test]
    fn spans_follow_each_other_and_sum_up_what_was_reported() {
        let mut sampling = Sampling::begin(at(0));
        let mut samples = Vec::new();
        for step in 1..=30u64 {
            let m = Measurement { lost: Packets(1), ..report(step * 1_000, 50) };
            sampling.add(&m, "cubic", at(step * 100));
            samples.extend(sampling.sample());
        }
        assert_eq!(samples.len(), 6);
        assert!(samples.windows(2).all(|two| two[0].until == two[1].from));
        // 1 to 5 thousand bytes in half a second, and five segments of a thousand lost.
        let seen = samples[0].seen;
        assert_eq!((seen.span_s, seen.rtt_mean_ms), (0.5, 50.0));
        assert!((seen.throughput_mbit_per_sec - 15_000.0 * 8.0 / 0.5e6).abs() < 1e-9);
        assert!((seen.lost_mbit_per_sec - 5_000.0 * 8.0 / 0.5e6).abs() < 1e-9);
    }

    #[test]
    fn a_switch_ends_a_sample_of_the_arm_before() {
        let mut sampling = Sampling::begin(at(0));
        sampling.add(&report(1_000, 50), "cubic", at(100));
        sampling.add(&report(1_000, 50), "cubic", at(200));
        sampling.switched("cubic", at(200));
        let sample = sampling.sample().expect("of cubic");
        assert_eq!((sample.arm, sample.until), ("cubic", at(200)));
        sampling.add(&report(1_000, 90), "bbr", at(700));
        let sample = sampling.sample().expect("of bbr");
        assert_eq!((sample.arm, sample.from, sample.seen.rtt_mean_ms), ("bbr", at(200), 90.0));
    }

    #[test]
    fn nothing_is_sampled_before_the_first_data_unit() {
        let mut sampling = Sampling::begin(at(0));
        for step in 1..=10 {
            let few = Measurement { rtt: None, ..report(1_000, 50) };
            assert_eq!(sampling.add(&few, "cubic", at(step * 100)), None);
        }
        assert_eq!(sampling.sample(), None);
    }
}
