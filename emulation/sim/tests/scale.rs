//! What a simulation costs is in proportion to its packets, whatever the number of flows.
//!
//! Counted in events, which are the same on every machine; `make bench` times them.

use remuda_scenarios::Scenario;
use remuda_sim::Simulation;

/// Payload of a flow's share of the bottleneck takes so much time to send, in seconds a packet.
const PACKET_S: f64 = 0.01;

/// Events a data packet of that many flows, each with the same share of one bottleneck, until they
/// have sent about so many packets together.
fn events_per_packet(driver: &str, flows: u32, packets: u32) -> f64 {
    // All but the first shake hands before they send.
    let handshake_s = if flows > 1 { 0.15 } else { 0.0 };
    let duration_s = f64::from(packets) / f64::from(flows) * PACKET_S + handshake_s;
    let rate = f64::from(flows) * 1500.0 * 8.0 / PACKET_S / 1e6;
    // Starts spread over a round trip, so that no two flows are in step.
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
    // Fewer than of one flow may they be: what a queue drops has no ACK.
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
