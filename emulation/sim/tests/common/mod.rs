//! Helpers of the simulator's tests.

use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::{FlowSample, Outcome};

/// Payload of a packet of 1500 bytes, which takes a millisecond at 12 Mbit/s.
pub const MSS_BYTES: f64 = 1448.0;

/// Parses a scenario and runs it to the end.
pub fn run(text: &str) -> Outcome {
    let scenario = Scenario::parse(text, "test").expect(text);
    remuda_sim::run(&scenario).expect(text)
}

/// Segments that the first flow delivers per second, from `from_s` to its last sample.
#[allow(dead_code, reason = "each test file compiles its own copy, and not all use this")]
pub fn delivered_pkts_per_sec(samples: &[FlowSample], from_s: f64) -> f64 {
    let of_flow = || samples.iter().filter(|sample| sample.flow == 0 && sample.t_s >= from_s);
    let (first, last) = (of_flow().next(), of_flow().next_back());
    let (first, last) = first.zip(last).expect("there are samples");
    let bytes = (last.delivered_bytes - first.delivered_bytes) as f64;
    bytes / MSS_BYTES / (last.t_s - first.t_s)
}
