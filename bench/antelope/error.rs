//! Errors of the table.

use std::path::PathBuf;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A run failed, or its result cannot be stored.
    #[error(transparent)]
    Matrix(#[from] remuda_matrix::Error),
    /// Real TCP cannot run a scenario.
    #[error(transparent)]
    Real(#[from] remuda_live::real::Error),
    #[error("stopped with {done} of {all} runs done; the same command goes on from there")]
    Stopped {
        /// Number of runs that are done and stored.
        done: usize,
        /// Number of runs of the table.
        all: usize,
    },
    /// The program's own file cannot be read; its hash is needed for the store.
    #[error("cannot read this program: {0}")]
    Program(std::io::Error),
    /// An option names something that does not exist.
    #[error("--{flag} {name}: {rule}")]
    Driver {
        flag: &'static str,
        /// The value of the option.
        name: String,
        /// The rule that the value breaks.
        rule: String,
    },
    /// A file cannot be read or written, or has invalid content.
    #[error("{path}: {problem}", path = .path.display())]
    File { path: PathBuf, problem: String },
}

impl Error {
    pub(crate) fn file(path: &std::path::Path, problem: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), problem: problem.to_string() }
    }
}
