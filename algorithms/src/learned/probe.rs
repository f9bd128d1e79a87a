//! When a flow makes room, to see the shortest round trip of its path.
//!
//! A flow that starts behind a queue takes that queue for a part of the path. Such a flow keeps
//! more in flight than flows that saw the path without a queue, and takes their share. So a flow
//! makes room from time to time, as in BBR: the flow sends with half its window. A flow that sees
//! a shorter round trip than ever before makes room too, at once. Flows that share a bottleneck
//! then make room together, the queue drains, and all of them see the same shortest round trip.
//!
//! Differs from BBR (draft-ietf-ccwg-bbr section 5.3.4.3):
//!   - the shortest round trip never expires;
//!   - the interval is counted in seconds and in round trips, so that a path of a second does not
//!     give more of its time than a path of 10 ms;
//!   - flows of BBR do not make room at once; only their intervals bring them together.

use crate::measurement::RttSamples;
use crate::units::Time;
use std::time::Duration;

/// A flow makes room if it has not come back to its shortest round trip for so long,
const INTERVAL: Duration = Duration::from_secs(10);
/// and for so many of its shortest round trips.
const INTERVAL_ROUNDS: u32 = 100;
/// How long a flow makes room, in round trips as measured last. The queue drains in the first one;
/// packets of the second one find the queue empty.
const ROUNDS: u32 = 2;
/// A round trip is the shortest again if it is longer by no more than this.
const SAME_PERCENT: u32 = 2;
/// A queue has stood in between if a round trip was longer by more than this.
const RISEN_PERCENT: u32 = 10;

/// What a flow knows of its shortest round trip, and whether it makes room.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    shortest: Option<Duration>,
    /// When the shortest round trip was last seen again, after a queue.
    seen_at: Time,
    /// Whether a queue has stood since `seen_at`.
    has_risen: bool,
    /// Whether a round trip was shorter than ever before, since the last step.
    has_fallen: bool,
    /// When the flow last began to make room, or started.
    began_at: Time,
    /// Until when the flow makes room; `None` if the flow does not.
    until: Option<Time>,
}

impl Probe {
    /// For a flow that knows this shortest round trip.
    pub fn new(shortest: Option<Duration>, now: Time) -> Self {
        let (has_risen, has_fallen) = (false, false);
        Self { shortest, seen_at: now, has_risen, has_fallen, began_at: now, until: None }
    }

    /// Whether the flow makes room.
    pub fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Processes a report's time and round trips.
    pub fn observe(&mut self, rtt: Option<RttSamples>, now: Time) {
        self.until = self.until.filter(|until| now < *until);
        let Some(rtt) = rtt else { return };
        let before = *self.shortest.get_or_insert(rtt.min);
        let longer = |than: Duration, percent| than.saturating_add(than / 100 * percent);
        self.shortest = Some(before.min(rtt.min));
        self.has_fallen |= longer(rtt.min, SAME_PERCENT) < before;
        self.has_risen |= rtt.min > longer(before, RISEN_PERCENT);
        if self.has_risen && rtt.min <= longer(before, SAME_PERCENT) {
            (self.has_risen, self.seen_at) = (false, now);
        }
    }

    /// Begins to make room if the time has come. `rtt` is the present round trip, queue included.
    pub fn begin(&mut self, rtt: Duration, now: Time) {
        let Some(shortest) = self.shortest else { return };
        let interval = INTERVAL.max(shortest.saturating_mul(INTERVAL_ROUNDS));
        let is_due = now - self.seen_at >= interval;
        let has_fallen = std::mem::take(&mut self.has_fallen);
        let joins = has_fallen && now - self.began_at >= interval / 2;
        if self.until.is_none() && (is_due || joins) {
            (self.seen_at, self.began_at) = (now, now);
            self.until = Some(now + rtt.saturating_mul(ROUNDS));
        }
    }

    /// Ends making room early, because CUBIC drives the flow from here on.
    pub fn stop(&mut self) {
        self.until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    /// Reports this round trip every 100 ms of a span. Returns the times at which the flow began to
    /// make room, in milliseconds.
    fn begins(probe: &mut Probe, rtt_ms: u64, span_ms: std::ops::Range<u64>) -> Vec<u64> {
        let rtt = Duration::from_millis(rtt_ms);
        let steps = span_ms.step_by(100);
        let mut begins_in = |now_ms| {
            let was_on = probe.is_on();
            probe.observe(Some(RttSamples::one(rtt)), at(now_ms));
            probe.begin(rtt, at(now_ms));
            !was_on && probe.is_on()
        };
        steps.filter(|now_ms| begins_in(*now_ms)).collect()
    }

    #[test]
    fn behind_a_queue_it_makes_room_every_ten_seconds_for_two_round_trips() {
        let mut probe = Probe::new(Some(SHORTEST), Time::ZERO);
        assert_eq!(begins(&mut probe, 60, 0..30_000), [10_000, 20_000]);
        let mut probe = Probe::new(Some(SHORTEST), Time::ZERO);
        assert_eq!(begins(&mut probe, 60, 0..10_100), [10_000]);
        probe.observe(None, at(10_119));
        assert!(probe.is_on());
        probe.observe(None, at(10_120));
        assert!(!probe.is_on());
    }

    #[test]
    fn a_long_path_makes_room_every_hundred_round_trips() {
        let mut probe = Probe::new(Some(Duration::from_millis(600)), Time::ZERO);
        assert_eq!(begins(&mut probe, 900, 0..130_000), [60_000, 120_000]);
    }

    #[test]
    fn the_shortest_again_after_a_queue_counts_as_seen() {
        let mut probe = Probe::new(Some(SHORTEST), Time::ZERO);
        assert_eq!(begins(&mut probe, 60, 0..5_000), [0; 0]);
        assert_eq!(begins(&mut probe, 40, 5_000..5_100), [0; 0]);
        assert_eq!(begins(&mut probe, 60, 5_100..20_000), [15_000]);
    }

    /// A flow that starts behind a queue sees its shortest round trip all the time.
    #[test]
    fn the_shortest_without_a_queue_before_does_not() {
        let mut probe = Probe::new(Some(SHORTEST), Time::ZERO);
        assert_eq!(begins(&mut probe, 40, 0..15_000), [10_000]);
    }

    #[test]
    fn who_sees_a_shorter_one_than_ever_joins_but_not_twice_in_five_seconds() {
        let mut probe = Probe::new(Some(SHORTEST), Time::ZERO);
        assert_eq!(begins(&mut probe, 40, 0..6_000), [0; 0]);
        assert_eq!(begins(&mut probe, 30, 6_000..7_000), [6_000]);
        assert_eq!(begins(&mut probe, 20, 7_000..8_000), [0; 0]);
        let mut young = Probe::new(Some(SHORTEST), Time::ZERO);
        assert_eq!(begins(&mut young, 30, 4_900..5_000), [0; 0]);
    }

    #[test]
    fn nothing_is_known_before_the_first_round_trip() {
        let mut probe = Probe::new(None, Time::ZERO);
        probe.begin(SHORTEST, at(60_000));
        assert!(!probe.is_on());
    }
}
