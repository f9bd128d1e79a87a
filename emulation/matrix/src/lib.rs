//! The test matrix: drivers × environments × seeds, each a run, each run a row.
//!
//! A [`Plan`] says what is to run. [`run()`] does it, many at a time, asks a [`Store`] first
//! whether a run of the same content is there already, and keeps what it did: so a matrix that was
//! stopped goes on, and one run is never run twice. [`run_remotely`] does the same by a process
//! that has them run elsewhere, each as [`Work`]. A [`Row`] is what came of a run, in the
//! [metrics](metrics) of `emulation/matrix/README.md`.

mod author;
mod author_files;
mod error;
mod harm;
mod interval;
pub mod metrics;
mod plan;
mod ranking;
mod remote;
mod remote_run;
mod row;
mod run;
mod shared;
mod store;
mod versus;
mod work;
mod worker;

pub use author::start_author;
pub use author_files::AuthorFiles;
pub use error::Error;
pub use harm::{Harm, harms};
pub use interval::{Drawn, ENOUGH, Interval, bootstrap, median_of};
pub use metrics::median;
pub use plan::{Job, Only, Plan, suite_named};
pub use ranking::{Rank, ranking};
pub use remote::RemoteError;
pub use remote_run::{Ran, run_remotely};
pub use row::{ROWS, Row, scenario_hash};
pub use run::{Done, Kept, Progress, Unkept, Watched, measure, measure_each, run, run_each};
pub use store::{Store, code_version};
pub use versus::{Loss, Versus, versus};
pub use work::{BUILD, Work};
pub use worker::Worker;
