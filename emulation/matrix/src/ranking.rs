//! Who does best: drivers side by side over the environments that all of them ran.
//!
//! - In each environment a driver has the median of its seeds.
//! - **regret**: one less its merit (`metrics/merit.rs`) over the best one's: what it misses of the
//!   oracle that chooses per environment. The mean over environments, by which drivers are ranked:
//!   one that is best in most and useless in some is not the best.
//! - **regret to the best fixed arm**: one less its merit over that of the one arm, not a policy,
//!   that has the least regret; the median; below 0 it does better than any arm for all would.
//! - **ahead**: its merit over that of the next driver, less one: the median over environments.
//! - **wins**: environments in which its merit is within 10 % of the best one's (ccBench's
//!   winners).
//! - All else are medians. Intervals: `interval.rs`.

use crate::interval::{Interval, mean_of, median_of};
use crate::metrics::median;
use crate::row::Row;
use ccp_agent::catalogue::{self, Kind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// ccBench's: within a tenth of the best.
const WINS_WITHIN: f64 = 0.1;

/// A driver's place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rank {
    /// Who.
    pub driver: String,
    /// How many environments count: those that all drivers ran.
    pub environments: usize,
    /// In how many of them it is within 10 % of the best.
    pub wins: usize,
    /// What it misses of the best merit, 0 to 1: the mean.
    pub regret: Interval,
    /// How far its merit is above the next driver's, as a share of that; of the last one nothing.
    pub ahead: Interval,
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

type Shared<'a> = [&'a BTreeMap<&'a str, Vec<&'a Row>>];

/// By environment, what each seed has; `best` is of the environment.
fn values(
    driver: &str,
    shared: &Shared<'_>,
    metric: impl Fn(usize, &Row) -> Option<f64>,
) -> Vec<Vec<f64>> {
    let of = |(place, them): (usize, &&BTreeMap<&str, Vec<&Row>>)| {
        them[driver].iter().filter_map(|row| metric(place, row)).collect()
    };
    shared.iter().enumerate().map(of).collect()
}

/// The median of its seeds in each environment.
fn merits(driver: &str, shared: &Shared<'_>) -> Vec<f64> {
    let of = |them: &&BTreeMap<&str, Vec<&Row>>| of_seeds(&them[driver], |row| Some(row.merit));
    shared.iter().map(|them| of(them).unwrap_or(0.0)).collect()
}

/// A driver's merit over another one's merit in the same environment.
fn over(driver: &str, shared: &Shared<'_>, other: &[f64]) -> Vec<Vec<f64>> {
    let ratio = |place: usize, row: &Row| (other[place] > 0.0).then(|| row.merit / other[place]);
    values(driver, shared, ratio)
}

fn shifted(it: Interval, of: impl Fn(f64) -> f64) -> Interval {
    let bounds = it.bounds.map(|[low, high]| {
        let (a, b) = (of(low), of(high));
        [a.min(b), a.max(b)]
    });
    Interval { middle: of(it.middle), bounds }
}

/// All drivers, the one with the least regret first.
pub fn ranking(rows: &[Row]) -> Vec<Rank> {
    let environments = by_environment(rows);
    let drivers: BTreeSet<&str> = rows.iter().map(|row| row.driver.as_str()).collect();
    let shared: Vec<_> = environments.values().filter(|them| them.len() == drivers.len()).collect();
    let mut best = vec![0.0; shared.len()];
    for driver in &drivers {
        for (best, merit) in best.iter_mut().zip(merits(driver, &shared)) {
            *best = f64::max(*best, merit);
        }
    }
    let mut ranks: Vec<Rank> = drivers.iter().map(|driver| rank(driver, &shared, &best)).collect();
    ranks.sort_by(|a, b| a.regret.middle.total_cmp(&b.regret.middle).then(b.wins.cmp(&a.wins)));
    let is_arm = |driver: &str| !matches!(catalogue::kind(driver), Ok(Kind::Policy));
    let fixed = ranks.iter().find(|it| is_arm(&it.driver));
    let fixed = fixed.map(|it| merits(&it.driver, &shared)).unwrap_or_default();
    for place in 0..ranks.len() {
        let driver = ranks[place].driver.clone();
        if !fixed.is_empty() {
            let to_fixed = median_of(&over(&driver, &shared, &fixed));
            ranks[place].regret_to_fixed = shifted(to_fixed, |ratio| 1.0 - ratio);
        }
        if let Some(next) = ranks.get(place + 1) {
            let next = merits(&next.driver, &shared);
            let ahead = median_of(&over(&driver, &shared, &next));
            ranks[place].ahead = shifted(ahead, |ratio| ratio - 1.0);
        }
    }
    ranks
}

fn rank(driver: &str, shared: &Shared<'_>, best: &[f64]) -> Rank {
    let regret = |place: usize, row: &Row| {
        Some(if best[place] > 0.0 { 1.0 - row.merit / best[place] } else { 0.0 })
    };
    let within = |(merit, best): &(f64, &f64)| *merit >= (1.0 - WINS_WITHIN) * **best;
    let own: Vec<&Vec<&Row>> = shared.iter().map(|them| &them[driver]).collect();
    let starved =
        |who: &str| own.iter().filter(|rows| rows.iter().any(|row| row.starved == who)).count();
    let of =
        |metric: fn(&Row) -> Option<f64>| median_of(&values(driver, shared, |_, row| metric(row)));
    Rank {
        driver: driver.to_owned(),
        environments: own.len(),
        wins: merits(driver, shared).into_iter().zip(best).filter(within).count(),
        regret: mean_of(&values(driver, shared, regret)),
        ahead: Interval::default(),
        regret_to_fixed: Interval::default(),
        utilisation: of(|row| row.utilisation),
        queueing_p95_ms: of(|row| Some(row.queueing_p95_ms)),
        retransmitted_percent: of(|row| Some(row.retransmitted_percent)),
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
        assert!((ranks[1].regret.middle - 0.25).abs() < 1e-12);
        assert!((ranks[2].regret.middle - 0.687_5).abs() < 1e-12);
        // b has 9.1 to 10 and 8 to 4 of what a has, who is the best fixed arm but for b itself.
        assert!((ranks[0].ahead.middle - ((0.91 + 2.0) / 2.0 - 1.0)).abs() < 1e-12);
        assert_eq!(ranks[0].regret_to_fixed.middle, 0.0);
        assert_eq!(ranks[2].ahead, Interval::default());
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
}
