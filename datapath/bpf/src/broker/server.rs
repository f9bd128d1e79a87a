//! The broker's end.

use super::frame::{self, DESCRIPTORS_MAX, Request, StartReply};
use crate::privileged::Privileged;
use crate::privileges::{Privileges, Walked};
use crate::settings::Plan;
use crate::{CgroupChange, Error};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often cgroups are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Refused requests are told at most this often.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(1);
const ROOT: u32 = 0;

/// What happened in a turn, for the operator.
#[derive(Debug)]
pub enum Notice {
    Came { pid: i32, user: u32 },
    Went,
    Started { adopted: u64 },
    Warning(String),
    Mended(String),
    LetGo { changed: u64, refused: u64 },
    Abandoned(Duration),
    Stranger { user: u32, pid: i32 },
    SecondAgent { pid: i32 },
    Refused(String),
    Cgroup(CgroupChange),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Came { pid, user } => write!(f, "an agent has come: process {pid}, user {user}"),
            Self::Went => write!(f, "the agent has gone: its flows run Reno until one comes"),
            Self::Started { adopted } => {
                write!(f, "the agent has the datapath; {adopted} flows were taken over")
            }
            Self::Warning(text) => f.write_str(text),
            Self::Mended(name) => write!(
                f,
                "a former agent had left itself as the host's default algorithm: it is {name} now"
            ),
            Self::LetGo { changed, refused } => write!(
                f,
                "{changed} flows are back with the kernel's own algorithm, {refused} are not"
            ),
            Self::Abandoned(time) => {
                let seconds = time.as_secs();
                write!(f, "no agent has come within {seconds} s: the flows are given back")
            }
            Self::Stranger { user, pid } => write!(
                f,
                "process {pid} of user {user} is refused: only the agent's user and root may ask\n\
                 fix: name the agent's user with --user"
            ),
            Self::SecondAgent { pid } => write!(
                f,
                "process {pid} is refused: an agent is connected\nfix: stop that agent first"
            ),
            Self::Refused(text) => write!(f, "a request of the agent is refused: {text}"),
            Self::Cgroup(change) => change.fmt(f),
        }
    }
}

/// How long flows wait in the datapath's fallback for an agent; `None` is for ever.
pub type Patience = Option<Duration>;

/// Holds the privileges for one agent at a time.
pub struct Broker {
    listener: OwnedFd,
    path: PathBuf,
    plan: Plan,
    /// The user whose agent is obeyed, beside root.
    user: u32,
    patience: Patience,
    agent: Option<OwnedFd>,
    held: Option<Privileged>,
    /// When the last agent went, while its flows wait.
    left_ns: Option<u64>,
    /// The time of this turn, and of the last refusal that was told.
    now_ns: u64,
    told_ns: u64,
}

impl Broker {
    /// Listens at `path`, where only `user` and root may connect.
    pub fn bind(path: &Path, plan: Plan, user: u32, patience: Patience) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::File { path: path.display().to_string(), source };
        let listener = listen_at(path, user).map_err(failed)?;
        let path = path.to_owned();
        let (agent, held, left_ns) = (None, None, None);
        Ok(Self {
            listener,
            path,
            plan,
            user,
            patience,
            agent,
            held,
            left_ns,
            now_ns: 0,
            told_ns: 0,
        })
    }

    /// Waits at most 200 ms for something to do, and does it. `now_ns` reads CLOCK_MONOTONIC.
    pub fn turn(&mut self, now_ns: impl Fn() -> u64, notify: &mut dyn FnMut(Notice)) {
        let (has_caller, has_request) = self.wait();
        self.now_ns = now_ns();
        if has_caller {
            self.accept(notify);
        }
        if has_request {
            self.serve(notify);
        }
        if let Some(held) = &mut self.held {
            match held.follow_cgroups() {
                Ok(changes) => changes.into_iter().map(Notice::Cgroup).for_each(&mut *notify),
                Err(error) => notify(Notice::Warning(error.to_string())),
            }
        }
        self.lose_patience(notify);
    }

    fn wait(&self) -> (bool, bool) {
        let listens = PollFd::new(&self.listener, PollFlags::IN);
        let asks = self.agent.as_ref().map(|agent| PollFd::new(agent, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = [listens].into_iter().chain(asks).collect();
        let limit = Timespec { tv_sec: 0, tv_nsec: LOOK_INTERVAL.subsec_nanos().into() };
        if poll(&mut fds, Some(&limit)).is_err() {
            return (false, false); // a signal: the caller looks at its flag
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        (is_ready(&fds[0]), fds.get(1).is_some_and(is_ready))
    }

    fn accept(&mut self, notify: &mut dyn FnMut(Notice)) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(caller) = accept_with(&self.listener, flags) else { return };
        frame::refuse_descriptors(&caller); // no request carries one, and closing one may take long
        let Ok(peer) = socket_peercred(&caller) else { return };
        let (user, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
        let notice = if user != self.user && user != ROOT {
            Notice::Stranger { user, pid }
        } else if self.agent.is_some() {
            Notice::SecondAgent { pid }
        } else {
            self.agent = Some(caller);
            self.left_ns = None;
            return notify(Notice::Came { pid, user });
        };
        // If the packet does not fit, the caller learns from the closed socket that it is refused.
        let _ = frame::send(caller.as_fd(), &frame::reply(Err(notice.to_string())), &[]);
        notify(notice);
    }

    fn serve(&mut self, notify: &mut dyn FnMut(Notice)) {
        let Some(agent) = &self.agent else { return };
        let packet = match frame::receive(agent.as_fd(), 0) {
            Ok(Some((packet, _))) if !packet.is_empty() => packet,
            Ok(None) => {
                let rule = "a request is short and carries no descriptors".to_owned();
                return self.answer(Err(rule), &[], notify);
            }
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(Some(_)) | Err(_) => return self.lose_agent(notify),
        };
        match Request::parse(&packet) {
            Ok(Request::Start) => self.start(notify),
            Ok(Request::LetGo) => {
                let walked = self.let_go(notify);
                self.answer(walked.map(|walked| frame::encode_walked(&walked)), &[], notify);
            }
            Ok(Request::Looker) => {
                let looker = self.held().and_then(|held| held.looker().map_err(text));
                match looker {
                    Ok(link) => self.answer(Ok(Vec::new()), &[link.as_fd()], notify),
                    Err(why) => self.answer(Err(why), &[], notify),
                }
            }
            Ok(Request::Install(message)) => {
                let index = self.held().and_then(|held| held.install(message).map_err(text));
                self.answer(index.map(|index| index.to_ne_bytes().to_vec()), &[], notify);
            }
            Ok(Request::Recall(namespaces)) => {
                let now_ns = self.now_ns;
                let done = self.held().and_then(|it| it.recall(&namespaces, now_ns).map_err(text));
                if let Err(why) = done {
                    self.tell_refused(why, notify);
                }
            }
            Ok(Request::Vacate(sid)) => {
                if let Err(why) = self.held().and_then(|held| held.vacate(sid).map_err(text)) {
                    self.tell_refused(why, notify);
                }
            }
            Ok(Request::CheckNative(name)) => {
                let checked = self.held().and_then(|held| held.check_native(name).map_err(text));
                self.answer(checked.map(|()| Vec::new()), &[], notify);
            }
            Err(rule) => self.answer(Err(rule), &[], notify),
        }
    }

    fn held(&mut self) -> Result<&mut Privileged, String> {
        self.held.as_mut().ok_or_else(|| "the first request must be a start".to_owned())
    }

    /// Loads everything anew. The flows of the agent before are taken over by that.
    fn start(&mut self, notify: &mut dyn FnMut(Notice)) {
        self.held = None; // the kernel refuses a name that is registered
        let started =
            Privileged::start(&self.plan, self.now_ns).and_then(|(privileged, started)| {
                let (handles, table) = (privileged.handles()?, privileged.table()?);
                Ok((privileged, handles, table, started))
            });
        let (privileged, handles, table, started) = match started {
            Ok(started) => started,
            Err(error) => return self.answer(Err(error.to_string()), &[], notify),
        };
        notify(Notice::Started { adopted: started.adopted });
        started.warnings.iter().cloned().map(Notice::Warning).for_each(&mut *notify);
        started.mended.iter().cloned().map(Notice::Mended).for_each(&mut *notify);
        let reply = StartReply { name: handles.name, can_look: handles.can_look, started };
        let maps = handles.maps.iter().map(AsFd::as_fd).chain([table.as_fd()]);
        let fds: Vec<BorrowedFd<'_>> =
            maps.chain(privileged.links()).take(DESCRIPTORS_MAX).collect();
        self.answer(Ok(reply.encode()), &fds, notify);
        drop(fds);
        self.held = Some(privileged);
    }

    fn answer(
        &mut self,
        answer: Result<Vec<u8>, String>,
        fds: &[BorrowedFd<'_>],
        notify: &mut dyn FnMut(Notice),
    ) {
        if let Err(why) = &answer {
            self.tell_refused(why.clone(), notify);
        }
        let Some(agent) = &self.agent else { return };
        if frame::send(agent.as_fd(), &frame::reply(answer), fds).is_err() {
            // It reads nothing, or it is gone: its end of the socket is closed, so that it knows.
            self.lose_agent(notify);
        }
    }

    /// Tells of at most one refusal a second: an agent can make many.
    fn tell_refused(&mut self, why: String, notify: &mut dyn FnMut(Notice)) {
        let since_ns = self.now_ns.saturating_sub(self.told_ns);
        if self.told_ns == 0 || u128::from(since_ns) >= REFUSALS_INTERVAL.as_nanos() {
            self.told_ns = self.now_ns;
            notify(Notice::Refused(why));
        }
    }

    fn lose_agent(&mut self, notify: &mut dyn FnMut(Notice)) {
        notify(Notice::Went);
        self.agent = None;
        self.left_ns = self.held.as_ref().map(|_| self.now_ns);
    }

    /// Gives every flow back and unregisters the algorithm.
    fn let_go(&mut self, notify: &mut dyn FnMut(Notice)) -> Result<Walked, String> {
        let Some(mut held) = self.held.take() else { return Ok(Walked::default()) };
        let walked = held.let_go().map_err(text)?;
        notify(Notice::LetGo { changed: walked.changed, refused: walked.refused });
        Ok(walked)
    }

    fn lose_patience(&mut self, notify: &mut dyn FnMut(Notice)) {
        let (Some(left_ns), Some(patience)) = (self.left_ns, self.patience) else { return };
        if u128::from(self.now_ns.saturating_sub(left_ns)) < patience.as_nanos() {
            return;
        }
        self.left_ns = None;
        notify(Notice::Abandoned(patience));
        if let Err(why) = self.let_go(notify) {
            notify(Notice::Warning(why));
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // A path that is gone needs nothing.
        let _ = fs::remove_file(&self.path);
    }
}

fn text(error: Error) -> String {
    error.to_string()
}

fn listen_at(path: &Path, user: u32) -> io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    bind(&listener, &SocketAddrUnix::new(path)?)?;
    // Nobody can connect before `listen`, so the mode is in force before anybody does.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    chown(path, Some(user), None)?;
    listen(&listener, 4)?;
    Ok(listener)
}
