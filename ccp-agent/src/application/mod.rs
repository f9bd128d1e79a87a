//! The socket on which applications of any user set the preference of their own TCP sockets.
//!
//! It is a SOCK_SEQPACKET socket beside the run directory. A client sends one request with one
//! socket descriptor (`request`) and gets one answer. A user may set a preference only for sockets
//! that this user created, and root for all sockets. The descriptor identifies the socket;
//! addresses and numbers could be guessed, so they are not accepted. Each client has a thread of
//! its own, so a client that hangs delays no report. The threads and requests of a user are limited
//! in number (`pace`), and closing a client and its descriptor in time ([`crate::client`]).

mod pace;
mod request;
mod socket;

use crate::client::{self, Passed, SocketFile, Wrong, accept_all};
use crate::datapath::Peer;
use crate::error::on;
use crate::host::Host;
use crate::lock::lock;
use crate::prefer::{SocketId, Wants, Wish};
use crate::{Error, clock};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, bind, getsockopt, listen, send,
    socket as make_socket, sockopt,
};
use pace::Pace;
use remuda_bpf::Sockets;
use request::{REQUEST_BYTES_MAX, Refusal};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// The agent hangs up on a client that sends no request for this long.
const SILENCE_LIMIT_MS: u16 = 1_000;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;
const ROOT: u32 = 0;

/// What all client threads share.
struct Desk {
    host: Arc<Mutex<Host>>,
    /// Finds flows of the BPF datapath by their sockets; `None` without that datapath.
    sockets: Option<Sockets>,
    pace: Mutex<Pace>,
}

/// Serves clients at `path` until the process ends. The caller holds the lock of its run directory,
/// so no other agent uses the socket.
pub fn serve(
    path: PathBuf,
    host: Arc<Mutex<Host>>,
    sockets: Option<Sockets>,
) -> Result<SocketFile, Error> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let about = fs::metadata(folder).map_err(on(folder.display()))?;
    let (writable_by_others, sticky) = (about.mode() & 0o022 != 0, about.mode() & 0o1000 != 0);
    if writable_by_others && !sticky {
        return Err(Error::OpenFolder(folder.display().to_string()));
    }
    let _ = fs::remove_file(&path);
    let failed = |errno: Errno| on(path.display())(errno.into());
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = make_socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(failed)?;
    bind(fd.as_raw_fd(), &UnixAddr::new(&path).map_err(failed)?).map_err(|errno| match errno {
        Errno::EACCES | Errno::EPERM | Errno::EADDRINUSE => {
            let path = path.display().to_string();
            Error::NoApplicationSocket { path, source: errno.into() }
        }
        _ => failed(errno),
    })?;
    let listener = SocketFile(path.clone());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).map_err(on(path.display()))?;
    listen(&fd, Backlog::new(BACKLOG).map_err(failed)?).map_err(failed)?;
    let pace = Mutex::new(Pace::new(clock::monotonic_ns()));
    let desk = Arc::new(Desk { host, sockets, pace });
    thread::Builder::new()
        .name("applications".to_owned())
        .spawn(move || accept_all(&fd, "the applications' socket", |it| welcome(it, &desk)))
        .map_err(on("the applications' thread"))?;
    Ok(listener)
}

/// Serves a client in a thread of its own, or gives it back.
fn welcome(client: OwnedFd, desk: &Arc<Desk>) -> Result<(), OwnedFd> {
    let Ok(peer) = getsockopt(&client, sockopt::PeerCredentials) else {
        return Err(client);
    };
    let uid = peer.uid();
    if !lock(&desk.pace).enter(uid, clock::monotonic_ns()) {
        return Err(client);
    }
    let place = Place { desk: Arc::clone(desk), uid };
    client::serve("application", client, place, |client, place| {
        place.desk.attend(client, place.uid)
    })
}

/// Counts a client as connected until it is dropped.
struct Place {
    desk: Arc<Desk>,
    uid: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.desk.pace).leave(self.uid);
    }
}

/// Waits for the request, and receives it with the socket that it passes.
fn receive(client: &OwnedFd) -> Result<(Vec<u8>, Passed), Refusal> {
    let mut fds = [PollFd::new(client.as_fd(), PollFlags::POLLIN)];
    if !matches!(poll(&mut fds, SILENCE_LIMIT_MS), Ok(1..)) {
        return Err(Refusal::new(Errno::ETIMEDOUT, "no request came"));
    }
    let mut request = vec![0; REQUEST_BYTES_MAX];
    let passed = client::receive(client, &mut request)?;
    if passed.is_cut {
        let rule = format!("a request has at most {REQUEST_BYTES_MAX} bytes");
        return Err(Refusal::new(Errno::EMSGSIZE, rule));
    }
    request.truncate(passed.bytes);
    Ok((request, passed))
}

fn one_socket(wrong: Wrong) -> Refusal {
    match wrong {
        Wrong::Number => Refusal::new(Errno::EINVAL, "a request must pass exactly one socket"),
        Wrong::NoDescriptorLeft => {
            Refusal::new(Errno::EMFILE, "the agent has no file descriptor left; try again")
        }
    }
}

impl Desk {
    fn attend(&self, client: &OwnedFd, uid: u32) {
        let answer = match self.answer(client, uid) {
            Ok(flow) => format!("0 {}", flow.unwrap_or(0)),
            Err(refusal) => refusal.to_string(),
        };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let _ = send(client.as_raw_fd(), answer.as_bytes(), flags);
    }

    fn answer(&self, client: &OwnedFd, uid: u32) -> Result<Option<u32>, Refusal> {
        let (request, passed) = receive(client)?;
        let wants = request::parse(&request)?;
        self.prefer(passed.one().map_err(one_socket)?, wants, uid)
    }

    fn prefer(&self, socket: &OwnedFd, wants: Wants, uid: u32) -> Result<Option<u32>, Refusal> {
        let about = socket::look(socket)?;
        if uid != ROOT && uid != about.uid {
            let why = "the socket is another user's; its owner and root may set it";
            return Err(Refusal::new(Errno::EPERM, why));
        }
        // `socket::look` has given the socket a cookie. If the flow starts after this look-up, the
        // cookie still finds it.
        let sid = self.sockets.as_ref().and_then(|sockets| sockets.sid(socket.as_fd()));
        let key = sid.map(|sid| (Peer::Bpf, sid));
        let id = SocketId { cookie: about.cookie, key };
        Ok(lock(&self.host).application_wants(id, Wish { wants, uid }))
    }
}

#[cfg(test)]
mod tests;
