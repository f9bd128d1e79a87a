//! What a set of flows shows of its path, as a few figures: the same of logged flows and of
//! simulated ones.

use crate::observed::Flow;

/// The number of figures.
pub const FIGURES: usize = 9;

/// The figures of one flow: logarithms, so that a difference is a ratio. `None` is not known.
pub fn figures(flow: &Flow) -> [Option<f64>; FIGURES] {
    let path = &flow.path;
    let over_min = |ms: Option<f64>| Some(ms? / path.rtt_ms_min.filter(|least| *least > 0.0)?);
    // Below the second number, values differ by chance alone.
    let ln_above = |value: f64, least: f64| (value + least).ln();
    let rounds = flow.rtt_ms.map(|ms| flow.duration_s * 1e3 / ms.max(1e-3));
    [
        Some(flow.goodput().max(1.0).ln()),
        path.rtt_ms_min.map(|ms| ms.max(1e-3).ln()),
        over_min(flow.rtt_ms).map(|it| it.max(1.0).ln()),
        Some(ln_above(flow.loss(), 3e-4)),
        Some((path.delivery_bytes_per_sec_max as f64 / flow.goodput()).max(0.1).ln()),
        path.loss_rtt_over_min.map(|it| it.max(0.1).ln()),
        over_min(path.rtt_ms_sd).map(|it| ln_above(it, 0.02)),
        over_min(path.jitter_ms).map(|it| ln_above(it, 0.01)),
        rounds.map(|rounds| ln_above(path.loss_episodes as f64 / rounds.max(1.0), 5e-3)),
    ]
}

/// By how much a figure of a simulated path may differ from that of the true path, because no
/// simulated path is the true one.
const TOLERANCE: [f64; FIGURES] = [0.06, 0.05, 0.06, 0.25, 0.15, 0.12, 0.2, 0.25, 0.25];

/// The mean of each figure over flows, and by how much a single flow differs from the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    mean: [Option<f64>; FIGURES],
    deviation: [f64; FIGURES],
    flows: usize,
}

impl Summary {
    pub fn of<'a>(flows: impl Iterator<Item = &'a Flow>) -> Self {
        let all: Vec<_> = flows.map(figures).collect();
        let (mut mean, mut deviation) = ([None; FIGURES], [0.0; FIGURES]);
        for at in 0..FIGURES {
            let known: Vec<f64> = all.iter().filter_map(|figures| figures[at]).collect();
            // What few flows know is not what the simulated flow is compared with.
            if known.is_empty() || 2 * known.len() < all.len() {
                continue;
            }
            let count = known.len() as f64;
            let of_all = known.iter().sum::<f64>() / count;
            let squares: f64 = known.iter().map(|it| (it - of_all) * (it - of_all)).sum();
            (mean[at], deviation[at]) = (Some(of_all), (squares / count).sqrt());
        }
        Self { mean, deviation, flows: all.len() }
    }

    /// How far simulated flows are from these: the mean of squared differences, each over what
    /// chance and the tolerance explain.
    pub fn distance(&self, simulated: &Self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        let means = 1.0 / simulated.flows.max(1) as f64 + 1.0 / self.flows.max(1) as f64;
        for (at, tolerance) in TOLERANCE.iter().enumerate() {
            let by_chance = self.deviation[at] * self.deviation[at] * means;
            let expected = tolerance * tolerance + by_chance;
            let squared = match (self.mean[at], simulated.mean[at]) {
                (Some(a), Some(b)) => (a - b) * (a - b) / expected,
                (None, None) => continue,
                // Only one of them had losses to measure.
                _ => 4.0,
            };
            sum += squared.min(100.0);
            count += 1.0;
        }
        if count > 0.0 { sum / count } else { f64::INFINITY }
    }
}
