//! Flows come and go while agents are killed and started: for seconds, in two rounds that are
//! alike, or for as long as one likes.

use crate::memory::Memory;
use crate::storm::Storm;
use std::thread;
use std::time::Duration;

const ROUNDS: u32 = 2;
/// What a namespace leaves behind is cleared up by then.
const CLEARED: Duration = Duration::from_secs(1);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(60);
/// As many as halves need to be compared.
const SAMPLES_MIN: u32 = 8;

/// Every flow is byte-exact, none is left in the table, and memory is after the second round what
/// it was after the first.
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

/// The same without a break; what there is of memory in the second half is no more than in the
/// first. It says how it goes on the console, each minute.
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
