//! The socket on which applications of any user set the preference of their own TCP sockets.
//!
//! It is a SOCK_SEQPACKET socket beside the run directory. A client sends one request with one
//! socket descriptor (`request`) and gets one answer. A user may set a preference only for sockets
//! that this user created, and root for all sockets. The descriptor identifies the socket;
//! addresses and numbers could be guessed, so they are not accepted. Each client has a thread of
//! its own, so a client that hangs, or whose descriptor is slow to close, delays no report. The
//! number of threads and requests of a user is limited (`pace`).

mod pace;
mod request;
mod socket;

use crate::datapath::Peer;
use crate::error::on;
use crate::host::Host;
use crate::lock::lock;
use crate::prefer::{SocketId, Wants, Wish};
use crate::{Error, clock};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4,
    bind, getsockopt, listen, recvmsg, send, socket as make_socket, sockopt,
};
use pace::Pace;
use remuda_bpf::Sockets;
use request::{REQUEST_BYTES_MAX, Refusal};
use std::fs;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The agent hangs up on a client that sends no request for this long.
const SILENCE_LIMIT_MS: u16 = 1_000;
/// Pause after each refused client and each failed accept, for example when descriptors run out. It
/// limits a client that connects in a loop to a twentieth of a processor.
const REST: Duration = Duration::from_micros(200);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;
/// The most descriptors that the kernel passes in one message (SCM_MAX_FD). The buffer has room for
/// all of them, so each one is received and closed.
const DESCRIPTORS_MAX: usize = 253;
const ROOT: u32 = 0;

/// Removes the socket file when dropped.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

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
) -> Result<Listener, Error> {
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
    bind(fd.as_raw_fd(), &UnixAddr::new(&path).map_err(failed)?).map_err(failed)?;
    let listener = Listener { path: path.clone() };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).map_err(on(path.display()))?;
    listen(&fd, Backlog::new(BACKLOG).map_err(failed)?).map_err(failed)?;
    let pace = Mutex::new(Pace::new(clock::monotonic_ns()));
    let desk = Arc::new(Desk { host, sockets, pace });
    thread::Builder::new()
        .name("applications".to_owned())
        .spawn(move || accept_all(&fd, &desk))
        .map_err(on("the applications' thread"))?;
    Ok(listener)
}

fn accept_all(listener: &OwnedFd, desk: &Arc<Desk>) {
    loop {
        match accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            Ok(client) => {
                // SAFETY: the descriptor was just accepted, and nothing else owns it.
                let client = unsafe { OwnedFd::from_raw_fd(client) };
                if !welcome(client, desk) {
                    thread::sleep(REST);
                }
            }
            Err(Errno::EBADF | Errno::EINVAL) => return,
            Err(_) => thread::sleep(REST),
        }
    }
}

/// Serves a client in a thread of its own. Returns false if the client is refused.
fn welcome(client: OwnedFd, desk: &Arc<Desk>) -> bool {
    let Ok(peer) = getsockopt(&client, sockopt::PeerCredentials) else {
        return false;
    };
    let uid = peer.uid();
    if !lock(&desk.pace).enter(uid, clock::monotonic_ns()) {
        return false;
    }
    let place = Place { desk: Arc::clone(desk), uid };
    let served = thread::Builder::new().name("application".to_owned());
    served.spawn(move || place.desk.attend(&client, uid)).is_ok()
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

/// Reads the request and the descriptors that came with it.
fn receive(client: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), Refusal> {
    let mut fds = [PollFd::new(client.as_fd(), PollFlags::POLLIN)];
    if !matches!(poll(&mut fds, SILENCE_LIMIT_MS), Ok(1..)) {
        return Err(Refusal::new(Errno::ETIMEDOUT, "no request came"));
    }
    let mut request = vec![0; REQUEST_BYTES_MAX];
    let mut space = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let mut parts = [IoSliceMut::new(&mut request)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let received = recvmsg::<()>(client.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let mut passed = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = message {
            // SAFETY: the descriptor was just received, and nothing else owns it.
            passed.extend(fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    let (bytes, cut) = (received.bytes, received.flags.contains(MsgFlags::MSG_TRUNC));
    if cut {
        let rule = format!("a request has at most {REQUEST_BYTES_MAX} bytes");
        return Err(Refusal::new(Errno::EMSGSIZE, rule));
    }
    request.truncate(bytes);
    Ok((request, passed))
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
        let (request, mut passed) = receive(client)?;
        let wants = request::parse(&request)?;
        let (Some(socket), true) = (passed.pop(), passed.is_empty()) else {
            return Err(Refusal::new(Errno::EINVAL, "a request must pass exactly one socket"));
        };
        self.prefer(&socket, wants, uid)
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
