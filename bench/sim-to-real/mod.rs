//! The same scenario in the simulator and on real TCP.
//!
//! A scenario file runs on real TCP (`remuda_live::real`), once with the kernel's own algorithms
//! and once with ours under the agent, and in the simulator; [`guests`] makes the live runs in
//! virtual machines. [`measure`] runs all sides of many scenarios, [`verdict`] compares them, and
//! [`table`] writes the result.

pub mod cell;
pub mod cost;
mod error;
pub mod guests;
pub mod measure;
pub mod table;
pub mod verdict;

pub use error::Error;
