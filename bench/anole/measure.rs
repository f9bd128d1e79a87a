//! Runs a scene for some seeds, and what is read from the outcomes.

use super::scene::{END_S, Scene};
use crate::Error;
use ccp_agent::Setup;
use remuda_algorithms::anole::config::{AnoleConfig, SETTINGS};
use remuda_link::Nanos;
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::Outcome;
use remuda_sim::Simulation;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What drives the flows of a scene.
#[derive(Clone, Debug)]
pub struct Driver {
    pub name: String,
    /// The settings of `anole`.
    pub config: AnoleConfig,
}

impl Driver {
    pub fn arm(name: &str) -> Self {
        Self { name: name.to_owned(), config: AnoleConfig::default() }
    }

    pub fn anole(config: &AnoleConfig) -> Self {
        Self { name: "anole".to_owned(), config: config.clone() }
    }
}

/// One run of a scene.
#[derive(Clone, Debug)]
pub struct Run {
    pub outcome: Outcome,
    /// Of the first flow, if it is Anole's: cycles, calls of the learned arm, and the seconds that
    /// the rates of the classic arm, of the learned arm and inferred ones were in force.
    pub tally: Option<[f64; 5]>,
}

/// Runs a scene with one seed.
pub fn run(scene: &Scene, driver: &Driver, seed: u64) -> Result<Run, Error> {
    let setup = Setup::default();
    driver.config.validate().map_err(Error::Config)?;
    setup.loaded.put(SETTINGS, Arc::new(driver.config.clone()));
    let scenario = Scenario::parse(&scene.text(&driver.name, seed), &scene.name)?;
    let mut simulation = Simulation::with_setup(&scenario, &Arc::new(setup))?;
    simulation.run_until(Nanos((END_S * 1e9) as u64));
    let last = simulation.stages(0).iter().rev().find(|stage| stage.stage == "probing");
    let number = |name: &str| {
        let text = last.and_then(|stage| stage.features.get(name));
        text.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
    };
    let names = ["cycles", "learned_calls", "classic_s", "learned_s", "inferred_s"];
    let tally = last.map(|_| names.map(number));
    Ok(Run { outcome: simulation.outcome(), tally })
}

/// Runs a scene with each seed, on all cores.
pub fn runs(
    scene: &Scene,
    driver: &Driver,
    seeds: &RangeInclusive<u64>,
) -> Result<Vec<Run>, Error> {
    let seeds: Vec<u64> = seeds.clone().collect();
    let next = AtomicUsize::new(0);
    let jobs = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let work = || {
        let mut done = Vec::new();
        while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((seed, run(scene, driver, seed)));
        }
        done
    };
    let mut all: Vec<(u64, Result<Run, Error>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join().expect("a run does not panic"));
        joined.flatten().collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, run)| run).collect()
}

impl Run {
    /// Goodput of all flows together, in Mbit/s.
    pub fn goodput(&self) -> f64 {
        let bytes: u64 = self.outcome.flows.iter().map(|flow| flow.delivered_bytes).sum();
        bytes as f64 * 8.0 / 1e6 / END_S
    }

    /// The 95th percentile of the one-way delay of the worst flow, in ms; NaN if none is known.
    pub fn delay_p95(&self) -> f64 {
        let delays = self.outcome.flows.iter().filter_map(|flow| flow.one_way_p95_ms);
        delays.reduce(f64::max).unwrap_or(f64::NAN)
    }

    /// Goodput over the 95th percentile of delay.
    pub fn power95(&self) -> f64 {
        self.goodput() / self.delay_p95().max(1e-9)
    }

    /// What a flow was delivered between two moments, in Mbit/s.
    pub fn delivered(&self, flow: u32, from_s: f64, to_s: f64) -> f64 {
        let until = |t_s: f64| {
            let before = |look: &&_| {
                let look: &remuda_scenarios::outcome::FlowSample = look;
                look.flow == flow && look.t_s <= t_s + 1e-6
            };
            let samples = self.outcome.flow_samples.iter();
            samples.filter(before).map(|look| look.delivered_bytes).next_back().unwrap_or(0)
        };
        (until(to_s) - until(from_s)) as f64 * 8.0 / 1e6 / (to_s - from_s)
    }

    /// Jain's index of the first flows over two seconds up to that moment.
    pub fn jain(&self, flows: u32, to_s: f64) -> f64 {
        let shares: Vec<f64> =
            (0..flows).map(|flow| self.delivered(flow, to_s - 2.0, to_s)).collect();
        let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
        sum * sum / (f64::from(flows) * squares).max(1e-9)
    }

    /// How long after `from_s` a tenth of a second first has that rate, in seconds.
    pub fn reaches(&self, mbit_per_sec: f64, from_s: f64) -> f64 {
        let steps = ((END_S - from_s) * 10.0) as u32;
        let at = |step: u32| from_s + f64::from(step) / 10.0;
        let reached = |step: &u32| self.delivered(0, at(*step), at(*step) + 0.1) >= mbit_per_sec;
        (0..steps).find(reached).map_or(END_S - from_s, |step| f64::from(step + 1) / 10.0)
    }
}
