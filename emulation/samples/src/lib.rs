//! Environments drawn by seed, and samples of each arm in them: the data from which selectors
//! learn.
//!
//! Each environment is simulated with one arm throughout, then once for each other arm, which takes
//! over from the first one at a time that the environment's seed decides, and once for each random
//! plan, in which arms alternate. Except for the arm, the seed decides everything, so all runs of
//! an environment see the same path at the same time. The runs therefore show what each arm
//! achieves on the path from the moment on at which it takes over. A collection without random
//! plans has one run of each arm, which keeps the flow throughout.
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
