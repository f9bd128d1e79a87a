//! Many runs over threads. Each run is by itself, so no result depends on how many run at a time.

use super::files::Files;
use super::plan::Run;
use super::progress::{Progress, Work};
use crate::Failure;
use ccp_agent::Config;
use remuda_live::Clock;
use remuda_results::Outcome;
use remuda_sim::run_unless;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How often the display and Ctrl-C are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// What became of a run.
#[derive(Clone, Debug)]
pub enum Finished {
    /// It was stopped, or never started.
    Not,
    /// It could not run, or its files could not be written.
    Failed(String),
    /// It ran; its time series are in its files.
    Done(Box<Outcome>),
}

impl Finished {
    /// Of a run that is done.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Done(outcome) => Some(outcome),
            Self::Not | Self::Failed(_) => None,
        }
    }
}

/// How a sweep is run.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How many runs at a time.
    pub jobs: usize,
    /// What is written of each.
    pub files: Option<&'a Files>,
    /// Of the agent in each simulation.
    pub config: &'a Arc<Config>,
    /// Set when no more is to be done.
    pub stopped: &'a AtomicBool,
    /// Whether nothing is shown.
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
        let Options { config, stopped, .. } = self.options;
        let advanced = |ms| self.work.add(ms);
        let Some(mut outcome) = run_unless(stopped, (&run.scenario, config), advanced)? else {
            return Ok(Finished::Not);
        };
        if let Some(files) = self.options.files {
            files.write(run, &outcome)?;
        }
        // Of a long sweep, only what the tables need stays in memory.
        outcome.flow_samples = Vec::new();
        outcome.link_samples = Vec::new();
        Ok(Finished::Done(Box::new(outcome)))
    }

    /// A run that panics costs no other.
    fn run_safely(&self, run: &Run) -> Finished {
        // What a run changes is its own, but for counters that any value is right for.
        match catch_unwind(AssertUnwindSafe(|| self.run(run))) {
            Ok(Ok(finished)) => finished,
            Ok(Err(failure)) => Finished::Failed(failure.to_string()),
            Err(_) => Finished::Failed("a defect of the simulator, see above".to_owned()),
        }
    }

    /// Takes one run after the other, until there is none.
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

/// Runs all, and says what became of each, in their order.
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
