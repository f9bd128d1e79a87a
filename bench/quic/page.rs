//! The table of docs/quic.md.

use crate::run::{Figures, Path, Side};
use remuda_bench::stats::Spread;

pub const HEAD: &str = "\
| path | sender | goodput, Mbit/s: median (spread) | p95 of the queueing delay, ms | dropped, % |
|---|---|---|---|---|";

/// The line of one side on one path.
pub fn row(path: &Path, side: &Side, figures: &[Figures]) -> String {
    let of = |figure: fn(&Figures) -> f64| Spread::of(figures.iter().map(figure));
    format!(
        "| {path} | {side} | {:.2} | {:.1} | {:.2} |",
        of(|f| f.goodput_mbit_per_sec),
        of(|f| f.queueing_p95_ms),
        of(|f| f.dropped_percent)
    )
}
