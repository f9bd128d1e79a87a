//! Compares a driver with each other driver: its share of the best fixed arm, less the other's
//! share.
//!
//! - A driver's share in an environment is the median merit of its seeds, of those that all drivers
//!   ran, over the merit of the best arm there, that is of the oracle over fixed arms
//!   (`ranking.rs`).
//! - **difference**: the driver's share less the other's, the mean over environments. Each draw of
//!   its interval takes the same environments and seeds for both (`interval.rs`). If the interval
//!   does not reach 0, one of the two does better.
//! - **losses**: the environments where the driver's share is below the other's, the worst first.

use crate::interval::{Drawn, Interval, bootstrap, every};
use crate::metrics::mean;
use crate::row::Row;
use crate::shared::{Shared, share};
use serde::Serialize;

/// The most losses that are listed for a pair; the others are only counted.
const LOSSES_MAX: usize = 10;

/// An environment in which a driver has a smaller share than another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    pub suite: String,
    pub environment: String,
    /// The driver's share of the best arm's merit.
    pub own: f64,
    /// The other driver's share.
    pub other: f64,
}

/// The comparison of a driver with another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Versus {
    pub driver: String,
    pub other: String,
    /// Number of environments that count.
    pub environments: usize,
    /// Share of the best arm less that of the other driver: the mean.
    pub difference: Interval,
    /// Number of environments in which the driver has more.
    pub ahead_in: usize,
    /// Number of environments in which the driver has less.
    pub behind_in: usize,
    /// The environments where the driver loses most, the worst first: 10 at most.
    pub losses: Vec<Loss>,
}

/// Indexed by driver, then environment of the sample; `None` without an arm.
fn shares(shared: &Shared<'_>, sample: &[Drawn]) -> Option<Vec<Vec<f64>>> {
    let merits = shared.merits(sample);
    let oracle = shared.oracle(&merits)?;
    let of = |own: &Vec<f64>| own.iter().zip(&oracle).map(|(it, best)| share(*it, *best)).collect();
    Some(merits.iter().map(of).collect())
}

/// Compares each of `drivers` that is in the table with each other driver of the table, in the
/// order of names. Empty if the table has no arm.
pub fn versus(rows: &[Row], drivers: &[&str]) -> Vec<Versus> {
    let shared = Shared::of(rows);
    let seeds = shared.seeds();
    let Some(all) = shares(&shared, &every(&seeds)) else { return Vec::new() };
    let count = shared.drivers.len();
    let asked = (0..count).filter(|driver| drivers.contains(&shared.drivers[*driver]));
    let pairs: Vec<(usize, usize)> = asked
        .flat_map(|driver| (0..count).map(move |other| (driver, other)))
        .filter(|(driver, other)| driver != other)
        .collect();
    let differences = |sample: &[Drawn]| {
        let shares = shares(&shared, sample).unwrap_or_default();
        let means: Vec<Option<f64>> = shares.iter().map(|of| mean(of)).collect();
        pairs.iter().map(|(own, other)| Some(means[*own]? - means[*other]?)).collect()
    };
    let intervals = if pairs.is_empty() { Vec::new() } else { bootstrap(&seeds, differences) };
    let of = |((driver, other), difference): (&(usize, usize), Interval)| Versus {
        driver: shared.drivers[*driver].to_owned(),
        other: shared.drivers[*other].to_owned(),
        environments: shared.names.len(),
        difference,
        ..beside(&shared, &all[*driver], &all[*other])
    };
    pairs.iter().zip(intervals).map(of).collect()
}

/// The counts and the losses of a pair.
fn beside(shared: &Shared<'_>, own: &[f64], other: &[f64]) -> Versus {
    let loss = |((suite, name), (own, other)): (&(&str, &str), (&f64, &f64))| Loss {
        suite: (*suite).to_owned(),
        environment: (*name).to_owned(),
        own: *own,
        other: *other,
    };
    let all = shared.names.iter().zip(own.iter().zip(other)).map(loss);
    let mut losses: Vec<Loss> = all.filter(|it| it.own < it.other).collect();
    losses.sort_by(|a, b| (a.own - a.other).total_cmp(&(b.own - b.other)));
    let behind_in = losses.len();
    losses.truncate(LOSSES_MAX);
    Versus {
        driver: String::new(),
        other: String::new(),
        environments: 0,
        difference: Interval::default(),
        ahead_in: own.iter().zip(other).filter(|(own, other)| own > other).count(),
        behind_in,
        losses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(place: usize, driver: &str, seed: u64, merit: f64) -> Row {
        Row {
            suite: "s".to_owned(),
            environment: format!("e{place}"),
            driver: driver.to_owned(),
            seed,
            merit,
            ..Row::default()
        }
    }

    /// Ten environments with ten seeds each, which scale all merits alike. reno has 10 in each.
    /// cubic has 8, and 12 in two environments. rein has 0.9 of the better one, and half of it in
    /// the first environment.
    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for place in 0..10 {
            for seed in 1..=10 {
                let luck = 10f64.powf((seed * 7 % 10) as f64 / 5.0);
                let cubic = if place < 2 { 12.0 } else { 8.0 };
                let rein = if place == 0 { 6.0 } else { 0.9 * f64::max(cubic, 10.0) };
                for (driver, merit) in [("reno", 10.0), ("cubic", cubic), ("rein", rein)] {
                    rows.push(row(place, driver, seed, merit * luck));
                }
            }
        }
        rows
    }

    #[test]
    fn what_a_pair_has_of_the_best_arm_is_compared_in_each_environment() {
        let said = versus(&rows(), &["rein"]);
        let [cubic, reno] = &said[..] else { panic!("{said:?}") };
        assert_eq!((cubic.other.as_str(), reno.other.as_str()), ("cubic", "reno"));
        // rein: 0.5, and 0.9 nine times. cubic: 1 twice, and 0.8. reno: 10/12 twice, and 1.
        assert!((cubic.difference.middle - (0.86 - 0.84)).abs() < 1e-12, "{cubic:?}");
        assert!((reno.difference.middle - (0.86 - (20.0 / 12.0 + 8.0) / 10.0)).abs() < 1e-12);
        assert_eq!((cubic.ahead_in, cubic.behind_in, cubic.environments), (8, 2, 10));
        assert_eq!((reno.ahead_in, reno.behind_in), (1, 9));
        let worst: Vec<&str> = cubic.losses.iter().map(|it| it.environment.as_str()).collect();
        assert_eq!(worst, ["e0", "e1"]);
        assert_eq!((cubic.losses[0].own, cubic.losses[0].other), (0.5, 1.0));
        let [low, high] = cubic.difference.bounds.expect("ten environments are enough");
        assert!(low < 0.0 && high > 0.0 && high <= 0.1 + 1e-12, "{cubic:?}");
    }

    #[test]
    fn luck_that_both_have_does_not_widen_the_interval() {
        let is_alike = |row: &Row| !["e0", "e1"].contains(&row.environment.as_str());
        let rows: Vec<Row> = rows().into_iter().filter(is_alike).collect();
        let said = versus(&rows, &["rein"]);
        let [low, high] = said[1].difference.bounds.expect("eight environments are enough");
        assert!((low + 0.1).abs() < 1e-9 && (high + 0.1).abs() < 1e-9, "{:?}", said[1]);
    }

    #[test]
    fn two_drivers_differ_by_as_much_the_other_way() {
        let said = versus(&rows(), &["rein", "cubic", "nobody"]);
        assert_eq!(said.len(), 4);
        let of = |driver: &str, other: &str| {
            let it = said.iter().find(|it| it.driver == driver && it.other == other);
            it.expect("both were asked for").difference.middle
        };
        assert!((of("rein", "cubic") + of("cubic", "rein")).abs() < 1e-12);
        let policies: Vec<Row> = rows().into_iter().filter(|row| row.driver == "rein").collect();
        assert_eq!(versus(&policies, &["rein"]), [], "there is no arm to compare by");
    }

    #[test]
    fn ten_losses_are_listed_and_all_are_counted() {
        let both = (0..30).flat_map(|place| {
            [row(place, "cubic", 1, 2.0), row(place, "rein", 1, 1.0 - place as f64 / 100.0)]
        });
        let said = versus(&both.collect::<Vec<_>>(), &["rein"]);
        assert_eq!((said[0].behind_in, said[0].losses.len()), (30, LOSSES_MAX));
        assert_eq!(said[0].losses[0].environment, "e29");
    }
}
