//! Runs a plan by a [`Remote`]: what is kept is looked up here, what is missing is run elsewhere.

use crate::author_files::AuthorFiles;
use crate::error::Error;
use crate::plan::{Job, Plan};
use crate::remote::{Remote, RemoteError, Said, Told};
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

/// What became of a plan.
#[derive(Debug)]
pub struct Ran {
    /// Of each job, in their order; `None` of one that was not run, or not to its end.
    pub rows: Vec<Option<Result<Row, Error>>>,
    /// Why it did not go on to the end, if it did not.
    pub broken: Option<Error>,
}

/// What is under way.
struct Matrix<'a, P> {
    plan: &'a Plan,
    store: Option<&'a Store>,
    results: Results<Row, P>,
    /// The jobs without an answer, and under which names their rows are to be kept.
    unanswered: BTreeMap<usize, Option<String>>,
    /// Authors' files as texts, by the names of these.
    authors: Vec<(String, String)>,
    /// Traces by their paths, under the SHA-256 of their texts.
    names: BTreeMap<PathBuf, String>,
    /// The texts it has been told.
    told: BTreeSet<String>,
}

/// Runs all of a plan by a process that `command` starts, if anything is to be run; see the head of
/// `remote.rs`. Otherwise as [`run`](crate::run()); the process has its own configuration, and
/// starts authors itself, from these files.
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
        told: BTreeSet::new(),
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
                    // Said in another way, as `window:05`, it is kept all the same.
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
                self.hear(remote)?;
            }
            self.give(remote, (index, job), key);
        }
        let Some(mut remote) = remote else { return Ok(()) };
        while !self.unanswered.is_empty() && !is_stopped() {
            self.hear(&mut remote)?;
        }
        if !self.unanswered.is_empty() {
            remote.hang_up();
            // What is done by now is kept; that it ends then is as it should be.
            while self.hear(&mut remote).is_ok() {}
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
            if self.told.insert(name.clone()) {
                remote.tell(&Told::Text { name, text });
            }
        }
        self.unanswered.insert(index, key);
        remote.tell(&Told::Job { index, texts: work.texts(), work: text });
    }

    /// What a trace is called; `new` has its text if it was not read before.
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

    /// Takes the next answer, if there is one soon.
    fn hear(&mut self, remote: &mut Remote) -> Result<(), Box<RemoteError>> {
        let Some(said) = remote.hear(self.unanswered.len())? else { return Ok(()) };
        match said {
            Said::Build(build) => Err(remote.odd(&build, "it says so once, and first")),
            Said::Broken(why) => Err(remote.odd(&why, "is an error already")),
            Said::Ahead(ahead) => remote.set_ahead(ahead),
            Said::Failed { index, why } => {
                let (job, _) = self.asked(index, remote)?;
                self.results.finish(index, Err(failed(job, why)));
                Ok(())
            }
            Said::Done { index, row } => {
                let (job, key) = self.asked(index, remote)?;
                if (*row).clone().named_for(job) != *row {
                    let rule = format!("run {index} is {}", job.name());
                    let theirs = format!("{}/{}, {}", row.suite, row.environment, row.driver);
                    return Err(remote.odd(&format!("{theirs}, seed {}", row.seed), &rule));
                }
                let kept = keep(self.store, key.as_deref(), *row);
                self.results.finish(index, Ok(kept));
                Ok(())
            }
        }
    }

    /// The job that an answer is of, and under which name its row is to be kept.
    fn asked(
        &mut self,
        index: usize,
        remote: &Remote,
    ) -> Result<(&'a Job, Option<String>), Box<RemoteError>> {
        let Some(key) = self.unanswered.remove(&index) else {
            let rule = match self.results.all.get(index) {
                None => format!("there are {} runs, from 0", self.plan.jobs.len()),
                Some(Some(_)) => "that run is done already".to_owned(),
                Some(None) => "it was not given that run".to_owned(),
            };
            return Err(remote.odd(&format!("run {index}"), &rule));
        };
        Ok((&self.plan.jobs[index], key))
    }
}

fn failed(job: &Job, why: String) -> Error {
    let run = job.name();
    // Where it ran, errors name it as here.
    let why = why.strip_prefix(&format!("{run}: ")).map_or(why.clone(), str::to_owned);
    Error::Elsewhere { run, why }
}
