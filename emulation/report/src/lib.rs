//! The report of a test matrix: one page that needs no network, and what changed since another
//! matrix.
//!
//! A [`Matrix`] is a table of `remuda matrix`. [`Board`] is all that the page shows of it:
//! environments and drivers with their cells, [slices](Slice) of the environments with the ranking
//! in each, who starves whom, which pass/fail lines are missed; beside it a [`Diff`] against
//! another matrix and [`Series`] of runs that were asked for. [`page`] makes HTML of it, and
//! whatever else wants to show it (`remuda report --text`) has the same numbers.

mod arms;
mod board;
mod cloud;
mod decisions;
mod diff;
mod error;
mod matrix;
mod metric;
mod page;
mod plot;
mod series;
mod slice;

pub use board::{Board, Cell, HarmTo, Place, Starved};
pub use cloud::Cloud;
pub use decisions::Decision;
pub use diff::{Change, Diff, DriverDiff, Verdict};
pub use error::Error;
pub use matrix::Matrix;
pub use metric::{METRICS, Metric};
pub use page::page;
pub use plot::{Plot, plots};
pub use series::{FlowSeries, LinkSeries, RUNS_MAX, Series, Wanted};
pub use slice::{Buffer, Slice};
