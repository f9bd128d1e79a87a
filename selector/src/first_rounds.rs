//! Whether others kept a queue at the bottleneck when a flow began. Such a queue hides the base
//! RTT: the least RTT that the flow sees contains the queue.
//!
//! Two signs, each in least RTTs of whole round trips:
//!
//! ```text
//! RTT_min < first - slack                       the queue was longer when the flow began
//! RTT > first + slack before in-flight reaches half of delivery rate * RTT_min
//!                                               the queue grew before the flow filled the pipe
//! slack = 3 % of first + 1 ms                   the noise of hosts
//!         + 2 segments in the first sign        what a delayed ACK adds to the first RTT
//! ```
//!
//! If an earlier flow has seen a shorter round trip, a queue hides nothing.
//!
//! On an empty path neither occurs: the first round trip is the base, and a flow alone, or one of
//! two that began together, has filled half of the pipe when a queue begins to grow. Jitter can
//! cause either sign, so ask only about paths whose round trips do not jitter.

use remuda_algorithms::Measurement;
use remuda_algorithms::units::{Bytes, Rate, Time};
use std::time::Duration;

/// The part of an RTT, and the time, that hosts may add.
const SLACK_PERCENT: u32 = 3;
const SLACK: Duration = Duration::from_millis(1);

/// The first round trips of a flow, until their least RTT rises.
#[derive(Clone, Copy, Debug)]
pub struct FirstRounds {
    /// The least RTT of the first round trip, and the one known before.
    first: Option<Duration>,
    known: Option<Duration>,
    /// The least RTT of the round trip under way, and when that ends.
    round_min: Option<Duration>,
    round_end: Time,
    /// The most in flight until the end of the last round trip, and until now.
    in_flight_before: Bytes,
    in_flight: Bytes,
    /// What was in flight when the RTT rose.
    risen_at: Option<Bytes>,
    rate_max: Rate,
}

impl FirstRounds {
    /// `known` is the least RTT of earlier flows on the path, or of the handshake.
    pub fn new(known: Option<Duration>, now: Time) -> Self {
        Self {
            first: None,
            known,
            round_min: None,
            round_end: now,
            in_flight_before: Bytes(0),
            in_flight: Bytes(0),
            risen_at: None,
            rate_max: Rate::default(),
        }
    }

    pub fn add(&mut self, m: &Measurement, now: Time) {
        self.rate_max = self.rate_max.max(m.delivery_rate);
        self.in_flight = self.in_flight.max(m.in_flight);
        let Some(rtt) = m.rtt.filter(|_| self.risen_at.is_none()) else {
            return;
        };
        let round_min = self.round_min.map_or(rtt.min, |min| min.min(rtt.min));
        self.round_min = Some(round_min);
        if now < self.round_end {
            return;
        }
        let first = *self.first.get_or_insert(round_min);
        if round_min > first + slack(first) {
            self.risen_at = Some(self.in_flight_before);
        }
        self.in_flight_before = self.in_flight;
        self.round_min = None;
        self.round_end = now + rtt.last;
    }

    /// The largest delivery rate so far.
    pub fn rate_max(&self) -> Rate {
        self.rate_max
    }

    /// Whether a queue stood there, by the least RTT so far.
    pub fn found_queue(&self, rtt_min: Duration, mss: Bytes) -> bool {
        let pipe = self.rate_max * rtt_min;
        let segments = (mss + mss) / self.rate_max;
        let has_fallen = self.first.is_some_and(|first| rtt_min + slack(first) + segments < first);
        has_fallen || self.risen_at.is_some_and(|at| at + at < pipe)
    }

    /// Whether an earlier flow has seen a shorter round trip than this one at its begin, by a
    /// fifth: the handshake is a little shorter than the first round trip with data, too.
    pub fn knows_shorter(&self) -> bool {
        self.first.zip(self.known).is_some_and(|(first, known)| known < first * 4 / 5)
    }
}

fn slack(rtt: Duration) -> Duration {
    rtt * SLACK_PERCENT / 100 + SLACK
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::RttSamples;

    /// One report a round trip: RTT in milliseconds, kilobytes in flight. The delivery rate is what
    /// is in flight over the RTT.
    fn check(rounds: &[(u64, u64)], want: bool) {
        let mut first_rounds = FirstRounds::new(None, Time::ZERO);
        let mut now = Time::ZERO;
        for (rtt_ms, in_flight_kb) in rounds {
            let (rtt, in_flight) = (Duration::from_millis(*rtt_ms), Bytes(in_flight_kb * 1_000));
            now = now + rtt;
            let rtts = Some(RttSamples::one(rtt));
            let delivery_rate = in_flight / rtt;
            let m = Measurement { rtt: rtts, in_flight, delivery_rate, ..Measurement::QUIET };
            first_rounds.add(&m, now);
        }
        let least_ms = rounds.iter().map(|round| round.0).min().expect("a round");
        assert_eq!(
            first_rounds.found_queue(Duration::from_millis(least_ms), Bytes(0)),
            want,
            "{rounds:?}"
        );
    }

    #[test]
    fn a_queue_that_grows_before_the_pipe_is_full_is_of_others() {
        check(&[(40, 15), (40, 30), (40, 60), (40, 120), (80, 240), (60, 180)], false);
        check(&[(150, 15), (158, 30), (170, 60), (190, 110), (160, 80)], true);
    }

    #[test]
    fn a_round_trip_that_falls_shows_a_queue_at_the_begin() {
        check(&[(80, 15), (60, 30), (55, 60)], true);
        check(&[(40, 15), (39, 30), (40, 60)], false);
    }

    #[test]
    fn a_shorter_round_trip_of_an_earlier_flow_is_known() {
        for (known_ms, want) in [(None, false), (Some(80), false), (Some(40), true)] {
            let known = known_ms.map(Duration::from_millis);
            let mut first_rounds = FirstRounds::new(known, Time::ZERO);
            let rtt = Some(RttSamples::one(Duration::from_millis(80)));
            first_rounds.add(&Measurement { rtt, ..Measurement::QUIET }, Time::ZERO);
            assert_eq!(first_rounds.knows_shorter(), want, "{known_ms:?}");
        }
    }

    #[test]
    fn nothing_seen_is_no_queue() {
        assert!(!FirstRounds::new(None, Time::ZERO).found_queue(Duration::ZERO, Bytes(1_448)));
    }
}
