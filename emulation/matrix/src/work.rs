//! A job in the form in which it is sent to another process.

use crate::error::Error;
use crate::plan::Job;
use remuda_scenarios::{Environment, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The version of this program and a hash of every source that decides the result of a run. Two
/// programs of one build make the same row of the same work.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " of sources ", env!("REMUDA_SOURCES"));

/// A job without files: a process that has it and the texts that it names can run it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    environment: Environment,
    driver: String,
    seed: u64,
    /// The TOML of the scenario.
    scenario: String,
    /// The name of the text of each link's trace, by link.
    pub(crate) traces: BTreeMap<String, String>,
    /// The names of the texts of authors' files, in the order in which the authors are started.
    pub(crate) authors: Vec<String>,
}

impl Work {
    /// The work of a job. `authors` has the names of the texts of authors' files, and `name` gives
    /// each trace the name of its text.
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

    /// Reads the JSON of a [`Work`].
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The names of the texts, each once.
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
