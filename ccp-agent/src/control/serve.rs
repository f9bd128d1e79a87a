//! The agent's side of the control socket.
//!
//! Clients have threads of their own. They hold the host's lock only to copy state or to note an
//! order, so a slow or hostile client delays no report. Root and the agent's own user have places
//! of their own, so neither can keep the other one out. A client that makes the agent wait keeps
//! its place for a short time only: each request and each answer has a deadline, and a new client
//! takes the place of the client that the agent has waited for longest. A client whose first
//! request lies unread in the socket is not waited for, and keeps its place.

use super::request::{Answer, CLIENT_TIMEOUT, Request, answer, refused};
use crate::client::{Deadline, SocketFile, accept_all, close, refuse_descriptors, send_all};
use crate::error::on;
use crate::host::Host;
use crate::lock::lock;
use crate::{Error, client, clock, run_dir};
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, Shutdown, getsockopt, recv, send, shutdown, sockopt};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Clients of one user at once: of root, and of the agent's own user.
const CLIENTS_OF_USER_MAX: usize = 16;
/// The first request of a new client saves the client's place if it is no longer than this.
const ASKED_BYTES_MAX: usize = 4 << 10;
const ROOT: u32 = 0;

/// Serves clients until the process ends. Requests wait until `ready` has a value. The socket lies
/// in a private directory, and each client's user is checked.
pub fn serve(
    run_dir: &Path,
    host: Arc<Mutex<Host>>,
    ready: mpsc::Receiver<()>,
) -> Result<SocketFile, Error> {
    let path = run_dir::control_socket(run_dir);
    let _ = fs::remove_file(&path); // safe: the run directory's lock is ours
    let listener = UnixListener::bind(&path).map_err(on(path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(on(path.display()))?;
    let listener = OwnedFd::from(listener);
    let clients = Arc::new(Clients::default());
    thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || {
            if ready.recv().is_err() {
                return; // the agent failed to start
            }
            accept_all(&listener, "the control socket", |it| admit(it, &host, &clients));
        })
        .map_err(on("the control thread"))?;
    Ok(SocketFile(path))
}

/// One client in the table.
struct Client {
    uid: u32,
    /// A copy of the descriptor, to hang up on the client.
    socket: OwnedFd,
    /// Since when the agent waits for a request of the client, or for room for an answer, by the
    /// monotonic clock. `None` while the agent works for it.
    waits_us: Option<u64>,
    /// Whether the agent has worked for no request of the client yet.
    is_new: bool,
}

impl Client {
    /// Whether the client's first request lies in the socket: not the client is late but the agent.
    /// Later requests save no place, else a client that reads no answers could keep one.
    fn has_asked(&self) -> bool {
        if !self.is_new {
            return false;
        }
        let mut start = [0; ASKED_BYTES_MAX];
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let length = recv(self.socket.as_raw_fd(), &mut start, flags).unwrap_or(0);
        start[..length].contains(&b'\n')
    }
}

/// The connected clients, by a number that no other client ever has.
#[derive(Default)]
struct Clients {
    open: Mutex<HashMap<u64, Client>>,
    next: AtomicU64,
}

/// A client's place in the table. It is free again when this is dropped.
struct Place {
    clients: Arc<Clients>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let client = lock(&self.clients.open).remove(&self.number);
        close(client);
    }
}

impl Place {
    /// A place for a client of this user. If the user has no place left, the client that the agent
    /// has waited for longest loses its place. `None` if all of them have a request that the agent
    /// works for, or has not read yet.
    fn take(clients: &Arc<Clients>, uid: u32, socket: OwnedFd, now_us: u64) -> Option<Self> {
        let mut open = lock(&clients.open);
        if open.values().filter(|client| client.uid == uid).count() >= CLIENTS_OF_USER_MAX {
            let of_user = open.iter().filter(|(_, client)| client.uid == uid);
            let waiting = of_user.filter(|(_, client)| !client.has_asked());
            let waiting = waiting.filter_map(|(number, client)| Some((client.waits_us?, *number)));
            let (_, longest) = waiting.min()?;
            if let Some(client) = open.remove(&longest) {
                let _ = shutdown(client.socket.as_raw_fd(), Shutdown::Both); // its thread ends
                close(client);
            }
        }
        let number = clients.next.fetch_add(1, Ordering::Relaxed);
        open.insert(number, Client { uid, socket, waits_us: Some(now_us), is_new: true });
        Some(Self { clients: Arc::clone(clients), number })
    }

    /// Notes that the agent waits for the client from now on, or works for it.
    fn set_waits(&self, waits: bool) {
        if let Some(client) = lock(&self.clients.open).get_mut(&self.number) {
            client.waits_us = waits.then(clock::monotonic_us);
            client.is_new &= waits;
        }
    }
}

/// Serves a client in a thread of its own, or gives it back.
fn admit(socket: OwnedFd, host: &Arc<Mutex<Host>>, all: &Arc<Clients>) -> Result<(), OwnedFd> {
    refuse_descriptors(&socket);
    let own = nix::unistd::geteuid().as_raw();
    let peer = getsockopt(&socket, sockopt::PeerCredentials);
    let Ok(uid) = peer.map(|peer| peer.uid()) else { return Err(socket) };
    if uid != ROOT && uid != own {
        return Err(socket);
    }
    let Ok(copy) = socket.try_clone() else { return Err(socket) };
    let Some(place) = Place::take(all, uid, copy, clock::monotonic_us()) else {
        let rule = format!("the agent works for {CLIENTS_OF_USER_MAX} clients of this user");
        let line = line_of(&refused(format!("{rule}\nfix: try again")));
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let _ = send(socket.as_raw_fd(), line.as_bytes(), flags);
        return Err(socket);
    };
    let host = Arc::clone(host);
    client::serve("control client", socket, place, move |socket, place| {
        if let Err(error) = converse(socket, place, &host) {
            tracing::debug!(%error, "control client");
        }
    })
}

fn line_of(answer: &Answer) -> String {
    let mut text = serde_json::to_string(answer).expect("answers are plain data");
    text.push('\n');
    text
}

fn answer_line(line: &[u8], host: &Mutex<Host>) -> Answer {
    match serde_json::from_slice::<Request>(line) {
        Ok(request) => answer(&request, host).unwrap_or_else(|error| refused(error.to_string())),
        Err(error) => refused(format!("not a request: {error}")),
    }
}

fn converse(socket: &OwnedFd, place: &Place, host: &Mutex<Host>) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        place.set_waits(true);
        let (answer, is_last) = match next_line(socket, &mut read, Deadline::after(CLIENT_TIMEOUT))?
        {
            Received::End => return Ok(()),
            Received::Line(line) => {
                place.set_waits(false);
                (answer_line(&line, host), false)
            }
            Received::TooLong => {
                (refused(format!("a request has at most {REQUEST_BYTES_MAX} bytes")), true)
            }
            Received::Cut => (refused("a request ends with a newline".to_owned()), true),
        };
        let text = line_of(&answer);
        place.set_waits(true);
        send_all(socket, text.as_bytes(), Deadline::after(CLIENT_TIMEOUT))?;
        if is_last {
            return Ok(());
        }
    }
}

/// What a client has sent.
enum Received {
    Line(Vec<u8>),
    /// More bytes than a request may have, without a newline.
    TooLong,
    /// The client sends no more, and its last line has no newline.
    Cut,
    End,
}

/// The next line. `read` holds what has come after the line before.
fn next_line(socket: &OwnedFd, read: &mut Vec<u8>, deadline: Deadline) -> io::Result<Received> {
    let mut room = [0; 4_096];
    let mut looked = 0;
    loop {
        if let Some(at) = read[looked..].iter().position(|byte| *byte == b'\n') {
            let rest = read.split_off(looked + at + 1);
            return Ok(Received::Line(std::mem::replace(read, rest)));
        }
        looked = read.len();
        if looked >= REQUEST_BYTES_MAX {
            return Ok(Received::TooLong);
        }
        let want = room.len().min(REQUEST_BYTES_MAX - looked);
        match recv(socket.as_raw_fd(), &mut room[..want], MsgFlags::MSG_DONTWAIT) {
            Ok(0) if read.is_empty() => return Ok(Received::End),
            Ok(0) => return Ok(Received::Cut),
            Ok(bytes) => read.extend(&room[..bytes]),
            Err(Errno::EAGAIN) => deadline.wait(socket, PollFlags::POLLIN)?,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn pair() -> (OwnedFd, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        (ours.into(), theirs)
    }

    fn is_hung_up(client: &mut UnixStream) -> bool {
        client.set_nonblocking(true).expect("it does not block");
        match client.read(&mut [0; 1]) {
            Ok(bytes) => bytes == 0,
            // The agent closed the socket with bytes in it that it had not read.
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    #[test]
    fn a_new_client_takes_the_place_that_has_waited_longest_and_only_of_its_user() {
        let clients = Arc::new(Clients::default());
        let mut theirs = Vec::new();
        let mut take = |uid, now_us| {
            let (ours, client) = pair();
            theirs.push(client);
            Place::take(&clients, uid, ours, now_us)
        };
        let most = CLIENTS_OF_USER_MAX as u64;
        let places: Vec<_> = (0..most).map(|n| take(7, 100 - n).expect("free")).collect();
        let other = take(0, 5).expect("root has places of its own");
        let next = take(7, 200).expect("the client of 85 us makes room");
        places.iter().chain([&next]).for_each(|place| place.set_waits(false));
        assert!(take(7, 300).is_none(), "the agent works for all");
        let gone = theirs.iter_mut().map(is_hung_up).collect::<Vec<_>>();
        let want = (0..19).map(|n| n == most - 1 || n == 18).collect::<Vec<_>>();
        assert_eq!(gone, want);
        drop((next, other, places));
        assert!(lock(&clients.open).is_empty());
    }

    #[test]
    fn a_client_that_has_asked_keeps_its_place() {
        let clients = Arc::new(Clients::default());
        let mut theirs = Vec::new();
        let mut take = |now_us, sends: &[u8]| {
            let (ours, mut client) = pair();
            client.write_all(sends).expect("there is room");
            theirs.push(client);
            Place::take(&clients, 7, ours, now_us)
        };
        let asked = take(0, b"{}\n").expect("free");
        let slow: Vec<_> = (1..16).map(|now_us| take(now_us, b"x").expect("free")).collect();
        let next = take(200, b"{}\n").expect("the first slow client makes room");
        asked.set_waits(false);
        asked.set_waits(true); // for room for an answer: it has asked again, and reads nothing
        let last = take(u64::MAX, b"{}\n").expect("the second slow client makes room");
        let gone: Vec<bool> = theirs.iter_mut().map(is_hung_up).collect();
        assert_eq!(gone, (0..18).map(|n| n == 1 || n == 2).collect::<Vec<_>>());
        slow.iter().for_each(|place| place.set_waits(false));
        assert!(!lock(&clients.open)[&asked.number].has_asked());
        assert!(lock(&clients.open)[&last.number].has_asked());
        drop((asked, slow, next, last));
    }

    #[test]
    fn a_request_has_a_deadline_however_slowly_its_bytes_come() {
        let (ours, mut client) = pair();
        let limit = Duration::from_millis(200);
        let (deadline, began_us) = (Deadline::after(limit), clock::monotonic_us());
        let slow = thread::spawn(move || {
            while client.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let ended = next_line(&ours, &mut Vec::new(), deadline).map(|_| ());
        let error = ended.expect_err("there is no newline");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(clock::monotonic_us() - began_us < 1_200_000);
        drop(ours);
        slow.join().expect("it ends");
    }

    #[test]
    fn an_answer_that_is_not_read_has_a_deadline() {
        let (ours, _client) = pair();
        let deadline = Deadline::after(Duration::from_millis(50));
        let sent = send_all(&ours, &vec![0; 16 << 20], deadline);
        assert_eq!(sent.expect_err("no room").kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn lines_are_told_apart_and_too_long_ones_end() {
        let (ours, mut client) = pair();
        let mut read = Vec::new();
        client.write_all(b"one\ntwo\nthree").expect("it is sent");
        for want in [&b"one\n"[..], b"two\n"] {
            let line =
                next_line(&ours, &mut read, Deadline::after(CLIENT_TIMEOUT)).expect("a line");
            assert!(matches!(line, Received::Line(line) if line == want));
        }
        drop(client);
        let cut = next_line(&ours, &mut read, Deadline::after(CLIENT_TIMEOUT)).expect("the rest");
        assert!(matches!(cut, Received::Cut));
        let (ours, mut client) = pair();
        let long = thread::spawn(move || client.write_all(&[b'x'; REQUEST_BYTES_MAX]));
        let refused =
            next_line(&ours, &mut Vec::new(), Deadline::after(CLIENT_TIMEOUT)).expect("too long");
        assert!(matches!(refused, Received::TooLong));
        assert!(long.join().expect("it ends").is_ok());
    }
}
