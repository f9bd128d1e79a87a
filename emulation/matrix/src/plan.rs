//! The runs of a matrix: environments × drivers × seeds.

use crate::error::Error;
use crate::row::ROWS;
use remuda_scenarios::{Environment, Expectation, Scenario, Suite, nearest, suite, suite_names};
use std::collections::BTreeSet;

/// The same limit as a sweep of scenarios: a larger plan would fill the memory.
const RUNS_MAX: usize = 1_000_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub environment: Environment,
    pub driver: String,
    /// Seed of every random draw of the run.
    pub seed: u64,
    pub scenario: Scenario,
}

impl Job {
    /// The name in errors and progress lines.
    pub fn name(&self) -> String {
        let Environment { suite, name, .. } = &self.environment;
        format!("{suite}/{name}, {}, seed {}", self.driver, self.seed)
    }
}

/// All runs, in the order of their rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Ordered by environment, then driver, then seed.
    pub jobs: Vec<Job>,
}

/// A filter for the environments of the suites.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// Groups, as `E`; empty: all groups.
    pub groups: Vec<String>,
    /// Parts of environments' names; empty: all names.
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

pub fn suite_named(name: &str) -> Result<Suite, Error> {
    let known: Vec<&str> = suite_names().collect();
    match suite(name) {
        Some(suite) => Ok(suite?),
        None => Err(Error::Unknown {
            what: "suite",
            name: name.to_owned(),
            fix: meant(name, &known).unwrap_or_else(|| "one of these, or a .toml file".to_owned()),
            known: known.join(", "),
        }),
    }
}

fn meant(said: &str, known: &[&str]) -> Option<String> {
    nearest(said, known.iter().copied()).map(|name| format!("`{name}`?"))
}

/// Columns that do not measure how well a run went.
const NO_METRICS: [&str; 3] = ["seed", "disturbed", "expected"];

/// Columns whose units contain one of these words have values of at most 1, or a little above.
const OF_ONE: [&str; 2] = ["share", "index"];
const OF_ONE_MAX: f64 = 1.5;

/// Refuses a line whose column does not exist, or whose limit is in per cent where the column is a
/// share: every run would fail it.
fn check_expectations(environment: &Environment) -> Result<(), Error> {
    let refuse = |line: &Expectation, rule| Error::Expect {
        family: format!("{}: {}", environment.suite, environment.family),
        line: line.to_string(),
        rule,
    };
    let is_metric = |name: &str, unit: &str| !unit.is_empty() && !NO_METRICS.contains(&name);
    let columns = || ROWS.columns.iter().filter(|column| is_metric(column.name, column.unit));
    for line in &environment.expect {
        let Some(column) = columns().find(|column| column.name == line.metric) else {
            let known: Vec<&str> = columns().map(|column| column.name).collect();
            let all = || format!("one of {}", known.join(", "));
            let fix = meant(&line.metric, &known).unwrap_or_else(all);
            return Err(refuse(line, format!("that is not a metric; fix: {fix}")));
        };
        if OF_ONE.contains(&column.unit) && line.value > OF_ONE_MAX {
            let share = line.value / 100.0;
            let rule = format!("{} is at most 1; fix: {share}?", column.name);
            return Err(refuse(line, rule));
        }
    }
    Ok(())
}

impl Plan {
    /// Every environment that passes the filter, with every driver and every seed. An environment
    /// that two suites share (`smoke` takes its own from others) is taken once.
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
        assert!(error.ends_with("fix: `ccp`?"), "{error}");
    }

    #[test]
    fn a_line_that_every_run_would_fail_is_refused_with_what_was_meant() {
        let refused = |line: &str| {
            let text = format!(
                "title = 'a'\nsource = 'b'\n[scenario]\nlinks.down.rate_mbit_per_sec = 12\n\
                 links.up = {{}}\nflows = [{{ driver = 'tested' }}]\n[[families]]\nname = 'a'\n\
                 group = 'A'\npath = 'wired'\nexpect = ['{line}']\n"
            );
            let suites = [Suite::parse(&text, "own").unwrap()];
            let plan = Plan::of(&suites, &Only::default(), &["reno".to_owned()], 1..=1);
            plan.map(|_| ()).map_err(|error| error.to_string())
        };
        let error = refused("queueing_p95_s <= 1").unwrap_err();
        assert!(error.ends_with("and that is not a metric; fix: `queueing_p95_ms`?"), "{error}");
        let error = refused("utilisation >= 90").unwrap_err();
        assert!(error.ends_with("and utilisation is at most 1; fix: 0.9?"), "{error}");
        assert!(refused("colour >= 1").unwrap_err().contains("fix: one of capacity_mbit_per_sec"));
        assert_eq!(refused("utilisation >= 0.9"), Ok(()));
    }
}
