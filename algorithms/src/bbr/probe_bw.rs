//! PROBE_BW cycles through eight gains: a quarter more to see whether there is more, a quarter
//! less to drain what that has queued, then six round trips at the rate of the bottleneck.

use crate::measurement::Measurement;
use crate::units::{Bytes, Gain, Packets, Time};
use std::time::Duration;

/// tcp_bbr.c `bbr_cwnd_gain`: two BDPs, as ACKs may be delayed by a round trip.
pub const CWND_GAIN: Gain = Gain(2_000);
/// tcp_bbr.c `bbr_pacing_gain`.
const GAINS: [Gain; 8] =
    [Gain(1_250), Gain(750), Gain::ONE, Gain::ONE, Gain::ONE, Gain::ONE, Gain::ONE, Gain::ONE];
/// tcp_bbr.c `bbr_cycle_rand`: any phase but the draining one may be the first.
const FIRST_PHASES: u64 = 7;
/// On a path taken over (docs/hand-off.md), the first probe for more comes after up to two round
/// trips more.
const CRUISE_ROUNDS: u64 = 3;
/// tcp_bbr.c `bbr_quantization_budget`: two segments more while probing, or a small BDP would
/// never be exceeded.
const PROBE_BONUS: Packets = Packets(2);

/// Where in the cycle the flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    phase: usize,
    since: Time,
}

impl Cycle {
    /// Any phase but the draining one, by `seed`.
    pub fn start(seed: u64, now: Time) -> Self {
        let before = GAINS.len() - 1 - usize::try_from(seed % FIRST_PHASES).unwrap_or(0);
        Self { phase: (before + 1) % GAINS.len(), since: now }
    }

    /// One of the last phases at the bottleneck's rate, by `seed`.
    pub fn cruise(seed: u64, now: Time) -> Self {
        let more = usize::try_from(seed % CRUISE_ROUNDS).unwrap_or(0);
        Self { phase: GAINS.len() - 1 - more, since: now }
    }

    pub fn gain(&self) -> Gain {
        GAINS[self.phase]
    }

    /// The gain whose inflight ends the phase: what is probed for, or a BDP.
    pub fn target_gain(&self) -> Gain {
        self.gain().max(Gain::ONE)
    }

    /// What may be in flight beyond the gain.
    pub fn bonus(&self, mss: Bytes) -> Bytes {
        if self.phase == 0 { PROBE_BONUS.to_bytes(mss) } else { Bytes(0) }
    }

    /// tcp_bbr.c `bbr_is_next_cycle_phase`.
    pub fn update(&mut self, m: &Measurement, target: Bytes, min_rtt: Option<Duration>, now: Time) {
        let full_length = now - self.since > min_rtt.unwrap_or_default();
        let over = match self.gain() {
            // Probing persists until what it sends for is in flight, unless that does not fit.
            gain if gain > Gain::ONE => full_length && (m.has_loss() || m.in_flight >= target),
            // Draining ends early once the queue is gone.
            gain if gain < Gain::ONE => full_length || m.in_flight <= target,
            _ => full_length,
        };
        if over {
            *self = Self { phase: (self.phase + 1) % GAINS.len(), since: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const RTT: Duration = Duration::from_millis(40);
    const BDP: Bytes = Bytes(120_000);

    fn phase_after(phase: usize, in_flight: u64, lost: u64, after_ms: u64) -> usize {
        let mut cycle = Cycle { phase, since: Time::ZERO };
        let m =
            Measurement { in_flight: Bytes(in_flight), lost: Packets(lost), ..Measurement::QUIET };
        let target = BDP * cycle.target_gain();
        cycle.update(&m, target, Some(RTT), Time(Duration::from_millis(after_ms)));
        cycle.phase
    }

    #[test]
    fn probing_lasts_a_round_trip_and_until_its_inflight_is_reached() {
        assert_eq!(phase_after(0, 150_000, 0, 40), 0);
        assert_eq!(phase_after(0, 149_999, 0, 41), 0);
        assert_eq!(phase_after(0, 150_000, 0, 41), 1);
    }

    #[test]
    fn probing_does_not_persist_into_loss() {
        assert_eq!(phase_after(0, 130_000, 1, 41), 1);
        assert_eq!(phase_after(0, 130_000, 1, 40), 0);
    }

    #[test]
    fn draining_ends_when_the_queue_is_gone_and_after_a_round_trip_at_most() {
        assert_eq!(phase_after(1, 120_000, 0, 5), 2);
        assert_eq!(phase_after(1, 120_001, 0, 40), 1);
        assert_eq!(phase_after(1, 120_001, 0, 41), 2);
    }

    #[test]
    fn cruising_lasts_a_round_trip() {
        assert_eq!(phase_after(4, 0, 1, 40), 4);
        assert_eq!(phase_after(7, 0, 0, 41), 0);
    }

    #[test]
    fn a_cycle_starts_anywhere_but_draining() {
        let first: BTreeSet<usize> =
            (0..70).map(|seed| Cycle::start(seed, Time::ZERO).phase).collect();
        assert_eq!(first, BTreeSet::from([0, 2, 3, 4, 5, 6, 7]));
        let cruise: BTreeSet<usize> =
            (0..70).map(|seed| Cycle::cruise(seed, Time::ZERO).phase).collect();
        assert_eq!(cruise, BTreeSet::from([5, 6, 7]));
    }
}
