//! What happened in a run, second by second.
//!
//! A matrix keeps figures, not series: these runs are run again, which a simulation of the same
//! program, scenario and seed does to the byte.

use crate::error::Error;
use crate::matrix::Matrix;
use ccp_agent::Config;
use remuda_matrix::{Job, Only, Plan, scenario_hash};
use remuda_scenarios::outcome::{FlowSample, Outcome};
use remuda_scenarios::{Environment, Suite};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A page of more would be slow to open.
pub const RUNS_MAX: usize = 60;
/// Points of a line.
const POINTS: usize = 300;

/// A flow of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSeries {
    /// Its name.
    pub name: String,
    /// Whether it is under test.
    pub tested: bool,
    /// When it was looked at.
    pub t_s: Vec<f64>,
    /// What arrived since the look before, in Mbit/s.
    pub goodput_mbit_per_sec: Vec<f64>,
    /// The smoothed round trip, in milliseconds.
    pub srtt_ms: Vec<Option<f64>>,
    /// The window, in packets.
    pub cwnd_pkts: Vec<f64>,
    /// Which arm from when on.
    pub arms: Vec<(f64, String)>,
    /// When its arm changed, from which to which, and why.
    pub decisions: Vec<(f64, String, String, String)>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its suite and environment.
    pub environment: String,
    /// What is tested.
    pub driver: String,
    /// Its seed.
    pub seed: u64,
    /// How long it lasts.
    pub duration_s: f64,
    /// Its flows; of many the first few.
    pub flows: Vec<FlowSeries>,
}

/// Flows of a run that are shown.
const FLOWS_MAX: usize = 8;

impl Series {
    /// Runs those again whose SUITE/ENVIRONMENT has one of these in it: all drivers of the matrix,
    /// the first seed.
    ///
    /// # Errors
    ///
    /// None is in the matrix, too many are, its suite is not there any more, or a run fails.
    pub fn of(
        matrix: &Matrix,
        parts: &[String],
        suites: &[Suite],
        config: &Arc<Config>,
    ) -> Result<Vec<Self>, Error> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let refuse = |rule: String| Error::Series { said: parts.join(","), rule };
        let full = |suite: &str, name: &str| format!("{suite}/{name}");
        let mut wanted: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
        for row in &matrix.rows {
            let name = full(&row.suite, &row.environment);
            if parts.iter().any(|part| name.contains(part.as_str())) {
                wanted.insert((&row.suite, &row.environment, &row.driver));
            }
        }
        if wanted.is_empty() {
            return Err(refuse("no environment of the table has that in its name".to_owned()));
        }
        if wanted.len() > RUNS_MAX {
            let count = wanted.len();
            let fix = "fix: say more of the name";
            return Err(refuse(format!("{count} runs; a page has {RUNS_MAX} at most; {fix}")));
        }
        let drivers: BTreeSet<String> =
            wanted.iter().map(|(_, _, driver)| (*driver).to_owned()).collect();
        let drivers: Vec<String> = drivers.into_iter().collect();
        let seed = matrix.rows.iter().map(|row| row.seed).min().unwrap_or(1);
        let known = |suite: &str| suites.iter().any(|it| it.name == suite);
        if let Some((suite, ..)) = wanted.iter().find(|(suite, ..)| !known(suite)) {
            let fix = format!("fix: add --suite {suite}.toml, the file it was run with");
            return Err(refuse(format!("suite `{suite}` does not come with the program; {fix}")));
        }
        let only = Only { groups: Vec::new(), parts: parts.to_vec() };
        let plan = Plan::of(suites, &only, &drivers, std::iter::once(seed)).map_err(Box::new)?;
        let is_wanted = |job: &&Job| {
            let environment = &job.environment;
            wanted.contains(&(&*environment.suite, &*environment.name, &*job.driver))
        };
        let jobs: Vec<&Job> = plan.jobs.iter().filter(is_wanted).collect();
        for job in &jobs {
            let Environment { suite, name, .. } = &job.environment;
            let row =
                matrix.rows.iter().find(|row| row.suite == *suite && row.environment == *name);
            if row.is_some_and(|row| row.scenario != scenario_hash(&job.environment)) {
                let fix = "fix: run the matrix again";
                return Err(refuse(format!("{suite}/{name} has changed since; {fix}")));
            }
        }
        jobs.into_iter().map(|job| run(job, config)).collect()
    }
}

fn run(job: &Job, config: &Arc<Config>) -> Result<Series, Error> {
    let never = AtomicBool::new(false);
    let outcome = remuda_sim::run_unless(&never, (&job.scenario, config), |_| {});
    let failed = |source| Error::Sim { run: job.name(), source: Box::new(source) };
    let outcome = outcome.map_err(failed)?.expect("nobody stops it");
    let tested = job.environment.tested_flows(&job.scenario);
    // What is tested first, then its neighbours.
    let mut places: Vec<usize> = tested.clone();
    places.extend((0..outcome.flows.len()).filter(|place| !tested.contains(place)));
    let flows = places.into_iter().take(FLOWS_MAX);
    Ok(Series {
        environment: format!("{}/{}", job.environment.suite, job.environment.name),
        driver: job.driver.clone(),
        seed: job.seed,
        duration_s: outcome.duration_s,
        flows: flows.map(|place| flow(&outcome, place, tested.contains(&place))).collect(),
    })
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn flow(outcome: &Outcome, place: usize, tested: bool) -> FlowSeries {
    let of = &outcome.flows[place];
    let samples = outcome.flow_samples.iter().filter(|sample| sample.flow as usize == place);
    let all: Vec<&FlowSample> = samples.collect();
    let every = all.len().div_ceil(POINTS).max(1);
    let looks: Vec<&FlowSample> = all.iter().step_by(every).copied().collect();
    let rates = looks.windows(2).map(|pair| {
        let bytes = pair[1].delivered_bytes.saturating_sub(pair[0].delivered_bytes) as f64;
        rounded(bytes * 8.0 / 1e6 / (pair[1].t_s - pair[0].t_s))
    });
    let first = looks.first().map(|look| look.delivered_bytes as f64 * 8.0 / 1e6);
    let mut arms: Vec<(f64, String)> = Vec::new();
    for look in &all {
        if arms.last().is_none_or(|(_, arm)| **arm != *look.arm) {
            arms.push((rounded(look.t_s), look.arm.to_string()));
        }
    }
    let decisions = of.switches.iter().map(|switch| {
        (rounded(switch.t_s), switch.from.clone(), switch.to.clone(), switch.why.clone())
    });
    FlowSeries {
        name: of.name.clone(),
        tested,
        t_s: looks.iter().map(|look| rounded(look.t_s)).collect(),
        goodput_mbit_per_sec: first.map(|_| 0.0).into_iter().chain(rates).collect(),
        srtt_ms: looks.iter().map(|look| look.srtt_ms.map(rounded)).collect(),
        cwnd_pkts: looks.iter().map(|look| look.cwnd_pkts).collect(),
        arms,
        decisions: decisions.collect(),
    }
}
