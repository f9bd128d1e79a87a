//! The states that the networks read: what came of one step of one arm.

use crate::turn::Outcome;

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    pub throughput_bit_per_sec: f64,
    /// The mean round trip.
    pub rtt_s: f64,
    /// The least round trip.
    pub rtt_min_s: f64,
    /// Lost bytes as a share of those that were lost or delivered: 0 to 1.
    pub loss: f64,
}

/// The inputs that [`State::inputs`] gives, in this order.
pub const NAMES: [&str; 6] =
    ["throughput", "rtt", "loss", "throughput_log", "rtt_log", "rtt_min_log"];

/// Logarithms are of at least a kilobit per second and a microsecond.
const LEAST: (f64, f64) = (1e3, 1e-6);

impl State {
    pub fn of(outcome: &Outcome) -> Self {
        let seen = outcome.seen;
        let sent = seen.throughput_mbit_per_sec + seen.lost_mbit_per_sec;
        Self {
            throughput_bit_per_sec: seen.throughput_mbit_per_sec * 1e6,
            rtt_s: seen.rtt_mean_ms / 1e3,
            rtt_min_s: outcome.rtt_min_ms / 1e3,
            loss: if sent > 0.0 { seen.lost_mbit_per_sec / sent } else { 0.0 },
        }
    }

    /// The values of [`NAMES`]: bit/s, s, a share, and natural logarithms of bit/s and s.
    pub fn inputs(&self) -> [f32; NAMES.len()] {
        let (rate_least, rtt_least) = LEAST;
        let log = |value: f64, least: f64| libm::log(value.max(least));
        [
            self.throughput_bit_per_sec,
            self.rtt_s,
            self.loss,
            log(self.throughput_bit_per_sec, rate_least),
            log(self.rtt_s, rtt_least),
            log(self.rtt_min_s, rtt_least),
        ]
        .map(|value| value as f32)
    }
}
