//! How long the run loop may let reports and timers wait, so that it answers several at once.
//!
//! A wake costs the agent several times as much as the answer to a report. Where many reports come,
//! the run loop therefore pauses between two looks at its datapaths. A pause lasts a small part of
//! the shortest round trip among the flows that report, so that an answer comes late by that part
//! at most. Without two reports or more to be expected in a pause, there is none.

use std::time::Duration;

/// A pause is at most this part of the shortest round trip.
const PART_OF_ROUND_TRIP: u64 = 16;
/// The longest pause, in microseconds.
const PAUSE_US_MAX: u64 = 2_000;
/// The run loop does not pause for less than this, in microseconds: the kernel ends a pause up to
/// 50 us late.
const PAUSE_US_MIN: u64 = 100;
/// The run loop pauses only if so many reports are to be expected in the pause.
const REPORTS_MIN: u64 = 2;
/// Reports are counted in spans of this length, in microseconds. The shortest round trip is that of
/// the present span and of the span before.
const SPAN_US: u64 = 100_000;

/// What has been reported in a span.
#[derive(Clone, Copy, Debug)]
struct Span {
    reports: u64,
    /// The shortest round trip, in microseconds.
    rtt_us_min: u64,
}

const NOTHING: Span = Span { reports: 0, rtt_us_min: u64::MAX };

/// How many reports come, and from how near.
#[derive(Clone, Copy, Debug)]
pub struct Gathering {
    began_us: u64,
    now: Span,
    before: Span,
}

impl Default for Gathering {
    fn default() -> Self {
        Self { began_us: 0, now: NOTHING, before: NOTHING }
    }
}

impl Gathering {
    /// A flow has reported at `now_us`; `rtt_us` is the least round trip that it reports.
    pub fn note(&mut self, rtt_us: Option<u64>, now_us: u64) {
        self.advance(now_us);
        self.now.reports += 1;
        self.now.rtt_us_min = self.now.rtt_us_min.min(rtt_us.unwrap_or(u64::MAX));
    }

    /// For how long the run loop may pause; zero if it should not.
    pub fn pause(&mut self, now_us: u64) -> Duration {
        self.advance(now_us);
        let rtt_us = self.now.rtt_us_min.min(self.before.rtt_us_min);
        let pause_us = (rtt_us / PART_OF_ROUND_TRIP).min(PAUSE_US_MAX);
        let expected = self.before.reports * pause_us / SPAN_US;
        let is_worth_it = pause_us >= PAUSE_US_MIN && expected >= REPORTS_MIN;
        Duration::from_micros(if is_worth_it { pause_us } else { 0 })
    }

    fn advance(&mut self, now_us: u64) {
        let since_us = now_us.saturating_sub(self.began_us);
        if since_us < SPAN_US {
            return;
        }
        self.before = if since_us < 2 * SPAN_US { self.now } else { NOTHING };
        (self.now, self.began_us) = (NOTHING, now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause after 250 ms of evenly spaced reports.
    fn pause_us(reports_per_sec: u64, rtt_us: u64) -> u128 {
        let mut gathering = Gathering::default();
        let end_us = 10_250_000;
        for at_us in (10_000_000..=end_us).step_by((1_000_000 / reports_per_sec) as usize) {
            gathering.note(Some(rtt_us), at_us);
        }
        gathering.pause(end_us).as_micros()
    }

    #[test]
    fn a_pause_is_a_small_part_of_the_shortest_round_trip() {
        assert_eq!(pause_us(8_000, 40_000), 2_000, "the longest pause");
        assert_eq!(pause_us(8_000, 16_000), 1_000);
        assert_eq!(pause_us(100_000, 1_500), 0, "the round trip is too short");
        let mut gathering = Gathering::default();
        for at_us in (0..=250_000).step_by(125) {
            gathering.note(Some(if at_us == 0 { 100 } else { 16_000 }), at_us);
        }
        assert_eq!(gathering.pause(250_000).as_micros(), 1_000, "what has ended counts no longer");
        gathering.note(Some(200), 250_000);
        assert_eq!(gathering.pause(250_000).as_micros(), 0, "a near flow counts at once");
    }

    #[test]
    fn few_reports_are_answered_at_once() {
        assert_eq!(pause_us(950, 40_000), 0);
        assert_eq!(pause_us(1_050, 40_000), 2_000);
        let mut gathering = Gathering::default();
        for at_us in (0..=250_000).step_by(125) {
            gathering.note(Some(40_000), at_us);
        }
        assert_eq!(gathering.pause(500_000).as_micros(), 0, "they have stopped");
    }

    #[test]
    fn without_round_trips_there_is_no_bound_to_respect_but_the_longest_pause() {
        let mut gathering = Gathering::default();
        for at_us in (0..=250_000).step_by(125) {
            gathering.note(None, at_us);
        }
        assert_eq!(gathering.pause(250_000).as_micros(), 2_000);
    }
}
