//! Errors of a comparison.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(Box<remuda_scenarios::Error>),
    /// The simulator cannot run the scenario.
    #[error("{scenario}: {source}")]
    Sim { scenario: String, source: Box<remuda_sim::Error> },
    /// Real TCP cannot run the scenario.
    #[error(transparent)]
    Real(#[from] Box<remuda_live::real::Error>),
    /// The guest cannot be made.
    #[error(transparent)]
    NoGuest(#[from] remuda_guest::Error),
    #[error("{scenario}, in a guest: {source}")]
    Guest { scenario: String, source: Box<remuda_guest::Error> },
    /// A file has invalid content.
    #[error("{path}: {problem}", path = .path.display())]
    File { path: PathBuf, problem: String },
}

impl From<remuda_scenarios::Error> for Error {
    fn from(error: remuda_scenarios::Error) -> Self {
        Self::Scenario(Box::new(error))
    }
}

impl From<remuda_live::real::Error> for Error {
    fn from(error: remuda_live::real::Error) -> Self {
        Self::Real(Box::new(error))
    }
}

impl Error {
    /// Adds the name of the scenario that the simulator refuses.
    pub(crate) fn sim(scenario: &str, source: remuda_sim::Error) -> Self {
        Self::Sim { scenario: scenario.to_owned(), source: Box::new(source) }
    }

    pub(crate) fn file(path: &Path, problem: impl Display) -> Self {
        Self::File { path: path.to_owned(), problem: problem.to_string() }
    }
}
