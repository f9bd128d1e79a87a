//! The socket at which authors' processes connect to a running agent.
//!
//! It is a SOCK_SEQPACKET socket in the run directory; only root and the agent's own user may
//! connect. A client sends one frame, the announcement of its arms, and passes the agent's end of
//! the author's socket with it (SCM_RIGHTS). The answer is one line: `ok`, or the error. The arms
//! exist as long as this connection. If the agent removes them earlier, a last line says why.

use super::frame::{FRAME_BYTES_MAX, FromAuthor, Hello};
use super::line::Line;
use super::{Authors, Process};
use crate::client::{self, SocketFile, Wrong};
use crate::error::on;
use crate::events::Event;
use crate::host::Host;
use crate::lock::lock;
use crate::{Error, run_dir};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, bind, connect,
    getsockopt, listen, recv, send, sendmsg, socket, sockopt,
};
use std::fs;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// An author's flow fails if an answer takes longer than this.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
const AUTHORS_MAX: usize = 64;
/// Clients at once, including those without an announcement yet; the agent hangs up on further
/// ones.
const CLIENTS_MAX: usize = AUTHORS_MAX + 16;
/// The agent hangs up on a client that sends no announcement for this long.
const ANNOUNCE_LIMIT_MS: u16 = 5_000;
/// How often an author's thread checks whether the author's socket has failed.
const LOOK_MS: u16 = 200;
const OK: &str = "ok";

fn seqpacket(path: &Path) -> Result<(OwnedFd, UnixAddr), Error> {
    let failed = |errno: nix::Error| on(path.display())(errno.into());
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(failed)?;
    Ok((fd, UnixAddr::new(path).map_err(failed)?))
}

/// Opens the socket. Each author has a thread, so checking programs delays no report.
pub fn open(run_dir: &Path, authors: Authors, host: Arc<Mutex<Host>>) -> Result<SocketFile, Error> {
    let path = run_dir::author_socket(run_dir);
    let _ = fs::remove_file(&path); // safe: the run directory's lock is ours
    let failed = |errno: nix::Error| on(path.display())(errno.into());
    let (fd, address) = seqpacket(&path)?;
    bind(fd.as_raw_fd(), &address).map_err(failed)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(on(path.display()))?;
    listen(&fd, Backlog::new(8).map_err(failed)?).map_err(failed)?;
    thread::Builder::new()
        .name("authors".to_owned())
        .spawn(move || {
            let clients = Arc::new(AtomicUsize::new(0));
            let socket = "the authors' socket";
            client::accept_all(&fd, socket, |it| welcome(it, &authors, &host, &clients));
        })
        .map_err(on("the authors' thread"))?;
    Ok(SocketFile(path))
}

/// Serves a client in a thread of its own, or gives it back.
fn welcome(
    client: OwnedFd,
    authors: &Authors,
    host: &Arc<Mutex<Host>>,
    clients: &Arc<AtomicUsize>,
) -> Result<(), OwnedFd> {
    let own = nix::unistd::geteuid().as_raw();
    let trusted = getsockopt(&client, sockopt::PeerCredentials)
        .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own);
    if !trusted || clients.load(Ordering::Relaxed) >= CLIENTS_MAX {
        return Err(client);
    }
    let (authors, host) = (authors.clone(), Arc::clone(host));
    let place = Place::taken(clients);
    client::serve("author", client, place, move |client, _| serve(client, &authors, &host))
}

/// Counts a client until it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn taken(clients: &Arc<AtomicUsize>) -> Self {
        clients.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(clients))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(client: &OwnedFd, authors: &Authors, host: &Mutex<Host>) {
    match admit(client, authors) {
        Ok((line, arms)) => {
            say(client, OK);
            lock(host).record(&Event::AuthorCame { arms });
            attend(client, &line);
        }
        Err(error) => say(client, &error.to_string()),
    }
}

/// Waits until the client or the author's socket closes, and closes the other. The client gets the
/// reason.
fn attend(client: &OwnedFd, line: &Line) {
    loop {
        if let Some(why) = line.over() {
            return say(client, &why);
        }
        let mut fds = [PollFd::new(client.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, LOOK_MS) {
            Ok(0) | Err(Errno::EINTR) => {}
            // A client sends nothing after its announcement, so this is the end of the connection.
            _ => return line.end("its author has disconnected"),
        }
    }
}

/// Says a line, unless the client has no room for it because it does not read.
fn say(client: &OwnedFd, text: &str) {
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let _ = send(client.as_raw_fd(), text.as_bytes(), flags);
}

fn admit(client: &OwnedFd, authors: &Authors) -> Result<(Arc<Line>, Vec<&'static str>), Error> {
    let refuse = |rule: &str| Error::Author(rule.to_owned());
    if authors.lines().len() >= AUTHORS_MAX {
        return Err(refuse(&format!("there are {AUTHORS_MAX} authors already")));
    }
    let mut frame = vec![0; FRAME_BYTES_MAX];
    let (bytes, socket) = announcement(client, &mut frame)?;
    let hello: Hello = match FromAuthor::parse(&frame[..bytes]) {
        Ok(FromAuthor::Hello(hello)) => hello,
        Ok(_) => return Err(refuse("the first frame must announce arms")),
        Err(error) => return Err(refuse(&error.to_string())),
    };
    let line = Arc::new(Line::new(socket, false, ANSWER_LIMIT));
    let arms = authors.add(Arc::clone(&line), &hello)?;
    Ok((line, arms))
}

/// Receives a client's announcement into `frame`. Returns its length and the passed socket.
fn announcement(client: &OwnedFd, frame: &mut [u8]) -> Result<(usize, OwnedFd), Error> {
    let refuse = |rule: &str| Error::Author(rule.to_owned());
    let mut fds = [PollFd::new(client.as_fd(), PollFlags::POLLIN)];
    if !matches!(poll(&mut fds, ANNOUNCE_LIMIT_MS), Ok(1..)) {
        return Err(refuse("no announcement came"));
    }
    let passed = client::receive(client, frame)
        .map_err(|errno| on("an author's announcement")(errno.into()))?;
    if passed.is_cut {
        return Err(refuse(&format!("a frame has at most {FRAME_BYTES_MAX} bytes")));
    }
    let bytes = passed.bytes;
    let socket = passed.into_one().map_err(|wrong| match wrong {
        Wrong::Number => refuse("the announcement must pass exactly one socket"),
        Wrong::NoDescriptorLeft => refuse(
            "the agent has no file descriptor left for the author's socket\nfix: raise its limit \
             (LimitNOFILE= of its unit, or `ulimit -n`)",
        ),
    })?;
    let kind = getsockopt(&socket, sockopt::SockType);
    if !matches!(kind, Ok(SockType::SeqPacket)) {
        client::close(socket);
        return Err(refuse("the socket passed with the announcement must be SOCK_SEQPACKET"));
    }
    client::refuse_descriptors(&socket);
    Ok((bytes, socket))
}

/// A connection to a running agent. The agent has the arms as long as this exists.
#[derive(Debug)]
pub struct Lease {
    connection: OwnedFd,
}

impl Lease {
    /// Why the agent has removed the arms; `None` while it has them.
    pub fn ended(&self) -> Option<String> {
        let mut reason = [0; 1024];
        match recv(self.connection.as_raw_fd(), &mut reason, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EAGAIN | Errno::EINTR) => None,
            Ok(0) | Err(_) => Some("the agent has ended".to_owned()),
            Ok(bytes) => Some(String::from_utf8_lossy(&reason[..bytes]).into_owned()),
        }
    }
}

/// Offers the arms of a process to the agent of `run_dir`, and passes the socket to it. Only the
/// agent then has that end, so the process ends when the agent does.
pub fn join(run_dir: &Path, process: &mut Process) -> Result<Lease, Error> {
    let path = run_dir::author_socket(run_dir);
    let (fd, address) = seqpacket(&path)?;
    connect(fd.as_raw_fd(), &address).map_err(|errno| Error::NoAgent {
        path: path.display().to_string(),
        source: errno.into(),
    })?;
    let failed = |errno: nix::Error| on(path.display())(errno.into());
    let frame = process.announcement();
    let socket = process.take_socket()?;
    let sockets = [socket.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&sockets)];
    sendmsg::<()>(fd.as_raw_fd(), &[IoSlice::new(&frame)], &rights, MsgFlags::MSG_NOSIGNAL, None)
        .map_err(failed)?;
    let mut answer = vec![0; FRAME_BYTES_MAX];
    let bytes = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty()).map_err(failed)?;
    match String::from_utf8_lossy(&answer[..bytes]).as_ref() {
        OK => Ok(Lease { connection: fd }),
        "" => Err(Error::Refused(format!("{}: the agent hung up", path.display()))),
        error => Err(Error::Refused(error.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::author::fake::{Fake, pair};
    use crate::events::Recorder;
    use std::os::fd::RawFd;

    const HELLO: &[u8] =
        b"\x01{\"version\": 2, \"arms\": [{\"name\": \"knocks\", \"summary\": \"\",
        \"report\": \"\", \"control\": \"\", \"rules\": \"\", \"report_rule\": \"\",
        \"reports_per_round\": 4, \"programs\": [{\"name\": \"report\", \"text\": \"\",
        \"own\": [], \"registers\": []}]}]}";

    struct Nobody;

    impl Recorder for Nobody {
        fn record(&mut self, _flow: Option<u32>, _event: &Event) {}
    }

    struct Rig {
        folder: tempfile::TempDir,
        authors: Authors,
        _door: SocketFile,
    }

    fn rig() -> Rig {
        let folder = tempfile::tempdir().expect("a folder");
        let authors = Authors::default();
        let host = Host::new(Config::default(), Box::new(Nobody));
        let door = open(folder.path(), authors.clone(), Arc::new(Mutex::new(host)));
        Rig { authors, _door: door.expect("it opens"), folder }
    }

    impl Rig {
        /// Connects with a frame and sockets. Returns the process's end and the agent's answer.
        fn knock(&self, frame: &[u8], sockets: &[RawFd]) -> (Fake, String) {
            let (client, address) =
                seqpacket(&run_dir::author_socket(self.folder.path())).expect("a socket");
            connect(client.as_raw_fd(), &address).expect("the door is open");
            let rights = [ControlMessage::ScmRights(sockets)];
            let parts = [IoSlice::new(frame)];
            sendmsg::<()>(client.as_raw_fd(), &parts, &rights, MsgFlags::empty(), None)
                .expect("it is sent");
            let client = Fake::from(client);
            let answer = client.wait().unwrap_or_default();
            (client, String::from_utf8(answer).expect("a line"))
        }
    }

    #[test]
    fn an_author_is_accepted_and_gets_the_reason_when_its_line_ends() {
        let rig = rig();
        let (theirs, ours) = pair();
        let (client, answer) = rig.knock(HELLO, &[ours.as_raw_fd()]);
        drop(ours);
        assert_eq!(answer, OK);
        let (_, taken) = rig.knock(HELLO, &[theirs.as_raw_fd()]);
        assert!(taken.contains("\"knocks\" is there already"), "{taken}");
        let author = Fake::from(theirs);
        assert!(author.say(&[77]));
        while rig.authors.receive().is_empty() && !rig.authors.lines().is_empty() {}
        let last = String::from_utf8(client.wait().expect("a last line")).expect("text");
        assert!(last.contains("an invalid message"), "{last}");
        assert_eq!(rig.authors.remove_ended(), ["knocks"]);
        assert!(!author.say(&[77]) || author.wait().is_none(), "nobody has the other end");
    }

    #[test]
    fn an_author_that_disconnects_takes_its_arms_along() {
        let rig = rig();
        let (_author, ours) = pair();
        let (client, answer) = rig.knock(HELLO, &[ours.as_raw_fd()]);
        assert_eq!(answer, OK);
        drop(client);
        while rig.authors.remove_ended().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(rig.authors.names().is_empty());
    }

    #[test]
    fn no_socket_or_several_are_refused_and_all_are_closed() {
        let rig = rig();
        let (author, ours) = pair();
        let fd = ours.as_raw_fd();
        for sockets in [&[][..], &[fd, fd], &[fd; 9]] {
            let (_, answer) = rig.knock(HELLO, sockets);
            assert_eq!(answer, "the announcement must pass exactly one socket");
        }
        let (_, answer) = rig.knock(b"\x02", &[fd]);
        assert!(answer.contains("kind 2"), "{answer}");
        drop(ours);
        assert_eq!(Fake::from(author).wait(), None, "none of the copies is open");
    }
}
