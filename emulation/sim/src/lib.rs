//! The simulator: the real controllers of the agent over simulated TCP, in simulated time.
//!
//! ```text
//! application ─▶ sender ─▶ links (remuda-link) ─▶ receiver
//!                ▲  │                                │
//!         window │  ▼ primitives       links ◀─ ACKs ┘
//!                datapath: the program in the VM ─▶ agent: decode ▸ controller ▸ guard
//! ```
//!
//! A flow that starts with the scenario is already established: it knows the idle round trip from
//! its handshake. A later flow begins with a handshake over the links (`handshake.rs`). The
//! simulator uses one thread, integer nanoseconds and one seed: the same scenario gives the same
//! bytes on every machine. Sender and receiver do what Linux does where it matters to congestion
//! control; the head of each file lists what differs.
//!
//! ```
//! use remuda_scenarios::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     duration_s = 5
//!     [links.down]
//!     rate_mbit_per_sec = 12
//!     delay_ms = 10
//!     queue = { kind = "droptail", limit_bdp = 1 }
//!     [links.up]
//!     delay_ms = 10
//!     [[flows]]
//!     driver = "reno"
//!     "#,
//!     "one reno",
//! )?;
//! let outcome = remuda_sim::run(&scenario)?;
//! assert!(outcome.flows[0].goodput_mbit_per_sec > 9.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod control;
mod cwnd;
mod datapath;
mod decisions;
mod delays;
mod destinations;
mod error;
mod external;
mod flow;
mod handshake;
mod in_process;
mod packet;
pub mod recording;
mod series;
mod setup;
mod simulation;
mod summary;
mod tcp;
mod timers;
mod unresponsive;

pub use ccp_agent::Setup;
pub use decisions::Staged;
pub use error::Error;
pub use simulation::{Simulation, configured, run, run_unless};
