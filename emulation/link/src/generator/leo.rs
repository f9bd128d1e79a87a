//! A path over low satellites: every 15 s another one, with another rate and another delay, and a
//! gap between them.
//!
//! Starlink reassigns its terminals at seconds 12, 27, 42 and 57 of every minute (Tanveer et al.,
//! "Making Sense of Constellations", 2023): every 15 s.

use super::poisson::ended;
use super::{Emitter, Generated, packets_per_ms};
use crate::chance::fraction;
use crate::time::Nanos;
use rand_chacha::ChaCha8Rng;

/// How long a satellite serves.
const PASS_MS: u32 = 15_000;

/// A path that is handed over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leo {
    /// The least rate of a satellite, in Mbit/s.
    pub least: f64,
    /// The most, in Mbit/s; each rate between is as likely.
    pub most: f64,
    /// Nothing leaves for so long after a hand-over, in milliseconds.
    pub out_ms: u32,
    /// A satellite adds up to this to the delay, in milliseconds.
    pub delay_ms_most: f64,
}

impl Leo {
    /// A round of so many milliseconds.
    pub fn round(self, round_ms: u32, rng: &mut ChaCha8Rng) -> Generated {
        let mut stamps = Vec::new();
        let mut delays = Vec::new();
        let mut emitter = Emitter::default();
        let mut rate = 0.0;
        for ms in 0..round_ms {
            if ms % PASS_MS == 0 {
                rate = self.least + (self.most - self.least) * fraction(rng);
                let delay = Nanos::from_millis_f64(self.delay_ms_most * fraction(rng));
                delays.push((Nanos::from_millis(ms.into()), delay));
            }
            let is_out = ms >= PASS_MS && ms % PASS_MS < self.out_ms;
            if !is_out {
                emitter.emit(packets_per_ms(rate), ms + 1, &mut stamps);
            }
        }
        let made = Generated::of("leo", ended(stamps, round_ms));
        Generated { delays, ..made }
    }
}
