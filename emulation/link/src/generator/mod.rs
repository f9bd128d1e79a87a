//! Synthetic links: the moments at which they deliver, drawn from a seed.
//!
//! A generator makes one round of a [`Trace`]; for a satellite, also the delays that go with it. A
//! seed gives the same link on every machine: beside arithmetic the generators use only the
//! exponential of `libm`, a Rust implementation that is the same everywhere.

mod cell;
mod leo;
mod markov;
mod periodic;
mod poisson;
mod sawtooth;
mod wifi;

pub use cell::Cell;
pub use leo::Leo;
pub use markov::Markov;
pub use periodic::Periodic;
pub use poisson::Poisson;
pub use sawtooth::Sawtooth;
pub use wifi::Wifi;

use crate::time::Nanos;
use crate::trace::{OPPORTUNITY_BYTES, TUN_HEADER_BYTES, Trace};

/// The bits of one opportunity: a full packet, without the header that Mahimahi counts.
const PACKET_BITS: f64 = ((OPPORTUNITY_BYTES - TUN_HEADER_BYTES) * 8) as f64;

/// Full packets in a millisecond at this rate: one at 12 Mbit/s.
pub(crate) fn packets_per_ms(mbit_per_sec: f64) -> f64 {
    mbit_per_sec * 1e3 / PACKET_BITS
}

#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    pub trace: Trace,
    /// Where the delay changes: moments of the round, each with what is added to the delay from
    /// then on.
    pub delays: Vec<(Nanos, Nanos)>,
}

impl Generated {
    fn of(name: &str, timestamps_ms: Vec<u32>) -> Self {
        Self { trace: Trace::generated(name, timestamps_ms), delays: Vec::new() }
    }
}

/// Turns a rate into opportunities. The fraction of a packet that a millisecond leaves over counts
/// for the next.
#[derive(Clone, Copy, Debug, Default)]
struct Emitter {
    owed_pkts: f64,
}

impl Emitter {
    /// Adds the opportunities of the millisecond `at_ms`, in which the rate brings `packets`
    /// packets.
    fn emit(&mut self, packets: f64, at_ms: u32, into: &mut Vec<u32>) {
        self.owed_pkts += packets;
        while self.owed_pkts >= 1.0 {
            into.push(at_ms);
            self.owed_pkts -= 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    const ROUND_MS: u32 = 60_000;

    fn all(seed: u64) -> [(&'static str, Generated); 5] {
        let rng = || ChaCha8Rng::seed_from_u64(seed);
        let leo = Leo { least: 20.0, most: 200.0, out_ms: 100, delay_ms_most: 30.0 };
        [
            ("poisson", Poisson { mean: 12.0 }.round(ROUND_MS, &mut rng())),
            ("markov", Markov { least: 2.0, most: 24.0, step_ms: 100 }.round(ROUND_MS, &mut rng())),
            ("sawtooth", Sawtooth { least: 6.0, most: 18.0, tooth_ms: 5_000 }.round(ROUND_MS)),
            ("wifi", Wifi { mean: 12.0, burst_pkts_max: 32 }.round(ROUND_MS, &mut rng())),
            ("leo", leo.round(ROUND_MS, &mut rng())),
        ]
    }

    /// The mean rate each generator should have, and how far the rate of one minute may be off.
    #[test]
    fn a_round_lasts_what_it_should_and_has_the_rate_it_should() {
        let means = [(12.0, 0.02), (9.6, 0.5), (12.0, 0.01), (12.0, 0.05), (110.0, 0.5)];
        for seed in 1..6 {
            for ((name, made), (mean, within)) in all(seed).into_iter().zip(means) {
                assert_eq!(made.trace.period().as_millis(), u64::from(ROUND_MS), "{name}");
                assert!(made.trace.timestamps_ms().is_sorted(), "{name}");
                let rate = made.trace.mean_bits_per_sec() as f64 / 1e6;
                assert!((rate / mean - 1.0).abs() < within, "{name}, seed {seed}: {rate} Mbit/s");
            }
        }
    }

    #[test]
    fn a_seed_gives_one_link_and_another_seed_another() {
        assert_eq!(all(3), all(3));
        for ((name, made), (_, other)) in all(1).into_iter().zip(all(2)) {
            assert_eq!(made == other, name == "sawtooth", "{name}: only a sawtooth draws nothing");
        }
    }

    /// A change here changes every result over a generated link: it needs a line in CHANGELOG.md.
    #[test]
    fn the_first_moments_of_seed_1_stay() {
        let firsts = all(1).map(|(name, made)| {
            let stamps = &made.trace.timestamps_ms()[..6];
            format!("{name} {stamps:?}")
        });
        assert_eq!(firsts.join("\n"), include_str!("goldens.txt").trim_end());
    }

    #[test]
    fn a_satellite_changes_its_delay_with_its_rate() {
        let [.., (_, made)] = all(1);
        let moments: Vec<u64> = made.delays.iter().map(|(at, _)| at.as_millis()).collect();
        assert_eq!(moments, [0, 12_000, 27_000, 42_000, 57_000]);
        assert!(made.delays.iter().all(|(_, delay)| delay.as_millis() <= 30));
    }
}
