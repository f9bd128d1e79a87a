//! Antelope: boosted trees pick each flow's arm, before it starts and while it runs.

mod age;
mod before_after;
mod caution;
pub mod config;
mod earned;
pub mod memory;
pub mod model;
pub mod policy;
pub mod reward;
pub mod sampler;
