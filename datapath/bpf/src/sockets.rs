//! Finds the flow of a socket from the socket's descriptor.
//!
//! The kernel finds a socket's storage by the descriptor. So a process can only name flows whose
//! sockets it holds: addresses, which repeat in other network namespaces, and guessed numbers have
//! no effect.

use crate::layout::Flow;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The map of the flows' socket storage. Any thread may use it.
#[derive(Debug)]
pub struct Sockets {
    flows: MapHandle,
}

impl Sockets {
    pub(crate) fn new(flows: MapHandle) -> Self {
        Self { flows }
    }

    /// The sid of a socket's flow; `None` if the descriptor is not a socket or the socket's flow is
    /// not this datapath's.
    pub fn sid(&self, socket: BorrowedFd<'_>) -> Option<u32> {
        let key = socket.as_raw_fd().to_ne_bytes();
        let storage = self.flows.lookup(&key, MapFlags::ANY).ok()??;
        let at = offset_of!(Flow, sid);
        let word = storage.get(at..at + size_of::<u32>())?;
        let sid = u32::from_ne_bytes(word.try_into().ok()?);
        (sid != 0).then_some(sid)
    }
}
