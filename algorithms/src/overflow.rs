//! Where the buffer ends: the delay at which it overflowed, for arms that aim at a delay.
//!
//! Verus and Sprout aim at a delay that a shallow buffer cannot hold, and their papers have no more
//! than an answer to each loss: they fill the buffer again and again. Here the delay is remembered
//! for [`MEMORY`], and no more than [`SHARE`] of it is aimed at.
//!
//! A loss behind a short queue says nothing of a buffer's end, and is not remembered; nor is one
//! behind a shorter queue than the one remembered, or losses by chance would take the delay down.
//! So a link that becomes faster, with the same buffer, can overflow for as long as the memory
//! lasts. Before the first, a window beyond the path's BDP
//! grows by [`GROWTH`] of what is acknowledged, so that a buffer that ends earlier than the aim
//! costs a few segments and not a window of them.

use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Bytes, Gain, Time};
use std::time::Duration;

/// A delay at which a buffer overflowed is so many times the least one at least.
const RATIO_MIN: f64 = 1.25;
/// What is aimed at, of the delay at which it overflowed.
pub const SHARE: f64 = 0.85;
/// For how long it is remembered: as long as a least delay is.
pub const MEMORY: Duration = Duration::from_secs(10);

/// Of what is acknowledged, the most that a window grows by beyond the BDP.
pub const GROWTH: Gain = Gain(125);

/// The delay at which a buffer overflowed, and when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overflow(Option<(Duration, Time)>);

impl Overflow {
    /// What is known of it: the largest delay of ten seconds, if a window arm answered a loss in
    /// that time. An approximation: the flow that lost need not have been behind that delay.
    pub fn resume(path: &PathState) -> Self {
        let seen = path.rtt_max().filter(|delay| is_queue(*delay, path));
        Self(seen.zip(path.w_max).map(|(delay, (_, at))| (delay, at)))
    }

    /// A loss, reported with these round trips.
    pub fn lose(&mut self, path: &PathState, m: &Measurement, now: Time) {
        let seen = m.rtt.map(|rtt| rtt.max).max(path.srtt);
        let known = self.0.filter(|(_, at)| now - *at < MEMORY).map(|(delay, _)| delay);
        let larger = |delay: &Duration| known.is_none_or(|known| *delay > known);
        let lost = m.has_loss();
        if let Some(delay) = seen.filter(|delay| lost && is_queue(*delay, path) && larger(delay)) {
            self.0 = Some((delay, now));
        }
    }

    /// The largest delay to aim at, while it is remembered.
    pub fn aim_max(&self, now: Time) -> Option<Duration> {
        let (delay, _) = self.0.filter(|(_, at)| now - *at < MEMORY)?;
        Some(delay.mul_f64(SHARE))
    }
}

/// The way from a window to the one wanted, once so much was acknowledged.
pub fn approach(path: &PathState, (from, to): (Bytes, Bytes), acked: Bytes) -> Bytes {
    let holds = path.bdp().unwrap_or(Bytes(u64::MAX));
    to.min(from.max(holds) + acked * GROWTH)
}

fn is_queue(delay: Duration, path: &PathState) -> bool {
    path.rtt_min_long().is_some_and(|least| delay.as_secs_f64() > RATIO_MIN * least.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;
    use crate::script::path;
    use crate::units::Packets;

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn report(ms: u64) -> Measurement {
        let rtt = Some(RttSamples::one(Duration::from_millis(ms)));
        Measurement { rtt, lost: Packets(1), ..Measurement::QUIET }
    }

    #[test]
    fn beyond_the_bdp_a_window_grows_by_an_eighth_of_what_is_acknowledged() {
        let mut known = path(100);
        let step = |known: &_, from, to| approach(known, (Bytes(from), Bytes(to)), Bytes(8_000));
        assert_eq!(step(&known, 10_000, 90_000), Bytes(90_000), "no BDP is known");
        let rate = Bytes(50_000) / Duration::from_millis(40);
        known.observe(&Measurement { delivery_rate: rate, ..report(40) }, at(0));
        assert_eq!(step(&known, 10_000, 45_000), Bytes(45_000));
        assert_eq!(step(&known, 10_000, 90_000), Bytes(51_000));
        assert_eq!(step(&known, 60_000, 90_000), Bytes(61_000));
        assert_eq!(step(&known, 90_000, 60_000), Bytes(60_000), "down at once");
    }

    #[test]
    fn it_is_inherited_from_an_arm_that_lost_behind_a_queue() {
        let mut known = path(100);
        known.observe(&report(40), at(0));
        known.w_max = Some((known.cwnd, at(0)));
        assert_eq!(Overflow::resume(&known).aim_max(at(0)), None, "there was no queue");
        known.observe(&report(80), at(100));
        assert_eq!(Overflow::resume(&known).aim_max(at(100)), Some(Duration::from_millis(68)));
        assert_eq!(Overflow::resume(&known).aim_max(at(10_000)), None, "long ago");
    }

    #[test]
    fn a_loss_behind_a_queue_bounds_the_delay_for_ten_seconds() {
        let mut known = path(100);
        known.observe(&report(40), at(0));
        let mut overflow = Overflow::resume(&known);
        assert_eq!(overflow.aim_max(at(0)), None);
        overflow.lose(&known, &report(45), at(100));
        assert_eq!(overflow.aim_max(at(100)), None, "no queue");
        let marked = Measurement { lost: Packets(0), ..report(80) };
        overflow.lose(&known, &marked, at(150));
        assert_eq!(overflow.aim_max(at(150)), None, "a mark is no overflow");
        overflow.lose(&known, &report(80), at(200));
        overflow.lose(&known, &report(60), at(9_000));
        assert_eq!(overflow.aim_max(at(10_100)), Some(Duration::from_millis(68)));
        assert_eq!(overflow.aim_max(at(10_200)), None);
    }
}
