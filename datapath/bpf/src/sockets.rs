//! Finds the flow of a socket from the socket's descriptor.
//!
//! The kernel finds a socket's storage by the descriptor. So a process can only name flows whose
//! sockets it holds: addresses, which repeat in other network namespaces, and guessed numbers have
//! no effect.

use crate::layout::Flow;
use crate::maps::Map;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// The map of the flows' socket storage. Any thread may use it; a clone is the same map.
#[derive(Clone, Debug)]
pub struct Sockets {
    flows: Arc<Mutex<Arc<Map>>>,
}

impl Sockets {
    pub(crate) fn new(flows: Arc<Map>) -> Self {
        Self { flows: Arc::new(Mutex::new(flows)) }
    }

    /// Looks flows up in the map of `newer` from now on, as do all clones.
    pub fn become_those_of(&self, newer: &Self) {
        let flows = newer.map();
        *self.flows.lock().unwrap_or_else(PoisonError::into_inner) = flows;
    }

    fn map(&self) -> Arc<Map> {
        Arc::clone(&self.flows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The sid of a socket's flow; `None` if the descriptor is not a socket or the socket's flow is
    /// not this datapath's.
    pub fn sid(&self, socket: BorrowedFd<'_>) -> Option<u32> {
        let storage = self.map().lookup(&socket.as_raw_fd().to_ne_bytes())?;
        let at = offset_of!(Flow, sid);
        let word = storage.get(at..at + size_of::<u32>())?;
        let sid = u32::from_ne_bytes(word.try_into().ok()?);
        (sid != 0).then_some(sid)
    }
}
