//! The ways to datapaths: in this process, through a device, behind a socket. Messages are read and
//! written here and nowhere else in the agent.

mod bpf;
mod module;
mod unix;

pub use bpf::BpfEnd;
pub use module::{DEVICE, ModuleEnd};
pub use unix::UnixEnd;
