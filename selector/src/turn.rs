//! An arm's turn: from when it takes the flow, or keeps it, to a policy's next decision.
//!
//! What is acknowledged in the first round trips after a switch was sent by the arm before, so a
//! turn that begins with a switch counts from two round trips on. A turn that is too short to say
//! something of the arm, or in most of which the application had too little to send, says nothing.

use crate::span_totals::SpanTotals;
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, Seen};
use std::time::Duration;

/// An arm's first packet is acknowledged a round trip later, and seen a report after that.
const SETTLE_RTTS: u32 = 2;
/// A turn of fewer round trips shows where the arm began, not where it goes.
pub const SPAN_RTTS_MIN: u32 = 10;
/// The guard's least dwell, in round trips: a sooner proposal is vetoed (guard.rs in the agent).
/// The dwell begins with a flow's first switch.
pub const DWELL_RTTS_MIN: u32 = 20;
/// RFC 6298 section 2: the weight of a new sample in the smoothed round trip is 1/8.
const SRTT_WEIGHT: u32 = 8;

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Throughput, loss and round trips.
    pub seen: Seen,
    /// The smallest round trip.
    pub rtt_min_ms: f64,
}

/// The turn of the arm in charge.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    arm: &'static str,
    began: Time,
    last: Time,
    settles: bool,
    srtt: Option<Duration>,
    totals: SpanTotals,
    rtt_min: Option<Duration>,
    reports: u32,
    app_limited: u32,
}

impl Turn {
    /// Of the arm that a flow starts with.
    pub fn begin(arm: &'static str, now: Time) -> Self {
        Self {
            arm,
            began: now,
            last: now,
            settles: false,
            srtt: None,
            totals: SpanTotals::default(),
            rtt_min: None,
            reports: 0,
            app_limited: 0,
        }
    }

    /// The next one: of an arm that takes the flow over, or keeps it.
    #[must_use]
    pub fn next(&self, arm: &'static str, now: Time) -> Self {
        Self { settles: arm != self.arm, srtt: self.srtt, ..Self::begin(arm, now) }
    }

    pub fn arm(&self) -> &'static str {
        self.arm
    }

    /// Takes in a report.
    pub fn add(&mut self, m: &Measurement, now: Time) {
        let span = now - self.last;
        self.last = now;
        if let Some(rtt) = m.rtt {
            let srtt = self.srtt.unwrap_or(rtt.mean());
            self.srtt = Some(srtt - srtt / SRTT_WEIGHT + rtt.mean() / SRTT_WEIGHT);
        }
        let settling = self.srtt.unwrap_or_default().saturating_mul(SETTLE_RTTS);
        if self.settles && now - self.began < settling {
            return;
        }
        self.totals.add(m, span);
        self.reports = self.reports.saturating_add(1);
        self.app_limited = self.app_limited.saturating_add(m.app_limited.into());
        if let Some(rtt) = m.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt.min, |least| least.min(rtt.min)));
        }
    }

    /// Whether the arm has had the flow for so long, and for so many round trips.
    pub fn has_lasted(&self, dwell: Duration, rtts_min: u32, now: Time) -> bool {
        let round_trips = self.srtt.unwrap_or_default().saturating_mul(rtts_min);
        now - self.began >= dwell.max(round_trips)
    }

    /// What came of the turn, if the turn has so many round trips and says something.
    pub fn outcome(&self, rtts_min: u32) -> Option<Outcome> {
        let (srtt, rtt_min) = (self.srtt?, self.rtt_min?);
        let long = self.totals.span() >= srtt.saturating_mul(rtts_min);
        let limited = self.app_limited > self.reports / 2;
        let seen = self.totals.seen().filter(|_| long && !limited)?;
        Some(Outcome { seen, rtt_min_ms: rtt_min.as_secs_f64() * 1e3 })
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
        Measurement {
            delivered: Bytes(bytes),
            lost: Packets(1),
            mss: Bytes(1_000),
            rtt: Some(RttSamples::one(Duration::from_millis(rtt_ms))),
            ..Measurement::QUIET
        }
    }

    fn feed(turn: &mut Turn, m: &Measurement, span_ms: std::ops::RangeInclusive<u64>) {
        span_ms.step_by(10).for_each(|ms| turn.add(m, at(ms)));
    }

    #[test]
    fn it_sums_up_what_was_reported() {
        let mut turn = Turn::begin("cubic", at(0));
        feed(&mut turn, &report(12_500, 30), 10..=500);
        feed(&mut turn, &report(12_500, 50), 510..=1_000);
        let outcome = turn.outcome(SPAN_RTTS_MIN).expect("a second of 40 ms is long enough");
        let Seen { span_s, throughput_mbit_per_sec, lost_mbit_per_sec, rtt_mean_ms } = outcome.seen;
        assert_eq!((span_s, throughput_mbit_per_sec, lost_mbit_per_sec), (1.0, 10.0, 0.8));
        assert_eq!((rtt_mean_ms, outcome.rtt_min_ms), (40.0, 30.0));
    }

    #[test]
    fn the_round_trips_after_a_switch_are_of_the_arm_before() {
        let mut turn = Turn::begin("cubic", at(0));
        feed(&mut turn, &report(1_000, 50), 10..=1_000);
        let mut turn = turn.next("bbr", at(1_000));
        feed(&mut turn, &report(90_000, 50), 1_010..=1_090);
        feed(&mut turn, &report(1_250, 50), 1_100..=2_000);
        let outcome = turn.outcome(SPAN_RTTS_MIN).expect("it is long enough");
        assert_eq!((turn.arm(), outcome.seen.throughput_mbit_per_sec), ("bbr", 1.0));
        let mut kept = turn.next("bbr", at(2_000));
        feed(&mut kept, &report(1_250, 50), 2_010..=3_000);
        assert_eq!(kept.outcome(SPAN_RTTS_MIN).expect("it is long enough").seen.span_s, 1.0);
    }

    #[test]
    fn too_few_round_trips_say_nothing_nor_does_what_the_application_limits() {
        let mut turn = Turn::begin("cubic", at(0));
        assert_eq!(turn.outcome(SPAN_RTTS_MIN), None);
        feed(&mut turn, &report(1_000, 50), 10..=490);
        assert_eq!(turn.outcome(SPAN_RTTS_MIN), None);
        feed(&mut turn, &report(1_000, 50), 500..=500);
        assert!(turn.outcome(SPAN_RTTS_MIN).is_some());
        feed(&mut turn, &Measurement { app_limited: true, ..report(1_000, 50) }, 510..=1_020);
        assert_eq!(turn.outcome(SPAN_RTTS_MIN), None);
    }

    #[test]
    fn a_dwell_is_20_round_trips_at_least() {
        let mut turn = Turn::begin("cubic", at(0));
        feed(&mut turn, &report(1_000, 500), 10..=1_000);
        let dwell = Duration::from_secs(5);
        let has_lasted = |turn: &Turn, ms| turn.has_lasted(dwell, DWELL_RTTS_MIN, at(ms));
        assert!(!has_lasted(&turn, 9_999) && has_lasted(&turn, 10_000));
        assert!(!has_lasted(&Turn::begin("cubic", at(0)), 4_999));
        assert!(has_lasted(&Turn::begin("cubic", at(0)), 5_000));
        assert!(turn.has_lasted(dwell, SPAN_RTTS_MIN, at(5_000)));
    }
}
