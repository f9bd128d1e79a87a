//! The VM of datapath programs, and a datapath around it.
//!
//! The code is C, in `include/`: `remuda_vm.h` runs programs; `remuda_datapath.h` has flows,
//! messages and fallback. The kernel module and QUIC compile the same code. This crate is the safe
//! wrapper: [`Program`] and [`Machine`] for callers with flows of their own (the simulator),
//! [`Datapath`] for a whole CCP datapath.
//!
//! Semantics, limits and differences from libccp are in the folder's README.md.

mod datapath;
mod ffi;
mod machine;
mod program;
mod reduction;
mod refusal;

pub use datapath::{
    Ack, Control, Datapath, Error, FLOWS, FlowStart, Ops, PROGRAMS, SIGNAL_APP_LIMITED,
    SIGNAL_CWND_FULL, SIGNAL_CWND_HALF, SIGNAL_IN_RECOVERY, SIGNAL_RESTARTED, SIGNAL_RWND_LIMITED,
    SIGNAL_SNDBUF_LIMITED, SIGNAL_UNDONE, Settings,
};
pub use ffi::Counters;
pub use machine::{Machine, Primitives, RTT_NONE, Ran};
pub use program::Program;
pub use reduction::Repair;
pub use refusal::{Reason, Refusal};
