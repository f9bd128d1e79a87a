//! The time that a client has.

use crate::clock;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{MsgFlags, send};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// When the agent hangs up on a client.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// By the monotonic clock, in microseconds.
    at_us: u64,
}

impl Deadline {
    /// The moment so long from now.
    pub fn after(limit: Duration) -> Self {
        let limit_us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Self { at_us: clock::monotonic_us().saturating_add(limit_us) }
    }

    /// Waits until the socket has bytes, or room.
    pub fn wait(self, socket: &OwnedFd, what: PollFlags) -> io::Result<()> {
        loop {
            let left_us = self.at_us.saturating_sub(clock::monotonic_us());
            if left_us == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let left_ms = u16::try_from(left_us.div_ceil(1_000)).unwrap_or(u16::MAX);
            match poll(&mut [PollFd::new(socket.as_fd(), what)], left_ms) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Sends all bytes before the deadline.
pub fn send_all(socket: &OwnedFd, mut bytes: &[u8], deadline: Deadline) -> io::Result<()> {
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    while !bytes.is_empty() {
        match send(socket.as_raw_fd(), bytes, flags) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::EAGAIN) => deadline.wait(socket, PollFlags::POLLOUT)?,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
