//! What can go wrong.

use thiserror::Error;

/// Why there is no report.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{path}: is not there; fix: say the folder that was --out of `remuda matrix`")]
    NoTable { path: String },
    /// A table that cannot be read.
    #[error("{path}: is no table of this version of `remuda matrix`: {source}")]
    Table {
        path: String,
        /// What the reader said.
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
    /// Time series of runs that are not in the table, or too many.
    #[error("--series {said}: {rule}")]
    Series {
        /// What was asked for.
        said: String,
        /// Which rule it breaks.
        rule: String,
    },
    /// A suite that is not there any more, or refuses a driver.
    #[error(transparent)]
    Suite(#[from] Box<remuda_scenarios::Error>),
    /// A run that cannot be repeated.
    #[error(transparent)]
    Matrix(#[from] Box<remuda_matrix::Error>),
    /// A run that fails.
    #[error("{run}: {source}")]
    Sim { run: String, source: Box<remuda_sim::Error> },
    /// A defect of the page's template.
    #[error("cannot make the page: {0}")]
    Page(#[from] Box<minijinja::Error>),
    /// Something to show that is not there.
    #[error("{rule}")]
    Choice {
        /// Which flag said what, what there is, and the fix.
        rule: String,
    },
    /// A plot that cannot be drawn.
    #[error("cannot draw {name}: {what}")]
    Plot {
        name: String,
        /// What the drawing library said.
        what: String,
    },
    /// A number that JSON has not.
    #[error("cannot write the page's data: {0}")]
    Json(#[from] serde_json::Error),
}
