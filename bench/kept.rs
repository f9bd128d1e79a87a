//! Results of runs on real TCP, each in a file, so that a measurement continues after a stop.
//!
//! The name of a file is the hash of the executable and of the text that describes the run. So a
//! result of another executable or of another description is not used.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// A file or a folder that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .path.display())]
pub struct Error {
    path: PathBuf,
    source: std::io::Error,
}

fn on(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error { path: path.to_owned(), source }
}

/// A folder with results of one executable.
#[derive(Clone, Debug)]
pub struct Kept {
    folder: PathBuf,
    executable: Vec<u8>,
}

impl Kept {
    /// Makes the folder, and reads the executable.
    ///
    /// # Errors
    ///
    /// The folder cannot be made, or the executable cannot be read.
    pub fn new(folder: &Path, executable: &Path) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(on(folder))?;
        let executable = Sha256::digest(fs::read(executable).map_err(on(executable))?).to_vec();
        Ok(Self { folder: folder.to_owned(), executable })
    }

    /// Where the result of this description lies, without an ending. Further files of the same run
    /// may lie beside it.
    pub fn path(&self, description: &str) -> PathBuf {
        let key = Sha256::new().chain_update(&self.executable).chain_update(description);
        let key: String = key.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(key)
    }

    /// The kept result of the run with this description; `None` if no such run has ended.
    pub fn read<T: DeserializeOwned>(&self, description: &str) -> Option<T> {
        let kept = fs::read(self.path(description).with_extension("json")).ok()?;
        serde_json::from_slice(&kept).ok()
    }

    /// Keeps a result: whole or not at all, so that a stop leaves no half result.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write<T: Serialize>(&self, description: &str, result: &T) -> Result<(), Error> {
        let path = self.path(description);
        let text = serde_json::to_vec(result).expect("results are plain data");
        let (new, path) = (path.with_extension("new"), path.with_extension("json"));
        fs::write(&new, text).map_err(on(&new))?;
        fs::rename(&new, &path).map_err(on(&path))
    }

    /// The kept result of the run with this description. If no such run has ended, calls `run` and
    /// keeps what it returns.
    ///
    /// # Errors
    ///
    /// `run` fails, or its result cannot be written.
    pub fn or_run<T: Serialize + DeserializeOwned, E: From<Error>>(
        &self,
        description: &str,
        run: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(known) = self.read(description) {
            return Ok(known);
        }
        let result = run()?;
        self.write(description, &result)?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_happens_once_for_each_description_and_executable() {
        let folder = tempfile::tempdir().expect("a folder");
        let executable = folder.path().join("program");
        let runs_of = |text: &str, description: &str| {
            fs::write(&executable, text).expect("it is written");
            let kept = Kept::new(&folder.path().join("out"), &executable).expect("a folder");
            let mut runs = 0;
            let result = kept.or_run::<_, Error>(description, || {
                runs += 1;
                Ok(description.to_owned())
            });
            assert_eq!(result.expect("it is kept"), description);
            runs
        };
        assert_eq!([runs_of("a", "one"), runs_of("a", "one"), runs_of("a", "two")], [1, 0, 1]);
        assert_eq!([runs_of("b", "one"), runs_of("a", "one")], [1, 0]);
    }
}
