//! If overtaken packets start a recovery, the recovery is undone. So reordering on the path costs a
//! window-based arm no throughput, as with Linux' own algorithms.

mod common;

use common::run;

const RATE_MBIT_PER_SEC: f64 = 48.0;

fn goodput_mbit_per_sec(driver: &str, link: &str, seed: u32) -> f64 {
    let outcome = run(&format!(
        "duration_s = 20\nseed = {seed}\n\
         [links.down]\nrate_mbit_per_sec = {RATE_MBIT_PER_SEC}\ndelay_ms = 20\n{link}\n\
         queue = {{ kind = 'droptail', limit_packets = 160 }}\n\
         [links.up]\ndelay_ms = 20\n[[flows]]\ndriver = '{driver}'\n"
    ));
    outcome.flows[0].goodput_mbit_per_sec
}

/// The kernel's own cubic has 47 Mbit/s on this path.
#[test]
fn two_per_cent_of_packets_overtaken_by_8_ms_cost_no_throughput() {
    for driver in ["reno", "cubic", "illinois", "c2tcp"] {
        for seed in 1..=4 {
            let link = "reordering = { percent = 2, extra_ms = 8 }";
            let goodput = goodput_mbit_per_sec(driver, link, seed);
            assert!(goodput > 0.93 * RATE_MBIT_PER_SEC, "{driver}, seed {seed}: {goodput} Mbit/s");
        }
    }
}

/// A real loss is not undone: the square-root law gives reno about 1.2 of 48 Mbit/s.
#[test]
fn losses_that_are_real_are_not_undone() {
    let goodput = goodput_mbit_per_sec("reno", "loss_percent = 2", 1);
    assert!((1.0..4.0).contains(&goodput), "{goodput} Mbit/s");
}
