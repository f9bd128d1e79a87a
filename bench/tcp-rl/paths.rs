//! The paths of the table: the paper's, and drawn ones.

use super::scene::Path;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RATES: [f64; 9] = [1.0, 5.0, 10.0, 20.0, 50.0, 70.0, 100.0, 150.0, 200.0];
const RTTS_MS: [f64; 8] = [10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 150.0, 200.0];
const LOSSES_PERCENT: [f64; 4] = [0.0, 1.0, 2.0, 10.0];
/// The seed of the paths that nothing was trained on.
const HELD_OUT_SEED: u64 = 60_606;

const fn path(rate_mbit: f64, rtt_ms: f64, loss_percent: f64) -> Path {
    Path { rate_mbit, rtt_ms, loss_percent }
}

/// C2', phases in which different arms win.
pub const PHASES: [Path; 4] =
    [path(10.0, 10.0, 0.0), path(200.0, 80.0, 10.0), path(70.0, 150.0, 10.0), path(1.0, 10.0, 0.0)];

/// C2, the paper's own phases.
pub const PAPERS_PHASES: [Path; 4] =
    [path(20.0, 20.0, 2.0), path(50.0, 40.0, 1.0), path(150.0, 20.0, 10.0), path(200.0, 20.0, 1.0)];

/// C1: the paper's 288.
pub fn c1() -> Vec<Path> {
    let mut all = Vec::new();
    for rate in RATES {
        for rtt in RTTS_MS {
            all.extend(LOSSES_PERCENT.map(|loss| path(rate, rtt, loss)));
        }
    }
    all
}

/// Paths between those of C1, logarithmically even in rate and round trip; half have no loss.
pub fn held_out(count: usize) -> Vec<Path> {
    let mut rng = ChaCha8Rng::seed_from_u64(HELD_OUT_SEED);
    let mut even = |low: f64, high: f64| {
        let log = rng.random_range(libm::log(low)..libm::log(high));
        libm::exp(log)
    };
    let drawn = (0..count).map(|at| {
        let (rate, rtt) = (even(1.0, 200.0), even(10.0, 200.0));
        let loss = if at % 2 == 0 { 0.0 } else { even(0.1, 10.0) };
        path(rate, rtt, loss)
    });
    drawn.collect()
}
