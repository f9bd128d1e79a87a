//! Paths that advice is asked of: what the event log would have of their flows, and what other arms
//! would truly do there.

use crate::Error;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_link::Nanos;
use remuda_samples::draw::{ALIKE, Environment};
use remuda_samples::family::Family;
use remuda_scenarios::Scenario;
use remuda_sim::Simulation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The arm of the flows that are logged.
pub const PRESENT: &str = "cubic";
/// Flows in the log of a path, beside those that run with them.
const LOGGED: u64 = 32;
/// Flows from which the true gain is known; the log has none of them.
const JUDGED: u64 = 64;
/// Transfers are of so many bytes.
const BYTES: (f64, f64) = (3e5, 6e6);
/// A transfer is stopped after so long.
const LIFE_S: f64 = 60.0;
/// A simulation is looked at so often.
const STEP_NS: u64 = 200_000_000;
/// A flow starts so long after the scenario of its path, at most.
const START_S_MAX: f64 = 5.0;

/// A path that was drawn.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub family: Family,
    pub seed: u64,
}

/// What is known of a path after its flows ran.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Known {
    /// Lines of the event log.
    pub log: Vec<String>,
    /// The mean logarithm of goodput of each arm over that of [`PRESENT`], with its standard error.
    pub ln_gain: BTreeMap<String, (f64, f64)>,
    /// Who shares the path, as the drawing names them.
    pub neighbours: String,
}

fn config(rule: impl std::fmt::Display) -> Error {
    Error::Config(rule.to_string())
}

impl Path {
    /// The first paths of a family from a seed on whose flows run one after another.
    pub fn drawn(family: Family, first: u64, count: usize) -> Vec<Self> {
        let all = (first..).map(|seed| Self { family, seed });
        let is_alone = |path: &Self| !family.draw(path.seed).neighbours.starts_with(ALIKE);
        all.filter(is_alone).take(count).collect()
    }

    pub fn name(&self) -> String {
        format!("{}-{}", self.family.name(), self.seed)
    }

    fn scenario(&self, of: &Environment, arm: &str, run: u64) -> Result<Scenario, Error> {
        let mut scenario = Scenario::parse(&of.with(arm), "advise")?;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(1_000 + run);
        scenario.seed = rng.random::<u32>().into();
        let (least, most) = BYTES;
        let bytes = least * (most / least).powf(rng.random());
        let start_s = of.start_s + rng.random_range(0.1..START_S_MAX);
        let end_s = start_s + LIFE_S;
        scenario.duration_s = end_s + 0.5;
        if let Some(flow) = scenario.flows.last_mut() {
            (flow.start_s, flow.bytes, flow.stop_s) = (start_s, Some(bytes as u64), Some(end_s));
        }
        Ok(scenario)
    }

    /// A transfer by `arm`: its line in the event log, and the logarithm of its goodput. `None` if
    /// no byte of it arrives.
    fn run(&self, arm: &str, run: u64) -> Result<Option<(String, f64)>, Error> {
        let scenario = self.scenario(&self.family.draw(self.seed), arm, run)?;
        let mut simulation = Simulation::new(&scenario)?;
        let tested = simulation.flow_count() - 1;
        // Other hosts' flows go on, and nothing more is to be learned from them.
        while !simulation.is_over() && simulation.closed(tested).is_none() {
            simulation.run_until(Nanos(simulation.now().0 + STEP_NS));
        }
        let Some(closed) = simulation.closed(tested) else { return Ok(None) };
        let line = ccp_agent::events::line(None, closed);
        let mut line: serde_json::Value = serde_json::from_str(&line).map_err(config)?;
        let figure = |name: &str| line[name].as_f64().unwrap_or(0.0);
        let (bytes, ms) = (figure("acked_bytes"), figure("duration_ms"));
        if bytes <= 0.0 || ms <= 0.0 {
            return Ok(None);
        }
        // One flow after another.
        line["t_unix_us"] = (run * 1_000_000_000).into();
        line["remote"] = "198.51.100.7:443".into();
        Ok(Some((line.to_string(), (bytes / ms).ln())))
    }

    /// Runs the flows of the log, and the flows from which the true gain of each arm is known.
    pub fn known(&self, arms: &[String]) -> Result<Known, Error> {
        let mut log = Vec::new();
        for run in 0..LOGGED {
            log.extend(self.run(PRESENT, run)?.map(|(line, _)| line));
        }
        let mean = |goodputs: Vec<f64>| goodputs.iter().sum::<f64>() / goodputs.len() as f64;
        let runs = LOGGED..LOGGED + JUDGED;
        let of = |arm: &str| -> Result<Vec<f64>, Error> {
            let ln = |run| Ok(self.run(arm, run)?.map_or(f64::NAN, |(_, ln_goodput)| ln_goodput));
            runs.clone().map(ln).collect()
        };
        let present = of(PRESENT)?;
        let mut ln_gain = BTreeMap::new();
        for arm in arms {
            let gains = of(arm)?.iter().zip(&present).map(|(a, b)| a - b).collect::<Vec<f64>>();
            let gains: Vec<f64> = gains.into_iter().filter(|gain| gain.is_finite()).collect();
            let (count, middle) = (gains.len() as f64, mean(gains.clone()));
            let squares: f64 = gains.iter().map(|it| (it - middle) * (it - middle)).sum();
            let error = (squares / (count - 1.0).max(1.0) / count).sqrt();
            ln_gain.insert(arm.clone(), (middle, error));
        }
        let neighbours = self.family.draw(self.seed).neighbours.to_owned();
        Ok(Known { log, ln_gain, neighbours })
    }
}
