//! libccp, the VM and compiled BPF agree on random programs. A million steps and more:
//! `cargo run --release -p remuda-conformance -- --steps 10000000 --seed 2`.

use remuda_conformance::run::{Bench, Options};
use remuda_conformance::source::{OP_NAMES, op};
use std::process::Command;

const STEPS: u64 = 100_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn live_random_programs_do_the_same_everywhere() {
    let mut oracle = Command::new(env!("CARGO_BIN_EXE_remuda-conformance"));
    oracle.arg("oracle");
    let mut bench = Bench::new(oracle).expect("the engines start");
    let options = Options { steps: number("STEPS", STEPS), seed: number("SEED", 1), only: None };
    let summary = bench.go(&options).unwrap_or_else(|difference| panic!("{difference}"));
    println!("{summary}");
    let libccp = summary.steps_of("libccp", "vm");
    assert!(libccp * 2 > summary.steps, "libccp is compared at {libccp} of {}", summary.steps);
    assert!(summary.reports * 20 > summary.steps, "programs report");
    assert!(summary.changes * 500 > summary.steps, "flows change their program");
    for (name, executed) in OP_NAMES.iter().zip(summary.executed) {
        let is_define = *name == OP_NAMES[usize::from(op::DEF)];
        assert!(is_define || executed > 1_000, "{name} is executed {executed} times");
    }
}
