//! Linux TCP by the kernel module (`datapath/kernel`), through its character device.
//!
//! The module may be loaded while the agent runs: the device is looked for until it is there. It
//! cannot be unloaded before the agent has ended. It has one agent at a time. What that says ends
//! with its file: closing it makes every flow fall back, at its next ACK.

use crate::clock;
use crate::datapath::{Agent, Datapath, Obey, Peer};
use remuda_wire::{Inbox, Kind, Order, to_datapath::encode_bare};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub const DEVICE: &str = "/dev/ccpkp";
/// Room for many records: the device gives as many whole ones as fit.
const READ_BYTES: usize = 1 << 16;
/// Flows fall back when the module has not heard of us for 150 ms, by default.
const BEAT_INTERVAL_NS: u64 = 25_000_000;
/// As of the unix datapaths.
const RESYNC_INTERVAL_NS: u64 = 1_000_000_000;
/// Of a message: type, length, sid.
const HEADER_BYTES: usize = 8;

pub struct ModuleEnd {
    path: PathBuf,
    file: Option<File>,
    /// Why it could not be opened the last time.
    last_error: Option<ErrorKind>,
    beaten_ns: u64,
    resynced_ns: u64,
    buffer: Vec<u8>,
    inbox: Inbox,
    /// Room to write an order in.
    out: Vec<u8>,
}

/// One of several messages, by its own length, and what follows; `None` if it makes no sense.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u16::from_le_bytes([*bytes.get(2)?, *bytes.get(3)?]).into();
    if length < HEADER_BYTES { None } else { bytes.split_at_checked(length) }
}

impl ModuleEnd {
    /// For the device at `path`, which need not be there yet.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            last_error: None,
            beaten_ns: 0,
            resynced_ns: 0,
            buffer: vec![0; READ_BYTES],
            inbox: Inbox::default(),
            out: Vec::new(),
        }
    }

    /// Opens the device if it is there. An error is one refusal, and no other one until it changes.
    pub fn open(&mut self, agent: &mut dyn Agent) {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(nix::libc::O_NONBLOCK);
        match options.open(&self.path) {
            Ok(file) => {
                self.file = Some(file);
                self.last_error = None;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => self.last_error = None,
            Err(error) => {
                if self.last_error.replace(error.kind()) != Some(error.kind()) {
                    let fix = match error.kind() {
                        ErrorKind::ResourceBusy => "; fix: stop the agent that has it open",
                        ErrorKind::PermissionDenied => "; fix: run the agent as root",
                        _ => "",
                    };
                    let reason = format!("{}: {error}{fix}", self.path.display());
                    agent.refused(&Peer::Module, reason);
                }
            }
        }
    }

    /// Takes the messages of one read, one after the other.
    fn take(&mut self, bytes: usize, agent: &mut dyn Agent) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut inbox = std::mem::take(&mut self.inbox);
        let mut rest = &buffer[..bytes];
        while !rest.is_empty() {
            let Some((message, behind)) = split(rest) else {
                let reason = format!("{} bytes that are no message", rest.len());
                agent.refused(&Peer::Module, reason);
                break;
            };
            let taken = inbox.take(message, |event| agent.event(self, &Peer::Module, event));
            if let Err(error) = taken {
                agent.refused(&Peer::Module, error.to_string());
            }
            rest = behind;
        }
        self.buffer = buffer;
        self.inbox = inbox;
    }

    /// Writes a message; the device takes it whole, or says why not. It does not wait.
    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        match &mut self.file {
            Some(file) => file.write(message).map(|_| ()),
            None => Ok(()), // its flows have ended for us
        }
    }

    fn send_bare(&mut self, kind: Kind) {
        let mut message = Vec::new();
        encode_bare(&mut message, kind);
        // If the module is going away, the next read says so.
        let _ = self.send(&message);
    }
}

impl Obey for ModuleEnd {
    fn order(&mut self, _peer: &Peer, order: &Order<'_>) -> Result<(), String> {
        let mut out = std::mem::take(&mut self.out);
        order.encode(&mut out);
        let sent = self.send(&out);
        self.out = out;
        sent.map_err(|error| error.to_string())
    }

    fn resync(&mut self, _peer: &Peer) {
        let now_ns = clock::monotonic_ns();
        if now_ns.saturating_sub(self.resynced_ns) >= RESYNC_INTERVAL_NS {
            self.resynced_ns = now_ns;
            self.send_bare(Kind::Resync);
        }
    }
}

impl Datapath for ModuleEnd {
    fn reaches(&self, peer: &Peer) -> bool {
        *peer == Peer::Module
    }

    fn beat(&mut self, now_ns: u64) {
        let is_due = now_ns.saturating_sub(self.beaten_ns) >= BEAT_INTERVAL_NS;
        if self.file.is_some() && is_due {
            self.beaten_ns = now_ns;
            self.send_bare(Kind::Heartbeat);
        }
    }

    fn drain(&mut self, agent: &mut dyn Agent, _now_ns: u64) -> bool {
        let Some(file) = &mut self.file else { return false };
        let error = match file.read(&mut self.buffer) {
            Ok(0) => ErrorKind::UnexpectedEof.into(),
            Ok(bytes) => {
                self.take(bytes, agent);
                return true;
            }
            Err(error) => error,
        };
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
            self.file = None;
            agent.lost(&Peer::Module, error.to_string());
        }
        false
    }

    /// Looks for the device, if it is not open.
    fn keep_house(&mut self, agent: &mut dyn Agent, _now_ns: u64) {
        if self.file.is_none() {
            self.open(agent);
        }
    }

    fn poll_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.file.iter().map(AsFd::as_fd).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_by_their_own_lengths() {
        let two = [8, 0, 8, 0, 0, 0, 0, 0, 5, 0, 12, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        let (first, rest) = split(&two).expect("a message");
        assert_eq!(first, &two[..8]);
        assert_eq!(split(rest), Some((&two[8..], &[][..])));
        for bad in [&two[..3], &[8, 0, 7, 0, 0, 0, 0, 0], &[8, 0, 9, 0, 0, 0, 0, 0]] {
            assert_eq!(split(bad), None, "{bad:?}");
        }
    }
}
