//! Compares the round trips of a flow that sends a segment at intervals, as ping does, with those
//! of the recording that its path replays.

mod common;

use common::run;
use std::fmt::Write;

/// One every 100 ms.
const SAMPLES: u64 = 1_000;
/// The payload of a segment every 100 ms, in Mbit/s.
const APP_RATE: f64 = 1448.0 * 8.0 / 0.1 / 1e6;

#[test]
fn round_trips_have_the_percentiles_of_the_recording() {
    let (mut recording, mut rtts_ms) = (String::new(), Vec::new());
    for number in 0..SAMPLES {
        // 401 has no factor in common with the number of samples, so each place comes once.
        let place = (number * 401 % SAMPLES) as f64 / SAMPLES as f64;
        let rtt_ms = 30.0 + 30.0 * place * place;
        writeln!(recording, "{:.3},{rtt_ms:.3}", number as f64 * 0.1).expect("a string");
        rtts_ms.push(rtt_ms);
    }
    rtts_ms.sort_by(f64::total_cmp);
    let file = std::env::temp_dir().join(format!("remuda-recorded-{}.csv", std::process::id()));
    std::fs::write(&file, recording).expect("a file");
    let outcome = run(&format!(
        "duration_s = 300\nseed = 1\n[links.down]\nrate_mbit_per_sec = 1000\ndelay_ms = 5\n\
         delay_trace = {{ file = {file:?}, of = \"rtt\" }}\n[links.up]\ndelay_ms = 5\n\
         [[flows]]\ndriver = 'window:1'\ndelayed_acks = false\napp_rate_mbit_per_sec = {APP_RATE}\n"
    ));
    std::fs::remove_file(&file).expect("its own file");
    let flow = &outcome.flows[0];
    for (percent, got) in [(50, flow.rtt_p50_ms), (95, flow.rtt_p95_ms), (99, flow.rtt_p99_ms)] {
        let (got, want) = (got.expect("a round trip"), rtts_ms[rtts_ms.len() * percent / 100]);
        assert!((got - want).abs() < f64::max(0.05 * want, 0.5), "p{percent}: {got}, not {want}");
    }
}
