//! A rate that climbs evenly, falls at once, and climbs again.

use super::poisson::ended;
use super::{Emitter, Generated, packets_per_ms};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sawtooth {
    /// The rate at the start of a tooth, in Mbit/s.
    pub least: f64,
    /// The rate at the end of a tooth, in Mbit/s.
    pub most: f64,
    /// How long one climb takes, in milliseconds.
    pub tooth_ms: u32,
}

impl Sawtooth {
    /// Makes one round of `round_ms` milliseconds.
    pub fn round(self, round_ms: u32) -> Generated {
        let mut stamps = Vec::new();
        let mut emitter = Emitter::default();
        for at_ms in 1..=round_ms {
            let share = f64::from((at_ms - 1) % self.tooth_ms) / f64::from(self.tooth_ms);
            let rate = self.least + (self.most - self.least) * share;
            emitter.emit(packets_per_ms(rate), at_ms, &mut stamps);
        }
        Generated::of("sawtooth", ended(stamps, round_ms))
    }
}
