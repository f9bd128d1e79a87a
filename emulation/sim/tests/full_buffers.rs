//! Flows of one arm that fill a short buffer together do not send most of their segments again.

mod common;

use common::run;
use remuda_scenarios::outcome::Outcome;

/// Flows on 48 Mbit/s, 40 ms and half a BDP of buffer, a tenth of a second apart.
fn flows(driver: &str, count: u32) -> Outcome {
    flows_on(driver, count, 48, 0.1)
}

/// The same on another rate, and so many seconds apart.
fn flows_on(driver: &str, count: u32, mbit_per_sec: u32, apart_s: f64) -> Outcome {
    run(&format!(
        "duration_s = 20\nsample_ms = 1000\n[links.down]\nrate_mbit_per_sec = {mbit_per_sec}\n\
         delay_ms = 20\nqueue = {{ kind = \"droptail\", limit_bdp = 0.5 }}\n\
         [links.up]\ndelay_ms = 20\n\
         [[flows]]\ndriver = \"{driver}\"\ncount = {count}\nstagger_s = {apart_s}\n"
    ))
}

/// The share of segments that are retransmissions.
fn resent(outcome: &Outcome) -> f64 {
    let sum = |of: fn(&remuda_scenarios::outcome::FlowOutcome) -> u64| -> u64 {
        outcome.flows.iter().map(of).sum()
    };
    sum(|flow| flow.retransmitted_pkts) as f64 / sum(|flow| flow.sent_pkts).max(1) as f64
}

/// CUBIC sends 0.2 % again with five flows, and 4 % with fifty, whose windows are four segments. An
/// arm that tolerates random losses answers later: 3 % are allowed with five flows, and with fifty
/// the 29 % of BBR, which tolerates them too. The bound on all segments bounds the time of the
/// simulation, which is proportional to them.
#[track_caller]
fn check(driver: &str) {
    for (count, most) in [(5, 0.03), (50, 0.29)] {
        let (own, cubic) = (flows(driver, count), flows("cubic", count));
        let (share, of_cubic) = (resent(&own), resent(&cubic));
        assert!(share <= most, "{driver}, {count} flows: {share} sent again, by cubic {of_cubic}");
        let carried = |of: &Outcome| -> u64 { of.flows.iter().map(|it| it.delivered_bytes).sum() };
        let (delivered, by_cubic) = (carried(&own), carried(&cubic));
        assert!(delivered >= by_cubic / 10 * 9, "{driver}, {count} flows: {delivered} bytes");
        let sent = |of: &Outcome| -> u64 { of.flows.iter().map(|it| it.sent_pkts).sum() };
        assert!(sent(&own) <= 2 * sent(&cubic), "{driver}, {count} flows: {} sent", sent(&own));
    }
}

#[test]
fn lingbo_answers_the_losses_of_a_short_buffer() {
    check("lingbo");
}

/// How much five flows send again depends on when each of them meets the queue of the others, so
/// the bounds are on twelve such cases. When RTT_min's first samples said how much a path jitters,
/// one case in ten sent more than a fifth again.
#[test]
fn lingbo_does_not_take_the_queue_of_others_for_jitter() {
    let mut shares = Vec::new();
    for apart_s in [0.05, 0.1, 0.2, 0.5] {
        for mbit_per_sec in [24, 48, 96] {
            shares.push(resent(&flows_on("lingbo", 5, mbit_per_sec, apart_s)));
        }
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let most = shares.iter().copied().fold(0.0, f64::max);
    assert!(mean <= 0.04 && most <= 0.12, "{mean} on average, {most} at most");
}

#[test]
fn anole_answers_the_losses_of_a_short_buffer() {
    check("anole");
}
