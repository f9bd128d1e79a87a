//! The CCP datapath on the running Linux kernel, without a module.
//!
//! One `tcp_congestion_ops` is registered by BPF struct_ops. Every CCP program the agent installs
//! is compiled to straight-line BPF ([`compile`]), spliced into a template ([`splice`]) and entered
//! by tail call, so a flow changes its program by one word. The agent writes windows, rates and
//! control registers to slots in shared memory ([`slots`]); the flows report through ring buffers.
//! [`Datapath`] gives an agent in this process events and takes its orders; an agent in another
//! process uses CCP messages.

mod admission;
pub mod announce;
mod attachments;
pub mod broker;
mod cgroups;
pub mod compile;
mod datapath;
mod default_algorithm;
mod destinations;
mod error;
pub mod insn;
mod iterator;
mod kernel;
pub mod layout;
mod libbpf;
mod load;
mod maps;
mod messages;
mod namespaces;
mod native;
mod natives;
mod owner;
mod privileged;
mod privileges;
mod reconcile;
mod records;
mod settings;
pub mod slots;
mod sockets;
pub mod splice;

pub use admission::{Admission, Reason, Refused};
pub use attachments::Attachments;
pub use cgroups::CgroupChange;
pub use datapath::{DRAIN_RECORDS_MAX, Datapath, Sink};
pub use default_algorithm::DefaultAlgorithm;
pub use destinations::{Reached, RememberedStart};
pub use error::Error;
pub use kernel::{OpsMember, load_program, ops_member};
pub use load::check_name;
pub use namespaces::mend_defaults;
pub use native::{available, check_exists as check_native, registered};
pub use natives::LOOK_INTERVAL;
pub use privileges::{Registered, Started, Walked};
pub use settings::{Plan, Settings};
pub use sockets::Sockets;
