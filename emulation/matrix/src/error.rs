//! Errors of a matrix.

use std::path::PathBuf;

/// Why a matrix, or one run of it, has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No suite, driver or group has this name.
    #[error("{what} `{name}`: there are {known}\nfix: {fix}")]
    Unknown {
        /// The kind of name, as `suite`.
        what: &'static str,
        name: String,
        known: String,
        /// What the user may have meant.
        fix: String,
    },
    /// A pass/fail line of a suite names no metric, or a limit that its unit cannot have.
    #[error("{family}: expects `{line}`, and {rule}")]
    Expect {
        /// The suite and the family of environments.
        family: String,
        line: String,
        /// The rule that the line breaks, and the fix.
        rule: String,
    },
    /// No environment of the chosen suites matches the filters.
    #[error(
        "no environment of these suites has {what}; fix: see `remuda matrix --list --suite NAME`"
    )]
    Nothing {
        /// The filters that the user gave.
        what: String,
    },
    /// The plan has more runs than fit in memory.
    #[error("more than {most} runs; fix: choose fewer seeds, arms or environments")]
    TooMany { most: usize },
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] remuda_scenarios::Error),
    #[error("{run}: {source}")]
    Sim { run: String, source: Box<remuda_sim::Error> },
    /// The link's description is invalid.
    #[error("{run}: {source}")]
    Link { run: String, source: remuda_link::SpecError },
    /// Arrivals are random, and no flow arrived in this run.
    #[error("{run}: no tested flow arrived; raise load_mbit_per_sec or duration_s")]
    NoFlow { run: String },
    /// An arm failed, and the agent gave its flow to another arm.
    #[error("{run}: {driver} lost its flow to another arm after {t_s:.1} s: {why}")]
    GaveUp { run: String, driver: String, t_s: f64, why: String },
    #[error("{run}: a defect of the simulator, see above")]
    Defect { run: String },
    /// The run failed in the process that ran it.
    #[error("{run}: {why}")]
    Elsewhere {
        run: String,
        /// The error text of that process.
        why: String,
    },
    /// The process that runs the jobs failed.
    #[error(transparent)]
    Remote(#[from] Box<crate::remote::RemoteError>),
    /// A file of an author, or one that the author's file may import, cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    AuthorFile { path: PathBuf, source: std::io::Error },
    /// The author's folder holds too many Python files, or too much declared data.
    #[error(
        "{path}: below its folder are more than {files} .py files, or {mib} MiB of them and of \
         the data that they declare, and each decides what its arms do\n\
         fix: a folder of its own for it, or --fresh, which keeps nothing",
        path = .path.display()
    )]
    AuthorFolder {
        path: PathBuf,
        /// The largest number of files.
        files: usize,
        /// The largest total size, in MiB.
        mib: u64,
    },
    /// The store cannot be written, or a trace cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Store { path: PathBuf, source: std::io::Error },
}
