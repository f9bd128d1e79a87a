//! Runs a plan: many jobs at a time, none twice.

use crate::error::Error;
use crate::metrics;
use crate::plan::{Job, Plan};
use crate::row::Row;
use crate::store::Store;
use ccp_agent::Config;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

/// How far a matrix is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Runs that are done, one way or the other.
    pub done: usize,
    /// Those of them whose row was there already.
    pub kept: usize,
    /// Those that came to nothing.
    pub failed: usize,
    /// All of them.
    pub all: usize,
}

/// What became of a job: its row, and whether that was there already.
type Finished = Result<(Row, bool), Error>;

/// What jobs share.
struct Shared<'a> {
    store: Option<&'a Store>,
    config: &'a Arc<Config>,
    stopped: &'a AtomicBool,
}

impl Shared<'_> {
    /// One run in the simulator; `None` if it was stopped.
    fn simulate(&self, job: &Job) -> Result<Option<Row>, Error> {
        let run = (&job.scenario, self.config);
        let outcome = remuda_sim::run_unless(self.stopped, run, |_| {});
        let failed = |source| Error::Sim { run: job.name(), source: Box::new(source) };
        let outcome = outcome.map_err(failed)?;
        outcome.map(|outcome| metrics::row(job, &outcome)).transpose()
    }

    /// What is kept of a job, or else what comes of it now, which is kept. `None`: it was stopped.
    fn look_or_simulate(&self, job: &Job) -> Result<Option<(Row, bool)>, Error> {
        let Some(store) = self.store else {
            return Ok(self.simulate(job)?.map(|row| (row, false)));
        };
        let key = store.key(job)?;
        if let Some(row) = store.get(&key) {
            // What decides a run may be said in two ways, as `window:5` and `window:05`.
            return Ok(Some((row.named_for(job), true)));
        }
        let Some(row) = self.simulate(job)? else { return Ok(None) };
        store.put(&key, &row)?;
        Ok(Some((row, false)))
    }

    /// A run that panics costs no other.
    fn run_safely(&self, job: &Job) -> Option<Finished> {
        // What a run changes is its own.
        let ran = catch_unwind(AssertUnwindSafe(|| self.look_or_simulate(job)));
        ran.unwrap_or_else(|_| Err(Error::Defect { run: job.name() })).transpose()
    }
}

/// Runs all of a plan on so many threads, and says what became of each job, in their order; of one
/// that was not begun, or not ended, when `stopped` was set: `None`.
pub fn run(
    plan: &Plan,
    (store, config): (Option<&Store>, &Arc<Config>),
    (threads, stopped): (usize, &AtomicBool),
    mut progress: impl FnMut(Progress),
) -> Vec<Option<Result<Row, Error>>> {
    let shared = Shared { store, config, stopped };
    let next = AtomicUsize::new(0);
    let mut all: Vec<Option<Result<Row, Error>>> = plan.jobs.iter().map(|_| None).collect();
    let mut so_far = Progress { all: plan.jobs.len(), ..Progress::default() };
    let (sender, results) = channel();
    thread::scope(|scope| {
        for _ in 0..threads.min(plan.jobs.len()) {
            let (sender, next, shared) = (sender.clone(), &next, &shared);
            scope.spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = plan.jobs.get(index) else { return };
                    let Some(finished) = shared.run_safely(job) else { return };
                    if sender.send((index, finished)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (index, finished) in results {
            so_far.done += 1;
            so_far.kept += usize::from(matches!(finished, Ok((_, true))));
            so_far.failed += usize::from(finished.is_err());
            all[index] = Some(finished.map(|(row, _)| row));
            progress(so_far);
        }
    });
    all
}
