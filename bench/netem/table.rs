//! Both sides' figures, as Markdown.

use crate::run::{Figures, Round};
use remuda_bench::stats::Spread;

pub const COLUMNS: &str = "\
| path | algorithm | goodput link / netem (Mbit/s) | ratio | retransmitted link / netem | \
mean RTT link / netem (ms) | ratio | 95th percentile of RTT link / netem (ms) | ratio |\n\
|---|---|---|---|---|---|---|---|---|";

/// One line of it: medians over rounds, of ratios within a round.
pub fn row(path: &str, algorithm: &str, rounds: &[Round]) -> String {
    let median = |figure: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(figure)).median;
    let sides = |figure: fn(&Figures) -> f64| {
        [median(&|round| figure(&round.link)), median(&|round| figure(&round.netem))]
    };
    let compared = |figure: fn(&Figures) -> f64, digits: usize| {
        let [link, netem] = sides(figure);
        let ratio = median(&|round| figure(&round.link) / figure(&round.netem));
        format!("{link:.digits$} / {netem:.digits$} | {ratio:.3}")
    };
    let [link, netem] = sides(|figures| figures.retransmitted_pkts.into());
    format!(
        "| {path} | {algorithm} | {} | {link:.0} / {netem:.0} | {} | {} |",
        compared(|figures| figures.goodput_mbit_per_sec, 2),
        compared(|figures| figures.rtt_mean_ms, 1),
        compared(|figures| figures.rtt_p95_ms, 1),
    )
}
