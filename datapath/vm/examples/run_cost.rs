//! The CPU time that each arm's program takes at an ACK, in nanoseconds of this thread.
//!
//! ```text
//! cargo run --release -p remuda-vm --example run_cost
//! ```

use remuda_algorithms::ARMS;
use remuda_vm::{Machine, Primitives, Program, RTT_NONE};
use remuda_wire::{Kind, Program as Wire, ToDatapath};

const RUNS: u64 = 5_000_000;
const ROUNDS: usize = 5;

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let path = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(path).expect("Linux has /proc");
    let first = text.split_whitespace().next().expect("schedstat has three numbers");
    first.parse().expect("and they are numbers")
}

fn install(text: &str) -> Vec<u8> {
    let (bin, _) = portus::lang::compile(text.as_bytes(), &[]).expect("the arms' programs compile");
    let mut out = vec![0; 8];
    for word in [1, bin.events.len(), bin.instrs.len()] {
        out.extend(u32::try_from(word).expect("a program is small").to_le_bytes());
    }
    out.extend(bin.serialize().expect("a compiled program has bytes"));
    let length = u16::try_from(out.len()).expect("a message is short");
    out[..2].copy_from_slice(&(Kind::Install as u16).to_le_bytes());
    out[2..4].copy_from_slice(&length.to_le_bytes());
    out
}

/// Nanoseconds a run, and reports of all runs: ACKs of a flow of 12 MB/s at 20 ms.
fn measure(program: &Program) -> (f64, u64) {
    let mut machine = Machine::new();
    machine.change(program, &[], 0);
    let mut primitives = Primitives {
        bytes_acked: 2_896,
        packets_acked: 2,
        bytes_in_flight: 240_000,
        packets_in_flight: 166,
        rate_incoming: 12_000_000,
        rate_outgoing: 12_100_000,
        ..Primitives::default()
    };
    let mut reports = 0;
    let started_ns = cpu_ns();
    for ack in 1..=RUNS {
        let now_ns = ack * 240_000;
        primitives.now_us = now_ns / 1_000;
        primitives.rtt_sample_us = if ack % 16 == 0 { RTT_NONE } else { 20_000 + ack % 1_000 };
        let ran = machine.run(&primitives, 260_000, 0, now_ns);
        reports += u64::from(ran.reported && machine.report()[0] > 0);
    }
    ((cpu_ns() - started_ns) as f64 / RUNS as f64, reports)
}

fn instructions(message: &[u8]) -> usize {
    match ToDatapath::parse(message) {
        Ok(ToDatapath::Install(program)) => Wire::instructions(&program),
        _ => 0,
    }
}

fn main() {
    println!("{RUNS} runs, best and worst of {ROUNDS}");
    println!("{:<10} {:>12} {:>8} {:>8} {:>10}", "program", "instructions", "ns", "ns", "reports");
    for arm in ARMS {
        let message = install(arm.program_text);
        let program = Program::from_install(&message).expect("the arms' programs are valid");
        let rounds: Vec<_> = (0..ROUNDS).map(|_| measure(&program)).collect();
        let cost = rounds.iter().map(|(ns, _)| *ns);
        let best = cost.clone().fold(f64::INFINITY, f64::min);
        let worst = cost.fold(0.0, f64::max);
        let (name, count, reports) = (arm.name, instructions(&message), rounds[0].1);
        println!("{name:<10} {count:>12} {best:>8.1} {worst:>8.1} {reports:>10}");
    }
}
