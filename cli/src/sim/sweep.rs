//! Executes runs on several threads. Runs are independent, so no result depends on the number of
//! threads.

use super::files::Files;
use super::plan::Run;
use super::progress::{Progress, Work};
use crate::Failure;
use ccp_agent::Setup;
use remuda_live::Clock;
use remuda_results::Outcome;
use remuda_sim::run_unless;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How often the display is updated.
const LOOK: Duration = Duration::from_millis(100);
/// The result of a run.
#[derive(Clone, Debug)]
pub enum Finished {
    /// The run was stopped or never started.
    Not,
    /// The run failed, or its files could not be written.
    Failed(String),
    /// The run is complete; its time series are only in its files.
    Done(Box<Outcome>),
}

impl Finished {
    /// The outcome of a complete run.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Done(outcome) => Some(outcome),
            Self::Not | Self::Failed(_) => None,
        }
    }
}

/// The options of a sweep.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How many runs at a time.
    pub jobs: usize,
    /// The files to write for each run.
    pub files: Option<&'a Files>,
    /// The setup of the agent in each simulation.
    pub setup: &'a Arc<Setup>,
    /// Set to stop the sweep.
    pub stopped: &'a AtomicBool,
    /// Whether to show no progress.
    pub quiet: bool,
    pub clock: Clock,
}

struct Shared<'a> {
    runs: &'a [Run],
    next: AtomicUsize,
    work: Work,
    options: Options<'a>,
}

impl Shared<'_> {
    fn run(&self, run: &Run) -> Result<Finished, Failure> {
        let Options { setup, stopped, .. } = self.options;
        let advanced = |ms| self.work.add(ms);
        let Some(mut outcome) = run_unless(stopped, (&run.scenario, setup), advanced)? else {
            return Ok(Finished::Not);
        };
        if let Some(files) = self.options.files {
            files.write(run, &outcome)?;
        }
        // In a long sweep, memory holds only what the tables need.
        outcome.flow_samples = Vec::new();
        outcome.link_samples = Vec::new();
        Ok(Finished::Done(Box::new(outcome)))
    }

    /// Catches a panic, so that other runs go on.
    fn run_safely(&self, run: &Run) -> Finished {
        // Unwind safe: a run shares only counters, for which any value is valid.
        match catch_unwind(AssertUnwindSafe(|| self.run(run))) {
            Ok(Ok(finished)) => finished,
            Ok(Err(failure)) => Finished::Failed(failure.to_string()),
            Err(_) => Finished::Failed("a defect of the simulator, see above".to_owned()),
        }
    }

    /// Executes one run after the other until none is left.
    fn work(&self, results: &Sender<(usize, Finished)>) {
        while !self.options.stopped.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = self.runs.get(index) else { return };
            let finished = self.run_safely(run);
            if results.send((index, finished)).is_err() {
                return;
            }
        }
    }
}

/// Executes all runs. Returns the result of each, in their order.
pub fn run(runs: &[Run], options: Options<'_>) -> Vec<Finished> {
    let total_ms = runs.iter().map(|run| run.scenario.duration().as_millis()).sum();
    let shared = Shared { runs, next: AtomicUsize::new(0), work: Work::default(), options };
    let mut finished = vec![Finished::Not; runs.len()];
    let mut progress = Progress::new(total_ms, runs.len(), options.quiet);
    let (sender, results) = channel();
    thread::scope(|scope| {
        for _ in 0..options.jobs.min(runs.len()) {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || shared.work(&sender));
        }
        drop(sender);
        let mut done = 0;
        loop {
            match results.recv_timeout(LOOK) {
                Ok((index, result)) => {
                    done += usize::from(!matches!(result, Finished::Not));
                    finished[index] = result;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress.show(&shared.work, done, options.clock.elapsed());
        }
    });
    progress.clear();
    finished
}
