//! Linux TCP by the kernel module (`datapath/kernel`), through its character device.
//!
//! The module may be loaded while the agent runs: the device is looked for until it is there. It
//! cannot be unloaded before the agent has ended. It has one agent at a time. What that says ends
//! with its file: closing it makes every flow fall back, at its next ACK.

use super::{Peer, lock};
use crate::clock;
use crate::events::Event;
use crate::host::Host;
use remuda_wire::{Kind, to_datapath::encode_bare};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

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
    /// Why it could not be opened, lest that is said each time.
    said: Option<ErrorKind>,
    beaten_ns: u64,
    resynced_ns: u64,
    buffer: Vec<u8>,
}

/// One of several messages, by its own length, and what follows; `None` if it makes no sense.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u16::from_le_bytes([*bytes.get(2)?, *bytes.get(3)?]).into();
    if length < HEADER_BYTES { None } else { bytes.split_at_checked(length) }
}

impl ModuleEnd {
    /// For the device at `path`, which need not be there yet.
    pub fn new(path: &Path, host: &Mutex<Host>) -> Self {
        let (path, buffer) = (path.to_owned(), vec![0; READ_BYTES]);
        let mut end = Self { path, file: None, said: None, beaten_ns: 0, resynced_ns: 0, buffer };
        end.open(host);
        end
    }

    /// Whether the module has us.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// What to wait for.
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    fn open(&mut self, host: &Mutex<Host>) {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(nix::libc::O_NONBLOCK);
        match options.open(&self.path) {
            Ok(file) => {
                self.file = Some(file);
                self.said = None;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => self.said = None,
            Err(error) => {
                if self.said.replace(error.kind()) != Some(error.kind()) {
                    let fix = match error.kind() {
                        ErrorKind::ResourceBusy => "; fix: stop the agent that has it open",
                        ErrorKind::PermissionDenied => "; fix: run the agent as root",
                        _ => "",
                    };
                    let reason = format!("{}: {error}{fix}", self.path.display());
                    lock(host).refuse(&Peer::Module, reason);
                }
            }
        }
    }

    /// Reads what there is, message by message.
    pub fn receive(&mut self, host: &Mutex<Host>, mut sink: impl FnMut(&[u8])) {
        let Some(file) = &mut self.file else { return };
        let error = match file.read(&mut self.buffer) {
            Ok(0) => ErrorKind::UnexpectedEof.into(),
            Ok(bytes) => {
                let mut rest = &self.buffer[..bytes];
                while !rest.is_empty() {
                    let Some((message, behind)) = split(rest) else {
                        let reason = format!("{} bytes that are no message", rest.len());
                        return lock(host).refuse(&Peer::Module, reason);
                    };
                    sink(message);
                    rest = behind;
                }
                return;
            }
            Err(error) => error,
        };
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
            self.file = None;
            let mut host = lock(host);
            host.close_all(&Peer::Module);
            let (datapath, reason) = (Peer::Module.to_string(), error.to_string());
            host.record(&Event::DatapathLost { datapath, reason });
        }
    }

    /// Passes a message on; the device takes it whole, or says why not. It does not wait.
    pub fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        match &mut self.file {
            Some(file) => file.write(message).map(|_| ()),
            None => Ok(()), // its flows have ended for us
        }
    }

    /// Looks for the device, if it is not open.
    pub fn keep_house(&mut self, host: &Mutex<Host>) {
        if self.file.is_none() {
            self.open(host);
        }
    }

    /// Asks for every flow to be announced again, at most each [`RESYNC_INTERVAL_NS`].
    pub fn resync(&mut self) {
        let now_ns = clock::monotonic_ns();
        if now_ns.saturating_sub(self.resynced_ns) < RESYNC_INTERVAL_NS {
            return;
        }
        self.resynced_ns = now_ns;
        let mut message = Vec::new();
        encode_bare(&mut message, Kind::Resync);
        // Of a module that is going, receive() hears.
        let _ = self.send(&message);
    }

    /// Tells the module that we live, at most each [`BEAT_INTERVAL_NS`].
    pub fn beat(&mut self, now_ns: u64) {
        if self.file.is_none() || now_ns.saturating_sub(self.beaten_ns) < BEAT_INTERVAL_NS {
            return;
        }
        self.beaten_ns = now_ns;
        let mut beat = Vec::new();
        encode_bare(&mut beat, Kind::Heartbeat);
        // Of a module that is going, receive() hears.
        let _ = self.send(&beat);
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
