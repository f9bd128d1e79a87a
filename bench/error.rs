//! Why a simulated measurement failed.

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] remuda_scenarios::Error),
    /// The simulator refuses the scenario.
    #[error(transparent)]
    Sim(#[from] remuda_sim::Error),
    /// An arm has settings that it cannot use.
    #[error("{0}")]
    Config(String),
    #[error("{0:?} is no arm that this program measures\nfix: name some of these: {1}")]
    Arm(String, String),
    #[error("{path}: {source}")]
    Write { path: PathBuf, source: std::io::Error },
}

impl Error {
    /// Turns the error of a file that cannot be written into one that names the file.
    pub fn writing(path: Option<&Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.unwrap_or(Path::new("standard output")).to_owned();
        move |source| Self::Write { path, source }
    }
}
