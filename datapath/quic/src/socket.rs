//! The connection to the agent: a unix datagram socket beside the agent's socket.
//!
//! The socket is connected, so the kernel refuses datagrams from other processes. It lies in the
//! agent's run directory, which other users cannot enter. Sending never blocks: messages are queued
//! when the agent's socket is full, and that has room for ten datagrams by default
//! (`net.unix.max_dgram_qlen`).

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::Timespec;
use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const AGENT_SOCKET: &str = "datapath.sock";
/// The most messages queued for the agent.
pub const WAITING_MAX: usize = 4_096;
/// The names of this crate's sockets in the run directory begin with this.
const PREFIX: &str = "quic-";

/// Identifies an agent by its socket's device, inode and time of creation.
type Identity = (u64, u64, i64, i64);

/// The result of looking for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Nobody,
    /// The agent that is already connected.
    Same,
    /// The first agent, or another one than before.
    New,
}

#[derive(Debug)]
pub struct AgentSocket {
    run_dir: PathBuf,
    own: Option<(Arc<UnixDatagram>, PathBuf)>,
    agent: Option<Identity>,
    waiting: VecDeque<Vec<u8>>,
    bell: Arc<Bell>,
}

/// Wakes the thread that waits for messages of the agent.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn ring(&self) {
        // An error means that the counter is full, so the thread wakes up anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits for the bell, for a message of the agent, or, if messages are queued, for room to
    /// send.
    pub fn wait(&self, socket: Option<&UnixDatagram>, to_send: bool, limit: Duration) {
        let mut events = PollFlags::IN;
        if to_send {
            events |= PollFlags::OUT;
        }
        let mut polled = vec![PollFd::new(&self.0, PollFlags::IN)];
        polled.extend(socket.map(|socket| PollFd::new(socket, events)));
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
        // If the wait is interrupted, the caller just loops earlier.
        let _ = poll(&mut polled, Some(&limit));
        let mut rung = [0; 8];
        let _ = rustix::io::read(&self.0, &mut rung);
    }
}

impl AgentSocket {
    /// A socket for the agent of this run directory, not connected yet.
    pub fn new(run_dir: &Path, bell: Arc<Bell>) -> Self {
        let run_dir = run_dir.to_owned();
        Self { run_dir, own: None, agent: None, waiting: VecDeque::new(), bell }
    }

    /// Whether an agent is connected, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.agent.is_some()
    }

    /// This end of the socket, to wait on; `None` before the first connection.
    pub fn end(&self) -> Option<Arc<UnixDatagram>> {
        self.own.as_ref().map(|(socket, _)| Arc::clone(socket))
    }

    /// Whether messages are queued.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Looks for the agent, and connects to it.
    pub fn look(&mut self) -> Found {
        match self.connect() {
            Ok(identity) if self.agent == Some(identity) => Found::Same,
            Ok(identity) => {
                self.agent = Some(identity);
                self.waiting.clear();
                Found::New
            }
            Err(_) => {
                self.lose();
                Found::Nobody
            }
        }
    }

    fn connect(&mut self) -> io::Result<Identity> {
        let of = self.run_dir.join(AGENT_SOCKET);
        let meta = fs::symlink_metadata(&of)?;
        check_private(&self.run_dir)?;
        // If the run directory was created anew, the agent cannot answer to the old socket: bind a
        // new one, and treat the agent as a new one.
        if self.own.as_ref().is_some_and(|(_, path)| !path.exists()) {
            self.own = None;
            self.lose();
        }
        let own = match self.end() {
            Some(own) => own,
            None => self.bind()?,
        };
        own.connect(&of)?;
        Ok((meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()))
    }

    fn bind(&mut self) -> io::Result<Arc<UnixDatagram>> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_orphans(&self.run_dir)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.run_dir.join(format!("{PREFIX}{}-{count}.sock", std::process::id()));
        let socket = UnixDatagram::bind(&path)?;
        // An agent of another user must be able to send to root's socket. The directory keeps all
        // others out.
        fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        socket.set_nonblocking(true)?;
        let socket = Arc::new(socket);
        self.own = Some((Arc::clone(&socket), path));
        Ok(socket)
    }

    fn lose(&mut self) {
        self.agent = None;
        self.waiting.clear();
    }

    /// Sends a message, or queues it until the agent has room. Returns false if neither is
    /// possible.
    pub fn send(&mut self, message: &[u8]) -> bool {
        let Some((socket, _)) = self.own.as_ref().filter(|_| self.agent.is_some()) else {
            return false;
        };
        if self.waiting.is_empty() {
            match socket.send(message) {
                Ok(_) => return true,
                Err(error) if is_full(&error) => self.bell.ring(),
                Err(_) => {
                    self.lose();
                    return false;
                }
            }
        }
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        self.waiting.push_back(message.to_vec());
        true
    }

    /// Sends queued messages as long as there is room.
    pub fn flush(&mut self) {
        let Some((socket, _)) = &self.own else { return };
        while let Some(message) = self.waiting.front() {
            match socket.send(message) {
                Ok(_) => self.waiting.pop_front(),
                Err(error) if is_full(&error) => return,
                Err(_) => return self.lose(),
            };
        }
    }
}

impl Drop for AgentSocket {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.own {
            // If this fails, the next datapath removes the socket.
            let _ = fs::remove_file(path);
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    let no_memory = error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error());
    no_memory || matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Refuses a run directory that other users can enter, because their sockets there could command
/// this process's windows.
fn check_private(run_dir: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(run_dir)?;
    let own = rustix::process::geteuid().as_raw();
    let is_trusted = [0, own].contains(&meta.uid()) || own == 0;
    if meta.is_dir() && is_trusted && meta.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        ErrorKind::PermissionDenied,
        "the directory is not private, or not the agent's",
    ))
}

/// Removes sockets that ended datapaths have left.
fn remove_orphans(run_dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(run_dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !(name.starts_with(PREFIX) && name.ends_with(".sock")) {
            continue;
        }
        let knock = UnixDatagram::unbound()?;
        if knock.connect(&path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}
