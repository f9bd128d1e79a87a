//! Time series of a run.
//!
//! A matrix stores figures, not series, so the runs are repeated. A simulation of the same program,
//! scenario and seed gives the same bytes.

use crate::arms::check_arms;
use crate::decisions::{self, Decision};
use crate::error::Error;
use crate::matrix::Matrix;
use ccp_agent::Setup;
use remuda_link::{Direction, Nanos};
use remuda_matrix::{Job, Only, Plan, scenario_hash};
use remuda_scenarios::outcome::{FlowSample, LinkSample, Outcome};
use remuda_scenarios::{Environment, Suite};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The most runs with series on a page. More would make the page slow to open.
pub const RUNS_MAX: usize = 60;
/// The most points of a line.
const POINTS: usize = 300;
/// The capacity at the first sample is measured over this span after the start, because no span
/// precedes that sample.
const FIRST_SPAN_S: f64 = 0.1;

/// The series of one flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSeries {
    pub name: String,
    /// Whether the flow is under test.
    pub tested: bool,
    /// The times of the samples.
    pub t_s: Vec<f64>,
    /// Goodput since the sample before.
    pub goodput_mbit_per_sec: Vec<f64>,
    /// Smoothed round trip; `None` before the first measurement.
    pub srtt_ms: Vec<Option<f64>>,
    pub cwnd_pkts: Vec<f64>,
    /// The arms that drove the flow, each with its start time in seconds.
    pub arms: Vec<(f64, String)>,
    /// The decisions about the flow's arm that the page shows.
    pub decisions: Vec<Decision>,
    /// Number of further decisions.
    pub decisions_left_out: u64,
}

/// The bottleneck: the link of the first tested flow's route where packets waited longest.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkSeries {
    pub name: String,
    /// The times of the samples.
    pub t_s: Vec<f64>,
    /// What the link could have carried since the sample before, in Mbit/s of IP bytes; empty if
    /// nothing limits it.
    pub capacity_mbit_per_sec: Vec<f64>,
    pub queue_pkts: Vec<u64>,
}

/// The user's choice of runs.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub parts: &'a [String],
    /// Arms; empty: all arms of the table.
    pub arms: &'a [String],
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The suite and the environment.
    pub environment: String,
    pub driver: String,
    pub seed: u64,
    pub duration_s: f64,
    /// The first flows, tested ones before others.
    pub flows: Vec<FlowSeries>,
    /// Number of further flows.
    pub flows_left_out: usize,
    pub link: LinkSeries,
}

/// Most flows of a run that the page shows.
const FLOWS_MAX: usize = 8;

impl Series {
    /// Repeats the runs whose SUITE/ENVIRONMENT has one of the parts in it, with the wanted arms
    /// and the first seed.
    ///
    /// # Errors
    ///
    /// No run matches, too many match, the suite no longer exists, or a run fails.
    pub fn of(
        matrix: &Matrix,
        Wanted { parts, arms }: Wanted<'_>,
        suites: &[Suite],
        setup: &Arc<Setup>,
    ) -> Result<Vec<Self>, Error> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let refuse = |rule: String| Error::Series { said: parts.join(","), rule };
        check_arms(&matrix.drivers(), arms)?;
        let full = |suite: &str, name: &str| format!("{suite}/{name}");
        let mut wanted: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
        for row in &matrix.rows {
            let name = full(&row.suite, &row.environment);
            let is_meant = arms.is_empty() || arms.contains(&row.driver);
            if is_meant && parts.iter().any(|part| name.contains(part.as_str())) {
                wanted.insert((&row.suite, &row.environment, &row.driver));
            }
        }
        if wanted.is_empty() {
            return Err(refuse("no environment of the table has this in its name".to_owned()));
        }
        if wanted.len() > RUNS_MAX {
            let count = wanted.len();
            let fix = "fix: name a longer part, or fewer arms with --arm";
            return Err(refuse(format!("{count} runs; a page has {RUNS_MAX} at most; {fix}")));
        }
        let drivers: BTreeSet<String> =
            wanted.iter().map(|(_, _, driver)| (*driver).to_owned()).collect();
        let drivers: Vec<String> = drivers.into_iter().collect();
        let seed = matrix.rows.iter().map(|row| row.seed).min().unwrap_or(1);
        let known = |suite: &str| suites.iter().any(|it| it.name == suite);
        if let Some((suite, ..)) = wanted.iter().find(|(suite, ..)| !known(suite)) {
            let fix = format!("fix: add --suite {suite}.toml, the file of the matrix");
            return Err(refuse(format!("suite `{suite}` does not come with the program; {fix}")));
        }
        let only = Only { groups: Vec::new(), parts: parts.to_vec() };
        let plan = Plan::of(suites, &only, &drivers, std::iter::once(seed)).map_err(Box::new)?;
        let is_wanted = |job: &&Job| {
            let environment = &job.environment;
            wanted.contains(&(&*environment.suite, &*environment.name, &*job.driver))
        };
        let jobs: Vec<&Job> = plan.jobs.iter().filter(is_wanted).collect();
        if let Some(Environment { suite, name, .. }) = changed(matrix, &jobs) {
            let fix = "fix: run the matrix again";
            return Err(refuse(format!("{suite}/{name} has changed since; {fix}")));
        }
        let mut all = Vec::new();
        for job in jobs {
            all.push(run(job, setup)?);
        }
        Ok(all)
    }
}

/// The first environment that is not the same as when the table was made.
fn changed<'a>(matrix: &Matrix, jobs: &[&'a Job]) -> Option<&'a Environment> {
    let is_other = |it: &&Environment| {
        let mut rows = matrix.rows.iter();
        let row = rows.find(|row| row.suite == it.suite && row.environment == it.name);
        row.is_some_and(|row| row.scenario != scenario_hash(it))
    };
    jobs.iter().map(|job| &job.environment).find(is_other)
}

fn run(job: &Job, setup: &Arc<Setup>) -> Result<Series, Error> {
    let never = AtomicBool::new(false);
    let outcome = remuda_sim::run_unless(&never, (&job.scenario, setup), |_| {});
    let failed = |source| Error::Sim { run: job.name(), source: Box::new(source) };
    let outcome = outcome.map_err(failed)?.expect("the run cannot be interrupted");
    let tested = job.environment.tested_flows(&job.scenario);
    // Tested flows first, then their neighbours.
    let mut places: Vec<usize> = tested.clone();
    places.extend((0..outcome.flows.len()).filter(|place| !tested.contains(place)));
    let flows_left_out = places.len().saturating_sub(FLOWS_MAX);
    let flows = places.into_iter().take(FLOWS_MAX);
    Ok(Series {
        flows_left_out,
        link: link(job, &outcome),
        environment: format!("{}/{}", job.environment.suite, job.environment.name),
        driver: job.driver.clone(),
        seed: job.seed,
        duration_s: outcome.duration_s,
        flows: flows.map(|place| flow(&outcome, place, tested.contains(&place))).collect(),
    })
}

fn link(job: &Job, outcome: &Outcome) -> LinkSeries {
    let flows = job.scenario.flows_expanded();
    let tested = job.environment.tested_flows(&job.scenario);
    let route = tested.first().map_or(&[][..], |flow| &flows[*flow].route);
    let links = outcome.links.iter().enumerate().filter(|(_, link)| route.contains(&link.name));
    let slowest = links.max_by(|a, b| a.1.queueing_mean_ms.total_cmp(&b.1.queueing_mean_ms));
    let Some((place, link)) = slowest else { return LinkSeries::default() };
    let own = outcome.link_samples.iter().filter(|it| it.link as usize == place);
    let all: Vec<&LinkSample> = own.collect();
    let every = all.len().div_ceil(POINTS).max(1);
    let looks = || all.iter().step_by(every);
    LinkSeries {
        name: link.name.clone(),
        capacity_mbit_per_sec: capacity(job, &link.name, looks().map(|look| look.t_s)),
        t_s: looks().map(|look| rounded(look.t_s)).collect(),
        queue_pkts: looks().map(|look| look.queue_packets).collect(),
    }
}

fn capacity(job: &Job, link: &str, looks_s: impl Iterator<Item = f64>) -> Vec<f64> {
    let links = job.scenario.seeded_links();
    let spec = links.iter().find(|(name, _)| name == link).map(|(_, spec)| spec);
    // A capacity that cannot be computed would have failed the run before.
    let Some(capacity) = spec.and_then(|it| it.capacity(Direction::Down).ok()) else {
        return Vec::new();
    };
    let mut before_s = 0.0;
    let rates = looks_s.map(|at_s| {
        let from_s = std::mem::replace(&mut before_s, at_s);
        // The first sample is at the start.
        let span = if at_s > from_s { (from_s, at_s) } else { (at_s, at_s + FIRST_SPAN_S) };
        let [from, to] = [span.0, span.1].map(|at_s| Nanos::from_millis_f64(at_s * 1e3));
        let bytes = capacity.bytes(from, to)?;
        Some(rounded(bytes * 8.0 / 1e6 / (span.1 - span.0)))
    });
    rates.collect::<Option<Vec<f64>>>().unwrap_or_default()
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
    let (decisions, left_out) = decisions::shown(&of.decisions);
    FlowSeries {
        name: of.name.clone(),
        tested,
        t_s: looks.iter().map(|look| rounded(look.t_s)).collect(),
        goodput_mbit_per_sec: first.map(|_| 0.0).into_iter().chain(rates).collect(),
        srtt_ms: looks.iter().map(|look| look.srtt_ms.map(rounded)).collect(),
        cwnd_pkts: looks.iter().map(|look| look.cwnd_pkts).collect(),
        arms,
        decisions,
        decisions_left_out: of.decisions_left_out + left_out as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_matrix::run as run_plan;

    const SUITE: &str = r#"
title = "Mine"
source = "me"
[scenario]
duration_s = 4
links.down.rate_mbit_per_sec = 12
links.down.rate_steps = [{ at_s = 2, rate_mbit_per_sec = 6 }]
links.down.delay_ms = 10
links.down.queue.kind = "droptail"
links.up = { delay_ms = 10 }
flows = [{ driver = "tested" }]
[[families]]
name = "buffer"
group = "B"
path = "wired"
axes = [{ name = "queue_bdp", keys = ["links.down.queue.limit_bdp"], values = [1, 4] }]
"#;

    fn text(all: &[&str]) -> Vec<String> {
        all.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn a_run_is_run_again_for_the_arms_that_were_asked_for() {
        let (setup, never) = (Arc::new(Setup::default()), AtomicBool::new(false));
        let suites = [Suite::parse(SUITE, "mine").unwrap()];
        let drivers = text(&["cubic", "reno"]);
        let plan = Plan::of(&suites, &Only::default(), &drivers, 1..=1).unwrap();
        let rows = run_plan(&plan, (None, &setup), (1, &never), |_| {});
        let rows = rows.into_iter().map(|row| row.unwrap().unwrap()).collect();
        let matrix = Matrix { rows, ..Matrix::default() };
        let of = |parts: &[&str], arms: &[&str]| {
            let (parts, arms) = (text(parts), text(arms));
            let all = Series::of(&matrix, Wanted { parts: &parts, arms: &arms }, &suites, &setup);
            all.map_err(|error| error.to_string())
        };
        assert_eq!(of(&["buffer"], &[]).unwrap().len(), 4);
        let all = of(&["queue_bdp=4"], &["reno"]).unwrap();
        let [run] = &all[..] else { panic!("{all:?}") };
        assert_eq!((run.driver.as_str(), run.flows_left_out), ("reno", 0));
        let link = &run.link;
        assert_eq!((link.name.as_str(), link.t_s.len()), ("down", link.queue_pkts.len()));
        let is_right = |(at, capacity): (&f64, &f64)| {
            (*capacity - if *at <= 2.0 { 12.0 } else { 6.0 }).abs() < 0.05
        };
        assert_eq!(link.capacity_mbit_per_sec.len(), link.t_s.len());
        assert!(link.t_s.iter().zip(&link.capacity_mbit_per_sec).all(is_right), "{link:?}");
        assert!(link.queue_pkts.iter().any(|it| *it > 20), "a queue of 4 BDP fills: {link:?}");
        assert!(of(&["buffer"], &["bbr"]).unwrap_err().starts_with("--arm bbr: is not in the"));
        assert!(of(&["nothing"], &[]).unwrap_err().starts_with("--series nothing: no environ"));
    }
}
