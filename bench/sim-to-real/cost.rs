//! The cost of a simulated packet by the number of flows. The cost must be linear in packets,
//! independent of the number of flows that share them.
//!
//! Every row has about the same number of packets: a flow's share of the bottleneck is always
//! [`SHARE_MBIT_PER_SEC`], and a scenario with more flows is shorter.

use crate::sim_to_real::Error;
use crate::thread_time::thread_ns;
use remuda_scenarios::{Driver, FlowSpec, LinkSpec, Scenario};
use std::collections::BTreeMap;

/// Nine packets a round trip, which is enough for a flow that controls its window.
const SHARE_MBIT_PER_SEC: f64 = 1.1;
const DELAY_MS: f64 = 50.0;
const PACKET_BITS: f64 = 1500.0 * 8.0;
/// Limit for the cost of a packet with the most flows over that with the fewest. The state of many
/// flows does not fit the processor's caches, but the work for a packet is the same.
pub const FACTOR_MAX: f64 = 3.0;

#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub flows: u32,
    pub packets: u64,
    pub cpu_ns: u64,
}

impl Cost {
    /// Nanoseconds for one data packet and its ACK.
    pub fn ns_per_packet(&self) -> f64 {
        self.cpu_ns as f64 / self.packets.max(1) as f64
    }
}

/// A scenario of `flows` flows of `driver` over one bottleneck, which lasts until about `packets`
/// packets have been sent.
pub fn scenario(driver: &Driver, flows: u32, packets: u64) -> Scenario {
    let rate = SHARE_MBIT_PER_SEC * f64::from(flows);
    // All flows but the first have a handshake before they send, which takes a round trip and a
    // half.
    let handshake_s = if flows > 1 { 3.0 * DELAY_MS / 1e3 } else { 0.0 };
    let duration_s = packets as f64 * PACKET_BITS / (rate * 1e6) + handshake_s;
    let mut down =
        LinkSpec { rate_mbit_per_sec: Some(rate), delay_ms: DELAY_MS, ..LinkSpec::default() };
    down.queue = remuda_link::QueueSpec::droptail_bdp(1.0);
    let up = LinkSpec { delay_ms: DELAY_MS, ..LinkSpec::default() };
    // Starts are spread over a round trip, so that no two flows are in step.
    let stagger_s = 2.0 * DELAY_MS / 1e3 / f64::from(flows);
    let flow = FlowSpec { count: flows, stagger_s, ..FlowSpec::driven_by(driver.clone()) };
    Scenario {
        name: format!("{flows} flows"),
        duration_s,
        sample_ms: 0.0,
        links: BTreeMap::from([("down".to_owned(), down), ("up".to_owned(), up)]),
        flows: vec![flow],
        ..Scenario::default()
    }
}

pub fn measure(driver: &Driver, flows: u32, packets: u64) -> Result<Cost, Error> {
    let scenario = scenario(driver, flows, packets);
    let before_ns = thread_ns();
    let outcome =
        remuda_sim::run(&scenario).map_err(|source| Error::sim(&scenario.name, source))?;
    Ok(Cost { flows, packets: outcome.packets, cpu_ns: thread_ns() - before_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_as_many_packets_whatever_the_number_of_flows() {
        for flows in [1, 10, 100] {
            let cost = measure(&Driver::Window(10), flows, 3_000).expect("it runs");
            assert!((2_000..5_000).contains(&cost.packets), "{cost:?}");
            assert!(cost.ns_per_packet() > 0.0);
        }
    }
}
