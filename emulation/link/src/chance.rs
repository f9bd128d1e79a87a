//! Probabilities, and draws against them.

use rand::RngCore;
use rand_chacha::ChaCha8Rng;

/// 2^64: the number of values a draw can take.
const DRAWS: f64 = 18_446_744_073_709_551_616.0;

/// 2^-53: a double holds 53 bits of a fraction.
const FRACTION_STEP: f64 = 1.0 / 9_007_199_254_740_992.0;

/// A probability, as the threshold below which a 64-bit draw falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chance {
    threshold: u64,
    certain: bool,
}

impl Chance {
    pub(crate) fn from_percent(percent: f64) -> Self {
        Self { threshold: (percent / 100.0 * DRAWS) as u64, certain: percent >= 100.0 }
    }

    pub(crate) fn draw(self, rng: &mut ChaCha8Rng) -> bool {
        // Draw even at 0 and 100 %, so that changing the probability moves no other draw.
        rng.next_u64() < self.threshold || self.certain
    }
}

/// A draw from [0, 1), for a probability that changes from packet to packet.
pub(crate) fn fraction(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * FRACTION_STEP
}
