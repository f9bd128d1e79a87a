//! Each arm has a path alone, and leaves the queue that its [`remuda_algorithms::ArmInfo`] names.

use remuda_algorithms::{ARMS, Queue};
use remuda_link::Nanos;
use remuda_scenarios::Scenario;
use remuda_sim::Simulation;

const DURATION_S: f64 = 30.0;
/// 24 Mbit/s, 40 ms, and a buffer of four bandwidth-delay products.
const ONE_WAY_MS: f64 = 20.0;
const BDP_MS: f64 = 40.0;

/// The median time that packets wait in the queue, in bandwidth-delay products.
fn queue_bdps(driver: &str) -> f64 {
    let text = format!(
        "duration_s = {DURATION_S}\n[links.down]\nrate_mbit_per_sec = 24\ndelay_ms = {ONE_WAY_MS}\n\
         queue = {{ kind = \"droptail\", limit_bdp = 4 }}\n[links.up]\ndelay_ms = {ONE_WAY_MS}\n\
         [[flows]]\ndriver = \"{driver}\"\n"
    );
    let scenario = Scenario::parse(&text, "queue").expect("a scenario");
    let mut simulation = Simulation::new(&scenario).expect("it can run");
    simulation.run_until(Nanos((DURATION_S * 1e9) as u64));
    let flow = simulation.outcome().flows.swap_remove(0);
    (flow.one_way_p50_ms.expect("it delivers") - ONE_WAY_MS) / BDP_MS
}

#[test]
fn each_arm_leaves_the_queue_that_its_info_names() {
    for info in ARMS {
        let Some(queue) = info.queue else {
            let is_measurable = info.adapts && info.loads.is_none();
            assert!(!is_measurable, "{}: name the queue in its info", info.name);
            continue;
        };
        let got = queue_bdps(info.name);
        let measured = match got {
            ..0.5 => Queue::Short,
            0.5..2.0 => Queue::Bounded,
            _ => Queue::Full,
        };
        assert_eq!(measured, queue, "{}: {got:.2} BDPs", info.name);
    }
}
