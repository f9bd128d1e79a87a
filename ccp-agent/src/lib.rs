//! The agent: it takes every datapath's reports, lets a controller decide for each flow, guards and
//! records what it decides, and sends it back.
//!
//! ```text
//! datapath ─▶ host ─▶ flows ─▶ flow: decode ▶ controller ▶ guard ─▶ order ─▶ datapath
//!              ▲                                events ─▶ log
//! control socket┘
//! ```

pub mod admission;
pub mod agent;
pub mod application;
pub mod author;
mod bucket;
pub mod catalogue;
pub mod child;
mod client;
pub mod clock;
pub mod confidence;
pub mod config;
pub mod control;
pub mod counts;
pub mod datapath;
pub mod decode;
mod error;
mod event_budget;
pub mod events;
#[cfg(test)]
mod faults;
pub mod flow;
pub mod flows;
pub mod guard;
pub mod host;
pub mod interval;
pub mod ipc;
pub mod iw;
pub mod learning;
pub mod lock;
pub mod memory;
pub mod metrics;
mod nofile;
pub mod online;
pub mod prefer;
pub mod programs;
pub mod reload;
pub mod rules;
pub mod run_dir;
pub mod run_loop;
pub mod samples;
pub mod select;
pub mod service;
pub mod setup;
mod standing;
mod state_file;
mod trial;
mod trouble;
mod user_budget;
pub mod users;
pub mod waiter;

pub use config::Config;
pub use error::{Error, Place};
pub use setup::Setup;
