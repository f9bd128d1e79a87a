//! A job as it travels to where it runs.

use crate::error::Error;
use crate::plan::Job;
use remuda_scenarios::{Environment, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What this program is built from: its version, and a hash of every source that decides what comes
/// of a run. Two programs of one build give the same row of the same work.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " of sources ", env!("REMUDA_SOURCES"));

/// A job without a file of its own: whoever has it, and the texts it names, can run it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    environment: Environment,
    driver: String,
    seed: u64,
    /// As a scenario file says it.
    scenario: String,
    /// By link: the name of the text of its trace.
    pub(crate) traces: BTreeMap<String, String>,
    /// The names of the texts of authors' files, in whose order they are started.
    pub(crate) authors: Vec<String>,
}

impl Work {
    /// A job; `authors` is what the texts of authors' files are called, and `name` what that of
    /// each of its traces is to be.
    pub fn of(
        job: &Job,
        authors: &[String],
        mut name: impl FnMut(&PathBuf) -> Result<String, Error>,
    ) -> Result<Self, Error> {
        let mut traces = BTreeMap::new();
        for (link, spec) in &job.scenario.links {
            if let Some(path) = &spec.trace {
                traces.insert(link.clone(), name(path)?);
            }
        }
        Ok(Self {
            environment: job.environment.clone(),
            driver: job.driver.clone(),
            seed: job.seed,
            scenario: job.scenario.to_toml()?,
            traces,
            authors: authors.to_vec(),
        })
    }

    /// Reads what [`Work::of`] said, as JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The names of its texts, each once.
    pub fn texts(&self) -> Vec<&str> {
        let all = self.traces.values().chain(&self.authors);
        let mut names: Vec<&str> = all.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(crate) fn job(self) -> Result<Job, Error> {
        let Self { environment, driver, seed, scenario, .. } = self;
        let name = format!("{}/{}", environment.suite, environment.name);
        let scenario = Scenario::parse(&scenario, &name)?;
        Ok(Job { environment, driver, seed, scenario })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Only, Plan, suite_named};
    use remuda_scenarios::{Suite, suite_names};

    fn jobs(suites: &[Suite]) -> Vec<Job> {
        let drivers = ["cubic".to_owned()];
        Plan::of(suites, &Only::default(), &drivers, 3..=3).unwrap().jobs
    }

    fn travelled(job: &Job) -> Work {
        let work = Work::of(job, &[], |path| Ok(path.display().to_string())).unwrap();
        Work::parse(&serde_json::to_string(&work).unwrap()).unwrap()
    }

    #[test]
    fn every_job_of_every_suite_arrives_as_it_was() {
        let suites: Vec<Suite> = suite_names().map(|name| suite_named(name).unwrap()).collect();
        for job in jobs(&suites) {
            assert_eq!(travelled(&job).job().unwrap(), job);
        }
    }
}
