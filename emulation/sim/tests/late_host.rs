//! How a slow host affects BBR; docs/sim-to-real.md shows the same on real TCP.
//!
//! A processor that is busy for some milliseconds delays a flow's ACKs, which then arrive in one
//! burst. A segment that is sent between two ACKs of the burst counts the later ones as if the path
//! had delivered them in less time. So one bandwidth sample is some per cent too large. The filter
//! keeps that sample for ten round trips, in which pacing never lets the queue drain.

mod common;

use common::run;

/// How often the host is slow: about as often as the host of docs/sim-to-real.md.
const EVERY_S: f64 = 0.512;
const SEEDS: std::ops::RangeInclusive<u64> = 1..=9;

/// Runs BBR alone on 96 Mbit/s, 40 ms and 8 BDP, with its ACKs delayed by `stall_ms` every half
/// second. Returns the 95th percentile of the queueing delay in milliseconds for each seed, sorted.
fn queueing_p95_ms(stall_ms: f64) -> Vec<f64> {
    let outages: Vec<String> = (0..56)
        .map(|n| {
            let at_s = 0.3 + EVERY_S * f64::from(n);
            format!("{{ at_s = {at_s:.3}, duration_s = {} }}", stall_ms / 1e3)
        })
        .collect();
    let outages = if stall_ms > 0.0 { outages.join(", ") } else { String::new() };
    let mut all: Vec<f64> = SEEDS
        .map(|seed| {
            let outcome = run(&format!(
                "duration_s = 30\nseed = {seed}\nsample_ms = 0\n\
                 [links.down]\nrate_mbit_per_sec = 96\ndelay_ms = 20\n\
                 queue = {{ kind = \"droptail\", limit_bdp = 8 }}\n\
                 [links.up]\nrate_mbit_per_sec = 40\ndelay_ms = 20\njitter_std_ms = 0.001\n\
                 queue = {{ kind = \"droptail\", limit_bdp = 8 }}\noutages = [{outages}]\n\
                 [[flows]]\ndriver = \"bbr\"\n"
            ));
            let down = outcome.links.iter().find(|link| link.name == "down").expect("the link");
            down.queueing_p95_ms
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of packets: cargo test --release")]
fn acks_held_up_for_milliseconds_make_bbrs_queue_stand_in_some_runs() {
    let (never, stalled) = (queueing_p95_ms(0.0), queueing_p95_ms(4.0));
    println!("never: {never:.1?} ms; 4 ms twice a second: {stalled:.1?} ms");
    assert!(never.iter().all(|ms| *ms < 12.0), "it drains: {never:?}");
    assert!(stalled[SEEDS.count() - 1] > 25.0, "it stands in one of them: {stalled:?}");
    assert!(stalled[0] < 12.5, "and not in another: {stalled:?}");
}
