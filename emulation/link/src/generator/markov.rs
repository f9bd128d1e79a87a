//! A cellular link: its rate walks between levels, and packets leave as a Poisson process.
//!
//! After Winstein, Sivaraman and Balakrishnan (Sprout, NSDI 2013, section 3.1), who model a
//! cellular link as a Poisson process whose rate moves at random.
//!
//! *Differs from* Sprout: the rate walks over nine levels (up, down or stay, each with probability
//! 1/3) instead of a Brownian motion. Outages are set separately in the link's spec.

use super::poisson::{ended, events};
use super::{Generated, packets_per_ms};
use rand::RngCore;
use rand_chacha::ChaCha8Rng;

/// The number of rates from minimum to maximum. They are spaced by squares, so the low rates are
/// closer together.
const LEVELS: u32 = 9;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Markov {
    /// The minimum rate, in Mbit/s.
    pub least: f64,
    /// The maximum rate, in Mbit/s.
    pub most: f64,
    /// How long a level lasts, in milliseconds.
    pub step_ms: u32,
}

impl Markov {
    /// Makes one round of `round_ms` milliseconds.
    pub fn round(self, round_ms: u32, rng: &mut ChaCha8Rng) -> Generated {
        let mut stamps = Vec::new();
        let mut level = LEVELS / 2;
        for at_ms in 1..=round_ms {
            if at_ms % self.step_ms == 0 {
                level = match rng.next_u32() % 3 {
                    0 => level.saturating_sub(1),
                    1 => level,
                    _ => (level + 1).min(LEVELS - 1),
                };
            }
            for _ in 0..events(packets_per_ms(self.rate(level)), rng) {
                stamps.push(at_ms);
            }
        }
        Generated::of("markov", ended(stamps, round_ms))
    }

    fn rate(self, level: u32) -> f64 {
        let share = f64::from(level) / f64::from(LEVELS - 1);
        self.least + (self.most - self.least) * share * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_go_from_the_least_rate_to_the_most() {
        let markov = Markov { least: 2.0, most: 34.0, step_ms: 1 };
        let rates: Vec<f64> = (0..LEVELS).map(|level| markov.rate(level)).collect();
        assert_eq!(rates, [2.0, 2.5, 4.0, 6.5, 10.0, 14.5, 20.0, 26.5, 34.0]);
    }
}
