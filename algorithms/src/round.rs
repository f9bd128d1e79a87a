//! Counts round trips by bytes.
//!
//! Linux ends a round when a packet sent after its start is acknowledged. A report does not name
//! packets, but that is the moment at which more bytes have left, delivered or lost, than were in
//! flight when the round started, which is seen after an ACK and before what it lets go.

use crate::measurement::Measurement;
use crate::units::Bytes;

/// The round trips of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Rounds that have ended.
    count: u64,
    /// Bytes delivered or lost in this round.
    gone: Bytes,
    /// What was in flight when it started.
    goal: Bytes,
}

impl Round {
    /// How many rounds have ended.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes in one report: whether it ends a round. Without a delivery no round ends.
    pub fn observe(&mut self, m: &Measurement, mss: Bytes) -> bool {
        self.gone += m.delivered + m.lost.to_bytes(mss);
        if m.delivered == Bytes(0) || self.gone <= self.goal {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.restart(m.in_flight);
        true
    }

    /// Starts the current round anew, from what is in flight now.
    pub fn restart(&mut self, in_flight: Bytes) {
        self.gone = Bytes(0);
        self.goal = in_flight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Packets;

    const MSS: Bytes = Bytes(10);

    /// Reports of `(delivered, lost segments, in flight)`; `|` is one that ends a round.
    fn check(reports: &[(u64, u64, u64)], want: &str) {
        let mut round = Round::default();
        let got: String = reports
            .iter()
            .map(|&(delivered, lost, in_flight)| {
                let m = Measurement {
                    delivered: Bytes(delivered),
                    lost: Packets(lost),
                    in_flight: Bytes(in_flight),
                    ..Measurement::QUIET
                };
                if round.observe(&m, MSS) { '|' } else { '.' }
            })
            .collect();
        assert_eq!(got, want);
    }

    #[test]
    fn a_round_ends_when_what_was_in_flight_is_delivered() {
        check(&[(10, 0, 100), (50, 0, 120), (50, 0, 120), (1, 0, 120)], "|..|");
        check(&[(10, 0, 100), (101, 0, 120), (120, 0, 120), (1, 0, 120)], "||.|");
    }

    #[test]
    fn a_window_of_four_segments_is_seen_as_two_and_lasts_two_acks() {
        check(&[(20, 0, 20), (20, 0, 20), (20, 0, 20), (20, 0, 20)], "|.|.");
    }

    #[test]
    fn what_is_lost_has_left_as_well() {
        check(&[(10, 0, 100), (50, 4, 100), (10, 0, 100), (1, 0, 100)], "|..|");
    }

    #[test]
    fn silence_ends_no_round() {
        check(&[(0, 0, 0), (0, 0, 0), (0, 9, 100), (0, 9, 100)], "....");
    }
}
