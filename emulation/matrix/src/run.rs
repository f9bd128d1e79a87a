//! Runs a plan on several threads, no job twice.

use crate::error::Error;
use crate::metrics;
use crate::plan::{Job, Plan};
use crate::row::Row;
use crate::store::Store;
use ccp_agent::Setup;
use remuda_scenarios::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

/// The progress of a matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Jobs that have ended, with or without a row.
    pub done: usize,
    /// Jobs whose row was in the store.
    pub kept: usize,
    /// Jobs that ended with an error.
    pub failed: usize,
    /// Jobs whose row could not be stored.
    pub unkept: Option<Unkept>,
    pub all: usize,
}

/// Rows that could not be stored. The table has them, but the next matrix runs these jobs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    pub runs: usize,
    /// The file and the error of the first of these rows.
    pub why: String,
}

/// The source of a row.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The store had the row.
    Kept,
    /// The job was run, and its row stored if there is a store.
    Run,
    /// The job was run, and its row could not be stored.
    Unkept(Error),
}

/// The row of a job, or why the job has no row.
pub(crate) type Finished<R> = Result<(R, Origin), Error>;
/// One entry a job, in order; `None` if the matrix was stopped before the job ended.
pub type Done<R> = Vec<Option<Result<R, Error>>>;

/// A value that a store can keep for a run: a [`Row`], or figures of another measurement.
pub trait Kept: Serialize + DeserializeOwned + Send {}

impl<R: Serialize + DeserializeOwned + Send> Kept for R {}

/// The results of all jobs so far, in order, and the function that gets the progress.
pub(crate) struct Results<R, P> {
    pub(crate) all: Done<R>,
    so_far: Progress,
    progress: P,
}

impl<R, P: FnMut(&Progress)> Results<R, P> {
    pub(crate) fn of(plan: &Plan, progress: P) -> Self {
        let so_far = Progress { all: plan.jobs.len(), ..Progress::default() };
        Self { all: plan.jobs.iter().map(|_| None).collect(), so_far, progress }
    }

    pub(crate) fn finish(&mut self, index: usize, finished: Finished<R>) {
        self.so_far.done += 1;
        match &finished {
            Ok((_, Origin::Run)) => {}
            Ok((_, Origin::Kept)) => self.so_far.kept += 1,
            Ok((_, Origin::Unkept(error))) => {
                let first = || Unkept { runs: 0, why: error.to_string() };
                self.so_far.unkept.get_or_insert_with(first).runs += 1;
            }
            Err(_) => self.so_far.failed += 1,
        }
        self.all[index] = Some(finished.map(|(row, _)| row));
        (self.progress)(&self.so_far);
    }
}

/// What a store has of a job: the row, or else the key under which to store the row.
pub(crate) enum Looked<R> {
    Kept(Box<R>),
    Missing(Option<String>),
}

pub(crate) fn look<R: Kept>(store: Option<&Store>, job: &Job) -> Result<Looked<R>, Error> {
    let Some(store) = store else { return Ok(Looked::Missing(None)) };
    let key = store.key(job)?;
    Ok(match store.get(&key) {
        Some(row) => Looked::Kept(Box::new(row)),
        None => Looked::Missing(Some(key)),
    })
}

/// Stores the row of a run, if there is a store. The row stays in the table if that fails: a full
/// disk must not cost hours of runs.
pub(crate) fn keep<R: Kept>(store: Option<&Store>, key: Option<&str>, row: R) -> (R, Origin) {
    let put = store.zip(key).map_or(Ok(()), |(store, key)| store.put(key, &row));
    (row, put.map_or_else(Origin::Unkept, |()| Origin::Run))
}

/// One run in the simulator; `None` if it was stopped. A panic costs this run only.
pub(crate) fn simulate<R>(
    job: &Job,
    setup: &Arc<Setup>,
    stopped: &AtomicBool,
    of: impl Fn(&Job, &Outcome) -> Result<R, Error>,
) -> Result<Option<R>, Error> {
    let simulated = || {
        let outcome = remuda_sim::run_unless(stopped, (&job.scenario, setup), |_| {});
        let failed = |source| Error::Sim { run: job.name(), source: Box::new(source) };
        let outcome = outcome.map_err(failed)?;
        outcome.map(|outcome| of(job, &outcome)).transpose()
    };
    // A run shares no state with other runs, so a panic cannot break them.
    let ran = catch_unwind(AssertUnwindSafe(simulated));
    ran.unwrap_or_else(|_| Err(Error::Defect { run: job.name() }))
}

struct Shared<'a, F> {
    store: Option<&'a Store>,
    setup: &'a Arc<Setup>,
    stopped: &'a AtomicBool,
    of: F,
}

impl<F> Shared<'_, F> {
    /// Takes a job's result from the store, or runs the job and stores the result; `None` if it was
    /// stopped.
    fn look_or_simulate<R: Kept>(&self, job: &Job) -> Result<Option<(R, Origin)>, Error>
    where
        F: Fn(&Job, &Outcome) -> Result<R, Error>,
    {
        let key = match look(self.store, job)? {
            Looked::Kept(row) => return Ok(Some((*row, Origin::Kept))),
            Looked::Missing(key) => key,
        };
        let row = simulate(job, self.setup, self.stopped, &self.of)?;
        Ok(row.map(|row| keep(self.store, key.as_deref(), row)))
    }
}

/// One driver can be spelled in two ways, as `window:5` and `window:05`: rows get the spelling of
/// the plan.
fn named(plan: &Plan, ran: Done<Row>) -> Done<Row> {
    let pairs = ran.into_iter().zip(&plan.jobs);
    pairs.map(|(row, job)| row.map(|row| row.map(|row| row.named_for(job)))).collect()
}

/// Runs a plan on `threads` threads and returns the result of each job, in order: `None` for a job
/// that had not ended when `stopped` was set.
pub fn run(
    plan: &Plan,
    with: (Option<&Store>, &Arc<Setup>),
    how: (usize, &AtomicBool),
    progress: impl FnMut(&Progress),
) -> Done<Row> {
    named(plan, measure(plan, with, how, progress, metrics::row))
}

/// Like [`run()`], for figures that `of` computes from a job's outcome. The store must be opened
/// with a code under which it keeps only these figures.
pub fn measure<R: Kept>(
    plan: &Plan,
    (store, setup): (Option<&Store>, &Arc<Setup>),
    (threads, stopped): (usize, &AtomicBool),
    progress: impl FnMut(&Progress),
    of: impl Fn(&Job, &Outcome) -> Result<R, Error> + Sync,
) -> Done<R> {
    let shared = Shared { store, setup, stopped, of };
    let next = AtomicUsize::new(0);
    let mut results = Results::of(plan, progress);
    let (sender, finished) = channel();
    thread::scope(|scope| {
        for _ in 0..threads.min(plan.jobs.len()) {
            let (sender, next, shared) = (sender.clone(), &next, &shared);
            scope.spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = plan.jobs.get(index) else { return };
                    let Some(finished) = shared.look_or_simulate(job).transpose() else { return };
                    if sender.send((index, finished)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (index, finished) in finished {
            results.finish(index, finished);
        }
    });
    results.all
}

/// A run that another engine has made, such as real TCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    pub outcome: Outcome,
    /// Whether other processes disturbed the run: real TCP shares its machine.
    pub is_disturbed: bool,
}

/// Runs a plan, one job after the other, with `outcome_of`, which returns `None` if it was stopped;
/// otherwise like [`run()`].
pub fn run_each(
    plan: &Plan,
    store: Option<&Store>,
    stopped: &AtomicBool,
    progress: impl FnMut(&Progress),
    outcome_of: impl FnMut(&Job) -> Result<Option<Watched>, String>,
) -> Done<Row> {
    let row = |job: &Job, watched: &Watched| {
        let disturbed = u64::from(watched.is_disturbed);
        Ok(Row { disturbed, ..metrics::row(job, &watched.outcome)? })
    };
    named(plan, measure_each(plan, (store, stopped), progress, outcome_of, row))
}

/// Like [`run_each`], for figures of another kind, like [`measure`].
pub fn measure_each<R: Kept>(
    plan: &Plan,
    (store, stopped): (Option<&Store>, &AtomicBool),
    progress: impl FnMut(&Progress),
    mut outcome_of: impl FnMut(&Job) -> Result<Option<Watched>, String>,
    of: impl Fn(&Job, &Watched) -> Result<R, Error>,
) -> Done<R> {
    let mut results = Results::of(plan, progress);
    let mut row_of = |job: &Job| -> Result<Option<(R, Origin)>, Error> {
        let key = match look(store, job)? {
            Looked::Kept(row) => return Ok(Some((*row, Origin::Kept))),
            Looked::Missing(key) => key,
        };
        let failed = |why| Error::Elsewhere { run: job.name(), why };
        let Some(watched) = outcome_of(job).map_err(failed)? else { return Ok(None) };
        Ok(Some(keep(store, key.as_deref(), of(job, &watched)?)))
    };
    for (index, job) in plan.jobs.iter().enumerate() {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        if let Some(finished) = row_of(job).transpose() {
            results.finish(index, finished);
        }
    }
    results.all
}
