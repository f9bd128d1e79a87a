//! One flow of the kernel's own, over each of a path's two sides.

use crate::path::{Path, without_bursts};
use remuda_bench::stats::{percentile, sorted};
use remuda_live::transfer::Transfer;
use remuda_live::{Clock, Namespace};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often the sender is asked for its round trip.
const SAMPLE: Duration = Duration::from_millis(10);

/// What came of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Over the whole flow.
    pub goodput_mbit_per_sec: f64,
    pub retransmitted_pkts: u32,
    /// Of the sender's smoothed round trip.
    pub rtt_mean_ms: f64,
    pub rtt_p95_ms: f64,
}

/// Both sides, one after the other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Round {
    pub link: Figures,
    /// Over the kernel's netem.
    pub netem: Figures,
}

impl Round {
    pub fn run(path: &Path, algorithm: &str, seconds: Duration, seed: u64) -> Result<Self, String> {
        let said = |error: remuda_live::Error| error.to_string();
        let testbed = path.link(seed).map_err(said)?;
        let link = flow((testbed.server(), testbed.client()), algorithm, seconds)?;
        testbed.close().map_err(said)?;
        let pair = path.netem()?;
        let netem = flow((pair.server(), pair.client()), algorithm, seconds)?;
        Ok(Self { link, netem })
    }
}

fn flow(
    (from, to): (&Namespace, &Namespace),
    algorithm: &str,
    seconds: Duration,
) -> Result<Figures, String> {
    without_bursts(from)?;
    let said = |error: remuda_live::Error| error.to_string();
    let transfer =
        Transfer { algorithm: Some(algorithm.to_owned()), verify: false, ..Transfer::default() };
    let running = transfer.start(from, to).map_err(said)?;
    let clock = Clock::start();
    let mut rtts_ms = Vec::new();
    while clock.elapsed() < seconds {
        std::thread::sleep(SAMPLE);
        rtts_ms.extend(running.window().map(|(_, rtt)| rtt.as_secs_f64() * 1e3));
    }
    running.stop();
    let outcome = running.join().map_err(said)?;
    let rtts_ms = sorted(rtts_ms);
    if rtts_ms.is_empty() {
        return Err(String::from("the sender's socket says nothing of its round trips"));
    }
    Ok(Figures {
        goodput_mbit_per_sec: outcome.goodput_mbit_per_sec(Duration::ZERO, seconds),
        retransmitted_pkts: outcome.retransmitted_pkts,
        rtt_mean_ms: rtts_ms.iter().sum::<f64>() / rtts_ms.len() as f64,
        rtt_p95_ms: percentile(&rtts_ms, 95.0),
    })
}
