//! Opportunities as a Poisson process: Pantheon's calibrated paths 1 to 3 (Yan et al., ATC 2018).

use super::{Generated, packets_per_ms};
use crate::chance::fraction;
use rand_chacha::ChaCha8Rng;

/// The largest mean of one draw. A larger mean is drawn in parts: a product of that many fractions
/// would come near to the smallest number a double holds.
const MEAN_MAX: f64 = 32.0;

/// Packets leave at independent moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Poisson {
    /// The mean rate, in Mbit/s.
    pub mean: f64,
}

impl Poisson {
    /// Makes one round of `round_ms` milliseconds.
    pub fn round(self, round_ms: u32, rng: &mut ChaCha8Rng) -> Generated {
        let mean = packets_per_ms(self.mean);
        let mut stamps = Vec::new();
        for at_ms in 1..=round_ms {
            for _ in 0..events(mean, rng) {
                stamps.push(at_ms);
            }
        }
        Generated::of("poisson", ended(stamps, round_ms))
    }
}

/// A round lasts until its last opportunity, so this adds one at the end of the round if none is
/// there.
pub(super) fn ended(mut stamps: Vec<u32>, round_ms: u32) -> Vec<u32> {
    if stamps.last() != Some(&round_ms) {
        stamps.push(round_ms);
    }
    stamps
}

/// How many events of a Poisson process fall into a span that has `mean` of them on average
/// (Knuth, The Art of Computer Programming, section 3.4.1).
pub(super) fn events(mean: f64, rng: &mut ChaCha8Rng) -> u32 {
    let mut rest = mean;
    let mut count = 0;
    while rest > 0.0 {
        let part = rest.min(MEAN_MAX);
        rest -= part;
        let none = libm::exp(-part);
        let mut product = fraction(rng);
        while product > none {
            count += 1;
            product *= fraction(rng);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// The mean and the variance of a Poisson process are equal.
    #[test]
    fn mean_and_variance_are_the_same() {
        for mean in [0.05, 1.0, 8.0, 80.0] {
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            let draws: Vec<f64> = (0..100_000).map(|_| events(mean, &mut rng).into()).collect();
            let got = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance =
                draws.iter().map(|it| (it - got) * (it - got)).sum::<f64>() / draws.len() as f64;
            assert!((got / mean - 1.0).abs() < 0.05, "mean {got}, wanted {mean}");
            assert!((variance / mean - 1.0).abs() < 0.05, "variance {variance}, wanted {mean}");
        }
    }
}
