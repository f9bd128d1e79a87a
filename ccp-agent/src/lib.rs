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
pub mod catalogue;
pub mod child;
pub mod clock;
pub mod config;
pub mod control;
pub mod datapath;
pub mod decode;
mod error;
mod event_budget;
pub mod events;
pub mod flow;
pub mod flows;
pub mod guard;
pub mod host;
pub mod ipc;
pub mod learning;
pub mod lock;
pub mod memory;
pub mod online;
pub mod prefer;
pub mod programs;
pub mod run_dir;
pub mod run_loop;
pub mod samples;
pub mod setup;
mod state_file;
mod trial;
mod user_budget;
pub mod users;
pub mod waiter;

pub use config::Config;
pub use error::{Error, Place};
pub use setup::Setup;
