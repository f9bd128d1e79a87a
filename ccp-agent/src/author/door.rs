//! Where authors' processes come to a running agent, and leave it.
//!
//! A SOCK_SEQPACKET socket in the run directory, for root and the agent's own user. Who comes sends
//! one frame, the announcement of its arms, and with it our end of the author's socket
//! (SCM_RIGHTS); it is answered with one line: `ok`, or what is wrong. The arms are there for as
//! long as that connection is.

use super::frame::{FRAME_BYTES_MAX, FromAuthor, Hello};
use super::line::Line;
use super::{Authors, Process};
use crate::error::on;
use crate::events::Event;
use crate::host::Host;
use crate::ipc::lock;
use crate::{Error, run_dir};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    UnixAddr, accept4, bind, connect, getsockopt, listen, recv, recvmsg, send, sendmsg, socket,
    sockopt,
};
use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// An answer that takes longer is none.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Authors at once.
const AUTHORS_MAX: usize = 64;
const OK: &str = "ok";

/// The socket's file, removed when this is dropped.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn seqpacket(path: &Path) -> Result<(OwnedFd, UnixAddr), Error> {
    let failed = |errno: nix::Error| on(path.display())(errno.into());
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(failed)?;
    Ok((fd, UnixAddr::new(path).map_err(failed)?))
}

/// Opens it. Each author is served by a thread of its own, so that checking programs delays no
/// report.
pub fn open(run_dir: &Path, authors: Authors, host: Arc<Mutex<Host>>) -> Result<Door, Error> {
    let path = run_dir::author_socket(run_dir);
    let _ = fs::remove_file(&path); // the lock says that no other agent has it
    let failed = |errno: nix::Error| on(path.display())(errno.into());
    let (fd, address) = seqpacket(&path)?;
    bind(fd.as_raw_fd(), &address).map_err(failed)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(on(path.display()))?;
    listen(&fd, Backlog::new(8).map_err(failed)?).map_err(failed)?;
    thread::Builder::new()
        .name("authors".to_owned())
        .spawn(move || {
            while let Ok(client) = accept4(fd.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
                // SAFETY: just accepted, and nobody else's.
                let client = unsafe { OwnedFd::from_raw_fd(client) };
                let (authors, host) = (authors.clone(), Arc::clone(&host));
                let served = thread::Builder::new().name("author".to_owned());
                // Without a thread for it, the client is hung up on.
                let _ = served.spawn(move || serve(&client, &authors, &host));
            }
        })
        .map_err(on("the authors' thread"))?;
    Ok(Door { path })
}

fn serve(client: &OwnedFd, authors: &Authors, host: &Mutex<Host>) {
    let own = nix::unistd::geteuid().as_raw();
    let trusted = getsockopt(client, sockopt::PeerCredentials)
        .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own);
    if !trusted {
        return;
    }
    let line = match admit(client, authors) {
        Ok((line, arms)) => {
            say(client, OK);
            lock(host).record(&Event::AuthorCame { arms });
            line
        }
        Err(error) => return say(client, &error.to_string()),
    };
    // The connection says nothing more; it ends.
    let _ = recv(client.as_raw_fd(), &mut [0; 16], MsgFlags::empty());
    line.end("its author has left");
}

fn say(client: &OwnedFd, text: &str) {
    let _ = send(client.as_raw_fd(), text.as_bytes(), MsgFlags::MSG_NOSIGNAL);
}

fn admit(client: &OwnedFd, authors: &Authors) -> Result<(Arc<Line>, Vec<&'static str>), Error> {
    let refuse = |rule: &str| Error::Author(rule.to_owned());
    if authors.lines().len() >= AUTHORS_MAX {
        return Err(refuse("there are too many authors"));
    }
    let mut frame = vec![0; FRAME_BYTES_MAX];
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let mut parts = [IoSliceMut::new(&mut frame)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let received = recvmsg::<()>(client.as_raw_fd(), &mut parts, Some(&mut space), flags)
        .map_err(|errno| on("an author's announcement")(errno.into()))?;
    let mut sockets = Vec::new();
    for message in received.cmsgs().map_err(|errno| on("an author's socket")(errno.into()))? {
        if let ControlMessageOwned::ScmRights(fds) = message {
            // SAFETY: received just now, and nobody else's.
            sockets.extend(fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    let bytes = received.bytes;
    let socket = sockets.pop().ok_or_else(|| refuse("no socket came with the announcement"))?;
    let kind = getsockopt(&socket, sockopt::SockType);
    if !matches!(kind, Ok(SockType::SeqPacket)) {
        return Err(refuse("what came with the announcement is no SOCK_SEQPACKET socket"));
    }
    let hello: Hello = match FromAuthor::parse(&frame[..bytes]) {
        Ok(FromAuthor::Hello(hello)) => hello,
        Ok(_) => return Err(refuse("it does not begin with its arms")),
        Err(error) => return Err(refuse(&error.to_string())),
    };
    let line = Arc::new(Line::new(socket, false, ANSWER_LIMIT));
    let arms = authors.add(Arc::clone(&line), &hello)?;
    Ok((line, arms))
}

/// A connection to a running agent, which has the arms for as long as this is.
#[derive(Debug)]
pub struct Lease {
    _connection: OwnedFd,
}

/// Brings the arms of a process to the agent that runs in `run_dir`.
pub fn join(run_dir: &Path, process: &Process) -> Result<Lease, Error> {
    let path = run_dir::author_socket(run_dir);
    let (fd, address) = seqpacket(&path)?;
    connect(fd.as_raw_fd(), &address).map_err(|errno| Error::NoAgent {
        path: path.display().to_string(),
        source: errno.into(),
    })?;
    let failed = |errno: nix::Error| on(path.display())(errno.into());
    let frame = process.announcement();
    let sockets = [process.socket.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&sockets)];
    sendmsg::<()>(fd.as_raw_fd(), &[IoSlice::new(&frame)], &rights, MsgFlags::MSG_NOSIGNAL, None)
        .map_err(failed)?;
    let mut answer = vec![0; FRAME_BYTES_MAX];
    let bytes = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty()).map_err(failed)?;
    match String::from_utf8_lossy(&answer[..bytes]).as_ref() {
        OK => Ok(Lease { _connection: fd }),
        "" => Err(Error::Refused(format!("{}: the agent hung up", path.display()))),
        error => Err(Error::Refused(error.to_owned())),
    }
}
