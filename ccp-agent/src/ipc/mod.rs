//! The ways to datapaths: in this process, through a device, behind a socket, by netlink. Messages
//! are read and written here and nowhere else in the agent.

mod bpf;
mod libccp;
mod module;
mod netlink;
mod outbox;
mod unix;

pub use bpf::BpfEnd;
pub use module::{DEVICE, ModuleEnd};
pub use netlink::NetlinkEnd;
pub use unix::UnixEnd;
