//! Flows come and go while agents are killed and started: in two rounds of some seconds, or for a
//! given time.

use crate::memory::Memory;
use crate::storm::Storm;
use std::thread;
use std::time::Duration;

const ROUNDS: u32 = 2;
/// Time in which the kernel frees what a namespace leaves behind.
const CLEARED: Duration = Duration::from_secs(1);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(60);
/// Least number of samples, so that both halves can be compared.
const SAMPLES_MIN: u32 = 8;

/// Every flow is byte-exact, no flow is left in the table, and memory after the second round is
/// what it was after the first.
pub fn churn(mbit_per_sec: f64, span: Duration) {
    let after: Vec<Memory> = (0..ROUNDS)
        .map(|_| {
            let storm = Storm::new(mbit_per_sec);
            storm.rage(span / ROUNDS, |_| ());
            println!("{storm}");
            storm.end();
            thread::sleep(CLEARED);
            let memory = Memory::now();
            println!("memory: {memory}");
            memory
        })
        .collect();
    after[1].check_since(&after[0]);
}

/// The same without a break. The largest memory of the second half must not exceed that of the
/// first. The console gets a line of progress each minute.
pub fn soak(mbit_per_sec: f64, span: Duration) {
    let every = SAMPLE_INTERVAL.min(span / SAMPLES_MIN);
    let storm = Storm::new(mbit_per_sec);
    let mut samples = Vec::new();
    storm.rage(span, |elapsed| {
        if elapsed >= every * (samples.len() as u32 + 1) {
            let memory = Memory::now();
            eprintln!("soak: {} s: {storm}; {memory}", elapsed.as_secs());
            samples.push(memory);
        }
    });
    println!("{storm}");
    storm.end();
    let (first, second) = samples.split_at(samples.len() / 2);
    let [first, second] = [first, second].map(Memory::most);
    println!("memory, the most: first half {first}; second half {second}");
    second.check_since(&first);
}
