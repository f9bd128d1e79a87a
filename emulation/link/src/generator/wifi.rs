//! A shared channel: a station waits for it, then sends several packets back to back (802.11n's
//! A-MPDU). The mean rate is steady, the moments are not: what LingBo calls a jittery path.

use super::poisson::ended;
use super::{Generated, packets_per_ms};
use crate::chance::fraction;
use rand::RngCore;
use rand_chacha::ChaCha8Rng;

/// Bursts of packets, with waits between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wifi {
    /// The mean rate, in Mbit/s.
    pub mean: f64,
    /// A burst has from one packet to so many, each number as often as the others.
    pub burst_pkts_max: u32,
}

impl Wifi {
    /// A round of so many milliseconds.
    pub fn round(self, round_ms: u32, rng: &mut ChaCha8Rng) -> Generated {
        let mut stamps = Vec::new();
        let mut at_ms = 0.0;
        loop {
            let packets = 1 + rng.next_u32() % self.burst_pkts_max;
            // From half of what they need at the mean rate to one and a half: the mean stays.
            let wait_ms = f64::from(packets) / packets_per_ms(self.mean) * (0.5 + fraction(rng));
            at_ms += wait_ms;
            if at_ms >= f64::from(round_ms) {
                return Generated::of("wifi", ended(stamps, round_ms));
            }
            let stamp = at_ms as u32 + 1;
            stamps.extend((0..packets).map(|_| stamp));
        }
    }
}
