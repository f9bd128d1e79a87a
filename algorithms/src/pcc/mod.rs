//! What the PCC family shares: rates under trial, interval by interval, and what keeps them sane.
//!
//! ```text
//! monitor.rs    which ACK belongs to which interval
//! here          the interval's length, its rate's bounds, taking over and handing off
//! gradient.rs   Vivace's rate control: up or down the slope of a utility
//! allegro.rs, vivace.rs, proteus.rs, proteus_s.rs: the arms
//! ```
//!
//! The rate decides. The window only keeps a rate that is too high from filling the path without
//! end: twice what the rate holds in a smoothed round trip.

pub mod gradient;
#[cfg(test)]
pub mod link;
pub mod monitor;

use crate::arm::{Decision, Registers};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::recovery::{Recovery, congested, episode_rtt};
use crate::units::{Bytes, Gain, Packets, Rate, Time};
use crate::window;
use monitor::{Interval, Monitor, OPEN_MAX};
use std::time::Duration;

/// The least rate: two segments a round trip (PCC, section 3.2: it starts at `2 MSS / RTT`),
const RATE_MIN: Packets = Packets(2);
/// and as much a second, should a round trip last longer.
const RATE_MIN_SPAN: Duration = Duration::from_secs(1);
/// A shorter round trip is a glitch, and no reason to send two segments in it.
const RTT_MIN: Duration = Duration::from_millis(1);
/// The most that the wire's 32 bits hold.
const RATE_MAX: Rate = Rate::from_bytes_per_sec(u32::MAX as u64);
/// The first round trip, before one is known.
const RTT_UNKNOWN: Duration = Duration::from_millis(100);
/// An interval holds ten segments at least (PCC, section 3.1).
const SEGMENTS_MIN: Packets = Packets(10);
/// Taking over a known path: a little below what it delivers, so that the first intervals see it
/// without a queue of our making.
const RESUME_GAIN: Gain = Gain(990);
/// No interval is shorter, whatever the round trip.
const LENGTH_MIN: Duration = Duration::from_millis(2);
/// A boundary that was not crossed for so many round trips and so long never will be.
const CROSSING_RTTS: u32 = 8;
const CROSSING_MIN: Duration = Duration::from_secs(1);

/// A rate under trial.
#[derive(Clone, Debug)]
pub struct Trials<T> {
    /// The path, as this arm knows it.
    pub path: PathState,
    /// The path was known when the flow was taken over.
    pub known: bool,
    monitor: Monitor<T>,
    rate: Rate,
    cwnd: Bytes,
    drawn: u64,
    recovery: Recovery,
}

impl<T> Trials<T> {
    /// Takes a path over at what it delivers, or starts with its window a round trip.
    pub fn resume(path: &PathState, now: Time) -> Self {
        Self::with_open_max(OPEN_MAX, path, now)
    }

    /// The same, for a program that holds another number of boundaries.
    pub fn with_open_max(open_max: usize, path: &PathState, now: Time) -> Self {
        let path = window::sane(path);
        let delivers = path.delivery_rate().filter(|_| path.rtt_min().is_some());
        let rate = match delivers {
            Some(rate) => rate * RESUME_GAIN,
            None => path.cwnd / known_rtt(&path),
        };
        let rate = path.rate.map_or(rate, |in_force| rate.min(in_force));
        let mut trials = Self {
            known: delivers.is_some(),
            monitor: Monitor::new(open_max, rate, now),
            rate,
            cwnd: path.cwnd,
            drawn: path.cwnd.0 ^ u64::try_from(now.0.as_nanos()).unwrap_or(u64::MAX),
            recovery: Recovery::resume(&path, now),
            path,
        };
        trials.rate = trials.bound(rate);
        trials
    }

    /// Takes in a report; gives the interval that it completes.
    pub fn observe(&mut self, m: &Measurement, now: Time) -> Option<Interval<T>> {
        let first_rtt = self.path.srtt.is_none();
        self.path.observe(m, now);
        if m.timed_out || (congested(m) && !self.recovery.covers(m, now)) {
            self.recovery.enter(episode_rtt(&self.path, m), now);
        }
        self.recovery.observe(m, now);
        let done = self.monitor.observe(m, now);
        let patience = self.srtt().saturating_mul(CROSSING_RTTS).max(CROSSING_MIN);
        if self.monitor.waiting_since().is_some_and(|since| now - since > patience) {
            self.monitor.reset();
        }
        if let (true, false, Some(srtt)) = (first_rtt, self.known, self.path.srtt) {
            self.rate = self.bound(self.cwnd / srtt);
        }
        let holds = self.rate * self.srtt();
        let least = SEGMENTS_MIN.to_bytes(self.path.mss);
        self.cwnd = window::bound(&self.path, (holds + holds).max(least));
        done
    }

    /// The smoothed round trip, or what stands for it before one is known.
    pub fn srtt(&self) -> Duration {
        known_rtt(&self.path)
    }

    /// Within what a flow may send at.
    pub fn bound(&self, rate: Rate) -> Rate {
        let least = RATE_MIN.to_bytes(self.path.mss);
        let least = (least / self.srtt().max(RTT_MIN)).max(least / RATE_MIN_SPAN);
        rate.min(RATE_MAX).max(least)
    }

    /// Whether the interval being sent has lasted for so many round trips, and another may begin.
    pub fn is_due(&self, round_trips: Gain, now: Time) -> bool {
        let srtt = self.srtt().min(RATE_MIN_SPAN * 10);
        let length = srtt.saturating_mul(u32::try_from(round_trips.0).unwrap_or(u32::MAX)) / 1_000;
        let few = SEGMENTS_MIN.to_bytes(self.path.mss) / self.rate;
        let length = length.max(few).max(LENGTH_MIN);
        self.monitor.can_begin() && now - self.monitor.began() >= length
    }

    /// Whether another interval may begin: a program holds only so many boundaries.
    pub fn can_begin(&self) -> bool {
        self.monitor.can_begin()
    }

    /// Sends at `rate` from now on, for `tag`.
    pub fn begin(&mut self, tag: Option<T>, rate: Rate, now: Time) {
        self.rate = self.bound(rate);
        self.monitor.begin(tag, self.rate, now);
    }

    /// Sends at `rate` from now on, within the interval under way.
    pub fn follow(&mut self, rate: Rate) {
        self.rate = self.bound(rate);
    }

    /// Nothing of what is under way counts any longer.
    pub fn forget(&mut self) {
        self.monitor.forget();
    }

    /// The rate in force.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// What the program must hold.
    pub fn registers(&self, registers: &mut Registers) {
        self.monitor.registers(registers);
    }

    /// What is in force.
    pub fn decision(&self) -> Decision {
        Decision { cwnd: self.cwnd, rate: Some(self.rate) }
    }

    /// Leaves `rate`, and what it holds.
    pub fn hand_off(&self, rate: Rate, path: &mut PathState) {
        let rate = rate.min(self.rate);
        path.cwnd = self.cwnd.min(window::bound(&self.path, rate * self.srtt()));
        path.rate = Some(rate);
        path.ssthresh = path.bdp().or(path.ssthresh).or(self.path.ssthresh);
        path.recovery_until = self.recovery.until();
    }

    /// A coin, the same for the same flow: an order that a rhythm of the path cannot follow.
    /// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
    pub fn toss(&mut self) -> bool {
        self.drawn = self.drawn.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.drawn;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) & 1 == 1
    }
}

/// The smoothed round trip; one of no time is not known.
fn known_rtt(path: &PathState) -> Duration {
    path.srtt.filter(|rtt| !rtt.is_zero()).unwrap_or(RTT_UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;
    use crate::script::{MSS, path};

    const RTT: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn rtt() -> Measurement {
        Measurement { rtt: Some(RttSamples::one(RTT)), ..Measurement::QUIET }
    }

    #[test]
    fn a_new_flow_sends_its_window_in_a_round_trip_as_soon_as_one_is_known() {
        let mut trials = Trials::<()>::resume(&path(10), at(0));
        assert_eq!(trials.decision().cwnd, Packets(10).to_bytes(MSS));
        assert_eq!(trials.rate(), Packets(10).to_bytes(MSS) / RTT_UNKNOWN);
        trials.observe(&rtt(), at(40));
        assert_eq!(trials.rate(), Packets(10).to_bytes(MSS) / RTT);
    }

    #[test]
    fn an_interval_lasts_its_round_trips_and_holds_ten_segments() {
        let mut trials = Trials::<()>::resume(&path(10), at(0));
        trials.observe(&rtt(), at(40));
        trials.begin(None, Rate::from_bytes_per_sec(3_000_000), at(40));
        assert!(!trials.is_due(Gain(2_000), at(119)));
        assert!(trials.is_due(Gain(2_000), at(120)));
        let slow = Packets(1).to_bytes(MSS) / Duration::from_millis(20);
        trials.begin(None, slow, at(120));
        assert!(!trials.is_due(Gain(2_000), at(319)));
    }

    #[test]
    fn a_boundary_that_is_never_crossed_does_not_hold_it_for_ever() {
        let mut trials = Trials::<()>::resume(&path(10), at(0));
        trials.observe(&rtt(), at(40));
        for ms in [50, 60] {
            trials.begin(None, trials.rate(), at(ms));
        }
        trials.observe(&rtt(), at(1_000));
        assert!(!trials.is_due(Gain(2_000), at(1_000)));
        trials.observe(&rtt(), at(1_051));
        assert!(trials.is_due(Gain(2_000), at(1_051)));
    }

    #[test]
    fn the_coin_falls_on_both_sides_and_the_same_way_for_the_same_flow() {
        let tosses = |trials: &mut Trials<()>| (0..64).map(|_| trials.toss()).collect::<Vec<_>>();
        let first = tosses(&mut Trials::resume(&path(10), at(0)));
        assert_eq!(first, tosses(&mut Trials::resume(&path(10), at(0))));
        let heads = first.iter().filter(|heads| **heads).count();
        assert!((16..48).contains(&heads), "{heads}");
    }
}
