//! Environments drawn by seed, and what each arm does in them: what selectors learn from.
//!
//! Each environment is simulated once for each arm, which has the flow throughout, and once for
//! each random plan, in which arms take turns. All runs of an environment see the same path at the
//! same time, as everything but the arm is decided by the seed: so the fixed runs say, for each
//! moment of any run, what each arm would make of the path from there on.
//!
//! ```text
//! seed ─▶ draw: an environment ─▶ plan: who rides when ─▶ collect: simulate ─▶ row: Parquet
//! ```

pub mod collect;
pub mod draw;
pub mod plan;
pub mod row;
pub mod suite;

pub use collect::{Collection, Error, Progress, collect};
pub use suite::suite;
