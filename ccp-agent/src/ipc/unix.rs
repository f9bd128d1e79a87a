//! Datapaths behind a unix datagram socket, as libccp's user-space datapaths and portus speak it.
//!
//! Only processes of root or of the agent's own user are heard (SCM_CREDENTIALS), and of the users
//! of `agent.datapath_users` ([`Guest`]). Sends do not block: what a datapath does not take at once
//! waits in a queue of its own, and beyond its bound the datapath is given up, alone.

use super::guest::{Guest, PEERS_OF_GUEST_MAX};
use super::libccp;
use super::outbox::{Outbox, was_taken};
use crate::client::refuse_descriptors;
use crate::datapath::{Agent, Datapath, Obey, Peer};
use crate::error::on;
use crate::trouble::Trouble;
use crate::{Error, clock};
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendto, setsockopt, sockopt,
};
use remuda_wire::{Inbox, Kind, MESSAGE_BYTES_MAX, Order, to_datapath::encode_bare};
use std::collections::HashMap;
use std::fs;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Datapaths hear that we live this often: five times in what takes one of ours to give us up.
const BEAT_INTERVAL_NS: u64 = 100_000_000;
const PEERS_MAX: usize = 256;
/// A datapath is asked to announce its flows at most this often.
const RESYNC_INTERVAL_NS: u64 = 1_000_000_000;
/// While a datapath has no room, it is tried again this often.
const ROOM_WAIT_MS: u16 = 5;
/// Messages read before the agent looks elsewhere.
const RECEIVE_MAX: usize = 256;

/// The socket, and the users beside root and the agent's own that it serves.
struct Door {
    socket: UnixDatagram,
    guests: Vec<Guest>,
}

pub struct UnixEnd {
    door: Door,
    path: PathBuf,
    peers: HashMap<Arc<PathBuf>, Outbox>,
    inboxes: HashMap<Arc<PathBuf>, Inbox>,
    /// Those that said HELLO, and when they were last asked to announce their flows.
    greeted: HashMap<Arc<PathBuf>, u64>,
    /// Datapaths that were given up, with the reason, until the host hears of them: the thread that
    /// sends may hold the host's lock.
    given_up: Vec<(Arc<PathBuf>, String)>,
    buffer: Vec<u8>,
    /// Room to write an order in.
    out: Vec<u8>,
    beaten_ns: u64,
    /// Failures to receive, for warnings.
    trouble: Trouble,
}

impl UnixEnd {
    /// Binds `path`, which must not be another agent's.
    pub fn bind(path: &Path) -> Result<Self, Error> {
        Self::bind_for(path, &[])
    }

    /// The same, and hears these users too, by name or number.
    pub fn bind_for(path: &Path, users: &[String]) -> Result<Self, Error> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(on(path.display())(error));
            }
            _ => {}
        }
        let socket = UnixDatagram::bind(path).map_err(on(path.display()))?;
        // The run directory keeps others out. The names of the socket that guests have do not.
        let mode = if users.is_empty() { 0o600 } else { 0o666 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(on(path.display()))?;
        socket.set_nonblocking(true).map_err(on(path.display()))?;
        refuse_descriptors(&socket);
        setsockopt(&socket, sockopt::PassCred, &true)
            .map_err(|errno| on(path.display())(errno.into()))?;
        let guests = users.iter().map(|user| Guest::admit(user, path));
        let guests = guests.collect::<Result<_, _>>()?;
        Ok(Self {
            door: Door { socket, guests },
            path: path.to_owned(),
            peers: HashMap::new(),
            inboxes: HashMap::new(),
            greeted: HashMap::new(),
            given_up: Vec::new(),
            buffer: vec![0; MESSAGE_BYTES_MAX + 1],
            out: Vec::new(),
            beaten_ns: 0,
            trouble: Trouble::default(),
        })
    }

    /// One message of `path`, which stands in the buffer.
    fn take(&mut self, path: &Arc<PathBuf>, bytes: usize, agent: &mut dyn Agent) {
        let peer = Peer::Unix(Arc::clone(path));
        let buffer = std::mem::take(&mut self.buffer);
        let mut inbox = self.inboxes.remove(path).unwrap_or_default();
        let taken = inbox.take(&buffer[..bytes], |event| agent.event(self, &peer, event));
        self.buffer = buffer;
        if self.peers.contains_key(path) {
            self.inboxes.insert(Arc::clone(path), inbox);
        }
        if let Err(error) = taken {
            agent.refused(&peer, error.to_string());
        }
    }

    fn admit(&mut self, path: &Arc<PathBuf>, agent: &mut dyn Agent) -> bool {
        let known = self.peers.contains_key(path);
        let guest = self.door.guest_at(path);
        let of_guest = || self.peers.keys().filter(|peer| guest.is_some_and(|it| it.has(peer)));
        if !known && guest.is_some() && of_guest().count() >= PEERS_OF_GUEST_MAX {
            let reason = format!("its user has {PEERS_OF_GUEST_MAX} datapaths already");
            agent.refused(&Peer::Unix(Arc::clone(path)), reason);
            return false;
        }
        if path.as_os_str().is_empty() || (!known && self.peers.len() >= PEERS_MAX) {
            let reason = if known { "" } else { "it has no address, or there are too many" };
            agent.refused(&Peer::Unix(Arc::clone(path)), reason.to_owned());
            return false;
        }
        self.peers.entry(Arc::clone(path)).or_default();
        true
    }

    /// One datagram: its sender, why it is refused if it is, its length.
    fn receive_one(&mut self) -> nix::Result<(PathBuf, Option<&'static str>, usize)> {
        let mut control = nix::cmsg_space!(nix::sys::socket::UnixCredentials);
        let mut room = [IoSliceMut::new(&mut self.buffer)];
        let got = recvmsg::<UnixAddr>(
            self.door.socket.as_raw_fd(),
            &mut room,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT,
        )?;
        let own = nix::unistd::geteuid().as_raw();
        let path = got.address.and_then(|a| a.path().map(Path::to_owned)).unwrap_or_default();
        let guests = &self.door.guests;
        let is_trusted = |message| match message {
            ControlMessageOwned::ScmCredentials(from) => {
                let uid = from.uid();
                uid == 0 || uid == own || guests.iter().any(|guest| guest.is_heard(uid, &path))
            }
            _ => false,
        };
        // The buffer for control messages holds the sender's credentials only. If the message also
        // passed descriptors, the kernel has closed them.
        let refused = match got.cmsgs().map(|mut messages| messages.any(is_trusted)) {
            Ok(true) => None,
            Ok(false) => Some("its sender is another user"),
            Err(_) => Some("it passes descriptors, which no message of a datapath does"),
        };
        Ok((path, refused, got.bytes))
    }

    fn warn(&mut self, errno: Errno) {
        if let Some(times) = self.trouble.again(clock::monotonic_ns()) {
            let path = self.path.display();
            tracing::warn!(%errno, %path, times, "a datapath's message cannot be received");
        }
    }

    /// Sends, or queues what the datapath does not take now. A datapath that has been given up gets
    /// nothing.
    fn send(&mut self, path: &Arc<PathBuf>, message: &[u8]) {
        let Some(outbox) = self.peers.get_mut(path) else { return };
        let sent = outbox.send(message, |message| self.door.send(path, message));
        if let Err(reason) = sent {
            self.give_up(path, reason);
        }
    }

    /// Whether something waits for room.
    fn has_waiting(&self) -> bool {
        self.peers.values().any(|outbox| !outbox.is_empty())
    }

    /// Calls `act` for every datapath, and gives those up for which it fails.
    fn for_each_peer(
        &mut self,
        act: impl Fn(&Door, &Path, &mut Outbox) -> Result<(), &'static str>,
    ) {
        let mut failed = Vec::new();
        for (path, outbox) in &mut self.peers {
            if let Err(reason) = act(&self.door, path, outbox) {
                failed.push((Arc::clone(path), reason));
            }
        }
        for (path, reason) in failed {
            self.give_up(&path, reason);
        }
    }

    /// Sends what waits, as far as there is room.
    fn flush(&mut self) {
        self.for_each_peer(|door, path, outbox| outbox.flush(|message| door.send(path, message)));
    }

    /// Tells the agent which datapaths have been given up: their flows have ended.
    fn settle(&mut self, agent: &mut dyn Agent) {
        for (path, reason) in std::mem::take(&mut self.given_up) {
            agent.lost(&Peer::Unix(path), reason);
        }
    }

    fn give_up(&mut self, path: &Arc<PathBuf>, reason: &str) {
        self.peers.remove(path);
        self.inboxes.remove(path);
        self.greeted.remove(path);
        self.given_up.push((Arc::clone(path), reason.to_owned()));
    }
}

impl Door {
    /// The user in whose directory this address is, if it is one of `agent.datapath_users`.
    fn guest_at(&self, address: &Path) -> Option<&Guest> {
        self.guests.iter().find(|guest| guest.has(address))
    }

    /// Sends a message, if there is room for it now.
    fn send(&self, path: &Path, message: &[u8]) -> nix::Result<()> {
        let opened = self.guest_at(path).map(|guest| guest.reach(path)).transpose()?;
        let address = UnixAddr::new(opened.as_ref().map_or(path, |(_, path)| path))?;
        sendto(self.socket.as_raw_fd(), message, &address, MsgFlags::MSG_DONTWAIT).map(|_| ())
    }
}

impl Obey for UnixEnd {
    fn order(&mut self, peer: &Peer, order: &Order<'_>) -> Result<(), String> {
        let Peer::Unix(path) = peer else { return Ok(()) };
        let mut out = std::mem::take(&mut self.out);
        // A datapath that has sent no HELLO is one of CCP's, and those stand on libccp.
        if self.greeted.contains_key(path) {
            order.encode(&mut out);
        } else {
            libccp::encode(order, &mut out);
        }
        self.send(path, &out);
        self.out = out;
        Ok(())
    }

    fn greeted(&mut self, peer: &Peer) {
        if let Peer::Unix(path) = peer {
            self.greeted.entry(Arc::clone(path)).or_insert(0);
        }
    }

    fn resync(&mut self, peer: &Peer) {
        let Peer::Unix(path) = peer else { return };
        let now_ns = clock::monotonic_ns();
        match self.greeted.get_mut(path) {
            Some(asked_ns) if now_ns - *asked_ns > RESYNC_INTERVAL_NS => *asked_ns = now_ns,
            _ => return,
        }
        let mut message = Vec::new();
        encode_bare(&mut message, Kind::Resync);
        self.send(path, &message);
    }
}

impl Datapath for UnixEnd {
    fn reaches(&self, peer: &Peer) -> bool {
        matches!(peer, Peer::Unix(_))
    }

    /// Only datapaths for which nothing waits, at most each [`BEAT_INTERVAL_NS`].
    fn beat(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.beaten_ns) < BEAT_INTERVAL_NS {
            return;
        }
        self.beaten_ns = now_ns;
        self.flush();
        let mut beat = Vec::new();
        encode_bare(&mut beat, Kind::Heartbeat);
        self.for_each_peer(|door, path, outbox| {
            if outbox.is_empty() {
                was_taken(door.send(path, &beat))?;
            }
            Ok(())
        });
    }

    fn drain(&mut self, agent: &mut dyn Agent, _now_ns: u64) -> bool {
        let mut is_full = true;
        for _ in 0..RECEIVE_MAX {
            match self.receive_one() {
                Ok((path, refused, bytes)) => {
                    let path = Arc::new(path);
                    if let Some(rule) = refused {
                        agent.refused(&Peer::Unix(path), rule.to_owned());
                    } else if self.admit(&path, agent) {
                        self.take(&path, bytes, agent);
                    }
                }
                Err(errno) => {
                    if !matches!(errno, Errno::EAGAIN | Errno::EINTR) {
                        self.warn(errno);
                    }
                    is_full = false;
                    break;
                }
            }
        }
        if self.has_waiting() {
            self.flush();
        }
        self.settle(agent);
        is_full
    }

    fn poll_fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.door.socket.as_fd()]
    }

    fn wait_ms_max(&self) -> u16 {
        if self.has_waiting() { ROOM_WAIT_MS } else { u16::MAX }
    }
}

impl Drop for UnixEnd {
    fn drop(&mut self) {
        // The next agent removes it otherwise.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_wire::Event;

    struct Deaf;

    impl Agent for Deaf {
        fn event(&mut self, _datapath: &mut dyn Obey, _peer: &Peer, _event: Event<'_>) {}
        fn refused(&mut self, _peer: &Peer, _reason: String) {}
        fn lost(&mut self, _peer: &Peer, _reason: String) {}
    }

    /// Lengths of what the datapath finds in its socket.
    fn heard(datapath: &UnixDatagram) -> Vec<usize> {
        std::iter::from_fn(|| datapath.recv(&mut [0; 64]).ok()).collect()
    }

    #[test]
    fn heartbeats_are_even_and_what_waits_goes_as_soon_as_there_is_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, other) = (folder.path().join("agent"), folder.path().join("datapath"));
        let mut end = UnixEnd::bind(&own).expect("it binds");
        let datapath = UnixDatagram::bind(&other).expect("it binds");
        datapath.set_nonblocking(true).expect("it does");
        datapath.send_to(b"hello", &own).expect("it is sent");
        end.drain(&mut Deaf, 0);
        let beat_bytes = 8;
        for (at_ms, want) in [(1_000, 1), (1_050, 0), (1_100, 1), (1_199, 0), (1_300, 1)] {
            end.beat(at_ms * 1_000_000);
            assert_eq!(heard(&datapath), vec![beat_bytes; want], "at {at_ms} ms");
        }
        // More than its socket has room for; a heartbeat would be behind it, and is not sent.
        let path = Arc::new(other);
        (1..=40).for_each(|bytes| end.send(&path, &vec![0; bytes]));
        assert!(end.has_waiting());
        end.beat(2_000_000_000);
        let mut all = Vec::new();
        while end.has_waiting() {
            all.extend(heard(&datapath));
            end.flush();
        }
        all.extend(heard(&datapath));
        assert_eq!(all, (1..=40).collect::<Vec<usize>>(), "in order, and nothing else");
    }
}
