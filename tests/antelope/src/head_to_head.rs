//! A policy beside others, beside each fixed arm and beside the oracle, on environments of suites.
//!
//! What counts is power: goodput over mean one-way delay. In each environment a driver has the
//! median of its seeds, as a share of the oracle's: of the fixed arm that has the most there. So a
//! policy can have more than 1. Of suites, environments in which others share the path are left
//! out: power taken from them is none. Drawn environments (`emulation/samples`) all count.
//! Intervals are bootstrapped over environments and seeds, the same draw for all drivers.

use crate::Error;
use crate::measure::{Keep, Settings};
use ccp_agent::Config;
use remuda_matrix::{Drawn, Interval, Job, Only, Plan, Progress, Row, bootstrap};
use remuda_samples::suite::PREFIX;
use remuda_scenarios::{Driver, Suite};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What the matrix calls drawn environments.
const DRAWN: &str = "drawn";

/// A driver's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Who.
    pub driver: String,
    /// Whether it is a fixed arm.
    pub is_arm: bool,
    /// Its power to the oracle's: the mean over environments.
    pub power: Interval,
    /// How far the policy in question is ahead of it, in the same shares; of itself nothing.
    pub behind: Option<Interval>,
}

/// An environment, and how the policy in question did there.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// Its suite and name.
    pub environment: String,
    /// Its power to the oracle's.
    pub power: f64,
    /// The oracle there.
    pub best: String,
}

/// What the comparison says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// How many environments count.
    pub environments: usize,
    /// All drivers, the one with the most power first.
    pub places: Vec<Place>,
    /// Where the policy in question does worse than the oracle, the worst first.
    pub lost: Vec<Lost>,
}

fn suite(name: &str) -> Result<Suite, Error> {
    if name.starts_with(PREFIX) {
        return Ok(remuda_samples::suite(name).map_err(remuda_matrix::Error::from)?);
    }
    if name.ends_with(".toml") {
        return Ok(Suite::load(Path::new(name)).map_err(remuda_matrix::Error::from)?);
    }
    Ok(remuda_matrix::suite_named(name)?)
}

/// Whether nobody that listens to congestion is there but what is tested.
fn is_alone(job: &Job) -> bool {
    let tested = job.environment.tested_flows(&job.scenario);
    let flows = job.scenario.flows_expanded();
    let other = |(place, driver): (usize, &Driver)| {
        !tested.contains(&place) && *driver != Driver::Unresponsive
    };
    !flows.iter().map(|flow| &flow.driver).enumerate().any(other)
}

/// Runs all drivers in all environments of the suites in which they are alone.
///
/// # Errors
///
/// A suite that is none, a run that failed; [`Error::Stopped`].
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
    // Drawn environments are as many paths are, neighbours and all.
    plan.jobs.retain(|job| job.environment.suite == DRAWN || is_alone(job));
    let store = keep.store("antelope-table head to head")?;
    let with = (store.as_ref(), &Arc::new(Config::default()));
    let done = remuda_matrix::run(&plan, with, (jobs, stopped), progress);
    let all = done.len();
    let rows = done.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    if rows.len() < all {
        return Err(Error::Stopped { done: rows.len(), all });
    }
    Ok(rows)
}

/// Powers by environment, driver and seed.
struct Powers<'a> {
    environments: Vec<String>,
    drivers: Vec<&'a str>,
    values: Vec<Vec<Vec<f64>>>,
    arms: Vec<usize>,
}

impl<'a> Powers<'a> {
    fn of(rows: &'a [Row], arms: &[String]) -> Self {
        let mut drivers: Vec<&str> = Vec::new();
        let mut by: BTreeMap<String, BTreeMap<(&str, u64), f64>> = BTreeMap::new();
        for row in rows {
            if !drivers.contains(&row.driver.as_str()) {
                drivers.push(&row.driver);
            }
            let name = format!("{}/{}", row.suite, row.environment);
            by.entry(name).or_default().insert((&row.driver, row.seed), row.power);
        }
        let of_driver = |of: &BTreeMap<(&str, u64), f64>, driver: &str| {
            let own = of.iter().filter(|((who, _), _)| *who == driver);
            own.map(|(_, power)| *power).collect::<Vec<f64>>()
        };
        let values = by.values().map(|of| drivers.iter().map(|it| of_driver(of, it)).collect());
        let is_arm = |driver: &&str| arms.iter().any(|arm| arm == driver);
        Self {
            values: values.collect(),
            environments: by.keys().cloned().collect(),
            arms: (0..drivers.len()).filter(|at| is_arm(&drivers[*at])).collect(),
            drivers,
        }
    }

    fn seeds(&self) -> Vec<usize> {
        let fewest = |of: &Vec<Vec<f64>>| of.iter().map(Vec::len).min().unwrap_or(0);
        self.values.iter().map(fewest).collect()
    }

    /// The median of drawn seeds, by driver.
    fn medians(&self, drawn: &Drawn) -> Vec<f64> {
        let of = |powers: &Vec<f64>| {
            let some: Vec<f64> =
                drawn.seeds.iter().filter_map(|it| powers.get(*it)).copied().collect();
            remuda_matrix::median(&some).unwrap_or(0.0)
        };
        self.values[drawn.environment].iter().map(of).collect()
    }

    /// To the oracle's, by driver; and who the oracle is. None where no arm has any power.
    fn shares(&self, drawn: &Drawn) -> Option<(Vec<f64>, usize)> {
        let powers = self.medians(drawn);
        let best = self.arms.iter().copied().max_by(|a, b| powers[*a].total_cmp(&powers[*b]))?;
        let most = powers[best];
        (most > 0.0).then(|| (powers.iter().map(|power| power / most).collect(), best))
    }

    /// The mean over a sample, by driver.
    fn means(&self, sample: &[Drawn]) -> Vec<Option<f64>> {
        let all: Vec<Vec<f64>> =
            sample.iter().filter_map(|drawn| Some(self.shares(drawn)?.0)).collect();
        let of = |driver: usize| {
            crate::figures::mean(&all.iter().map(|shares| shares[driver]).collect::<Vec<_>>())
        };
        (0..self.drivers.len()).map(of).collect()
    }
}

/// Compares `driver` with all others that have rows; those of `arms` are the oracle's choice.
pub fn compare(rows: &[Row], driver: &str, arms: &[String]) -> Comparison {
    let powers = Powers::of(rows, arms);
    let Some(own) = powers.drivers.iter().position(|it| *it == driver) else {
        return Comparison::default();
    };
    let count = powers.drivers.len();
    let said = bootstrap(&powers.seeds(), |sample| {
        let means = powers.means(sample);
        let ahead = |of: &Option<f64>| Some(means[own]? - (*of)?);
        means.iter().copied().chain(means.iter().map(ahead)).collect()
    });
    let place = |at: usize| Place {
        driver: powers.drivers[at].to_owned(),
        is_arm: powers.arms.contains(&at),
        power: said[at],
        behind: (at != own).then_some(said[count + at]),
    };
    let mut places: Vec<Place> = (0..count).map(place).collect();
    places.sort_by(|a, b| b.power.middle.total_cmp(&a.power.middle));
    let seeds = powers.seeds();
    let lost = powers.environments.iter().enumerate().filter_map(|(environment, name)| {
        let drawn = Drawn { environment, seeds: (0..seeds[environment]).collect() };
        let (shares, best) = powers.shares(&drawn)?;
        let lost = || Lost {
            environment: name.clone(),
            power: shares[own],
            best: powers.drivers[best].to_owned(),
        };
        (shares[own] < 1.0).then(lost)
    });
    let mut lost: Vec<Lost> = lost.collect();
    lost.sort_by(|a, b| a.power.total_cmp(&b.power));
    Comparison { environments: powers.environments.len(), places, lost }
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
                rows.push(row(&environment, "policy", seed, if nth == 7 { 4.0 } else { 11.0 }));
            }
        }
        rows
    }

    #[test]
    fn power_is_a_share_of_the_best_arms_and_whoever_is_ahead_is_first() {
        let arms = ["bbr", "cubic"].map(str::to_owned);
        let said = compare(&rows(), "policy", &arms);
        let order: Vec<&str> = said.places.iter().map(|it| it.driver.as_str()).collect();
        assert_eq!((said.environments, order), (8, vec!["policy", "bbr", "cubic"]));
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
