//! The author's end of a line, for tests.

use super::frame::FRAME_BYTES_MAX;
use super::line::Line;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, recv, send, setsockopt, socketpair, sockopt,
};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// First byte of the frames that the fake author receives.
pub const RESUME: u8 = 10;
pub const MEASURE: u8 = 11;
pub const CLOSE: u8 = 12;

/// One end of a socket pair.
#[derive(Debug)]
pub struct Fake(OwnedFd);

pub fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SockFlag::SOCK_CLOEXEC;
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).expect("two sockets")
}

/// A line whose send buffer holds a few hundred frames, whatever the host's default, and the fake
/// author at its other end.
pub fn line(waits: bool, limit: Duration) -> (Line, Fake) {
    let (ours, theirs) = pair();
    setsockopt(&ours, sockopt::SndBuf, &(64 << 10)).expect("a size that the kernel takes");
    (Line::new(ours, waits, limit), Fake(theirs))
}

impl From<OwnedFd> for Fake {
    fn from(end: OwnedFd) -> Self {
        Self(end)
    }
}

impl Fake {
    /// Sends a frame. Returns false if the other end is closed.
    pub fn say(&self, frame: &[u8]) -> bool {
        send(self.0.as_raw_fd(), frame, MsgFlags::MSG_NOSIGNAL).is_ok()
    }

    /// The next frame; `None` if none has arrived.
    pub fn hear(&self) -> Option<Vec<u8>> {
        self.receive(MsgFlags::MSG_DONTWAIT)
    }

    /// Waits for the next frame; `None` if the other end is closed.
    pub fn wait(&self) -> Option<Vec<u8>> {
        self.receive(MsgFlags::empty())
    }

    fn receive(&self, flags: MsgFlags) -> Option<Vec<u8>> {
        let mut frame = vec![0; FRAME_BYTES_MAX];
        let bytes = recv(self.0.as_raw_fd(), &mut frame, flags).ok().filter(|bytes| *bytes > 0)?;
        frame.truncate(bytes);
        Some(frame)
    }
}

/// The flow that a frame is about.
pub fn flow_of(frame: &[u8]) -> u32 {
    u32::from_le_bytes(frame[1..5].try_into().expect("four bytes"))
}

/// The acknowledged bytes in a `MEASURE`.
pub fn acked(frame: &[u8]) -> u64 {
    word(frame, 17)
}

/// The eight bytes of a frame at `at`.
pub fn word(frame: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(frame[at..at + 8].try_into().expect("eight bytes"))
}

/// A decision with this window, which is handed off as well.
pub fn decision(flow: u32, seq: u32, cwnd: u64) -> Vec<u8> {
    let words = [cwnd, u64::MAX, cwnd, u64::MAX, u64::MAX].map(u64::to_le_bytes).concat();
    let head = [flow, seq].map(u32::to_le_bytes).concat();
    [&[2], head.as_slice(), words.as_slice(), &[0, 0]].concat()
}

pub fn failed(flow: u32, text: &str) -> Vec<u8> {
    [&[3], flow.to_le_bytes().as_slice(), text.as_bytes()].concat()
}
