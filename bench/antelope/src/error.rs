//! Everything that can go wrong with the table.

use std::path::PathBuf;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A run failed, or cannot be kept.
    #[error(transparent)]
    Matrix(#[from] remuda_matrix::Error),
    /// Real TCP cannot run it.
    #[error(transparent)]
    Real(#[from] remuda_real::Error),
    #[error("stopped with {done} of {all} runs done; the same command goes on from there")]
    Stopped {
        /// How many are kept.
        done: usize,
        /// How many there are.
        all: usize,
    },
    /// This program's own file.
    #[error("cannot read this program: {0}")]
    Program(std::io::Error),
    /// A name that is nothing's.
    #[error("--{flag} {name}: {rule}")]
    Driver {
        flag: &'static str,
        /// What it was set to.
        name: String,
        /// What is wrong with it.
        rule: String,
    },
    /// A file cannot be read or written, or does not hold what it must.
    #[error("{path}: {problem}", path = .path.display())]
    File {
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    pub(crate) fn file(path: &std::path::Path, problem: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), problem: problem.to_string() }
    }
}
