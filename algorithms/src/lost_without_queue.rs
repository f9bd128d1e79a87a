//! Whether a path loses by chance, while no queue stands.
//!
//! An arm that answers losses has little of such a link, however empty the link is. If the next arm
//! does not answer losses, the next arm need not feel its way
//! ([`crate::PathState::is_left_empty`]). A policer and a short buffer also lose without a long
//! queue, but the link is full then, and they lose in bursts. As many losses by chance fall into
//! more round trips.

use crate::measurement::Measurement;
use crate::units::Bytes;
use std::time::Duration;

/// A report whose mean round trip is at most so much of the least one shows no queue.
const QUEUE_PERCENT: u32 = 110;
/// A path loses by chance only if this share of what was sent is lost,
const SHARE_MIN: f64 = 0.005;
/// if this many round trips have lost,
const LOSING_MIN: f64 = 3.0;
/// and if they are at least this share of the round trips into which as many losses would fall by
/// chance.
const SPREAD_MIN: f64 = 0.5;
/// After so many round trips, half of what was seen is forgotten.
const ROUNDS_MAX: f64 = 100.0;

/// What a flow has sent and lost while no queue stood.
#[derive(Clone, Copy, Debug, Default)]
pub struct LostWithoutQueue {
    /// What this round trip has sent and lost, in segments.
    now: Counts,
    /// What the round trips before this one have sent and lost, in segments.
    before: Counts,
    /// The number of round trips before this one; half of it is forgotten at times.
    rounds: f64,
    /// The number of those round trips that have lost.
    losing: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent: f64,
    lost: f64,
}

impl LostWithoutQueue {
    /// Takes in a report of a path with this least round trip. `ends_round`: the report ends a
    /// round trip, and the counts of the next one begin.
    pub fn observe(&mut self, m: &Measurement, rtt_min: Duration, mss: Bytes, ends_round: bool) {
        let least = rtt_min.saturating_mul(QUEUE_PERCENT) / 100;
        if m.rtt.is_some_and(|rtt| rtt.mean() <= least) {
            let lost = m.lost.0 as f64;
            self.now.sent += m.delivered.0 as f64 / mss.0.max(1) as f64 + lost;
            self.now.lost += lost;
        }
        if ends_round {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let Counts { sent, lost } = std::mem::take(&mut self.now);
        if sent == 0.0 {
            return;
        }
        self.before.sent += sent;
        self.before.lost += lost;
        self.rounds += 1.0;
        self.losing += f64::from(lost > 0.0);
        if self.rounds > ROUNDS_MAX {
            let all = [&mut self.before.sent, &mut self.before.lost];
            all.into_iter().chain([&mut self.rounds, &mut self.losing]).for_each(|it| *it /= 2.0);
        }
    }

    /// Whether the path loses by chance.
    pub fn is_seen(&self) -> bool {
        let Counts { sent, lost } = self.before;
        // Of losses by chance, the number in a round trip has a Poisson distribution.
        let losing_by_chance = self.rounds * (1.0 - (-lost / self.rounds.max(1.0)).exp());
        self.losing >= LOSING_MIN
            && lost >= SHARE_MIN * sent
            && self.losing >= SPREAD_MIN * losing_by_chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;
    use crate::script::MSS;
    use crate::units::Packets;

    /// Round trips of forty segments: what each loses, and how long it is.
    fn is_seen(rounds: impl IntoIterator<Item = (u64, u64)>) -> bool {
        let mut seen = LostWithoutQueue::default();
        for (lost, rtt_ms) in rounds {
            let m = Measurement {
                rtt: Some(RttSamples::one(Duration::from_millis(rtt_ms))),
                delivered: Packets(40 - lost).to_bytes(MSS),
                lost: Packets(lost),
                in_flight: Packets(39).to_bytes(MSS),
                ..Measurement::QUIET
            };
            seen.observe(&m, Duration::from_millis(40), MSS, true);
        }
        seen.is_seen()
    }

    #[test]
    fn it_takes_three_round_trips_that_lose_without_a_queue() {
        assert!(is_seen([(2, 41); 3]));
        assert!(!is_seen([(2, 41); 2]));
        assert!(!is_seen([(2, 50); 30]), "behind a queue");
    }

    #[test]
    fn bursts_are_not_by_chance() {
        assert!(!is_seen([(0, 41), (20, 43), (10, 44), (0, 41)]), "the end of slow start");
        assert!(!is_seen((0..90).map(|at| if at % 10 == 0 { (15, 41) } else { (0, 41) })));
        assert!(is_seen((0..90).map(|at| (u64::from(at % 4 == 0), 41))));
    }

    #[test]
    fn few_losses_are_none_and_a_path_can_stop_to_lose() {
        assert!(!is_seen((0..90).map(|at| (u64::from(at % 20 == 0), 41))));
        assert!(!is_seen((0..900).map(|at| (2 * u64::from(at < 50), 41))));
    }
}
