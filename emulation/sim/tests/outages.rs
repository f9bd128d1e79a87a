//! A silent link keeps the packets of its queue. Senders time out and send packets again that were
//! not lost. Afterwards each arm has the link again.

mod common;

use common::{MSS_BYTES, delivered_pkts_per_sec, run};

const RATE_MBIT_PER_SEC: f64 = 48.0;

fn utilisation(driver: &str, outage_s: f64, seed: u32) -> f64 {
    let outcome = run(&format!(
        "duration_s = 40\nseed = {seed}\n\
         [links.down]\nrate_mbit_per_sec = {RATE_MBIT_PER_SEC}\ndelay_ms = 25\n\
         outages = [{{ at_s = 10, duration_s = {outage_s} }}]\n\
         queue = {{ kind = 'droptail', limit_packets = 400 }}\n\
         [links.up]\ndelay_ms = 25\njitter_std_ms = 0.001\n[[flows]]\ndriver = '{driver}'\n"
    ));
    let pkts_per_sec = delivered_pkts_per_sec(&outcome.flow_samples, 20.0);
    pkts_per_sec * MSS_BYTES * 8e-6 / RATE_MBIT_PER_SEC
}

/// Outages of 4 s are left out, because nimbus then waits 13 s for a timeout. Three arms are left
/// out: the window of `fixed` is too small for the link, that of sprout stays at its least after an
/// outage, and that of ledbat grows by a segment in each round trip, which takes 15 s.
#[test]
fn each_arm_has_its_link_again_after_an_outage() {
    let mut bad = Vec::new();
    let arms = remuda_algorithms::ARMS.iter().map(|arm| arm.name);
    for arm in arms.filter(|arm| !["fixed", "sprout", "ledbat"].contains(arm)) {
        for outage_s in [0.3, 0.6, 1.0, 2.0] {
            for seed in 1..=3 {
                let utilisation = utilisation(arm, outage_s, seed);
                if utilisation < 0.8 {
                    bad.push(format!("{arm}, {outage_s} s, seed {seed}: {utilisation:.2}"));
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
