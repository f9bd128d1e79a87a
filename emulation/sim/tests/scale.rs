//! The cost of a simulation is proportional to its packets, for any number of flows.
//!
//! The tests count events, whose number is the same on every machine; `make bench` measures time.

use remuda_scenarios::Scenario;
use remuda_sim::Simulation;

/// The time to send one packet at a flow's share of the bottleneck, in seconds.
const PACKET_S: f64 = 0.01;

/// Events for each data packet. `flows` flows with equal shares of one bottleneck run until they
/// have sent about `packets` packets together.
fn events_per_packet(driver: &str, flows: u32, packets: u32) -> f64 {
    // All flows but the first have a handshake before they send.
    let handshake_s = if flows > 1 { 0.15 } else { 0.0 };
    let duration_s = f64::from(packets) / f64::from(flows) * PACKET_S + handshake_s;
    let rate = f64::from(flows) * 1500.0 * 8.0 / PACKET_S / 1e6;
    // Starts are spread over a round trip, so that flows are not synchronised.
    let stagger_s = 0.1 / f64::from(flows);
    let text = format!(
        "duration_s = {duration_s}\nsample_ms = 0\n\
         [links.down]\nrate_mbit_per_sec = {rate}\ndelay_ms = 50\n\
         queue = {{ kind = 'droptail', limit_bdp = 1 }}\n[links.up]\ndelay_ms = 50\n\
         [[flows]]\ndriver = '{driver}'\ncount = {flows}\nstagger_s = {stagger_s}\n"
    );
    let scenario = Scenario::parse(&text, "scale").expect(&text);
    let mut simulation = Simulation::new(&scenario).expect(&text);
    simulation.run_until(simulation.end());
    let sent = simulation.packets_sent() as f64;
    assert!(sent > 0.7 * f64::from(packets), "{driver} {flows}: {sent} of {packets} packets");
    simulation.events() as f64 / sent
}

#[track_caller]
fn check(driver: &str, packets: u32) {
    let costs = [1, 10, 100, 1_000, 10_000].map(|flows| events_per_packet(driver, flows, packets));
    let most = costs.iter().copied().fold(0.0, f64::max);
    // The number may be lower than for one flow: a packet that the queue drops has no ACK.
    assert!(most <= 1.1 * costs[0], "{driver}: {costs:?} events a packet");
}

#[test]
fn a_packet_of_ten_thousand_flows_costs_what_one_of_one_does() {
    check("window:10", 300_000);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of packets: in optimised builds only")]
fn so_does_a_packet_that_the_agent_controls() {
    check("cubic", 2_000_000);
}
