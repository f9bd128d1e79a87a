//! PROBE_RTT: every ten seconds without a new minimum, four segments in flight for 200 ms and a
//! round trip, so that the queue is empty and the minimum RTT shows.

use crate::measurement::Measurement;
use crate::units::{Bytes, Time};
use std::time::Duration;

/// tcp_bbr.c `bbr_probe_rtt_mode_ms`.
const DURATION: Duration = Duration::from_millis(200);
/// What was sent before the window was cut has left after two rounds.
const ROUNDS_MAX: u64 = 2;

/// How far the probe has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRtt {
    entered_round: u64,
    /// `None` until no more than the least window is in flight.
    done_at: Option<Time>,
    round_done: bool,
}

impl ProbeRtt {
    /// It begins in this round.
    pub fn enter(round: u64) -> Self {
        Self { entered_round: round, done_at: None, round_done: false }
    }

    /// No more than the least window is in flight.
    pub fn reached(&self) -> bool {
        self.done_at.is_some()
    }

    /// Takes in one report, with the number of the round and whether it has just started: whether
    /// the probe is over.
    pub fn update(
        &mut self,
        m: &Measurement,
        cwnd_min: Bytes,
        (round, round_started): (u64, bool),
        now: Time,
    ) -> bool {
        let Some(done_at) = self.done_at else {
            let late = round.saturating_sub(self.entered_round) >= ROUNDS_MAX;
            if m.in_flight <= cwnd_min || late {
                self.done_at = Some(now + DURATION);
            }
            return false;
        };
        self.round_done = self.round_done || round_started;
        self.round_done && now > done_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Bytes = Bytes(5_792);

    /// Reports of `(milliseconds, bytes in flight, round)`: in which the probe is over.
    fn over_at(reports: &[(u64, u64, u64)]) -> Option<u64> {
        let mut probe = ProbeRtt::enter(0);
        let mut last_round = 0;
        for &(ms, in_flight, round) in reports {
            let m = Measurement { in_flight: Bytes(in_flight), ..Measurement::QUIET };
            let started = (round, round != last_round);
            last_round = round;
            if probe.update(&m, MIN, started, Time(Duration::from_millis(ms))) {
                return Some(ms);
            }
        }
        None
    }

    #[test]
    fn it_lasts_200_ms_and_a_round_from_when_the_queue_is_gone() {
        let drained = [(0, 90_000, 0), (40, 5_792, 0), (80, 5_792, 1), (240, 5_792, 1)];
        assert_eq!(over_at(&drained), None);
        assert_eq!(over_at(&[&drained[..], &[(241, 5_792, 1)]].concat()), Some(241));
    }

    #[test]
    fn a_long_round_trip_is_waited_for() {
        assert_eq!(over_at(&[(0, 0, 0), (300, 0, 0), (600, 0, 1)]), Some(600));
    }

    #[test]
    fn a_datapath_that_never_shows_four_segments_does_not_hold_it_for_ever() {
        assert_eq!(over_at(&[(0, 9_000, 0), (50, 9_000, 2), (300, 9_000, 3)]), Some(300));
    }
}
