//! Where the buffer ends: the delay at which it overflowed last, for arms that aim at a delay.
//!
//! Verus and Sprout aim at a delay that a shallow buffer cannot hold, and neither paper has more
//! than its answer to a loss: each next approach ends in the next one. Here the delay is remembered,
//! and no more than [`SHARE`] of it is aimed at for [`MEMORY`].
//!
//! A loss without a queue behind it says nothing of a buffer, and is not remembered. Before the
//! first one, a window beyond the path's BDP grows by [`GROWTH`] of what is acknowledged, so that a
//! buffer that ends earlier than the aim costs a few segments and not a window of them.

use crate::controller::Measurement;
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
    /// What the path's last owner saw of it.
    pub fn resume(path: &PathState) -> Self {
        let seen = path.rtt_max().filter(|delay| is_queue(*delay, path));
        Self(seen.zip(path.w_max).map(|(delay, (_, at))| (delay, at)))
    }

    /// A loss, reported with these round trips.
    pub fn lose(&mut self, path: &PathState, m: &Measurement, now: Time) {
        let seen = m.rtt.map(|rtt| rtt.max).max(path.srtt);
        if let Some(delay) = seen.filter(|delay| is_queue(*delay, path)) {
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
    use crate::controller::RttSamples;
    use crate::script::path;

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn report(ms: u64) -> Measurement {
        Measurement { rtt: Some(RttSamples::one(Duration::from_millis(ms))), ..Measurement::QUIET }
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
    fn a_loss_behind_a_queue_bounds_the_delay_for_ten_seconds() {
        let mut known = path(100);
        known.observe(&report(40), at(0));
        let mut overflow = Overflow::resume(&known);
        assert_eq!(overflow.aim_max(at(0)), None);
        overflow.lose(&known, &report(45), at(100));
        assert_eq!(overflow.aim_max(at(100)), None, "no queue");
        overflow.lose(&known, &report(80), at(200));
        assert_eq!(overflow.aim_max(at(10_100)), Some(Duration::from_millis(68)));
        assert_eq!(overflow.aim_max(at(10_200)), None);
    }
}
