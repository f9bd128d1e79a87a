//! A trace like a cell's: the rate wanders, rests and comes back.
//!
//! Each tenth of a second the rate goes up a level, stays, or goes down one, a third each. Levels
//! are spaced by about a fourth root of two to the two, so a walk takes seconds from end to end.
//! Opportunities of a level lie evenly. All of it in integers from one seed: the same bytes on any
//! machine.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write;

/// Opportunities of a tenth of a second; each is a 1500-byte packet, so 100 are 12 Mbit/s.
const LEVELS_PER_STEP: [u64; 9] = [17, 25, 34, 50, 67, 100, 134, 167, 200];
const STEP_MS: u64 = 100;
/// Where it starts: 8 Mbit/s.
const FIRST_LEVEL: usize = 4;

/// How long the trace of the scenarios is, in tenths of a second.
pub const STEPS: u64 = 160;
/// What it is made from.
pub const SEED: u64 = 3;

/// The trace: a millisecond a line, in Mahimahi's format. `steps` is above zero.
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
        let path = folder.join("../../emulation/scenarios/sim-to-real/cell.trace");
        let kept = std::fs::read_to_string(path).expect("it lies beside the scenarios");
        let fix = "cargo run -p remuda-sim-to-real -- --trace FILE writes it anew";
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
