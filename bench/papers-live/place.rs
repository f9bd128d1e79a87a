//! Runs scenarios on real TCP, each once: an outcome is kept in a file, by its scenario and the
//! agents' executable.

use remuda_bench::kept::{self, Kept};
use remuda_live::real::{Agents, AuthorsFiles};
use remuda_live::{STOLEN_MAX, least_disturbed};
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The arms that drive flows. The last one is the author's, in [`CONSTANT_WINDOW`].
const ARMS: [&str; 6] = ["anole", "lingbo", "bbr", "copa", "cubic", "constant_window"];

/// The file of an arm that keeps a window of 100 segments.
const CONSTANT_WINDOW: &str = "bench/papers-live/constant_window.py";

/// Attempts at a run, at most, while a hypervisor takes the processor.
const TRIES: u32 = 3;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Scenario(#[from] remuda_scenarios::Error),
    #[error(transparent)]
    Live(#[from] remuda_live::real::Error),
    #[error(transparent)]
    Kept(#[from] kept::Error),
    #[error("{path}: {source}")]
    File { path: String, source: std::io::Error },
}

/// What is kept of a run.
#[derive(Debug, Deserialize, Serialize)]
struct Measured {
    outcome: Outcome,
    is_disturbed: bool,
}

/// The agents, and the folder of outcomes.
pub struct Place {
    agents: Agents,
    kept: Kept,
    pub runs: usize,
    /// Runs during which a hypervisor took the processor, in each attempt.
    pub disturbed: usize,
}

impl Place {
    /// Starts an agent for each arm. `python` has the package `remuda`.
    pub fn new(remuda: &Path, python: &Path, folder: &Path) -> Result<Self, Error> {
        let names: BTreeSet<String> = ARMS.iter().map(|arm| (*arm).to_owned()).collect();
        let kept = Kept::new(folder, remuda)?;
        let authors = AuthorsFiles {
            python: python.to_owned(),
            files: vec![CONSTANT_WINDOW.into()],
            ..AuthorsFiles::default()
        };
        let agents = Agents::start(remuda, &names, &authors)?;
        Ok(Self { agents, kept, runs: 0, disturbed: 0 })
    }

    /// Runs the scenario of this text, or returns what an earlier run of it has kept. Real TCP
    /// has no distribution of round trips. The way back has no queue and no jitter here and takes
    /// `back_ms`, so a round trip is the one-way delay and that.
    pub fn run(&mut self, text: &str, back_ms: f64) -> Result<Outcome, Error> {
        let mut measured = self.kept.or_run(text, || self.measure(text))?;
        for flow in &mut measured.outcome.flows {
            flow.rtt_p95_ms = flow.one_way_p95_ms.map(|one_way_ms| one_way_ms + back_ms);
        }
        self.runs += 1;
        self.disturbed += usize::from(measured.is_disturbed);
        Ok(measured.outcome)
    }

    fn measure(&self, text: &str) -> Result<Measured, Error> {
        let scenario = Scenario::parse(text, "papers-live")?;
        let never = AtomicBool::new(false);
        let work = || remuda_live::real::run(&scenario, &self.agents, &never);
        let (run, stolen) = least_disturbed(TRIES, work, |share| {
            eprintln!("a hypervisor took {:.1} % of a processor; once more", share * 100.0);
        })?;
        let run = run.expect("nothing stops it");
        let is_disturbed = run.lost_by_host > 0 || stolen > STOLEN_MAX;
        Ok(Measured { outcome: run.outcome, is_disturbed })
    }

    /// Stops the agents; an error if one does not end properly.
    pub fn end(self) -> Result<(), Error> {
        Ok(self.agents.stop()?)
    }
}
