//! The agent's end.

use super::frame::{self, DESCRIPTORS_MAX, Received, Request, StartReply};
use crate::Error;
use crate::cgroups::CgroupChange;
use crate::privileges::{Handles, MAPS, Privileges, Registered, Started, Walked};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the broker may take for a start, which loads the object and visits every socket.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// How long it may take to give every flow back.
const LET_GO_TIME_MAX: Duration = Duration::from_secs(30);
/// How long it may take for anything else. The agent's flows may fall back meanwhile.
const REPLY_TIME_MAX: Duration = Duration::from_secs(5);

/// A connection to a broker.
pub struct Client {
    /// `None` once the broker has gone or has not answered in time. A closed socket tells the
    /// broker that another connection may take the place of this one.
    socket: Option<OwnedFd>,
    path: PathBuf,
    registered: Registered,
    /// The jump table: the kernel empties it when no process has it.
    table: Option<OwnedFd>,
}

/// Why there is no connection.
pub struct Unreached {
    pub error: Error,
    /// What was handed to [`Client::reconnect`], if the broker was not asked for a start.
    pub registered: Registered,
}

impl Client {
    /// Connects to the broker at `path`, and has it load and attach everything.
    pub fn connect(path: &Path) -> Result<(Self, Handles, Started), Error> {
        Self::open(path)?.start()
    }

    /// As [`Self::connect`]. Lets go of `registered` in between, so that the broker can register
    /// the same name.
    pub fn reconnect(
        path: &Path,
        registered: Registered,
    ) -> Result<(Self, Handles, Started), Unreached> {
        let client = match Self::open(path) {
            Ok(client) => client,
            Err(error) => return Err(Unreached { error, registered }),
        };
        drop(registered);
        client.start().map_err(|error| Unreached { error, registered: Registered::default() })
    }

    fn open(path: &Path) -> Result<Self, Error> {
        let gone = |errno: Errno| Error::NoBroker { path: path.to_owned(), source: errno.into() };
        let kind = SocketType::SEQPACKET;
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(gone)?;
        connect(&socket, &SocketAddrUnix::new(path).map_err(gone)?).map_err(gone)?;
        let (path, registered) = (path.to_owned(), Registered::default());
        Ok(Self { socket: Some(socket), path, registered, table: None })
    }

    fn start(mut self) -> Result<(Self, Handles, Started), Error> {
        let what = "a start";
        let (packet, fds) = self.ask(&Request::Start, START_TIME_MAX)?;
        let reply = StartReply::parse(frame::answer(&packet, what)?);
        let StartReply { name, can_look, started } = reply.ok_or_else(|| frame::strange(what))?;
        let mut fds = fds.into_iter();
        let maps = fds.by_ref().take(MAPS.len()).collect::<Vec<OwnedFd>>();
        let maps = maps.try_into().map_err(|_| frame::strange(what))?;
        self.table = Some(fds.next().ok_or_else(|| frame::strange(what))?);
        self.registered = Registered(fds.collect());
        Ok((self, Handles { maps, name, can_look }, started))
    }

    fn ask(&mut self, request: &Request<'_>, limit: Duration) -> Result<Received, Error> {
        let asked = self.exchange(request, limit);
        if asked.is_err() {
            // A late reply would be taken for that of the next request.
            self.socket = None;
        }
        asked.map_err(|source| Error::NoBroker { path: self.path.clone(), source })
    }

    fn exchange(&self, request: &Request<'_>, limit: Duration) -> io::Result<Received> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        set_socket_timeout(socket, Timeout::Recv, Some(limit))?;
        frame::send(socket.as_fd(), &request.encode(), &[])?;
        let received = frame::receive(socket.as_fd(), DESCRIPTORS_MAX)?;
        let (packet, fds) = received.ok_or(io::ErrorKind::InvalidData)?;
        if packet.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((packet, fds))
    }

    /// Sends a request that has no reply. Without a broker, or without room, it is left out.
    fn tell(&self, request: &Request<'_>) {
        if let Some(socket) = &self.socket {
            let _ = frame::send(socket.as_fd(), &request.encode(), &[]);
        }
    }

    fn answered(
        &mut self,
        request: &Request<'_>,
        limit: Duration,
        what: &'static str,
    ) -> Result<Vec<u8>, Error> {
        let (packet, _) = self.ask(request, limit)?;
        frame::answer(&packet, what).map(<[u8]>::to_vec)
    }
}

/// The broker does these at a start, by its own configuration.
const ITS_OWN: Error = Error::Template("the broker attaches what its own configuration names");

impl Privileges for Client {
    fn attach(&mut self) -> Result<(), Error> {
        Err(ITS_OWN)
    }

    fn attach_cgroup(&mut self, _cgroup: &Path) -> Result<CgroupChange, Error> {
        Err(ITS_OWN)
    }

    /// The broker follows the cgroups by itself.
    fn follow_cgroups(&mut self) -> Result<Vec<CgroupChange>, Error> {
        Ok(Vec::new())
    }

    fn adopt(&mut self) -> Result<Walked, Error> {
        Err(ITS_OWN)
    }

    fn let_go(&mut self) -> Result<Walked, Error> {
        let what = "giving the flows back";
        let answer = self.answered(&Request::LetGo, LET_GO_TIME_MAX, what)?;
        drop(self.release());
        frame::parse_walked(&answer, what).ok_or_else(|| frame::strange(what))
    }

    fn install(&mut self, message: &[u8]) -> Result<u32, Error> {
        let what = "a program";
        let answer = self.answered(&Request::Install(message), REPLY_TIME_MAX, what)?;
        let index = <[u8; 4]>::try_from(answer).map_err(|_| frame::strange(what))?;
        Ok(u32::from_ne_bytes(index))
    }

    fn looker(&mut self) -> Result<OwnedFd, Error> {
        let what = "the iterator over the flows";
        let (packet, fds) = self.ask(&Request::Looker, REPLY_TIME_MAX)?;
        frame::answer(&packet, what)?;
        fds.into_iter().next().ok_or_else(|| frame::strange(what))
    }

    fn recall(&mut self, namespaces: &HashSet<u32>, _now_ns: u64) -> Result<(), Error> {
        // If the broker does not take it, the next look asks again.
        self.tell(&Request::Recall(namespaces.clone()));
        Ok(())
    }

    fn vacate(&mut self, sid: u32) -> Result<(), Error> {
        // If the broker does not take it, the slot stays taken until the next broker comes.
        self.tell(&Request::Vacate(sid));
        Ok(())
    }

    fn check_native(&mut self, name: &str) -> Result<(), Error> {
        let request = Request::CheckNative(name);
        self.answered(&request, REPLY_TIME_MAX, "an algorithm").map(|_| ())
    }

    fn are_lost(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let hung_up = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let is_lost =
            poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().intersects(hung_up);
        if is_lost {
            self.socket = None;
        }
        is_lost
    }

    fn release(&mut self) -> Registered {
        std::mem::take(&mut self.registered)
    }

    fn retain(&mut self, registered: Registered) {
        self.registered = registered;
    }
}
