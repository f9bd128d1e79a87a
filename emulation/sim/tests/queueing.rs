//! Compares a queue with queueing theory: Poisson arrivals, packets of one size, one server.

mod common;

use common::run;

const SERVICE_MS: f64 = 1.0;

/// The mean time from arrival to the end of service in M/D/1 (Pollaczek and Khinchine): a packet
/// waits ρ/2(1-ρ) service times, and is then served.
fn pollaczek_khinchine_ms(load: f64) -> f64 {
    SERVICE_MS * (1.0 + load / (2.0 * (1.0 - load)))
}

/// Offers `load` for the time of `packets` packets, and compares. The comparison uses the load that
/// arrived, because the time in the queue depends strongly on it.
#[track_caller]
fn check(load: f64, packets: f64, tolerance: f64) {
    let outcome = run(&format!(
        "duration_s = {}\nsample_ms = 0\nseed = 5\n\
         [links.down]\nrate_mbit_per_sec = 12\n[links.up]\n\
         [[flows]]\ndriver = 'unresponsive'\napp_rate_mbit_per_sec = {}\npoisson = true\n",
        packets / load * SERVICE_MS / 1e3,
        12.0 * load
    ));
    let link = &outcome.links[0];
    let came = link.packets_in as f64 * SERVICE_MS / 1e3 / outcome.duration_s;
    assert!((came / load - 1.0).abs() < 0.02, "a load of {came} for {load}");
    let (got, want) = (link.queueing_mean_ms, pollaczek_khinchine_ms(came));
    assert!((got / want - 1.0).abs() <= tolerance, "load {came}: {got} ms for {want} ms");
}

#[test]
fn a_queue_at_half_load_is_m_d_1() {
    check(0.5, 200_000.0, 0.02);
}

#[test]
fn a_queue_at_four_fifths_is_m_d_1() {
    check(0.8, 300_000.0, 0.03);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of packets: in optimised builds only")]
fn a_queue_at_nine_tenths_is_m_d_1() {
    check(0.9, 4_000_000.0, 0.03);
}

/// A window of 10 packets on a path of 10 ms with 1 ms a packet: the queue holds the packets that
/// the path does not.
#[test]
fn a_window_says_how_long_its_packets_take_one_way() {
    let path = "[links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 3\n[links.up]\ndelay_ms = 2\n";
    let outcome = run(&format!(
        "duration_s = 10\n{path}[[flows]]\ndriver = 'window:10'\ndelayed_acks = false\n"
    ));
    let flow = &outcome.flows[0];
    let p50_ms = flow.one_way_p50_ms.expect("packets arrived");
    // A round trip takes 10 ms for ten packets, of which 2 ms are the way back.
    assert!((p50_ms - 8.0).abs() < 0.1, "{p50_ms} ms");
    let (mean_ms, p99_ms) = (flow.one_way_mean_ms.unwrap(), flow.one_way_p99_ms.unwrap());
    assert!(mean_ms <= p99_ms && (mean_ms - p50_ms).abs() < 0.1, "{mean_ms} {p99_ms}");
}

/// A sparse flow does not wait for others in FQ-CoDel (RFC 8290). The link's mean delay does not
/// show that.
#[test]
fn a_sparse_flow_of_a_fair_queue_takes_its_own_time() {
    let outcome = run("duration_s = 10\n\
         [links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 10\n\
         queue = { kind = 'fq-codel', limit_packets = 1000 }\n\
         [links.up]\ndelay_ms = 10\n\
         [[flows]]\ndriver = 'window:100'\n\
         [[flows]]\ndriver = 'window:1'\napp_rate_mbit_per_sec = 0.2\n");
    let [bulk, sparse] = [0, 1].map(|flow| outcome.flows[flow].one_way_p50_ms.expect("arrivals"));
    assert!((11.0..13.0).contains(&sparse), "{sparse} ms");
    assert!(bulk > 14.0, "{bulk} ms");
}
