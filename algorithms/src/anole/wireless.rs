//! Whether a path is a radio's: there, a capacity is not worth remembering (section III-C).
//!
//! A queue that this flow fills moves the round trip along a line: within a report, a sixteenth of
//! a round trip, by little, and from report to report by as much as before. What deviates from
//! that, within reports or from the line through two of them, is the path's own.
//!
//! Differs from Rein (selector/src/rein.rs), which classes a flow by all of its round trips: here
//! the flow fills and drains queues on purpose, so only what is faster than a queue counts.

use crate::measurement::RttSamples;

/// A path is classed as wireless if round trips within a report deviate by more than this part of
/// their mean.
const DEVIATION: f64 = 0.08;
/// Reports of fewer samples are left out, as they do not show how round trips spread.
const SAMPLES_MIN: u64 = 3;
/// The weight of a report in the mean. A verdict needs [`REPORTS_MIN`] reports.
const WEIGHT: f64 = 1.0 / 64.0;
const REPORTS_MIN: u32 = 64;

/// The mean of three reports' second difference, over the standard deviation of each: the square
/// root of 1 + 4 + 1.
const SECOND_DIFFERENCE: f64 = 2.449;

/// The deviation that no queue explains, over many reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wireless {
    /// Mean of (deviation / mean)^2 within reports.
    within: f64,
    /// Mean of the distance from the line, over the mean round trip.
    between: f64,
    /// The mean round trips of the last two reports, in microseconds.
    last: [f64; 2],
    reports: u32,
}

impl Wireless {
    pub fn observe(&mut self, rtt: &RttSamples) {
        let count = rtt.count.max(1) as f64;
        let mean = (rtt.sum_us as f64 / count).max(1.0);
        let weight = WEIGHT.max(1.0 / (f64::from(self.reports) + 1.0));
        if rtt.count >= SAMPLES_MIN {
            let variance = (rtt.sq_sum_us2 as f64 / count - mean * mean).max(0.0);
            // A broken report may claim anything.
            let spread = (variance / (mean * mean)).min(1.0);
            self.within += (spread - self.within) * weight;
        }
        let [before, last] = self.last;
        if before > 0.0 {
            let off = (mean - 2.0 * last + before).abs() / SECOND_DIFFERENCE / mean;
            self.between += (off.min(1.0) - self.between) * weight;
        }
        self.last = [last, mean];
        self.reports = self.reports.saturating_add(1);
    }

    /// The deviation, as a share of the round trip, 0 to 1.
    pub fn deviation(&self) -> f64 {
        libm::sqrt(self.within).max(self.between)
    }

    pub fn is_wireless(&self) -> bool {
        self.reports >= REPORTS_MIN && self.deviation() > DEVIATION
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn report(us: [u64; 4]) -> RttSamples {
        RttSamples {
            sum_us: us.iter().sum(),
            sq_sum_us2: us.iter().map(|us| us * us).sum(),
            count: 4,
            ..RttSamples::one(Duration::from_micros(us[3]))
        }
    }

    #[test]
    fn a_queue_that_fills_is_no_radio_and_jitter_is_one() {
        let (mut wired, mut radio) = (Wireless::default(), Wireless::default());
        for n in 0..200 {
            let base = 50_000 + (n % 16) * 2_000;
            wired.observe(&report([base, base + 600, base + 1_200, base + 1_800]));
            radio.observe(&report([base, base + 20_000, base + 3_000, base + 12_000]));
        }
        assert!(!wired.is_wireless() && radio.is_wireless());
    }

    #[test]
    fn few_reports_decide_nothing() {
        let mut of = Wireless::default();
        of.observe(&report([1, 90_000, 1, 90_000]));
        assert!(!of.is_wireless());
    }
}
