//! Who does best: drivers side by side over the environments that all of them ran.
//!
//! - In each environment a driver has the median of its seeds.
//! - **wins**: environments in which its merit (`metrics/merit.rs`) is within 10 % of the best
//!   one's (ccBench's winners).
//! - **regret**: one less its merit over the best one's; the median over environments. The best of
//!   each environment together are the oracle that chooses per scenario, with regret 0.
//! - **regret to the best fixed arm**: one less its merit over that of the one arm, not a policy,
//!   that wins most; below 0 it does better than any arm for all paths would.
//! - Behind each median stands its 95 % interval by bootstrap: a thousand draws of as many
//!   environments with replacement (Efron, 1979), from a fixed seed.

use crate::metrics::{median, quantile};
use crate::row::Row;
use ccp_agent::catalogue::{self, Kind};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// ccBench's: within a tenth of the best.
const WINS_WITHIN: f64 = 0.1;
const DRAWS: usize = 1_000;
const SEED: u64 = 1;

/// A median and its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// 2.5 % of the draws lie below.
    pub low: f64,
    /// 2.5 % of the draws lie above.
    pub high: f64,
}

/// A driver's place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rank {
    /// Who.
    pub driver: String,
    /// How many environments count: those that all drivers ran.
    pub environments: usize,
    /// In how many of them it is within 10 % of the best.
    pub wins: usize,
    /// What it misses of the best merit, 0 to 1.
    pub regret: Interval,
    /// What it misses of the best fixed arm's merit; below 0: it has more.
    pub regret_to_fixed: Interval,
    /// Of the link, where something limits it.
    pub utilisation: Interval,
    /// In the queue, the 95th percentile.
    pub queueing_p95_ms: Interval,
    /// Sent again.
    pub retransmitted_percent: Interval,
    /// Environments in which it, or a neighbour of it, starved.
    pub starved: [usize; 2],
}

type Key<'a> = (&'a str, &'a str);

/// Each environment's drivers, with the rows of their seeds.
fn by_environment(rows: &[Row]) -> BTreeMap<Key<'_>, BTreeMap<&str, Vec<&Row>>> {
    let mut all: BTreeMap<Key<'_>, BTreeMap<&str, Vec<&Row>>> = BTreeMap::new();
    for row in rows {
        let key = (row.suite.as_str(), row.environment.as_str());
        all.entry(key).or_default().entry(&row.driver).or_default().push(row);
    }
    all
}

fn of_seeds(rows: &[&Row], metric: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
    median(&rows.iter().filter_map(|row| metric(row)).collect::<Vec<_>>())
}

/// The median of values, and where it would lie had others been drawn.
pub fn interval(values: &[f64]) -> Interval {
    let Some(middle) = median(values) else { return Interval::default() };
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let count = values.len();
    let mut drawn = vec![0.0; count];
    let mut draw = |_| {
        for place in &mut drawn {
            *place = values[(rng.next_u64() % count as u64) as usize];
        }
        let (below, high, _) = drawn.select_nth_unstable_by(count / 2, f64::total_cmp);
        let low = below.iter().copied().max_by(f64::total_cmp).filter(|_| count.is_multiple_of(2));
        f64::midpoint(low.unwrap_or(*high), *high)
    };
    let medians: Vec<f64> = (0..DRAWS).map(&mut draw).collect();
    let at = |share| quantile(&medians, share).unwrap_or(middle);
    Interval { median: middle, low: at(0.025), high: at(0.975) }
}

/// All drivers, the one with the most wins first; of those alike, the one with less regret.
pub fn ranking(rows: &[Row]) -> Vec<Rank> {
    let environments = by_environment(rows);
    let drivers: BTreeSet<&str> = rows.iter().map(|row| row.driver.as_str()).collect();
    let shared: Vec<_> = environments.values().filter(|them| them.len() == drivers.len()).collect();
    let best: Vec<f64> = shared
        .iter()
        .map(|them| {
            let merits = them.values().filter_map(|rows| of_seeds(rows, |row| Some(row.merit)));
            merits.fold(0.0, f64::max)
        })
        .collect();
    let is_arm = |driver: &str| !matches!(catalogue::kind(driver), Ok(Kind::Policy));
    let mut ranks: Vec<Rank> = drivers.iter().map(|driver| rank(driver, &shared, &best)).collect();
    let fixed = ranks.iter().filter(|it| is_arm(&it.driver)).max_by(|a, b| compare(b, a));
    let fixed = fixed.map(|it| merits(&it.driver, &shared)).unwrap_or_default();
    for rank in &mut ranks {
        let own = merits(&rank.driver, &shared);
        let pairs = own.into_iter().zip(&fixed).filter(|(_, fixed)| **fixed > 0.0);
        let regrets: Vec<f64> = pairs.map(|(own, fixed)| 1.0 - own / fixed).collect();
        rank.regret_to_fixed = interval(&regrets);
    }
    ranks.sort_by(compare);
    ranks
}

/// The better one first.
fn compare(a: &Rank, b: &Rank) -> Ordering {
    b.wins.cmp(&a.wins).then(a.regret.median.total_cmp(&b.regret.median))
}

/// In each environment.
fn merits(driver: &str, shared: &[&BTreeMap<&str, Vec<&Row>>]) -> Vec<f64> {
    shared.iter().filter_map(|them| of_seeds(&them[driver], |row| Some(row.merit))).collect()
}

fn rank(driver: &str, shared: &[&BTreeMap<&str, Vec<&Row>>], best: &[f64]) -> Rank {
    let own: Vec<&Vec<&Row>> = shared.iter().map(|them| &them[driver]).collect();
    let values = |metric: fn(&Row) -> Option<f64>| -> Vec<f64> {
        own.iter().filter_map(|rows| of_seeds(rows, metric)).collect()
    };
    let ratio = |(merit, best): (f64, &f64)| if *best > 0.0 { merit / best } else { 1.0 };
    let ratios: Vec<f64> = merits(driver, shared).into_iter().zip(best).map(ratio).collect();
    let regrets: Vec<f64> = ratios.iter().map(|ratio| 1.0 - ratio).collect();
    let starved =
        |who: &str| own.iter().filter(|rows| rows.iter().any(|row| row.starved == who)).count();
    Rank {
        driver: driver.to_owned(),
        environments: own.len(),
        wins: ratios.iter().filter(|ratio| **ratio >= 1.0 - WINS_WITHIN).count(),
        regret: interval(&regrets),
        regret_to_fixed: Interval::default(),
        utilisation: interval(&values(|row| row.utilisation)),
        queueing_p95_ms: interval(&values(|row| Some(row.queueing_p95_ms))),
        retransmitted_percent: interval(&values(|row| Some(row.retransmitted_percent))),
        starved: [starved("tested"), starved("neighbour")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(environment: &str, driver: &str, seed: u64, merit: f64) -> Row {
        Row {
            environment: environment.to_owned(),
            driver: driver.to_owned(),
            seed,
            merit,
            ..Row::default()
        }
    }

    #[test]
    fn winners_are_within_a_tenth_of_the_best() {
        let rows = [
            row("x", "a", 1, 10.0),
            row("x", "b", 1, 9.1),
            row("x", "c", 1, 5.0),
            row("y", "a", 1, 4.0),
            row("y", "b", 1, 8.0),
            row("y", "c", 1, 1.0),
        ];
        let ranks = ranking(&rows);
        let said: Vec<_> = ranks.iter().map(|it| (it.driver.as_str(), it.wins)).collect();
        assert_eq!(said, [("b", 2), ("a", 1), ("c", 0)]);
        assert!((ranks[1].regret.median - 0.25).abs() < 1e-12);
        assert!((ranks[2].regret.high - 0.875).abs() < 1e-12);
    }

    #[test]
    fn a_driver_has_the_median_of_its_seeds_and_missing_runs_count_for_nobody() {
        let rows = [
            row("x", "a", 1, 1.0),
            row("x", "a", 2, 10.0),
            row("x", "a", 3, 11.0),
            row("x", "b", 1, 10.0),
            row("y", "a", 1, 99.0),
        ];
        let ranks = ranking(&rows);
        assert!(ranks.iter().all(|it| it.environments == 1 && it.wins == 1), "{ranks:?}");
    }

    #[test]
    fn an_interval_holds_its_median_and_narrows_with_more_values() {
        let values = |count: u32| (0..count).map(|n| f64::from(n % 10)).collect::<Vec<_>>();
        let [few, many] = [10, 1000].map(|count| interval(&values(count)));
        for it in [few, many] {
            assert!(it.low <= it.median && it.median <= it.high, "{it:?}");
        }
        assert!(many.high - many.low < few.high - few.low, "{few:?} {many:?}");
        assert_eq!(interval(&[]), Interval::default());
    }
}
