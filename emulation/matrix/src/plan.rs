//! What is to run: environments × drivers × seeds.

use crate::error::Error;
use crate::row::ROWS;
use remuda_scenarios::{Environment, Scenario, Suite, suite, suite_names};
use std::collections::BTreeSet;

/// As of a sweep of scenarios: a plan of more would fill the memory.
const RUNS_MAX: usize = 1_000_000;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What it is like.
    pub environment: Environment,
    /// What is tested.
    pub driver: String,
    /// Decides every random draw.
    pub seed: u64,
    /// What is to happen.
    pub scenario: Scenario,
}

impl Job {
    /// As errors and progress name it.
    pub fn name(&self) -> String {
        let Environment { suite, name, .. } = &self.environment;
        format!("{suite}/{name}, {}, seed {}", self.driver, self.seed)
    }
}

/// All runs, in the order of their rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// By environment, then driver, then seed.
    pub jobs: Vec<Job>,
}

/// Which environments of the suites are wanted.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// Their group, as `E`; empty: any.
    pub groups: Vec<String>,
    /// Parts of their names; empty: any.
    pub parts: Vec<String>,
}

impl Only {
    fn wants(&self, environment: &Environment) -> bool {
        let Environment { suite, name, group, .. } = environment;
        let full = format!("{suite}/{name}");
        let in_group = self.groups.is_empty() || self.groups.contains(group);
        in_group && (self.parts.is_empty() || self.parts.iter().any(|part| full.contains(part)))
    }

    fn text(&self) -> String {
        let groups = self.groups.iter().map(|group| format!("group `{group}`"));
        let parts = self.parts.iter().map(|part| format!("`{part}` in its name"));
        groups.chain(parts).collect::<Vec<_>>().join(" and ")
    }
}

/// The suite of that name.
pub fn suite_named(name: &str) -> Result<Suite, Error> {
    let known = || suite_names().collect::<Vec<_>>().join(", ");
    match suite(name) {
        Some(suite) => Ok(suite?),
        None => Err(Error::Unknown { what: "suite", name: name.to_owned(), known: known() }),
    }
}

/// What says nothing of how well a run went.
const NO_METRICS: [&str; 3] = ["seed", "disturbed", "expected"];

/// A line about a column that is not there would fail everybody.
fn check_expectations(environment: &Environment) -> Result<(), Error> {
    let numbers = ROWS.columns.iter().filter(|column| !column.unit.is_empty());
    let known: Vec<&str> =
        numbers.map(|column| column.name).filter(|name| !NO_METRICS.contains(name)).collect();
    match environment.expect.iter().find(|line| !known.contains(&line.metric.as_str())) {
        None => Ok(()),
        Some(line) => Err(Error::Expect {
            family: format!("{}: {}", environment.suite, environment.family),
            line: line.to_string(),
            known: known.join(", "),
        }),
    }
}

impl Plan {
    /// Every wanted environment of the suites with every driver and every seed, each once: `smoke`
    /// has environments of other suites.
    pub fn of(
        suites: &[Suite],
        only: &Only,
        drivers: &[String],
        seeds: impl Iterator<Item = u64> + Clone,
    ) -> Result<Self, Error> {
        let mut jobs = Vec::new();
        let mut known = BTreeSet::new();
        for suite in suites {
            for environment in suite.environments()?.into_iter().filter(|it| only.wants(it)) {
                check_expectations(&environment)?;
                if !known.insert((environment.suite.clone(), environment.name.clone())) {
                    continue;
                }
                for driver in drivers {
                    for seed in seeds.clone() {
                        if jobs.len() == RUNS_MAX {
                            return Err(Error::TooMany { most: RUNS_MAX });
                        }
                        let scenario = environment.scenario(driver, seed)?;
                        let (environment, driver) = (environment.clone(), driver.clone());
                        jobs.push(Job { environment, driver, seed, scenario });
                    }
                }
            }
        }
        if jobs.is_empty() {
            return Err(Error::Nothing { what: only.text() });
        }
        Ok(Self { jobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(suites: &[&str], only: &Only) -> Result<Plan, String> {
        let suites: Result<Vec<_>, _> = suites.iter().map(|name| suite_named(name)).collect();
        let drivers = ["reno".to_owned(), "bbr".to_owned()];
        let plan = Plan::of(&suites.map_err(|error| error.to_string())?, only, &drivers, 1..=2);
        plan.map_err(|error| error.to_string())
    }

    #[test]
    fn everything_is_run_once() {
        let plan = plan(&["ccp"], &Only::default()).unwrap();
        let names: Vec<String> = plan.jobs.iter().map(Job::name).collect();
        assert_eq!(names.len(), 3 * 2 * 2);
        assert_eq!(
            names[..3],
            ["ccp/fixed, reno, seed 1", "ccp/fixed, reno, seed 2", "ccp/fixed, bbr, seed 1",]
        );
    }

    #[test]
    fn a_group_or_a_part_of_a_name_is_enough() {
        let only = |groups: &[&str], parts: &[&str]| Only {
            groups: groups.iter().map(|it| (*it).to_owned()).collect(),
            parts: parts.iter().map(|it| (*it).to_owned()).collect(),
        };
        assert_eq!(plan(&["ccp"], &only(&["D"], &[])).unwrap().jobs.len(), 4);
        assert_eq!(plan(&["ccp"], &only(&[], &["ccp/c", "drop"])).unwrap().jobs.len(), 8);
        let error = plan(&["ccp"], &only(&["Z"], &["x"])).unwrap_err();
        assert!(
            error.starts_with("no environment of these suites has group `Z` and `x` in its name"),
            "{error}"
        );
        let both = plan(&["smoke", "ccbench-solo"], &only(&["A"], &[])).unwrap();
        let alone = plan(&["ccbench-solo"], &only(&["A"], &[])).unwrap();
        let own = both.jobs.iter().filter(|job| job.environment.suite == "ccbench-solo");
        assert_eq!(own.count(), alone.jobs.len(), "what smoke picks is not run twice");
        let error = plan(&["cpp"], &Only::default()).unwrap_err();
        assert!(error.starts_with("suite `cpp`: there are smoke, one-flow"), "{error}");
    }
}
