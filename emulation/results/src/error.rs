//! Errors of reading and writing results.

use std::path::{Path, PathBuf};

/// Why results were not written, or not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused an operation.
    #[error("{path}: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}", path = .path.display())]
    Parquet { path: PathBuf, source: parquet::errors::ParquetError },
    /// A table does not have the expected columns or values.
    #[error("table `{table}`: {rule}")]
    Table {
        table: &'static str,
        /// The rule that the table breaks.
        rule: String,
    },
    #[error("table `{table}`: {source}")]
    Arrow { table: &'static str, source: arrow_schema::ArrowError },
    /// A picture could not be drawn.
    #[error("plot of `{scenario}`: {what}")]
    Plot {
        scenario: String,
        /// The error of the drawing library.
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
