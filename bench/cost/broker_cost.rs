//! The cost of a report with the kernel side loaded by a broker, beside the same in one process.
//!
//! Rounds of both sides alternate, and a round's figures are compared with those of the round
//! beside it, so that other work on the machine affects both. With a broker, its thread's processor
//! time counts too. The 95 % interval of a median is that of order statistics, without assumptions
//! on the distribution.

use crate::agent_cost::{Compared, compared};
use crate::latency::Side;
use crate::{Fallible, Options, Promise, Verdict};
use remuda_bench::stats::{percentile, sorted};
use remuda_live::VethPair;
use std::time::Duration;

const FLOWS: usize = 1_000;
/// A broker may cost this much more.
const RATIO_MAX: f64 = 1.05;

/// The ranks, from 0, between which the median of `count` values lies with at least 95 %; `None` if
/// there are too few.
fn ranks(count: usize) -> Option<[usize; 2]> {
    let mut below = 0.5f64.powi(i32::try_from(count).ok()?);
    let (mut term, mut rank) = (below, 0);
    while below <= 0.025 {
        rank += 1;
        term *= (count + 1 - rank) as f64 / rank as f64;
        below += term;
    }
    (rank > 0).then(|| [rank - 1, count - rank])
}

fn figures(of: &Compared) -> [f64; 4] {
    let at = |percent| percentile(&of.written_us, percent);
    [of.us_per_report, at(50.0), at(95.0), at(99.0)]
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## A report with a broker, beside the same in one process");
    let pair = VethPair::new()?;
    let span = Duration::from_secs_f64(options.seconds);
    let mut ratios: [Vec<f64>; 4] = Default::default();
    for round in 0..options.rounds {
        let mut sides = [Side::Ours, Side::Broker];
        sides.rotate_left(round % 2);
        let mut own = [[0.0; 4]; 2];
        for side in sides {
            own[usize::from(side == Side::Broker)] = figures(&compared(&pair, side, FLOWS, span)?);
        }
        println!("round {round}: in one process {:.2?}, with a broker {:.2?}", own[0], own[1]);
        for (ratios, (alone, broker)) in ratios.iter_mut().zip(own[0].iter().zip(&own[1])) {
            ratios.push(broker / alone);
        }
    }
    let names = ["CPU time", "report to slot, p50", "report to slot, p95", "report to slot, p99"];
    let promise = |(name, ratios): (&str, Vec<f64>)| {
        let ratios = sorted(ratios);
        let [low, high] =
            ranks(ratios.len()).map_or([0.0, f64::INFINITY], |of| of.map(|it| ratios[it]));
        let verdict = match (low, high) {
            (_, high) if high <= RATIO_MAX => Verdict::Met,
            (low, _) if low > RATIO_MAX => Verdict::Missed,
            _ => Verdict::Undecided,
        };
        Promise {
            what: format!("{name} of a report with a broker, over that in one process"),
            figure: format!("{:.3} ({low:.3} to {high:.3})", percentile(&ratios, 50.0)),
            bound: format!("at most {RATIO_MAX}"),
            verdict,
        }
    };
    Ok(names.into_iter().zip(ratios).map(promise).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_s_interval_has_the_ranks_of_the_tables() {
        for (count, want) in [(5, None), (6, Some([0, 5])), (12, Some([2, 9])), (20, Some([5, 14]))]
        {
            assert_eq!(ranks(count), want, "{count}");
        }
    }
}
