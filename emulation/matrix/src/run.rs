//! Runs a plan: many jobs at a time, none twice.

use crate::error::Error;
use crate::metrics;
use crate::plan::{Job, Plan};
use crate::row::Row;
use crate::store::Store;
use ccp_agent::Config;
use remuda_scenarios::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

/// How far a matrix is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Runs that are done, one way or the other.
    pub done: usize,
    /// Those of them whose row was there already.
    pub kept: usize,
    /// Those that came to nothing.
    pub failed: usize,
    /// Those whose row is there, but not for another time.
    pub unkept: Option<Unkept>,
    pub all: usize,
}

/// Rows that could not be kept: the table has them, and the next matrix runs them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// How many by now.
    pub runs: usize,
    /// Which file it was of the first, and why.
    pub why: String,
}

/// Where a row is from.
#[derive(Debug)]
pub(crate) enum Origin {
    /// It was there already.
    Kept,
    /// Of a run now; kept, if there is a store.
    Run,
    /// Of a run now, and could not be kept.
    Unkept(Error),
}

/// What became of a job.
pub(crate) type Finished<R> = Result<(R, Origin), Error>;
/// Of each job of a plan, in their order; `None`: it was stopped before.
pub type Done<R> = Vec<Option<Result<R, Error>>>;

/// What is kept of a run: a [`Row`] of the matrix, or figures of somebody else's.
pub trait Kept: Serialize + DeserializeOwned + Send {}

impl<R: Serialize + DeserializeOwned + Send> Kept for R {}

/// What became of every job so far, in their order, and who hears of it.
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

/// What a store has of a job: its row, or else under which name that is to be kept.
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

/// Keeps the row of a run, if there is a store. That it cannot does not cost the row: hours of runs
/// would end with the disk that is full by then.
pub(crate) fn keep<R: Kept>(store: Option<&Store>, key: Option<&str>, row: R) -> (R, Origin) {
    let put = store.zip(key).map_or(Ok(()), |(store, key)| store.put(key, &row));
    (row, put.map_or_else(Origin::Unkept, |()| Origin::Run))
}

/// One run in the simulator; `None` if it was stopped. A run that panics costs no other.
pub(crate) fn simulate<R>(
    job: &Job,
    config: &Arc<Config>,
    stopped: &AtomicBool,
    of: impl Fn(&Job, &Outcome) -> Result<R, Error>,
) -> Result<Option<R>, Error> {
    let simulated = || {
        let outcome = remuda_sim::run_unless(stopped, (&job.scenario, config), |_| {});
        let failed = |source| Error::Sim { run: job.name(), source: Box::new(source) };
        let outcome = outcome.map_err(failed)?;
        outcome.map(|outcome| of(job, &outcome)).transpose()
    };
    // What a run changes is its own.
    let ran = catch_unwind(AssertUnwindSafe(simulated));
    ran.unwrap_or_else(|_| Err(Error::Defect { run: job.name() }))
}

struct Shared<'a, F> {
    store: Option<&'a Store>,
    config: &'a Arc<Config>,
    stopped: &'a AtomicBool,
    of: F,
}

impl<F> Shared<'_, F> {
    /// What is kept of a job, or else what comes of it now, which is kept. `None`: it was stopped.
    fn look_or_simulate<R: Kept>(&self, job: &Job) -> Result<Option<(R, Origin)>, Error>
    where
        F: Fn(&Job, &Outcome) -> Result<R, Error>,
    {
        let key = match look(self.store, job)? {
            Looked::Kept(row) => return Ok(Some((*row, Origin::Kept))),
            Looked::Missing(key) => key,
        };
        let row = simulate(job, self.config, self.stopped, &self.of)?;
        Ok(row.map(|row| keep(self.store, key.as_deref(), row)))
    }
}

/// What decides a run may be said in two ways, as `window:5` and `window:05`: rows say who asks.
fn named(plan: &Plan, ran: Done<Row>) -> Done<Row> {
    let pairs = ran.into_iter().zip(&plan.jobs);
    pairs.map(|(row, job)| row.map(|row| row.map(|row| row.named_for(job)))).collect()
}

/// Runs all of a plan on so many threads, and says what became of each job, in their order; of one
/// that was not begun, or not ended, when `stopped` was set: `None`.
pub fn run(
    plan: &Plan,
    with: (Option<&Store>, &Arc<Config>),
    how: (usize, &AtomicBool),
    progress: impl FnMut(&Progress),
) -> Done<Row> {
    named(plan, measure(plan, with, how, progress, metrics::row))
}

/// As [`run()`], for figures of one's own: `of` makes them of what came of a job. A store of them
/// must be opened with a code that no rows of another kind are kept under.
pub fn measure<R: Kept>(
    plan: &Plan,
    (store, config): (Option<&Store>, &Arc<Config>),
    (threads, stopped): (usize, &AtomicBool),
    progress: impl FnMut(&Progress),
    of: impl Fn(&Job, &Outcome) -> Result<R, Error> + Sync,
) -> Done<R> {
    let shared = Shared { store, config, stopped, of };
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

/// What somebody else ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// What came of it.
    pub outcome: Outcome,
    /// Whether others disturbed it: real TCP shares its machine.
    pub is_disturbed: bool,
}

/// Runs all of a plan one after the other, by `outcome_of`, which says `None` if it was stopped;
/// otherwise as [`run()`].
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

/// As [`run_each`], for figures of one's own, as [`measure`].
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
