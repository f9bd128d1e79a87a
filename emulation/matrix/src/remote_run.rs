//! Runs a plan with a [`Remote`] process: stored rows are looked up here, the missing ones are run
//! by the process.

use crate::author_files::AuthorFiles;
use crate::error::Error;
use crate::plan::{Job, Plan};
use crate::remote::{Remote, RemoteError, Reply, Request};
use crate::row::Row;
use crate::run::{Looked, Origin, Progress, Results, keep, look};
use crate::store::Store;
use crate::work::Work;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The results of a plan.
#[derive(Debug)]
pub struct Ran {
    /// One entry a job, in order; `None` for a job that was not run to its end.
    pub rows: Vec<Option<Result<Row, Error>>>,
    /// Why the plan was not run to its end, if it was not.
    pub broken: Option<Error>,
}

/// The state of a running plan.
struct Matrix<'a, P> {
    plan: &'a Plan,
    store: Option<&'a Store>,
    results: Results<Row, P>,
    /// The jobs without an answer, with the key under which the store keeps their rows.
    unanswered: BTreeMap<usize, Option<String>>,
    /// The name and the text of each author's files.
    authors: Vec<(String, String)>,
    /// The name of each trace, which is the SHA-256 of its text, by its path.
    names: BTreeMap<PathBuf, String>,
    /// The names of the texts that the process has received.
    sent_texts: BTreeSet<String>,
}

/// Runs a plan like [`run`](crate::run()), in a process that `command` starts if any job is missing
/// from the store; see the head of `remote.rs`. The process has its own configuration, and starts
/// the authors from these files itself.
pub fn run_remotely(
    (plan, authors): (&Plan, &[AuthorFiles]),
    store: Option<&Store>,
    (command, stopped): (&mut Command, &AtomicBool),
    progress: impl FnMut(&Progress),
) -> Ran {
    let results = Results::of(plan, progress);
    let texts = authors.iter().map(|files| Ok((files.hash(), files.to_text()?)));
    let authors = match texts.collect::<Result<Vec<_>, Error>>() {
        Ok(authors) => authors,
        Err(error) => return Ran { rows: results.all, broken: Some(error) },
    };
    let mut matrix = Matrix {
        plan,
        store,
        results,
        unanswered: BTreeMap::new(),
        authors,
        names: BTreeMap::new(),
        sent_texts: BTreeSet::new(),
    };
    let broken = matrix.run(command, stopped).err().map(Error::from);
    Ran { rows: matrix.results.all, broken }
}

impl<'a, P: FnMut(&Progress)> Matrix<'a, P> {
    fn run(&mut self, command: &mut Command, stopped: &AtomicBool) -> Result<(), Box<RemoteError>> {
        let is_stopped = || stopped.load(Ordering::Relaxed);
        let mut remote = None;
        for (index, job) in self.plan.jobs.iter().enumerate() {
            if is_stopped() {
                break;
            }
            let key = match look::<Row>(self.store, job) {
                Ok(Looked::Missing(key)) => key,
                Ok(Looked::Kept(row)) => {
                    // A stored row may spell the driver in another way, as `window:05`; it gets the
                    // name in this plan.
                    self.results.finish(index, Ok((row.named_for(job), Origin::Kept)));
                    continue;
                }
                Err(error) => {
                    self.results.finish(index, Err(error));
                    continue;
                }
            };
            if remote.is_none() {
                remote = Remote::start(command, stopped)?;
            }
            let Some(remote) = &mut remote else { return Ok(()) };
            while self.unanswered.len() >= remote.ahead() && !is_stopped() {
                self.receive(remote)?;
            }
            self.give(remote, (index, job), key);
        }
        let Some(mut remote) = remote else { return Ok(()) };
        while !self.unanswered.is_empty() && !is_stopped() {
            self.receive(&mut remote)?;
        }
        if !self.unanswered.is_empty() {
            remote.close_input();
            // Keep the answers received until now. It is not an error that the process ends.
            while self.receive(&mut remote).is_ok() {}
        }
        Ok(())
    }

    fn give(&mut self, remote: &mut Remote, (index, job): (usize, &Job), key: Option<String>) {
        let mut new = Vec::new();
        let authors: Vec<String> = self.authors.iter().map(|(name, _)| name.clone()).collect();
        let work = Work::of(job, &authors, |path| self.name_of(path, &mut new));
        let told = work.and_then(|work| {
            let text = serde_json::to_string(&work);
            let text = text.map_err(|error| failed(job, error.to_string()))?;
            Ok((work, text))
        });
        let (work, text) = match told {
            Ok(told) => told,
            Err(error) => {
                self.results.finish(index, Err(error));
                return;
            }
        };
        for (name, text) in self.authors.iter().chain(&new) {
            if self.sent_texts.insert(name.clone()) {
                remote.send(&Request::Text { name, text });
            }
        }
        self.unanswered.insert(index, key);
        remote.send(&Request::Job { index, texts: work.texts(), work: text });
    }

    /// The name of a trace. `new` gets its text if the trace was not read before.
    fn name_of(
        &mut self,
        path: &PathBuf,
        new: &mut Vec<(String, String)>,
    ) -> Result<String, Error> {
        if let Some(name) = self.names.get(path) {
            return Ok(name.clone());
        }
        let failed = |source| Error::Store { path: path.clone(), source };
        let text = fs::read_to_string(path).map_err(failed)?;
        let hash = Sha256::digest(&text);
        let name: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        self.names.insert(path.clone(), name.clone());
        new.push((name.clone(), text));
        Ok(name)
    }

    /// Handles the next answer, if one arrives soon.
    fn receive(&mut self, remote: &mut Remote) -> Result<(), Box<RemoteError>> {
        let Some(reply) = remote.receive(self.unanswered.len())? else { return Ok(()) };
        match reply {
            Reply::Build(build) => {
                Err(remote.invalid(&build, "`build` may only be the first line"))
            }
            Reply::Broken(why) => Err(remote.invalid(&why, "came after an error")),
            Reply::Ahead(ahead) => remote.set_ahead(ahead),
            Reply::Failed { index, why } => {
                let (job, _) = self.asked(index, remote)?;
                self.results.finish(index, Err(failed(job, why)));
                Ok(())
            }
            Reply::Done { index, row } => {
                let (job, key) = self.asked(index, remote)?;
                if (*row).clone().named_for(job) != *row {
                    let rule = format!("run {index} is {}", job.name());
                    let theirs = format!("{}/{}, {}", row.suite, row.environment, row.driver);
                    return Err(remote.invalid(&format!("{theirs}, seed {}", row.seed), &rule));
                }
                let kept = keep(self.store, key.as_deref(), *row);
                self.results.finish(index, Ok(kept));
                Ok(())
            }
        }
    }

    /// The job of an answer, and the key under which the store keeps its row.
    fn asked(
        &mut self,
        index: usize,
        remote: &Remote,
    ) -> Result<(&'a Job, Option<String>), Box<RemoteError>> {
        let Some(key) = self.unanswered.remove(&index) else {
            let rule = match self.results.all.get(index) {
                None => format!("there are {} runs, from 0", self.plan.jobs.len()),
                Some(Some(_)) => "this run is already done".to_owned(),
                Some(None) => "this run was not sent to the process".to_owned(),
            };
            return Err(remote.invalid(&format!("run {index}"), &rule));
        };
        Ok((&self.plan.jobs[index], key))
    }
}

fn failed(job: &Job, why: String) -> Error {
    let run = job.name();
    // The process's error begins with the name of the run, which [`Error`] adds itself.
    let why = why.strip_prefix(&format!("{run}: ")).map_or(why.clone(), str::to_owned);
    Error::Elsewhere { run, why }
}
