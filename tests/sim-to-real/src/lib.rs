//! The same scenario in the simulator and on real TCP.
//!
//! [`live`] runs a scenario file on this kernel's TCP, by the kernel's own algorithms or by ours
//! under the agent, and makes the same outcome of it as the simulator does; [`guests`] has that
//! done in virtual machines. [`measure`] runs all
//! sides of many scenarios, [`verdict`] compares them, [`table`] and [`document`] write it down.

pub mod agents;
pub mod cell;
pub mod cost;
pub mod document;
mod error;
pub mod guests;
pub mod live;
pub mod measure;
pub mod table;
pub mod verdict;

pub use error::Error;
