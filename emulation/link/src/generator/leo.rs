//! A path over low-orbit satellites. Every 15 s another satellite serves it, with another rate and
//! another delay; nothing is sent for a short time at each hand-over.
//!
//! Starlink reassigns its terminals at seconds 12, 27, 42 and 57 of every minute (Tanveer et al.,
//! "Making Sense of Constellations", 2023); so does this generator. A round begins in the middle of
//! a pass and ends with the same satellite, so that the end of a round is no extra hand-over. If a
//! round is not a multiple of 15 s, that satellite's pass is shorter or longer than the others.

use super::poisson::ended;
use super::{Emitter, Generated, packets_per_ms};
use crate::chance::fraction;
use crate::time::Nanos;
use rand_chacha::ChaCha8Rng;

/// How long one satellite serves.
const PASS_MS: u32 = 15_000;
/// When the first hand-over of a round happens.
const FIRST_MS: u32 = 12_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leo {
    /// The minimum rate of a satellite, in Mbit/s.
    pub least: f64,
    /// The maximum, in Mbit/s. Rates between the two are equally likely.
    pub most: f64,
    /// How long nothing is sent after a hand-over, in milliseconds.
    pub out_ms: u32,
    /// The most that a satellite adds to the delay, in milliseconds.
    pub delay_ms_most: f64,
}

impl Leo {
    /// Makes one round of `round_ms` milliseconds.
    pub fn round(self, round_ms: u32, rng: &mut ChaCha8Rng) -> Generated {
        let mut satellite = || {
            let rate = self.least + (self.most - self.least) * fraction(rng);
            (rate, Nanos::from_millis_f64(self.delay_ms_most * fraction(rng)))
        };
        let mut passes: Vec<(u32, (f64, Nanos))> = (FIRST_MS..round_ms)
            .step_by(PASS_MS as usize)
            .map(|from_ms| (from_ms, satellite()))
            .collect();
        let before_first = passes.last().map_or_else(&mut satellite, |(_, last)| *last);
        passes.insert(0, (0, before_first));
        let mut stamps = Vec::new();
        let mut emitter = Emitter::default();
        for (index, (from_ms, (rate, _))) in passes.iter().enumerate() {
            let is_handed_over = index > 0;
            let serves_ms = if is_handed_over { from_ms + self.out_ms } else { *from_ms };
            let end_ms = passes.get(index + 1).map_or(round_ms, |(next_ms, _)| *next_ms);
            for ms in serves_ms..end_ms {
                emitter.emit(packets_per_ms(*rate), ms + 1, &mut stamps);
            }
        }
        let at = |(from_ms, (_, delay)): (u32, (f64, Nanos))| {
            (Nanos::from_millis(from_ms.into()), delay)
        };
        let made = Generated::of("leo", ended(stamps, round_ms));
        Generated { delays: passes.into_iter().map(at).collect(), ..made }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const LEO: Leo = Leo { least: 12.0, most: 120.0, out_ms: 100, delay_ms_most: 30.0 };

    fn round(round_ms: u32, seed: u64) -> Generated {
        LEO.round(round_ms, &mut ChaCha8Rng::seed_from_u64(seed))
    }

    /// Full packets sent from `from_ms` to before `to_ms`.
    fn packets(made: &Generated, from_ms: u32, to_ms: u32) -> usize {
        let stamps = made.trace.timestamps_ms();
        stamps.iter().filter(|at| (from_ms + 1..=to_ms).contains(at)).count()
    }

    #[test]
    fn every_hand_over_has_its_gap_and_nothing_else_has_one() {
        for seed in 1..6 {
            let made = round(60_000, seed);
            for from_ms in [12_000, 27_000, 42_000, 57_000] {
                assert_eq!(packets(&made, from_ms, from_ms + 100), 0, "at {from_ms}, seed {seed}");
                assert!(packets(&made, from_ms + 100, from_ms + 102) > 0, "at {from_ms}");
            }
            let gaps = made.trace.timestamps_ms().windows(2).filter(|it| it[1] - it[0] > 50);
            assert_eq!(gaps.count(), 4, "seed {seed}");
            assert!(packets(&made, 0, 2) > 0, "it starts at once");
        }
    }

    #[test]
    fn where_rounds_meet_the_satellite_stays() {
        let mut firsts = Vec::new();
        for seed in 1..6 {
            let made = round(60_000, seed);
            let [first, .., last] = &made.delays[..] else { panic!("{:?}", made.delays) };
            assert_eq!((first.0, first.1), (Nanos::ZERO, last.1));
            let [begin, end] = [(0, 2_000), (58_000, 60_000)].map(|it| packets(&made, it.0, it.1));
            assert!(begin.abs_diff(end) <= 1, "{begin} and {end} packets in 2 s, seed {seed}");
            firsts.push(first.1);
        }
        firsts.dedup();
        assert_eq!(firsts.len(), 5, "the first satellite's delay is drawn");
    }

    #[test]
    fn a_round_before_the_first_hand_over_is_of_one_satellite() {
        let made = round(5_000, 1);
        assert_eq!(made.delays.len(), 1);
        assert!(made.delays[0].1 > Nanos::ZERO);
    }
}
