//! Errors of the report.

use thiserror::Error;

/// Why there is no report.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{path}: is not there; fix: name the folder that was --out of `remuda matrix`")]
    NoTable { path: String },
    /// A table that cannot be read.
    #[error("{path}: is not a table of this version of `remuda matrix`: {source}")]
    Table {
        path: String,
        /// The error of the reader.
        source: Box<remuda_results::Error>,
    },
    #[error("{path}: has no rows; fix: run `remuda matrix` to its end, or to Ctrl-C")]
    Empty { path: String },
    /// Two tables that share no run.
    #[error(
        "the two tables share no run: no suite, environment, driver and seed is in both; \
         fix: compare two matrices of the same suites, arms and seeds"
    )]
    NothingShared,
    /// The user asks for time series of runs that are not in the table, or of too many.
    #[error("--series {said}: {rule}")]
    Series {
        /// The value of `--series`.
        said: String,
        /// The rule that the value breaks, and the fix.
        rule: String,
    },
    /// A suite that no longer exists, or that refuses a driver.
    #[error(transparent)]
    Suite(#[from] Box<remuda_scenarios::Error>),
    /// A run that cannot be repeated.
    #[error(transparent)]
    Matrix(#[from] Box<remuda_matrix::Error>),
    #[error("{run}: {source}")]
    Sim { run: String, source: Box<remuda_sim::Error> },
    /// A defect of the page's template.
    #[error("cannot make the page: {0}")]
    Page(#[from] Box<minijinja::Error>),
    /// The user asks for paths or arms that do not exist, or for too many arms.
    #[error("{rule}")]
    Choice {
        /// The flag, the choices and the fix.
        rule: String,
    },
    /// A plot that cannot be drawn.
    #[error("cannot draw {name}: {what}")]
    Plot {
        name: String,
        /// The error of the drawing library.
        what: String,
    },
    /// A number that JSON cannot express.
    #[error("cannot write the page's data: {0}")]
    Json(#[from] serde_json::Error),
}
