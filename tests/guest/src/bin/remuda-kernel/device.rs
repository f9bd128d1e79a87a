//! A minimal agent that reads and writes the module's device directly.

use remuda_wire::ToAgent;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub const PATH: &str = "/dev/ccpkp";
const READ_BYTES: usize = 1 << 16;
const TURN: Duration = Duration::from_millis(5);

pub struct Agent {
    file: File,
}

impl Agent {
    /// Opens the device; only one process may have it open.
    pub fn open() -> Self {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(nix::libc::O_NONBLOCK);
        Self { file: options.open(PATH).expect("the device opens") }
    }

    /// Writes one or several messages.
    pub fn write(&mut self, message: &[u8]) -> io::Result<()> {
        self.file.write(message).map(|_| ())
    }

    /// Reads the waiting messages; each must be valid in the protocol.
    pub fn read(&mut self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; READ_BYTES];
        let mut messages = Vec::new();
        while let Ok(bytes) = self.file.read(&mut buffer) {
            let mut rest = &buffer[..bytes];
            while !rest.is_empty() {
                let length = usize::from(u16::from_le_bytes([rest[2], rest[3]]));
                let (message, behind) = rest.split_at(length);
                ToAgent::parse(message).expect("what the module says makes sense");
                messages.push(message.to_vec());
                rest = behind;
            }
        }
        messages
    }

    /// The flow that was announced last among the waiting messages.
    pub fn sid(&mut self) -> Option<u32> {
        let messages = self.read();
        messages.iter().rev().find_map(|message| match ToAgent::parse(message) {
            Ok(ToAgent::Create { sid, .. }) => Some(sid),
            _ => None,
        })
    }

    /// Reads and discards messages in a thread until the `Reader` is dropped: the module takes the
    /// flows from an agent that does not read.
    pub fn keep_reading(&self) -> io::Result<Reader> {
        let mut file = self.file.try_clone()?;
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; READ_BYTES];
            while !is_over.load(Ordering::Relaxed) {
                // There may be no message.
                let _ = file.read(&mut buffer);
                thread::sleep(TURN);
            }
        });
        Ok(Reader { over, thread: Some(thread) })
    }
}

/// Reads until it is dropped.
pub struct Reader {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it only reads");
        }
    }
}
