//! The same scenario in the simulator and on real TCP.
//!
//! A scenario file runs on real TCP (`remuda_real`), by the kernel's own algorithms and by ours
//! under the agent, and in the simulator; [`guests`] has the former done in virtual machines.
//! [`measure`] runs all sides of many scenarios, [`verdict`] compares them, [`table`] and
//! [`document`] write it down.

pub mod cell;
pub mod cost;
mod error;
pub mod guests;
pub mod measure;
pub mod table;
pub mod verdict;

pub use error::Error;
