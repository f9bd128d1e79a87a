//! Least privilege: an agent without any privilege asks a broker, which has them.
//!
//! The broker loads the BPF object, registers the algorithm, attaches cgroups and visits other
//! network namespaces. It gives the agent descriptors of the maps, and then no report and no order
//! passes it. It obeys one agent at a time, of one user. What the agent can ask for is the list of
//! [`frame::Request`]: no request names a file or a process, and a program is checked and compiled
//! by the broker itself.
//!
//! If the agent dies, the broker keeps the algorithm registered, and its flows run the datapath's
//! own Reno until the next agent comes, or until the broker gives them back to the kernel's own
//! algorithm after a time. If the broker dies, the agent keeps the algorithm registered.

mod client;
mod frame;
mod server;

pub use client::{Client, Unreached};
pub use frame::refuse_descriptors;
pub use server::{Broker, Notice, Patience};
