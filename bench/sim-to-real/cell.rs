//! A trace like that of a cellular link: the rate wanders, rests and returns.
//!
//! Every tenth of a second the rate goes up a level, stays, or goes down a level, with equal
//! probability. The ratio of neighbouring levels is about the fourth root of two to two, so a walk
//! from one end to the other takes seconds. The opportunities of a level are evenly spaced. All
//! numbers are integers drawn from one seed, so the bytes are the same on every machine.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write;

/// Opportunities in a tenth of a second; each carries a 1500-byte packet, so 100 are 12 Mbit/s.
const LEVELS_PER_STEP: [u64; 9] = [17, 25, 34, 50, 67, 100, 134, 167, 200];
const STEP_MS: u64 = 100;
/// The walk starts at 8 Mbit/s.
const FIRST_LEVEL: usize = 4;

/// Length of the scenarios' trace, in tenths of a second.
pub const STEPS: u64 = 160;
/// Seed of the scenarios' trace.
pub const SEED: u64 = 3;

/// The trace in Mahimahi's format, a millisecond a line. `steps` must be above zero.
pub fn trace(seed: u64, steps: u64) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut level = FIRST_LEVEL;
    let mut text = String::new();
    for step in 0..steps {
        let packets = LEVELS_PER_STEP[level];
        for packet in 1..=packets {
            let at_ms = step * STEP_MS + (packet * STEP_MS).div_ceil(packets);
            writeln!(text, "{at_ms}").expect("a string takes any text");
        }
        level = match rng.next_u32() % 3 {
            0 => level.saturating_sub(1),
            1 => level,
            _ => (level + 1).min(LEVELS_PER_STEP.len() - 1),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_trace_of_the_scenarios_is_this_one() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = folder.join("../emulation/scenarios/sim-to-real/cell.trace");
        let kept = std::fs::read_to_string(path).expect("it lies beside the scenarios");
        let fix = "remuda-sim-to-real --trace FILE writes it anew";
        assert!(kept == trace(SEED, STEPS), "cell.trace is not what the generator makes; {fix}");
    }

    #[test]
    fn it_is_a_trace_of_its_length() {
        for seed in 0..20 {
            let trace = remuda_link::Trace::parse("cell", &trace(seed, 50)).expect("a trace");
            assert_eq!(trace.period().as_millis(), 5_000);
            let mbit_per_sec = trace.mean_bits_per_sec() / 1_000_000;
            assert!((2..=24).contains(&mbit_per_sec), "{mbit_per_sec} Mbit/s");
        }
        assert_ne!(trace(1, 50), trace(2, 50));
    }
}
