//! Messages that wait until their datapath has room.

use nix::errno::Errno;
use std::collections::VecDeque;

/// A datapath that has not taken this many messages is stalled.
const QUEUE_MAX: usize = 1_024;

/// The messages of one datapath, in the order in which the agent sends them.
#[derive(Default)]
pub struct Outbox {
    waiting: VecDeque<Vec<u8>>,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends a message by `try_send`, or queues it while the datapath has no room. The error says
    /// why the datapath must be given up.
    pub fn send(
        &mut self,
        message: &[u8],
        try_send: impl FnOnce(&[u8]) -> nix::Result<()>,
    ) -> Result<(), &'static str> {
        if !self.waiting.is_empty() || !was_taken(try_send(message))? {
            self.waiting.push_back(message.to_vec());
            if self.waiting.len() > QUEUE_MAX {
                return Err("it does not read");
            }
        }
        Ok(())
    }

    /// Sends what waits, as far as there is room. The error is as of [`Outbox::send`].
    pub fn flush(
        &mut self,
        try_send: impl Fn(&[u8]) -> nix::Result<()>,
    ) -> Result<(), &'static str> {
        while let Some(message) = self.waiting.front() {
            if !was_taken(try_send(message))? {
                break;
            }
            self.waiting.pop_front();
        }
        Ok(())
    }
}

/// Whether the datapath had room for a message. The error says why the datapath must be given up.
pub fn was_taken(sent: nix::Result<()>) -> Result<bool, &'static str> {
    match sent {
        Ok(()) => Ok(true),
        Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno.desc()),
    }
}
