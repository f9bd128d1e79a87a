//! Compares two matrices run by run: the same environment, driver and seed.
//!
//! A run is **equal** if all its figures are, to the last digit. It is **better** or **worse** if
//! its merit changed by more than 2 %, and about the same otherwise. A driver **fails** in three
//! cases: its merit fell by more than 2 % with 95 % confidence (the whole interval of the median
//! change is below 0.98; without an interval, the median is); its median merit fell to less than
//! half in any environment; or a run fails a pass/fail line or starves a flow and the older run did
//! not.
//!
//! A row does not list the lines that it passed. So each line that fails now is checked against the
//! older run's figures. If these fail the line as well, the run is not worse. If they fail it and
//! the older row does not list the line, the older suite did not have the line: then the **lines
//! changed**, not the driver.
//!
//! Environments that have one name and differ between the tables are not compared, and runs that
//! only one table has are counted. The comparison does not pass if there are such environments, or
//! if the new table lacks a run.

use crate::error::Error;
use crate::matrix::Matrix;
use remuda_matrix::{Interval, Row, median, median_of};
use remuda_scenarios::Expectation;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Merits that differ by less than this part are about the same.
const ABOUT: f64 = 0.02;
/// A merit that fell below this part of the old one has collapsed.
const COLLAPSE: f64 = 0.5;
/// The most changes that are listed.
const LISTED: usize = 100;

/// Whether a driver is as good as in the old table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Pass,
    Fail,
}

/// The comparison of one driver.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriverDiff {
    pub driver: String,
    /// Runs whose figures are the same to the last digit.
    pub equal: usize,
    pub about: usize,
    pub better: usize,
    pub worse: usize,
    /// Merit in the new table over that in the old one: the median over runs.
    pub ratio: Interval,
    /// Environments in which the median merit fell to less than half.
    pub collapsed: usize,
    /// Runs that fail a line or starve a flow, and did not before.
    pub newly_missed: usize,
    pub verdict: Verdict,
}

/// A run whose result changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The suite and the environment.
    pub environment: String,
    pub driver: String,
    pub seed: u64,
    /// Merit in the new table over that in the old one.
    pub ratio: f64,
    /// Old and new goodput.
    pub goodput_mbit_per_sec: [f64; 2],
    /// Old and new 95th percentile of the queueing delay.
    pub queueing_p95_ms: [f64; 2],
    /// Old and new share of segments sent again.
    pub retransmitted_percent: [f64; 2],
    /// The lines that fail now, or the flows that starve now, and did not before.
    pub newly_missed: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// Metadata of the old table.
    pub old: BTreeMap<String, String>,
    /// Metadata of the new table.
    pub new: BTreeMap<String, String>,
    /// Number of runs that both tables have.
    pub shared: usize,
    /// Number of runs that only the old table has, and only the new one.
    pub alone: [usize; 2],
    /// Environments that differ between the tables and are not compared.
    pub altered: Vec<String>,
    /// Environments whose pass/fail lines differ between the tables, with the lines.
    pub lines_changed: Vec<String>,
    pub drivers: Vec<DriverDiff>,
    /// The runs whose merit changed most, the largest change first; a hundred at most.
    pub changes: Vec<Change>,
}

fn key(row: &Row) -> (&str, &str, &str, u64) {
    (&row.suite, &row.environment, &row.driver, row.seed)
}

fn ratio(old: f64, new: f64) -> f64 {
    // Beyond a factor of ten the size of the change does not matter.
    if old > 0.0 {
        (new / old).clamp(0.1, 10.0)
    } else if new > 0.0 {
        10.0
    } else {
        1.0
    }
}

/// Whether all figures are equal, whichever pass/fail lines the rows have.
fn is_equal(old: &Row, new: &Row) -> bool {
    let figures = |row: &Row| Row { expected: 0, missed: String::new(), ..row.clone() };
    figures(old) == figures(new)
}

/// The lines that the row fails: each line, and the same with its figure.
fn missed(row: &Row) -> impl Iterator<Item = (&str, &str)> {
    let lines = row.missed.split("; ").filter(|line| !line.is_empty());
    lines.map(|line| (line.split(" (").next().unwrap_or(line), line))
}

/// Whether the row's figures meet a line, also one that the row's suite did not have.
fn meets(row: &Row, line: &str) -> bool {
    let Ok(line) = line.parse::<Expectation>() else { return false };
    row.value(&line.metric).is_some_and(|value| line.is_met_by(value))
}

fn newly_missed(old: &Row, new: &Row) -> String {
    let lines = missed(new).filter(|(line, _)| meets(old, line));
    let mut all: Vec<String> = lines.map(|(_, figure)| figure.to_owned()).collect();
    if !new.starved.is_empty() && new.starved != old.starved {
        all.push(format!("{} starves", new.starved));
    }
    all.join("; ")
}

/// Lines that `of` fails and the suite of `other` did not have: the figures of `other` fail the
/// line, and `other` does not list it.
fn not_asked<'a>(of: &'a Row, other: &Row) -> Vec<&'a str> {
    let is_listed = |line: &str| missed(other).any(|(known, _)| known == line);
    let lines = missed(of).map(|(line, _)| line);
    lines.filter(|line| !meets(other, line) && !is_listed(line)).collect()
}

/// The environments whose lines were added or removed, as far as the rows show it.
fn lines_changed(pairs: &[(&Row, &Row)]) -> Vec<String> {
    let mut by_environment: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (old, new) in pairs {
        let (now, gone) = (not_asked(new, old), not_asked(old, new));
        if old.expected != new.expected || !now.is_empty() || !gone.is_empty() {
            let name = format!("{}/{}", new.suite, new.environment);
            let lines = by_environment.entry(name).or_default();
            lines.extend(now.iter().map(|line| format!("now {line}")));
            lines.extend(gone.iter().map(|line| format!("no longer {line}")));
        }
    }
    let said = by_environment.into_iter().map(|(name, lines)| match lines.is_empty() {
        true => name,
        false => format!("{name} ({})", lines.into_iter().collect::<Vec<_>>().join(", ")),
    });
    said.collect()
}

impl Diff {
    /// Compares two matrices.
    ///
    /// # Errors
    ///
    /// The matrices have no run in common.
    pub fn of(old: &Matrix, new: &Matrix) -> Result<Self, Error> {
        let before: BTreeMap<_, &Row> = old.rows.iter().map(|row| (key(row), row)).collect();
        let shared: Vec<(&Row, &Row)> =
            new.rows.iter().filter_map(|row| Some((*before.get(&key(row))?, row))).collect();
        if shared.is_empty() {
            return Err(Error::NothingShared);
        }
        let (pairs, altered): (Vec<_>, Vec<_>) =
            shared.iter().partition(|(old, new)| old.scenario == new.scenario);
        let altered = altered.iter().map(|(_, new)| format!("{}/{}", new.suite, new.environment));
        let altered: BTreeSet<String> = altered.collect();
        let mut by_driver: BTreeMap<&str, Vec<(&Row, &Row)>> = BTreeMap::new();
        for pair in &pairs {
            by_driver.entry(&pair.1.driver).or_default().push(*pair);
        }
        let drivers = by_driver.into_iter().map(|(driver, pairs)| of_driver(driver, &pairs));
        let mut changes: Vec<Change> =
            pairs.iter().filter(|(old, new)| !is_equal(old, new)).map(|it| change(*it)).collect();
        let size = |it: &Change| (!it.newly_missed.is_empty(), it.ratio.ln().abs());
        changes.sort_by(|a, b| size(b).partial_cmp(&size(a)).unwrap_or(std::cmp::Ordering::Equal));
        changes.truncate(LISTED);
        Ok(Self {
            old: old.about.clone(),
            new: new.about.clone(),
            shared: pairs.len(),
            alone: [before.len() - shared.len(), new.rows.len() - shared.len()],
            altered: altered.into_iter().collect(),
            lines_changed: lines_changed(&pairs),
            drivers: drivers.collect(),
            changes,
        })
    }

    /// Whether every run of the old table is compared, and every driver is as good as before.
    pub fn passes(&self) -> bool {
        let [missing, _] = self.alone;
        let all = missing == 0 && self.altered.is_empty();
        all && self.drivers.iter().all(|it| it.verdict == Verdict::Pass)
    }
}

fn of_driver(driver: &str, pairs: &[(&Row, &Row)]) -> DriverDiff {
    let ratios: Vec<f64> = pairs.iter().map(|(old, new)| ratio(old.merit, new.merit)).collect();
    let equal = pairs.iter().filter(|(old, new)| is_equal(old, new)).count();
    let better = ratios.iter().filter(|ratio| **ratio > 1.0 + ABOUT).count();
    let worse = ratios.iter().filter(|ratio| **ratio < 1.0 - ABOUT).count();
    let misses = pairs.iter().filter(|(old, new)| !newly_missed(old, new).is_empty()).count();
    let mut of_environment: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for ((_, new), ratio) in pairs.iter().zip(&ratios) {
        of_environment.entry((&new.suite, &new.environment)).or_default().push(*ratio);
    }
    let of_environment: Vec<Vec<f64>> = of_environment.into_values().collect();
    let medians = of_environment.iter().filter_map(|seeds| median(seeds));
    let collapsed = medians.filter(|ratio| *ratio < COLLAPSE).count();
    let ratio = median_of(&of_environment);
    let most = ratio.bounds.map_or(ratio.middle, |[_, high]| high);
    let passes = most >= 1.0 - ABOUT && collapsed == 0 && misses == 0;
    DriverDiff {
        driver: driver.to_owned(),
        equal,
        about: pairs.len() - equal - better - worse,
        better,
        worse,
        ratio,
        collapsed,
        newly_missed: misses,
        verdict: if passes { Verdict::Pass } else { Verdict::Fail },
    }
}

fn change((old, new): (&Row, &Row)) -> Change {
    let both = |metric: fn(&Row) -> f64| [metric(old), metric(new)];
    Change {
        environment: format!("{}/{}", new.suite, new.environment),
        driver: new.driver.clone(),
        seed: new.seed,
        ratio: ratio(old.merit, new.merit),
        goodput_mbit_per_sec: both(|row| row.goodput_mbit_per_sec),
        queueing_p95_ms: both(|row| row.queueing_p95_ms),
        retransmitted_percent: both(|row| row.retransmitted_percent),
        newly_missed: newly_missed(old, new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: &[(&str, &str, f64)]) -> Matrix {
        let row = |(environment, driver, merit): &(&str, &str, f64)| Row {
            environment: (*environment).to_owned(),
            driver: (*driver).to_owned(),
            merit: *merit,
            ..Row::default()
        };
        Matrix { rows: rows.iter().map(row).collect(), about: BTreeMap::new() }
    }

    #[test]
    fn runs_are_equal_about_the_same_better_or_worse() {
        let old = matrix(&[("w", "a", 1.0), ("x", "a", 1.0), ("y", "a", 1.0), ("z", "a", 1.0)]);
        let new = matrix(&[("w", "a", 1.0), ("x", "a", 1.01), ("y", "a", 1.5), ("z", "a", 0.6)]);
        let diff = Diff::of(&old, &new).unwrap();
        let [it] = &diff.drivers[..] else { panic!("{diff:?}") };
        assert_eq!((it.equal, it.about, it.better, it.worse), (1, 1, 1, 1));
        assert!(diff.passes(), "{diff:?}");
        let first: Vec<&str> = diff.changes.iter().map(|it| it.environment.as_str()).collect();
        assert_eq!(first, ["/z", "/y", "/x"], "the largest first");
    }

    #[test]
    fn a_driver_that_is_worse_nearly_everywhere_fails() {
        let names: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let all = |merit: f64| -> Matrix {
            matrix(&names.iter().map(|it| (it.as_str(), "a", merit)).collect::<Vec<_>>())
        };
        assert!(!Diff::of(&all(1.0), &all(0.97)).unwrap().passes());
        assert!(Diff::of(&all(1.0), &all(0.99)).unwrap().passes(), "about the same");
        assert!(Diff::of(&all(1.0), &all(1.0)).unwrap().passes());
        assert!(Diff::of(&all(1.0), &all(1.03)).unwrap().passes());
    }

    #[test]
    fn a_line_missed_for_the_first_time_fails_and_an_old_miss_does_not() {
        let (mut old, mut new) = (matrix(&[("x", "a", 1.0)]), matrix(&[("x", "a", 1.0)]));
        (old.rows[0].jain, new.rows[0].jain) = (Some(0.6), Some(0.5));
        (old.rows[0].utilisation, new.rows[0].utilisation) = (Some(0.9), Some(0.7));
        old.rows[0].missed = "jain >= 0.7 (0.600)".to_owned();
        new.rows[0].missed = "jain >= 0.7 (0.500)".to_owned();
        assert!(Diff::of(&old, &new).unwrap().passes());
        new.rows[0].missed += "; utilisation >= 0.8 (0.700)";
        let diff = Diff::of(&old, &new).unwrap();
        assert_eq!(diff.changes[0].newly_missed, "utilisation >= 0.8 (0.700)");
        assert!(!diff.passes() && diff.lines_changed.is_empty());
        new.rows[0].missed.clear();
        new.rows[0].starved = "neighbour".to_owned();
        assert_eq!(Diff::of(&old, &new).unwrap().changes[0].newly_missed, "neighbour starves");
    }

    #[test]
    fn a_line_that_was_not_asked_before_makes_no_driver_worse() {
        let mut old = matrix(&[("x", "a", 1.0), ("y", "a", 1.0)]);
        old.rows.iter_mut().for_each(|row| (row.expected, row.queueing_p95_ms) = (1, 20.0));
        let mut new = old.clone();
        // The suite had `<= 60` before, and has `<= 10` now.
        new.rows[0].missed = "queueing_p95_ms <= 10 (20.000)".to_owned();
        let diff = Diff::of(&old, &new).unwrap();
        assert_eq!((diff.drivers[0].equal, diff.drivers[0].newly_missed), (2, 0));
        assert!(diff.passes() && diff.changes.is_empty(), "{diff:?}");
        assert_eq!(diff.lines_changed, ["/x (now queueing_p95_ms <= 10)"]);
        let back = Diff::of(&new, &old).unwrap();
        assert_eq!(back.lines_changed, ["/x (no longer queueing_p95_ms <= 10)"]);
        // The figures changed too. The same rule applies: the old figures meet the line, the new
        // ones fail it.
        new.rows[0].queueing_p95_ms = 30.0;
        new.rows[0].missed = "queueing_p95_ms <= 10 (30.000)".to_owned();
        assert!(Diff::of(&old, &new).unwrap().passes());
        old.rows[0].queueing_p95_ms = 5.0;
        assert!(!Diff::of(&old, &new).unwrap().passes());
        let mut more = old.clone();
        more.rows[1].expected = 2;
        assert_eq!(Diff::of(&old, &more).unwrap().lines_changed, ["/y"], "a line that passes");
    }

    #[test]
    fn a_collapse_in_one_environment_fails_and_so_does_what_is_gone_or_altered() {
        let old = matrix(&[("x", "a", 1.0), ("y", "a", 1.0), ("z", "a", 1.0)]);
        let with = |merit: f64| matrix(&[("x", "a", 1.0), ("y", "a", 1.0), ("z", "a", merit)]);
        assert!(Diff::of(&old, &with(0.6)).unwrap().passes());
        let diff = Diff::of(&old, &with(0.4)).unwrap();
        assert_eq!((diff.drivers[0].collapsed, diff.passes()), (1, false));
        let gone = Diff::of(&old, &matrix(&[("x", "a", 1.0)])).unwrap();
        assert_eq!((gone.alone, gone.passes()), ([2, 0], false));
        let mut altered = with(1.0);
        altered.rows[0].scenario = "another".to_owned();
        let diff = Diff::of(&old, &altered).unwrap();
        assert_eq!((diff.shared, diff.passes()), (2, false));
        assert_eq!(diff.altered, ["/x"]);
    }

    #[test]
    fn matrices_that_share_nothing_cannot_be_compared() {
        let error = Diff::of(&matrix(&[("x", "a", 1.0)]), &matrix(&[("x", "b", 1.0)]));
        assert!(error.unwrap_err().to_string().contains("share no run"));
    }
}
