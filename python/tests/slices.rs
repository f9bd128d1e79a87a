//! Results do not depend on the slices of a simulation, between which Python checks for Ctrl-C.

use remuda_scenarios::{Nanos, Scenario};
use remuda_sim::Simulation;

const TEXT: &str = r#"
    duration_s = 8
    sample_ms = 30
    [links.down]
    rate_mbit_per_sec = 12
    delay_ms = 20
    loss_percent = 0.5
    queue = { kind = "droptail", limit_bdp = 1 }
    [links.up]
    delay_ms = 20
    [[flows]]
    driver = "cubic"
    bytes = 1_000_000
    [[flows]]
    driver = "window:20"
    bytes = 2_000_000
"#;

#[test]
fn a_result_is_the_same_however_it_is_sliced() {
    let scenario = Scenario::parse(TEXT, "slices").unwrap();
    let whole = remuda_sim::run(&scenario).unwrap();
    assert!(whole.flows.iter().all(|flow| flow.end_s.is_some()), "both end before the scenario");
    for slice_ms in [1, 7, 100] {
        let mut simulation = Simulation::new(&scenario).unwrap();
        while !simulation.is_over() {
            simulation.run_until(simulation.now() + Nanos::from_millis(slice_ms));
        }
        assert!(simulation.outcome() == whole, "slices of {slice_ms} ms");
    }
}
