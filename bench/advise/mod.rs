//! Asks `remuda advise` about simulated paths that it never saw, and compares its verdicts with
//! what the other arm truly does there.

pub mod page;
pub mod scene;
