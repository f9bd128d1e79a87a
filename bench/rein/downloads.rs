//! The downloads of Rein's suite: how long each driver takes, and what its neighbour keeps.

use super::{FirstDecision, first_decision, run};
use crate::Error;
use crate::stats::Mean;
use remuda_algorithms::{ARMS, Wants};
use remuda_scenarios::outcome::Outcome;
use remuda_scenarios::{Environment, suite};
use std::ops::RangeInclusive;

/// A fixed arm counts as harmless if its neighbours keep so much of what they have beside CUBIC.
pub const KEPT_MIN: f64 = 0.6;

/// One download beside a CUBIC flow.
#[derive(Clone, Debug)]
pub struct Download {
    /// From the start of its connection; a download that did not end counts as long as the run.
    pub seconds: f64,
    /// The neighbour's goodput during the download.
    pub neighbour_mbit_per_sec: f64,
    pub decided: Option<FirstDecision>,
}

/// The suite's paths with a download.
pub fn paths() -> Result<Vec<Environment>, Error> {
    let suite = suite("rein").expect("it comes with the program")?;
    let all = suite.environments()?.into_iter();
    Ok(all.filter(|environment| environment.group == "D2").collect())
}

/// Runs one download of the suite in the simulator.
pub fn download(
    path: &Environment,
    driver: &str,
    wants: Wants,
    seed: u64,
) -> Result<Download, Error> {
    let mut scenario = path.scenario(driver, seed)?;
    let place = path.tested_flows(&scenario)[0];
    scenario.flows[place].wants = wants;
    let start_s = scenario.flows[place].start_s;
    let outcome = run(&scenario)?;
    let end_s = outcome.flows[place].end_s.unwrap_or(scenario.duration_s);
    let neighbour = u32::from(place == 0);
    Ok(Download {
        seconds: end_s - start_s,
        neighbour_mbit_per_sec: goodput(&outcome, neighbour, start_s, end_s),
        decided: first_decision(&outcome, place),
    })
}

/// What a flow delivered between two moments, in Mbit/s of payload.
fn goodput(outcome: &Outcome, flow: u32, from_s: f64, to_s: f64) -> f64 {
    let at = |t_s: f64| {
        let of_flow = outcome.flow_samples.iter().filter(|look| look.flow == flow);
        of_flow.take_while(|look| look.t_s <= t_s).last().map_or(0, |look| look.delivered_bytes)
    };
    (at(to_s) - at(from_s)) as f64 * 8e-6 / (to_s - from_s)
}

/// A driver on all paths, with all seeds.
#[derive(Clone, Debug)]
pub struct Driver {
    pub name: &'static str,
    /// By path, then by seed.
    pub downloads: Vec<Vec<Download>>,
    /// The neighbour's goodput over that beside a CUBIC download, by path: the mean of the seeds.
    pub kept: Vec<f64>,
}

impl Driver {
    /// Mean completion time over the paths, by seed.
    pub fn seconds(&self) -> Vec<f64> {
        let seeds = self.downloads[0].len();
        let of_seed = |seed: usize| {
            let seconds = self.downloads.iter().map(|downloads| downloads[seed].seconds);
            seconds.sum::<f64>() / self.downloads.len() as f64
        };
        (0..seeds).map(of_seed).collect()
    }

    pub fn mean_seconds(&self) -> f64 {
        Mean::of(&self.seconds()).mean
    }

    pub fn mean_kept(&self) -> f64 {
        Mean::of(&self.kept).mean
    }

    /// The neighbour keeps the least of all paths on this one.
    pub fn least_kept(&self) -> f64 {
        self.kept.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// This driver's mean completion time over another's, by seed.
    pub fn over(&self, other: &Self) -> Mean {
        let ratios = self.seconds().into_iter().zip(other.seconds());
        Mean::of(&ratios.map(|(own, other)| own / other).collect::<Vec<_>>())
    }
}

/// The downloads of drivers that are compared.
pub struct Measured {
    pub seeds: RangeInclusive<u64>,
    pub paths: Vec<Environment>,
    /// The neighbour's goodput beside a CUBIC download, by path and seed: `kept` is relative to it.
    beside: Vec<Vec<f64>>,
}

impl Measured {
    pub fn new(seeds: RangeInclusive<u64>) -> Result<Self, Error> {
        let mut measured = Self { seeds, paths: paths()?, beside: Vec::new() };
        let downloads = measured.downloads("cubic", Wants::DEFAULT)?;
        let goodputs = |of_path: &Vec<Download>| {
            of_path.iter().map(|download| download.neighbour_mbit_per_sec).collect()
        };
        measured.beside = downloads.iter().map(goodputs).collect();
        Ok(measured)
    }

    fn downloads(&self, driver: &str, wants: Wants) -> Result<Vec<Vec<Download>>, Error> {
        let of_path = |path: &Environment| {
            self.seeds.clone().map(|seed| download(path, driver, wants, seed)).collect()
        };
        self.paths.iter().map(of_path).collect()
    }

    /// A driver, under the name that tables show.
    pub fn driver(&self, driver: &str, wants: Wants, name: &'static str) -> Result<Driver, Error> {
        let downloads = self.downloads(driver, wants)?;
        let of_path = |(downloads, beside): (&Vec<Download>, &Vec<f64>)| {
            let kept = downloads.iter().zip(beside);
            let kept = kept.map(|(download, beside)| download.neighbour_mbit_per_sec / beside);
            Mean::of(&kept.collect::<Vec<_>>()).mean
        };
        let kept = downloads.iter().zip(&self.beside).map(of_path).collect();
        Ok(Driver { name, downloads, kept })
    }

    /// Every fixed arm that can run on these paths without a table or ECN.
    pub fn fixed(&self) -> Result<Vec<Driver>, Error> {
        let arms = ARMS.iter().filter(|arm| arm.adapts && !arm.needs_ecn && arm.name != "remy");
        arms.map(|arm| self.driver(arm.name, Wants::DEFAULT, arm.name)).collect()
    }
}

/// The quickest of these drivers whose neighbours keep `kept_min` on the mean of the paths.
pub fn quickest(drivers: &[Driver], kept_min: f64) -> &Driver {
    let harmless = drivers.iter().filter(|driver| driver.mean_kept() >= kept_min);
    let quicker = |a: &&Driver, b: &&Driver| a.mean_seconds().total_cmp(&b.mean_seconds());
    harmless.min_by(quicker).expect("CUBIC keeps to itself")
}
