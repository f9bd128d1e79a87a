//! QUIC as a CCP datapath: each connection of a process runs the agent's program at every ACK, and
//! uses the window and the pacing rate that result.
//!
//! For noq, use [`Factory`], a congestion controller factory:
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
//! For another QUIC stack, wrap a [`Flow`] in its congestion controller, as the module `quinn`
//! does. README.md describes what each primitive means, what QUIC cannot provide, and what happens
//! without an agent.

mod clock;
mod datapath;
mod flow;
mod ledger;
#[cfg(feature = "noq")]
mod noq;
#[cfg(test)]
mod played;
#[cfg(feature = "quinn")]
pub mod quinn;
mod reno;
mod socket;
#[cfg(feature = "transfer")]
pub mod transfer;

#[cfg(feature = "noq")]
pub use self::noq::Factory;
pub use clock::Clock;
pub use datapath::{CAPABILITIES, Datapath, Error, Settings};
pub use flow::{Flow, Identity};
pub use ledger::PACKETS_MAX;
pub use remuda_vm::Counters;
pub use remuda_wire::capability;
pub use socket::WAITING_MAX;
