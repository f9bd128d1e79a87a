//! PROBE_BW of version 3: down to what fits, cruise there for some seconds, refill the pipe, and up
//! to see whether there is more.
//!
//! draft-ietf-ccwg-bbr, section 5.3.3.

use crate::units::{Bytes, Gain, Packets, Time};
use std::time::Duration;

/// Section 5.3.3.1 and tcp_bbr.c of google/bbr: 0.91, so that the queue of a probe drains.
const DOWN_GAIN: Gain = Gain(910);
/// Section 5.3.3.4: a quarter more; its window is 2.25 BDPs.
const UP_GAIN: Gain = Gain(1_250);
const UP_CWND_GAIN: Gain = Gain(2_250);
/// Everywhere else: two BDPs, as ACKs may be delayed.
pub const CWND_GAIN: Gain = Gain(2_000);
/// Section 5.3.3.5.3: the next probe comes two to three seconds after the last: this time, and a
/// random part of `WAIT_MORE_MS`.
const WAIT: Duration = Duration::from_secs(2);
const WAIT_MORE_MS: u64 = 1_000;
/// Section 5.3.3.5.3: the probe comes earlier if as many round trips have passed as Reno needs to
/// grow by a BDP, 63 at most.
const WAIT_ROUNDS_MAX: u64 = 63;

/// Where in the cycle the flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Below the bottleneck's rate, until the queue is gone.
    Down,
    /// At the bottleneck's rate.
    Cruise,
    /// A round trip without bounds, so that a loss in the following probe is caused by that probe.
    Refill,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    pub phase: Phase,
    /// When the phase began, and in which round.
    pub since: (Time, u64),
    /// When the cycle's DOWN began.
    began: (Time, u64),
    wait: Duration,
    /// The probe before this cycle: its last ACKs still come in.
    pub stopping: bool,
}

impl Cycle {
    /// DOWN; by `seed`, when the next probe is due.
    pub fn down(seed: u64, now: Time, round: u64) -> Self {
        let wait = WAIT + Duration::from_millis(seed % WAIT_MORE_MS);
        // Start with one or no round trip of the wait passed, by `seed`, so that flows do not probe
        // together.
        let began = (now, round.saturating_sub(seed & 1));
        Self { phase: Phase::Down, since: (now, round), began, wait, stopping: true }
    }

    /// At the bottleneck's rate on a path taken over: the first probe comes after up to two round
    /// trips, by `seed`.
    pub fn cruise(seed: u64, now: Time, rtt: Duration) -> Self {
        let wait = rtt.saturating_mul(u32::try_from(seed % 3).unwrap_or(0));
        let began = (now, 0);
        Self { phase: Phase::Cruise, since: (now, 0), began, wait, stopping: false }
    }

    pub fn gain(&self) -> Gain {
        match self.phase {
            Phase::Down => DOWN_GAIN,
            Phase::Up => UP_GAIN,
            Phase::Cruise | Phase::Refill => Gain::ONE,
        }
    }

    pub fn cwnd_gain(&self) -> Gain {
        if self.phase == Phase::Up { UP_CWND_GAIN } else { CWND_GAIN }
    }

    /// Whether the flow looks for more bandwidth.
    pub fn is_probing(&self) -> bool {
        matches!(self.phase, Phase::Refill | Phase::Up)
    }

    /// Whether the next probe is due: by the clock, or as Reno would have it.
    pub fn is_due(&self, target: Bytes, mss: Bytes, (now, round): (Time, u64)) -> bool {
        let rounds = target.to_packets(mss).min(Packets(WAIT_ROUNDS_MAX)).0;
        now - self.began.0 > self.wait || round.saturating_sub(self.began.1) >= rounds.max(1)
    }

    pub fn enter(&mut self, phase: Phase, now: Time, round: u64) {
        (self.phase, self.since) = (phase, (now, round));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::MSS;

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    #[test]
    fn a_probe_is_due_after_two_to_three_seconds() {
        let large = Packets(1_000).to_bytes(MSS);
        for seed in [0, 500, 999] {
            let cycle = Cycle::down(seed, at(0), 0);
            assert!(!cycle.is_due(large, MSS, (at(2_000 + seed), 10)));
            assert!(cycle.is_due(large, MSS, (at(2_001 + seed), 10)));
        }
    }

    #[test]
    fn a_probe_is_due_as_soon_as_reno_would_have_grown_by_as_much() {
        let cycle = Cycle::down(0, at(0), 0);
        let small = Packets(20).to_bytes(MSS);
        assert!(!cycle.is_due(small, MSS, (at(100), 19)));
        assert!(cycle.is_due(small, MSS, (at(100), 20)));
        let large = Packets(1_000).to_bytes(MSS);
        assert!(cycle.is_due(large, MSS, (at(100), 63)));
    }

    #[test]
    fn on_a_path_taken_over_the_first_probe_comes_within_two_round_trips() {
        let rtt = Duration::from_millis(40);
        let large = Packets(1_000).to_bytes(MSS);
        for seed in 0..3 {
            let cycle = Cycle::cruise(seed, at(0), rtt);
            assert_eq!(cycle.gain(), Gain::ONE);
            assert!(cycle.is_due(large, MSS, (at(40 * seed + 1), 1)));
        }
    }
}
