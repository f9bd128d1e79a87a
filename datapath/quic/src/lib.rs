//! QUIC as a CCP datapath: each connection of a process runs the agent's program at every ACK, and
//! obeys its window and its pacing rate.
//!
//! For noq, [`Factory`] is a congestion controller factory:
//!
//! ```
//! # use std::sync::Arc;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use remuda_quic::{Datapath, Factory, Settings};
//!
//! let remuda = Datapath::start(Settings::default())?; // once a process
//! let mut transport = noq_proto::TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(Factory::new(&remuda)));
//! # Ok(())
//! # }
//! ```
//!
//! For another stack, [`Flow`] is what its controller wraps: `remuda-quinn` does. What each
//! primitive means, what QUIC cannot say, and what happens without an agent is in README.md.

mod clock;
mod datapath;
mod flow;
mod ledger;
#[cfg(feature = "noq")]
mod noq;
#[cfg(test)]
mod played;
mod reno;
mod socket;

pub use clock::Clock;
pub use datapath::{CAPABILITIES, Datapath, Error, Settings};
pub use flow::{Flow, Identity};
pub use ledger::PACKETS_MAX;
#[cfg(feature = "noq")]
pub use noq::Factory;
pub use remuda_vm::Counters;
pub use remuda_wire::capability;
pub use socket::WAITING_MAX;
