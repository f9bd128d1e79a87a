//! What the shipped weights of `learned` do on paths of each kind: they fill the link without a
//! standing queue, and follow its rate up and down.

mod common;

use common::run;

struct Path {
    name: &'static str,
    down: &'static str,
    /// One-way delay without a queue, in milliseconds.
    delay_ms: f64,
    goodput_mbit_per_sec_least: f64,
    queueing_ms_most: f64,
}

/// The most that these links can carry as payload is 23.2, 32.4, 25.5 and 19.3 Mbit/s.
const PATHS: [Path; 4] = [
    Path {
        name: "a steady rate",
        down: "rate_mbit_per_sec = 24\nqueue = { kind = \"droptail\", limit_bdp = 4 }",
        delay_ms: 20.0,
        goodput_mbit_per_sec_least: 22.5,
        queueing_ms_most: 6.0,
    },
    Path {
        name: "a rate that rises fourfold after 800 round trips",
        down: "rate_mbit_per_sec = 12\nqueue = { kind = \"droptail\", limit_bdp = 4 }\n\
               rate_steps = [{ at_s = 8, rate_mbit_per_sec = 48 }]",
        delay_ms: 5.0,
        goodput_mbit_per_sec_least: 30.0,
        queueing_ms_most: 3.0,
    },
    Path {
        name: "a rate that falls to a quarter",
        down: "rate_mbit_per_sec = 48\nqueue = { kind = \"droptail\", limit_bdp = 4 }\n\
               rate_steps = [{ at_s = 8, rate_mbit_per_sec = 12 }]",
        delay_ms: 20.0,
        goodput_mbit_per_sec_least: 24.0,
        queueing_ms_most: 12.0,
    },
    Path {
        name: "Wi-Fi",
        down: "jitter_std_ms = 4\njitter_correlation = 0.7\n\
               generator = { kind = \"wifi\", mean_mbit_per_sec = 20, burst_pkts_max = 20 }",
        delay_ms: 15.0,
        goodput_mbit_per_sec_least: 17.0,
        queueing_ms_most: 30.0,
    },
];

#[test]
fn the_shipped_weights_fill_links_without_a_standing_queue() {
    for path in PATHS {
        let (down, delay_ms) = (path.down, path.delay_ms);
        let outcome = run(&format!(
            "duration_s = 20\n[links.down]\n{down}\ndelay_ms = {delay_ms:.1}\n[links.up]\n\
             delay_ms = {delay_ms:.1}\n[[flows]]\ndriver = \"learned\"\n"
        ));
        let goodput = outcome.flows[0].goodput_mbit_per_sec;
        let link = outcome.links.iter().find(|link| link.name == "down").expect("the link");
        let queueing_ms = link.queueing_mean_ms;
        println!("{}: {goodput:.1} Mbit/s, {queueing_ms:.1} ms", path.name);
        assert!(goodput >= path.goodput_mbit_per_sec_least, "{}: {goodput} Mbit/s", path.name);
        assert!(queueing_ms <= path.queueing_ms_most, "{}: {queueing_ms} ms", path.name);
    }
}

/// A flow that comes later starts behind a queue, and sees the path without one once all flows make
/// room.
#[test]
fn five_flows_that_start_one_after_another_come_to_equal_shares() {
    for (rate_mbit_per_sec, delay_ms) in [(12.0, 20.0), (50.0, 5.0), (50.0, 50.0)] {
        let flows: String = (0..5)
            .map(|at| format!("[[flows]]\ndriver = \"learned\"\nstart_s = {}\n", 5 * at))
            .collect();
        let outcome = run(&format!(
            "duration_s = 60\n[links.down]\nrate_mbit_per_sec = {rate_mbit_per_sec}\n\
             queue = {{ kind = \"droptail\", limit_bdp = 5 }}\ndelay_ms = {delay_ms:.1}\n\
             [links.up]\ndelay_ms = {delay_ms:.1}\n{flows}"
        ));
        let delivered_until = |flow: u32, until_s: f64| {
            let of_flow = outcome.flow_samples.iter().filter(|sample| sample.flow == flow);
            let last = of_flow.take_while(|sample| sample.t_s <= until_s).last();
            last.map_or(0, |sample| sample.delivered_bytes) as f64
        };
        let shares: Vec<f64> =
            (0..5).map(|flow| delivered_until(flow, 60.0) - delivered_until(flow, 40.0)).collect();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        let jain = shares.iter().sum::<f64>().powi(2) / (5.0 * squares);
        println!("{rate_mbit_per_sec} Mbit/s, {delay_ms} ms: Jain's index {jain:.3}");
        assert!(jain >= 0.9, "{rate_mbit_per_sec} Mbit/s, {delay_ms} ms: {jain}, {shares:?}");
    }
}
