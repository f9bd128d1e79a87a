//! Ratios and their table, as Markdown: it goes into the docs as it is.

use crate::run::{Figures, Scenario};
use crate::{DELAY_TOLERANCE, GOODPUT_TOLERANCE};
use remuda_stats::Spread;

/// A queue of this length is noise: a few packets' time at the bottleneck.
const DELAY_FLOOR_MS: f64 = 1.0;

/// One scenario, judged.
#[derive(Debug)]
pub struct Verdict {
    scenario: Scenario,
    goodput: [f64; 2],
    delay_ms: [f64; 2],
    retransmitted: [f64; 2],
    goodput_ratio: Spread,
    delay_ratio: Spread,
}

impl Verdict {
    /// Of pairs (kernel's, ours).
    pub fn of(scenario: Scenario, pairs: &[(Figures, Figures)]) -> Self {
        let medians = |figure: fn(&Figures) -> f64| {
            let kernel = Spread::of(pairs.iter().map(|(kernel, _)| figure(kernel))).median;
            let ours = Spread::of(pairs.iter().map(|(_, ours)| figure(ours))).median;
            [kernel, ours]
        };
        let ratio = |figure: fn(&Figures) -> f64| {
            Spread::of(pairs.iter().map(|(kernel, ours)| figure(ours) / figure(kernel)))
        };
        Self {
            scenario,
            goodput: medians(|f| f.goodput_mbit_per_sec),
            delay_ms: medians(|f| f.queueing_p95_ms),
            retransmitted: medians(|f| f.retransmitted_pkts.into()),
            goodput_ratio: ratio(|f| f.goodput_mbit_per_sec),
            delay_ratio: ratio(|f| f.queueing_p95_ms.max(DELAY_FLOOR_MS)),
        }
    }

    /// Whether both medians lie within their bounds.
    pub fn met(&self) -> bool {
        (self.goodput_ratio.median - 1.0).abs() <= GOODPUT_TOLERANCE
            && (self.delay_ratio.median - 1.0).abs() <= DELAY_TOLERANCE
    }
}

/// The table's head, with what makes it repeatable.
pub fn head(seconds: u64, rounds: u64, jobs: u64, seed: u64) {
    println!(
        "{rounds} rounds of {seconds} s, {jobs} live runs at once; seeds from {seed}. Bounds: \
         goodput within {} %, 95th percentile of the queueing delay within {} %.\n",
        GOODPUT_TOLERANCE * 100.0,
        DELAY_TOLERANCE * 100.0
    );
    println!(
        "| arm | Mbit/s | buffer | goodput kernel / ours (Mbit/s) | ratio (spread) | \
         p95 queue kernel / ours (ms) | ratio (spread) | retransmitted | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
}

/// One line of it.
pub fn row(v: &Verdict) -> String {
    let s = &v.scenario;
    let loss =
        if s.loss_percent > 0.0 { format!(" + {} % loss", s.loss_percent) } else { "".into() };
    let spread = |r: &Spread| format!("{:.3} ({:.3}–{:.3})", r.median, r.low, r.high);
    format!(
        "| {} | {} | {} BDP{loss} | {:.2} / {:.2} | {} | {:.1} / {:.1} | {} | {:.0} / {:.0} | {} |",
        s.arm,
        s.rate_mbit_per_sec,
        s.buffer_bdp,
        v.goodput[0],
        v.goodput[1],
        spread(&v.goodput_ratio),
        v.delay_ms[0],
        v.delay_ms[1],
        spread(&v.delay_ratio),
        v.retransmitted[0],
        v.retransmitted[1],
        if v.met() { "met" } else { "MISSED" }
    )
}
