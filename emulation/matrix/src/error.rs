//! What can go wrong with a matrix.

use std::path::PathBuf;

/// Why a matrix, or one run of it, came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such suite, driver or group.
    #[error("{what} `{name}`: there are {known}\nfix: {fix}")]
    Unknown {
        /// What kind of name it is.
        what: &'static str,
        name: String,
        known: String,
        /// What may have been meant.
        fix: String,
    },
    /// A pass/fail line of a suite is about nothing, or says nothing.
    #[error("{family}: expects `{line}`, and {rule}")]
    Expect {
        /// The suite and the family.
        family: String,
        line: String,
        /// What is wrong with it, and the fix.
        rule: String,
    },
    /// Nothing is left to run.
    #[error(
        "no environment of these suites has {what}; fix: see `remuda matrix --list --suite NAME`"
    )]
    Nothing {
        /// What was asked for.
        what: String,
    },
    /// A range is a mistake.
    #[error("more than {most} runs; fewer --seeds, arms or environments")]
    TooMany {
        /// How many there may be.
        most: usize,
    },
    /// A scenario is none.
    #[error(transparent)]
    Scenario(#[from] remuda_scenarios::Error),
    #[error("{run}: {source}")]
    Sim {
        /// The environment, driver and seed.
        run: String,
        source: Box<remuda_sim::Error>,
    },
    /// A link is none.
    #[error("{run}: {source}")]
    Link {
        /// The environment, driver and seed.
        run: String,
        source: remuda_link::SpecError,
    },
    /// Arrivals at random, and none came.
    #[error("{run}: no tested flow arrived; raise load_mbit_per_sec or duration_s")]
    NoFlow {
        /// The environment, driver and seed.
        run: String,
    },
    /// An arm failed, and its flow was given to another one.
    #[error("{run}: {driver} gave its flow up after {t_s:.1} s: {why}")]
    GaveUp {
        /// The environment, driver and seed.
        run: String,
        driver: String,
        t_s: f64,
        why: String,
    },
    /// A defect of ours.
    #[error("{run}: a defect of the simulator, see above")]
    Defect {
        /// The environment, driver and seed.
        run: String,
    },
    /// It was run elsewhere, and failed there.
    #[error("{run}: {why}")]
    Elsewhere {
        /// The environment, driver and seed.
        run: String,
        /// What was said there.
        why: String,
    },
    /// What was to run jobs elsewhere does not.
    #[error(transparent)]
    Remote(#[from] Box<crate::remote::RemoteError>),
    /// A file of an author's, or of what it may import, cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    AuthorFile {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Too much lies beside an author's file.
    #[error(
        "{path}: below its folder are more than {files} .py files, or {mib} MiB of them, which it \
         may import, and each decides what its arms do\n\
         fix: a folder of its own for it, or --fresh, which keeps nothing",
        path = .path.display()
    )]
    AuthorFolder {
        path: PathBuf,
        /// How many there may be.
        files: usize,
        /// How large they may be, together.
        mib: u64,
    },
    /// The store cannot be written, or a trace not read.
    #[error("{path}: {source}", path = .path.display())]
    Store {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
