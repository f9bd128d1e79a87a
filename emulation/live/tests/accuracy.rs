//! Real traffic over emulated paths. Needs root.

mod common;

use common::{constant, testbed};
use remuda_live::{PathSpec, probe};
use std::time::Duration;

#[test]
fn idle_round_trips_and_rate_are_accurate() {
    let Some(testbed) = testbed(&PathSpec::symmetric(constant(12.0, 20.0))) else { return };
    std::thread::sleep(Duration::from_millis(500));
    println!("{:?}", testbed.stats().unwrap());
    let trips =
        probe::round_trips(testbed.client(), testbed.server(), 100, Duration::from_millis(5))
            .unwrap();
    println!("{trips:?}");
    let rate =
        probe::saturated_rate(testbed.client(), testbed.server(), 18.0, Duration::from_secs(2))
            .unwrap();
    println!("{rate}");
    println!("{:?}", testbed.stats().unwrap());
}
