//! A job as it travels to where it runs, and its run there.

use crate::error::Error;
use crate::plan::Job;
use crate::run::simulate;
use ccp_agent::Config;
use remuda_scenarios::{Environment, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What this program is built from: its version, and a hash of every source that decides what comes
/// of a run. Two programs of one build give the same row of the same work.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " of sources ", env!("REMUDA_SOURCES"));

/// A job without a file of its own: whoever has it, and the text of its traces, can run it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    environment: Environment,
    driver: String,
    seed: u64,
    /// As a scenario file says it.
    scenario: String,
    /// By link: what [`Work::run`] finds the text of its trace under.
    traces: BTreeMap<String, String>,
}

impl Work {
    /// A job; `name` is what each of its traces is to be called.
    pub fn of(
        job: &Job,
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
        })
    }

    /// Reads what [`Work::of`] said, as JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The names of its traces, each once.
    pub fn traces(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.traces.values().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn job(self) -> Result<Job, Error> {
        let Self { environment, driver, seed, scenario, .. } = self;
        let name = format!("{}/{}", environment.suite, environment.name);
        let scenario = Scenario::parse(&scenario, &name)?;
        Ok(Job { environment, driver, seed, scenario })
    }

    /// Runs it in the simulator, and says its row as JSON, or why there is none. `traces` has the
    /// text of each of its traces, by name.
    pub fn run(self, traces: &BTreeMap<String, String>) -> Result<String, String> {
        let named = self.traces.clone();
        let mut job = self.job().map_err(|error| error.to_string())?;
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|error| format!("no folder for its traces: {error}"))?;
        let mut moved = Vec::new();
        for (place, (link, name)) in named.iter().enumerate() {
            let spec = job.scenario.links.get_mut(link);
            let Some((spec, text)) = spec.zip(traces.get(name)) else {
                return Err(format!("link `{link}` came without its trace {name}"));
            };
            let from = spec.trace.take().unwrap_or_default();
            // The end of its name says what it holds.
            let end = from.extension().unwrap_or_default();
            let to = folder.path().join(place.to_string()).with_extension(end);
            let written = fs::write(&to, text);
            written.map_err(|error| format!("{}: {error}", to.display()))?;
            moved.push((to.display().to_string(), from.display().to_string()));
            spec.trace = Some(to);
        }
        let row = simulate(&job, &Arc::new(Config::default()), &AtomicBool::new(false));
        let row = row.map_err(|error| {
            // As it is called where the job is from.
            let text = error.to_string();
            moved.iter().fold(text, |text, (to, from)| text.replace(to, from))
        })?;
        let row = row.ok_or("was stopped")?;
        serde_json::to_string(&row).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Only, Plan, suite_named};
    use crate::row::Row;
    use remuda_scenarios::{Suite, suite_names};

    fn jobs(suites: &[Suite]) -> Vec<Job> {
        let drivers = ["cubic".to_owned()];
        Plan::of(suites, &Only::default(), &drivers, 3..=3).unwrap().jobs
    }

    fn travelled(job: &Job) -> Work {
        let work = Work::of(job, |path| Ok(path.display().to_string())).unwrap();
        Work::parse(&serde_json::to_string(&work).unwrap()).unwrap()
    }

    #[test]
    fn every_job_of_every_suite_arrives_as_it_was() {
        let suites: Vec<Suite> = suite_names().map(|name| suite_named(name).unwrap()).collect();
        for job in jobs(&suites) {
            assert_eq!(travelled(&job).job().unwrap(), job);
        }
    }

    const SUITE: &str = r#"
        title = "t"
        source = "s"
        [scenario]
        duration_s = 2
        links.down = { delay_ms = 10, queue = { kind = "droptail", limit_packets = 50 } }
        links.up = { delay_ms = 10 }
        flows = [{ driver = "tested" }]
        [[families]]
        name = "traced"
        group = "E"
        path = "cellular"
        scenario.links.down.trace = "TRACE"
    "#;

    #[test]
    fn a_trace_comes_along_and_errors_call_it_as_its_owner_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let text = "t_s,rate_mbit_per_sec\n0,8\n1,4\n2,8\n";
        fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        let suite = Suite::parse(&SUITE.replace("TRACE", &path), "mine").unwrap();
        let [job] = &jobs(&[suite])[..] else { panic!("one environment") };
        let here = simulate(job, &Arc::new(Config::default()), &AtomicBool::new(false));
        let here = here.unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        let run = |text: &str| travelled(job).run(&BTreeMap::from([(path.clone(), text.into())]));
        let there: Row = serde_json::from_str(&run(text).unwrap()).unwrap();
        assert_eq!(there, here);
        let why = run("no trace").unwrap_err();
        assert!(why.contains(&path), "{why}");
        let why = travelled(job).run(&BTreeMap::new()).unwrap_err();
        assert_eq!(why, format!("link `down` came without its trace {path}"));
    }
}
