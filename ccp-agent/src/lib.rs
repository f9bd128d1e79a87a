//! The agent: it takes every datapath's reports, lets a controller decide for each flow, guards and
//! records what it decides, and sends it back.
//!
//! ```text
//! datapath ─▶ ipc (validates) ─▶ portus ─▶ host ─▶ flow: decode ▶ controller ▶ guard ─▶ registers
//!                                            ▲                        events ─▶ log
//!                              control socket┘
//! ```

pub mod agent;
pub mod application;
pub mod author;
pub mod catalogue;
pub mod child;
pub mod clock;
pub mod companions;
pub mod config;
pub mod control;
pub mod decode;
mod error;
pub mod events;
pub mod flow;
pub mod guard;
pub mod host;
pub mod ipc;
pub mod memory;
pub mod online;
mod portus_side;
pub mod prefer;
pub mod programs;
pub mod run_dir;
pub mod samples;
mod state_file;
mod trial;

pub use config::Config;
pub use error::Error;
