//! The report of a test matrix: one page that needs no network, and a comparison with another
//! matrix.
//!
//! A [`Matrix`] is a table of `remuda matrix`. [`Board`] has all that the page shows of the matrix:
//! environments and drivers with their cells, [slices](Slice) of the environments with a ranking
//! each, starved flows and failed pass/fail lines. A [`Diff`] compares with another matrix, and
//! [`Series`] are time series of chosen runs. [`page`] makes the HTML; other views, such as `remuda
//! report --text`, use the same numbers.

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
