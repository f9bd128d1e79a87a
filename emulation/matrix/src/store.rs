//! Results of earlier runs: one file a run. Its name, the key, is made of everything that decides
//! the result.
//!
//! The key is the SHA-256 of the program, the authors' files, the scenario with its driver and
//! seed, the content of its traces, and the list of tested flows. So a result of an old program is
//! never taken for one of a new program, and two matrices that share a run share its file.

use crate::error::Error;
use crate::plan::Job;
use crate::run::Kept;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    code: String,
}

/// The SHA-256 of the running program's file.
pub fn code_version() -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(std::env::current_exe()?)?, &mut hash)?;
    Ok(hex(hash))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Store {
    /// Opens a store in `folder`, which is created. `code` is the result of [`code_version`].
    pub fn open(folder: &Path, code: String) -> Result<Self, Error> {
        let failed = |source| Error::Store { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        Ok(Self { folder: folder.to_owned(), code })
    }

    /// The key of a run.
    pub fn key(&self, job: &Job) -> Result<String, Error> {
        let mut hash = Sha256::new();
        let tested = job.environment.tested_flows(&job.scenario);
        // The length of each part is hashed too, so that two texts cannot run into each other.
        for part in [&self.code, &job.scenario.to_toml()?, &format!("{tested:?}")] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        // A scenario names a trace, but the trace's content decides the result.
        let of_rates = job.scenario.links.values().filter_map(|link| link.trace.as_ref());
        let recorded = job.scenario.links.values().filter_map(|link| link.delay_trace.as_ref());
        for path in of_rates.chain(recorded.map(|trace| &trace.file)) {
            let failed = |source| Error::Store { path: path.clone(), source };
            let text = fs::read(path).map_err(failed)?;
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        }
        Ok(hex(hash))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(&key[..2]).join(format!("{}.json", &key[2..]))
    }

    /// The stored result of a run. A file that cannot be parsed counts as missing.
    pub fn get<R: Kept>(&self, key: &str) -> Option<R> {
        serde_json::from_slice(&fs::read(self.path(key)).ok()?).ok()
    }

    /// Stores a result. The file gets its name only when it is complete.
    pub fn put<R: Kept>(&self, key: &str, row: &R) -> Result<(), Error> {
        let path = self.path(key);
        let failed = |source| Error::Store { path: path.clone(), source };
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let text = serde_json::to_vec(row).map_err(|error| failed(error.into()))?;
        file.write_all(&text).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Only, Plan, suite_named};
    use crate::row::Row;

    fn jobs(driver: &str, seed: u64) -> Vec<Job> {
        let suites = [suite_named("ccp").unwrap()];
        let plan = Plan::of(&suites, &Only::default(), &[driver.to_owned()], seed..=seed);
        plan.unwrap().jobs
    }

    #[test]
    fn whatever_decides_a_run_is_in_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = |code: &str| Store::open(folder.path(), code.to_owned()).unwrap();
        let key = |code: &str, job: &Job| store(code).key(job).unwrap();
        let (job, other) = (&jobs("reno", 1)[0], &jobs("reno", 1)[1]);
        assert_eq!(key("a", job), key("a", &jobs("reno", 1)[0]));
        for another in [key("b", job), key("a", other), key("a", &jobs("bbr", 1)[0])] {
            assert_ne!(key("a", job), another);
        }
        assert_ne!(key("a", job), key("a", &jobs("reno", 2)[0]));
        let trace = folder.path().join("some.trace");
        let with = |text: &str| {
            fs::write(&trace, text).unwrap();
            let mut job = job.clone();
            let down = job.scenario.links.get_mut("down").unwrap();
            (down.rate_mbit_per_sec, down.trace) = (None, Some(trace.clone()));
            key("a", &job)
        };
        assert_ne!(with("1\n"), with("2\n"), "what a trace holds");
    }

    #[test]
    fn a_row_is_there_again_and_a_broken_file_is_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), "a".to_owned()).unwrap();
        let key = store.key(&jobs("reno", 1)[0]).unwrap();
        assert_eq!(store.get::<Row>(&key), None);
        let row = Row { driver: "reno".to_owned(), goodput_mbit_per_sec: 0.1, ..Row::default() };
        store.put(&key, &row).unwrap();
        assert_eq!(store.get(&key), Some(row));
        fs::write(store.path(&key), "{").unwrap();
        assert_eq!(store.get::<Row>(&key), None);
    }
}
