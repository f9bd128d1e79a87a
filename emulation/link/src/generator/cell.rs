//! A cell: its scheduler grants the link in bursts some milliseconds apart, its rate wanders with
//! the signal, and now and then the signal fades for seconds, or is lost.
//!
//! Winstein, Sivaraman and Balakrishnan (Sprout, NSDI 2013, section 3.1) measure such links: rates
//! change by a factor of several within a second, packets come in bursts, and some gaps last for
//! seconds. The rate walks over levels as in [`super::Markov`], but these are spaced by ratios, so
//! that a factor of two is as likely at a low rate as at a high one.

use super::poisson::ended;
use super::{Emitter, Generated, packets_per_ms};
use crate::chance::fraction;
use rand::RngCore;
use rand_chacha::ChaCha8Rng;

/// The number of rates from minimum to maximum.
const LEVELS: u32 = 9;
/// How long a rate lasts, in milliseconds.
const STEP_MS: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The minimum rate, in Mbit/s: that of a fade.
    pub least: f64,
    /// The maximum rate, in Mbit/s.
    pub most: f64,
    /// The scheduler grants once in this many milliseconds, at a random moment.
    pub grant_ms: u32,
    /// The mean time from one fade to the next, in milliseconds.
    pub fade_every_ms: u32,
    /// A fade lasts for 0.5 to 1.5 of this many milliseconds.
    pub fade_ms: u32,
    /// The share of fades in which nothing is sent at all.
    pub silent_share: f64,
}

impl Cell {
    /// Makes one round of `round_ms` milliseconds.
    pub fn round(self, round_ms: u32, rng: &mut ChaCha8Rng) -> Generated {
        let rates = self.rates();
        let mut stamps = Vec::new();
        let mut emitter = Emitter::default();
        let mut level = LEVELS / 2;
        let (mut fades_at, mut faded_until, mut is_silent) = (self.gap_ms(rng), 0, false);
        let mut at_ms = 0;
        while at_ms < round_ms {
            let span_ms = self.grant_ms.min(round_ms - at_ms);
            if at_ms / STEP_MS != (at_ms + span_ms) / STEP_MS {
                level = match rng.next_u32() % 3 {
                    0 => level.saturating_sub(1),
                    1 => level,
                    _ => (level + 1).min(LEVELS - 1),
                };
            }
            if at_ms >= fades_at {
                let lasts_ms = f64::from(self.fade_ms) * (0.5 + fraction(rng));
                faded_until = at_ms + lasts_ms as u32;
                fades_at = faded_until.saturating_add(self.gap_ms(rng));
                is_silent = fraction(rng) < self.silent_share;
            }
            let grant_at = at_ms + 1 + (fraction(rng) * f64::from(span_ms)) as u32;
            let rate = if at_ms >= faded_until {
                rates[level as usize]
            } else if is_silent {
                0.0
            } else {
                self.least
            };
            let packets = packets_per_ms(rate) * f64::from(span_ms);
            emitter.emit(packets, grant_at.min(at_ms + span_ms), &mut stamps);
            at_ms += span_ms;
        }
        Generated::of("cell", ended(stamps, round_ms))
    }

    fn gap_ms(self, rng: &mut ChaCha8Rng) -> u32 {
        (f64::from(self.fade_every_ms) * (0.5 + fraction(rng))) as u32
    }

    /// The rates of all levels. Products only, so that they are the same on every machine.
    fn rates(self) -> [f64; LEVELS as usize] {
        // Eight equal ratios are three square roots.
        let ratio = (self.most / self.least).sqrt().sqrt().sqrt();
        let mut rate = self.least;
        std::array::from_fn(|_| {
            let here = rate;
            rate *= ratio;
            here
        })
    }

    /// The rate to expect in the long run, in Mbit/s.
    pub fn mean(self) -> f64 {
        let walk = self.rates().iter().sum::<f64>() / f64::from(LEVELS);
        let (fade, gap) = (f64::from(self.fade_ms), f64::from(self.fade_every_ms));
        let faded = fade / (fade + gap);
        (1.0 - faded) * walk + faded * (1.0 - self.silent_share) * self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const CELL: Cell = Cell {
        least: 0.5,
        most: 24.0,
        grant_ms: 8,
        fade_every_ms: 6_000,
        fade_ms: 2_000,
        silent_share: 0.5,
    };

    fn round(seed: u64) -> Generated {
        CELL.round(600_000, &mut ChaCha8Rng::seed_from_u64(seed))
    }

    #[test]
    fn its_mean_is_that_of_its_levels_and_fades() {
        for seed in 1..4 {
            let made = round(seed);
            assert_eq!(made, round(seed));
            let mean = made.trace.mean_bits_per_sec() as f64 / 1e6;
            assert!((mean / CELL.mean() - 1.0).abs() < 0.35, "seed {seed}: {mean} Mbit/s");
        }
    }

    #[test]
    fn packets_come_in_grants_and_silences_last_seconds() {
        let made = round(1);
        let stamps = made.trace.timestamps_ms();
        assert!(stamps.is_sorted());
        let gaps: Vec<u32> = stamps.windows(2).map(|it| it[1] - it[0]).collect();
        let together = gaps.iter().filter(|gap| **gap == 0).count();
        assert!(together * 10 > gaps.len() * 7, "{together} of {} packets", gaps.len());
        let silences = gaps.iter().filter(|gap| **gap >= 1_000).count();
        assert!((15..75).contains(&silences), "{silences} silences in 10 minutes");
        assert!(gaps.iter().all(|gap| *gap < 3_200), "a silence ends");
    }

    /// A change here changes every result over such a link: it needs a line in CHANGELOG.md.
    #[test]
    fn the_first_moments_of_seed_1_stay() {
        let made = round(1);
        let stamps = made.trace.timestamps_ms();
        assert_eq!(stamps[..8], [1, 1, 13, 13, 18, 18, 27, 27]);
    }
}
