//! A shared channel: a station waits for it, then sends several packets back to back (802.11n's
//! A-MPDU). The mean rate is steady, the sending times are not; LingBo calls such a path jittery.

use super::poisson::ended;
use super::{Generated, packets_per_ms};
use crate::chance::fraction;
use rand::RngCore;
use rand_chacha::ChaCha8Rng;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wifi {
    /// The mean rate, in Mbit/s.
    pub mean: f64,
    /// A burst has 1 to this many packets; each number is equally likely.
    pub burst_pkts_max: u32,
}

impl Wifi {
    /// Makes one round of `round_ms` milliseconds.
    pub fn round(self, round_ms: u32, rng: &mut ChaCha8Rng) -> Generated {
        let mut stamps = Vec::new();
        let mut at_ms = 0.0;
        loop {
            let packets = 1 + rng.next_u32() % self.burst_pkts_max;
            // The wait is 0.5 to 1.5 times what the burst needs at the mean rate, so the mean rate
            // holds.
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
