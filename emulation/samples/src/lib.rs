//! Environments drawn by seed, and samples of each arm in them: the data from which selectors
//! learn.
//!
//! Each environment is simulated once for each arm, which keeps the flow throughout, and once for
//! each random plan, in which arms alternate. Except for the arm, the seed decides everything, so
//! all runs of an environment see the same path at the same time. The runs of single arms therefore
//! show, for each moment of any run, what each arm would achieve on the path from then on.
//!
//! ```text
//! seed ─▶ draw: an environment ─▶ plan: which arm when ─▶ collect: simulate ─▶ row: Parquet
//! ```

pub mod collect;
pub mod draw;
pub mod family;
pub mod learning;
pub mod plan;
pub mod row;
mod share;
pub mod suite;

pub use collect::{Collection, Error, Progress, collect};
pub use suite::suite;
