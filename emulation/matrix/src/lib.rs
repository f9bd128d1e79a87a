//! The test matrix: drivers × environments × seeds, each a run, each run a row.
//!
//! A [`Plan`] lists the runs. [`run()`] executes them on several threads. It first asks a [`Store`]
//! for a run of the same content and stores what it ran itself, so a matrix that was stopped
//! continues, and no run is made twice. [`run_remotely`] does the same with a process that runs the
//! jobs elsewhere, each sent as [`Work`]. A [`Row`] is the result of a run, in the
//! [metrics](metrics) of `emulation/matrix/README.md`.

mod author;
mod author_data;
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
pub use metrics::{Changes, Course, STEP_S, median, over_time};
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
