//! Which flow a socket is, for whoever holds its descriptor.
//!
//! The kernel finds a socket's storage by the descriptor, so neither addresses, which other network
//! namespaces have too, nor numbers that could be guessed say which flow it is.

use crate::layout::Flow;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The storage of the flows' sockets. It may be asked from any thread.
#[derive(Debug)]
pub struct Sockets {
    flows: MapHandle,
}

impl Sockets {
    pub(crate) fn new(flows: MapHandle) -> Self {
        Self { flows }
    }

    /// The number by which messages name the flow of a socket; `None` if it is none of this
    /// datapath's, or no socket.
    pub fn sid(&self, socket: BorrowedFd<'_>) -> Option<u32> {
        let key = socket.as_raw_fd().to_ne_bytes();
        let storage = self.flows.lookup(&key, MapFlags::ANY).ok()??;
        let at = offset_of!(Flow, sid);
        let word = storage.get(at..at + size_of::<u32>())?;
        let sid = u32::from_ne_bytes(word.try_into().ok()?);
        (sid != 0).then_some(sid)
    }
}
