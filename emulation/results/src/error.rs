//! What can go wrong with results.

use std::path::{Path, PathBuf};

/// Why results were not written, or not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    #[error("{path}: {source}", path = .path.display())]
    Parquet { path: PathBuf, source: parquet::errors::ParquetError },
    /// A table is not what it should be.
    #[error("table `{table}`: {rule}")]
    Table {
        table: &'static str,
        /// What it must be.
        rule: String,
    },
    #[error("table `{table}`: {source}")]
    Arrow { table: &'static str, source: arrow_schema::ArrowError },
    /// A picture could not be drawn.
    #[error("plot of `{scenario}`: {what}")]
    Plot {
        scenario: String,
        /// What the drawing library said.
        what: String,
    },
}

impl Error {
    /// Adds the path to an error of the file system.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Adds the path to an error of Parquet.
    pub(crate) fn parquet(path: &Path) -> impl FnOnce(parquet::errors::ParquetError) -> Self {
        move |source| Self::Parquet { path: path.to_owned(), source }
    }
}
