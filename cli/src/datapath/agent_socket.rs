//! The datapath's Unix datagram socket, connected to the agent's socket.
//!
//! On a connected socket the kernel accepts messages only from the agent, reports when the agent
//! has room, and refuses to send to an agent that has ended. portus creates a new file for its
//! socket when it starts, so a new inode shows a restart.

use crate::Failure;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt::set_socket_passcred,
};
use std::fs;
use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Identifies a socket's file among files of the same path: device, inode and change time, because
/// inode numbers are reused.
type Identity = (u64, u64, i64, i64);

/// Whether an agent listens at its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Absent,
    Here,
    /// A different agent than at the last check.
    New,
    /// An agent of another user listens, and is not obeyed. Contains the reason.
    Untrusted(String),
}

/// The result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Done,
    /// The agent has no room at the moment.
    Full,
    /// No agent listens any more.
    Gone,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    Nothing,
    Message(&'a [u8]),
    /// A message from this user, who is not trusted.
    OfUser(u32),
}

pub struct AgentSocket {
    socket: UnixDatagram,
    own: PathBuf,
    agent: PathBuf,
    connected: Option<Identity>,
    buffer: Vec<u8>,
}

fn identity(about: &fs::Metadata) -> Identity {
    (about.dev(), about.ino(), about.ctime(), about.ctime_nsec())
}

fn listens(path: &Path) -> bool {
    UnixDatagram::unbound().and_then(|probe| probe.connect(path)).is_ok()
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

impl AgentSocket {
    /// Binds `own`, and creates its folder if it does not exist, as portus does.
    pub fn bind(own: &Path, agent: &Path) -> Result<Self, Failure> {
        let at = |error: io::Error| format!("{}: {error}", own.display());
        if let Some(folder) = own.parent() {
            fs::create_dir_all(folder).map_err(at)?;
        }
        if listens(own) {
            return Err(format!(
                "{} is the socket of a running datapath\n\
                 fix: end that one, or choose another address with --own",
                own.display()
            )
            .into());
        }
        match fs::symlink_metadata(own) {
            Ok(about) if about.file_type().is_socket() => fs::remove_file(own).map_err(at)?,
            Ok(_) => {
                let fix = "fix: remove it, or choose another address with --own";
                return Err(format!("{} exists and is not a socket\n{fix}", own.display()).into());
            }
            Err(_) => {}
        }
        let socket = UnixDatagram::bind(own).map_err(at)?;
        socket.set_nonblocking(true).map_err(at)?;
        set_socket_passcred(&socket, true).map_err(|error| at(error.into()))?;
        Ok(Self {
            socket,
            own: own.to_owned(),
            agent: agent.to_owned(),
            connected: None,
            buffer: vec![0; remuda_wire::MESSAGE_BYTES_MAX + 1],
        })
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub fn agent(&self) -> &Path {
        &self.agent
    }

    /// Checks whether an agent listens, and connects to a new one.
    pub fn look(&mut self) -> Presence {
        let Ok(about) = fs::metadata(&self.agent) else {
            self.connected = None;
            return Presence::Absent;
        };
        if !is_trusted(about.uid()) {
            self.connected = None;
            let why = format!("{} belongs to user {}", self.agent.display(), about.uid());
            return Presence::Untrusted(why);
        }
        if !listens(&self.agent) {
            self.connected = None;
            return Presence::Absent;
        }
        let identity = identity(&about);
        if self.connected == Some(identity) {
            return Presence::Here;
        }
        self.connected = self.socket.connect(&self.agent).ok().map(|()| identity);
        if self.connected.is_some() { Presence::New } else { Presence::Absent }
    }

    pub fn send(&self, message: &[u8]) -> Sent {
        match self.socket.send(message) {
            Ok(_) => Sent::Done,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
                    || error.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                Sent::Full
            }
            Err(_) => Sent::Gone,
        }
    }

    /// The next message, if one has arrived.
    pub fn receive(&mut self) -> Received<'_> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut room = [IoSliceMut::new(&mut self.buffer)];
        let flags = RecvFlags::DONTWAIT;
        // The only error is from an agent that has ended; the next check finds that as well.
        let Ok(got) = recvmsg(&self.socket, &mut room, &mut control, flags) else {
            return Received::Nothing;
        };
        let uid = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(from) => Some(from.uid.as_raw()),
            _ => None,
        });
        match uid {
            Some(uid) if is_trusted(uid) => Received::Message(&self.buffer[..got.bytes]),
            uid => Received::OfUser(uid.unwrap_or(u32::MAX)),
        }
    }
}

impl Drop for AgentSocket {
    fn drop(&mut self) {
        // If removing fails, the next datapath removes the file.
        let _ = fs::remove_file(&self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_seen_to_come_to_go_and_to_start_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, at) = (folder.path().join("own"), folder.path().join("agent"));
        let mut socket = AgentSocket::bind(&own, &at).expect("it binds");
        assert_eq!(socket.look(), Presence::Absent);
        let agent = UnixDatagram::bind(&at).expect("it binds");
        assert_eq!(socket.look(), Presence::New);
        assert_eq!(socket.look(), Presence::Here);
        assert_eq!(socket.send(b"one"), Sent::Done);
        agent.send_to(b"two", &own).expect("it is sent");
        assert_eq!(socket.receive(), Received::Message(b"two"));
        assert_eq!(socket.receive(), Received::Nothing);
        drop(agent); // its file stays, as portus leaves it
        assert_eq!(socket.send(b"three"), Sent::Gone);
        assert_eq!(socket.look(), Presence::Absent);
        fs::remove_file(&at).expect("it was there");
        let _again = UnixDatagram::bind(&at).expect("it binds");
        assert_eq!(socket.look(), Presence::New);
    }

    #[test]
    fn nobody_but_the_agent_can_send_to_a_connected_datapath() {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, at) = (folder.path().join("own"), folder.path().join("agent"));
        let mut socket = AgentSocket::bind(&own, &at).expect("it binds");
        let _agent = UnixDatagram::bind(&at).expect("it binds");
        assert_eq!(socket.look(), Presence::New);
        let stranger = UnixDatagram::unbound().expect("a socket");
        let error = stranger.send_to(b"x", &own).expect_err("it is not let");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn an_agent_that_does_not_read_is_full_and_not_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, at) = (folder.path().join("own"), folder.path().join("agent"));
        let mut socket = AgentSocket::bind(&own, &at).expect("it binds");
        let agent = UnixDatagram::bind(&at).expect("it binds");
        socket.look();
        let last = (0..100_000).map(|_| socket.send(b"x")).find(|sent| *sent != Sent::Done);
        assert_eq!(last, Some(Sent::Full));
        agent.recv(&mut [0; 8]).expect("one is there");
        assert_eq!(socket.send(b"x"), Sent::Done);
    }

    #[test]
    fn a_second_datapath_of_one_address_is_refused_and_a_file_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, at) = (folder.path().join("own"), folder.path().join("agent"));
        let first = AgentSocket::bind(&own, &at).expect("it binds");
        let error = AgentSocket::bind(&own, &at).err().expect("refused").to_string();
        assert!(error.contains("--own"), "{error}");
        drop(first);
        fs::write(&own, "mine").expect("it is written");
        assert!(AgentSocket::bind(&own, &at).is_err());
        assert_eq!(fs::read_to_string(&own).expect("it stays"), "mine");
    }
}
