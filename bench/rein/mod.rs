//! Rein on the downloads of its suite, and how well it tells the classes of paths apart.

pub mod classes;
pub mod downloads;
pub mod jitter;
pub mod page;

use crate::Error;
use ccp_agent::Setup;
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::Outcome;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs a scenario in the simulator.
fn run(scenario: &Scenario) -> Result<Outcome, Error> {
    let never = AtomicBool::new(false);
    let outcome = remuda_sim::run_unless(&never, (scenario, &Arc::new(Setup::default())), |_| {})?;
    Ok(outcome.expect("nothing stops it"))
}

/// The features of the first decision that Rein made for a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstDecision {
    pub t_s: f64,
    pub class: String,
    /// The arm that it chose.
    pub to: String,
    /// Standard deviation of the RTT within half round trips, over the mean, and as a time.
    pub cov: f64,
    pub std_ms: f64,
    pub segment_ms: f64,
    pub range: f64,
    pub queue_bdps: f64,
    pub rtt_p95_ms: f64,
    pub found_queue: bool,
}

/// The first decision about the flow at `place`; `None` if Rein made none.
fn first_decision(outcome: &Outcome, place: usize) -> Option<FirstDecision> {
    let decided = outcome.flows[place].decisions.iter();
    let first = decided.into_iter().find(|it| it.features.contains_key("class"))?;
    let number = |name: &str| first.features[name].parse().unwrap_or(f64::NAN);
    Some(FirstDecision {
        t_s: first.t_s,
        class: first.features["class"].clone(),
        to: first.to.clone(),
        cov: number("rtt_cov"),
        std_ms: number("rtt_std_ms"),
        segment_ms: number("segment_ms"),
        range: number("rtt_range"),
        queue_bdps: number("queue_bdps"),
        rtt_p95_ms: number("rtt_p95_ms"),
        found_queue: first.features["found_queue"] == "true",
    })
}
