//! Compares a policy with other policies, with each fixed arm and with an oracle, in the
//! environments of suites.
//!
//! The figure is power: goodput over mean one-way delay. In each environment a driver's power is
//! the median of its seeds, as a share of the oracle's; the oracle is the fixed arm that has the
//! most power there, so a policy can have more than 1. From suites only the environments without
//! neighbours count, because a driver that takes power from neighbours does not earn it. Drawn
//! environments (`emulation/samples`) all count. Intervals are bootstrapped over environments and
//! seeds, with the same draw for all drivers.

use crate::antelope::Error;
use crate::antelope::measure::{Keep, Settings};
use ccp_agent::Setup;
use remuda_matrix::{Interval, Job, Loss, Only, Plan, Progress, Rank, Row, ranking, versus};
use remuda_samples::family::Family;
use remuda_scenarios::{Driver, Suite};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The matrix' name for the suite of drawn environments.
const DRAWN: &str = "drawn";
/// The driver's name for the best arm of each environment.
const ORACLE: &str = "oracle";

#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub driver: String,
    /// Whether the driver is a fixed arm.
    pub is_arm: bool,
    /// Power over that of the oracle: the mean over environments.
    pub power: Interval,
    /// How far the compared policy is ahead of this driver, in the same shares; `None` for the
    /// policy itself.
    pub behind: Option<Interval>,
}

/// An environment in which the compared policy has less power than the oracle.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// Suite and name of the environment.
    pub environment: String,
    /// Power of the policy over that of the oracle.
    pub power: f64,
    pub best: String,
}

/// The result of the comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Number of environments that count.
    pub environments: usize,
    /// All drivers, the one with the most power first.
    pub places: Vec<Place>,
    /// Number of environments in which the policy has less power than the oracle.
    pub behind_in: usize,
    /// The environments in which the policy is furthest behind, the worst first.
    pub lost: Vec<Lost>,
}

/// The suite of a name: a shipped one, a file, or drawn environments.
pub fn suite(name: &str) -> Result<Suite, Error> {
    if name.split_once(':').is_some_and(|(of, _)| Family::named(of).is_some()) {
        return Ok(remuda_samples::suite(name).map_err(remuda_matrix::Error::from)?);
    }
    if name.ends_with(".toml") {
        return Ok(Suite::load(Path::new(name)).map_err(remuda_matrix::Error::from)?);
    }
    Ok(remuda_matrix::suite_named(name)?)
}

/// Whether all flows that respond to congestion are tested ones.
fn is_alone(job: &Job) -> bool {
    let tested = job.environment.tested_flows(&job.scenario);
    let flows = job.scenario.flows_expanded();
    let other = |(place, driver): (usize, &Driver)| {
        !tested.contains(&place) && *driver != Driver::Unresponsive
    };
    !flows.iter().map(|flow| &flow.driver).enumerate().any(other)
}

/// Runs all drivers in all environments that count.
///
/// # Errors
///
/// A suite does not exist, a run failed, or [`Error::Stopped`].
pub fn run(
    (settings, suites, seeds): (&Settings, &[String], RangeInclusive<u64>),
    keep: &Keep,
    (jobs, stopped): (usize, &AtomicBool),
    progress: impl FnMut(&Progress),
) -> Result<Vec<Row>, Error> {
    let suites = suites.iter().map(|name| suite(name)).collect::<Result<Vec<_>, _>>()?;
    let own = [settings.driver.clone()];
    let drivers = [&own[..], &settings.arms, &settings.against].concat();
    let mut plan = Plan::of(&suites, &Only::default(), &drivers, seeds)?;
    // Drawn environments represent real paths, so they count with their neighbours.
    plan.jobs.retain(|job| job.environment.suite == DRAWN || is_alone(job));
    let store = keep.store("antelope-table head to head")?;
    let with = (store.as_ref(), &Arc::new(Setup::default()));
    let done = remuda_matrix::run(&plan, with, (jobs, stopped), progress);
    let all = done.len();
    let rows = done.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    if rows.len() < all {
        return Err(Error::Stopped { done: rows.len(), all });
    }
    Ok(rows)
}

/// The best arm of each environment, by suite and name.
type Oracle<'a> = BTreeMap<(&'a str, &'a str), &'a str>;

fn oracle<'a>(rows: &'a [Row], arms: &[String]) -> Oracle<'a> {
    let mut powers: BTreeMap<_, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| arms.contains(&row.driver)) {
        let of_arms = powers.entry((&*row.suite, &*row.environment)).or_default();
        of_arms.entry(&row.driver).or_default().push(row.power);
    }
    let best = |of: BTreeMap<&'a str, Vec<f64>>| {
        let median = |powers: &[f64]| remuda_matrix::median(powers).unwrap_or(0.0);
        let arms = of.into_iter().map(|(arm, powers)| (arm, median(&powers)));
        arms.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(arm, _)| arm)
    };
    powers.into_iter().filter_map(|(name, of)| Some((name, best(of)?))).collect()
}

/// Rows for the matrix' own comparison: their merit is the power, and the oracle is one more arm.
fn judged(rows: &[Row], oracle: &Oracle<'_>) -> Vec<Row> {
    let by_power = |row: &Row| Row { merit: row.power, former_merit: row.power, ..row.clone() };
    let is_best = |row: &&Row| oracle.get(&(&*row.suite, &*row.environment)) == Some(&&*row.driver);
    let named = |row| Row { driver: ORACLE.to_owned(), ..by_power(row) };
    rows.iter().map(by_power).chain(rows.iter().filter(is_best).map(named)).collect()
}

/// Turns a regret into the share that the driver has.
fn had(regret: Interval) -> Interval {
    let bounds = regret.bounds.map(|[low, high]| [1.0 - high, 1.0 - low]);
    Interval { middle: 1.0 - regret.middle, bounds }
}

/// Compares `driver` with all other drivers that have rows; the oracle picks from `arms`.
pub fn compare(rows: &[Row], driver: &str, arms: &[String]) -> Comparison {
    let oracle = oracle(rows, arms);
    let judged = judged(rows, &oracle);
    let beside = versus(&judged, &[driver]);
    let ranks = ranking(&judged);
    let Some(own) = ranks.iter().find(|rank| rank.driver == driver) else {
        return Comparison::default();
    };
    let ahead = |of: &str| beside.iter().find(|it| it.other == of).map(|it| it.difference);
    let place = |rank: &Rank| Place {
        driver: rank.driver.clone(),
        is_arm: arms.contains(&rank.driver),
        power: had(rank.regret_to_oracle),
        behind: ahead(&rank.driver),
    };
    let mut places: Vec<Place> =
        ranks.iter().filter(|rank| rank.driver != ORACLE).map(place).collect();
    places.sort_by(|a, b| b.power.middle.total_cmp(&a.power.middle));
    let to_oracle = beside.iter().find(|it| it.other == ORACLE);
    let lost = |loss: &Loss| Lost {
        environment: format!("{}/{}", loss.suite, loss.environment),
        power: loss.own,
        best: oracle[&(&*loss.suite, &*loss.environment)].to_owned(),
    };
    let losses = to_oracle.map_or(&[][..], |it| &it.losses);
    Comparison {
        environments: own.environments,
        places,
        behind_in: to_oracle.map_or(0, |it| it.behind_in),
        lost: losses.iter().map(lost).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(environment: &str, driver: &str, seed: u64, power: f64) -> Row {
        let (environment, driver) = (environment.to_owned(), driver.to_owned());
        Row { suite: "s".to_owned(), environment, driver, seed, power, ..Row::default() }
    }

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for nth in 0..8 {
            let environment = format!("e{nth}");
            let (bbr, cubic) = if nth < 6 { (10.0, 5.0) } else { (5.0, 10.0) };
            for seed in 1..=3 {
                rows.push(row(&environment, "bbr", seed, bbr));
                rows.push(row(&environment, "cubic", seed, cubic));
                rows.push(row(&environment, "rein", seed, if nth == 7 { 4.0 } else { 11.0 }));
            }
        }
        rows
    }

    #[test]
    fn power_is_a_share_of_the_best_arms_and_whoever_is_ahead_is_first() {
        let arms = ["bbr", "cubic"].map(str::to_owned);
        let said = compare(&rows(), "rein", &arms);
        let order: Vec<&str> = said.places.iter().map(|it| it.driver.as_str()).collect();
        assert_eq!((said.environments, order), (8, vec!["rein", "bbr", "cubic"]));
        let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-12, "{got} {want}");
        near(said.places[0].power.middle, (7.0 * 1.1 + 0.4) / 8.0);
        near(said.places[1].power.middle, (6.0 + 2.0 * 0.5) / 8.0);
        let ahead = said.places[2].behind.expect("another has one");
        near(ahead.middle, (7.0 * 1.1 + 0.4) / 8.0 - (6.0 * 0.5 + 2.0) / 8.0);
        assert!(ahead.bounds.expect("eight are enough")[0] > 0.0);
        assert_eq!((said.places[0].behind, said.places[0].is_arm), (None, false));
        let lost: Vec<_> = said.lost.iter().map(|it| (&*it.environment, &*it.best)).collect();
        assert_eq!(lost, [("s/e7", "cubic")]);
        near(said.lost[0].power, 0.4);
    }

    #[test]
    fn without_rows_there_is_nothing_to_say() {
        assert_eq!(compare(&[], "policy", &[]), Comparison::default());
    }

    #[test]
    fn environments_with_neighbours_do_not_count() {
        let plan = |name| {
            let suites = [remuda_matrix::suite_named(name).expect("it is there")];
            let plan = Plan::of(&suites, &Only::default(), &["reno".to_owned()], 1..=1);
            plan.expect("it is one").jobs
        };
        assert!(plan("one-flow").iter().all(is_alone));
        assert!(!plan("sharing").iter().all(is_alone));
    }
}
