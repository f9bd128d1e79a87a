//! Carries CCP's messages between the BPF datapath and the agent's socket.
//!
//! portus has no heartbeats, and cannot ask for flows again. The bridge does both for it: it sends
//! the heartbeat while the agent listens and reads, and announces all flows to a new agent.
//! Algorithms on portus usually panic at a report of a program other than the one they set last, so
//! the bridge withholds such reports.

use super::agent_socket::{AgentSocket, Presence, Received, Sent};
use crate::Failure;
use ccp_agent::clock;
use remuda_bpf::{CgroupChange, Datapath, Walked};
use remuda_wire::to_datapath::encode_bare;
use remuda_wire::{Kind, ToAgent, ToDatapath};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// How often the bridge checks for an agent and sends the heartbeat. Flows fall back after three
/// times this without a heartbeat.
const LOOK_INTERVAL_NS: u64 = 50_000_000;
const WAIT_MS: i32 = 50;
/// An agent that reads nothing for this long counts as hung.
const HUNG_AFTER_NS: u64 = 500_000_000;
/// How often the bridge looks for flows whose events were lost, and for cgroups that came or went.
const RECONCILE_INTERVAL_NS: u64 = 200_000_000;
/// The most different refusals that are printed; others are only counted.
const REFUSALS_PRINTED_MAX: usize = 20;
/// The most messages taken from the agent before sending to it again.
const RECEIVE_MAX: usize = 256;

/// A message for the user at the terminal.
#[derive(Debug)]
pub enum Notice {
    Waiting(PathBuf),
    Came(PathBuf),
    Went(PathBuf),
    Hung(PathBuf),
    Untrusted(String),
    Refused(String),
    Cgroup(CgroupChange),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(at) => write!(
                f,
                "no agent listens at {}: flows run Reno until one does\n\
                 fix: start the agent, or give its socket with --socket",
                at.display()
            ),
            Self::Came(at) => write!(f, "the agent at {} drives the flows", at.display()),
            Self::Went(at) => {
                let at = at.display();
                write!(f, "the agent at {at} has ended: flows run Reno until one comes")
            }
            Self::Hung(at) => {
                let at = at.display();
                write!(f, "the agent at {at} does not read: flows run Reno until it does")
            }
            Self::Untrusted(why) => write!(
                f,
                "{why}, which is neither root nor you: its agent is not obeyed\n\
                 fix: run the agent as root, or as the user of this command"
            ),
            Self::Refused(why) => write!(f, "an order of the agent is refused: {why}"),
            Self::Cgroup(change) => change.fmt(f),
        }
    }
}

/// What passed the bridge so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub flows: usize,
    pub reports: u64,
    pub orders: u64,
    /// Orders that the datapath refused, without those to flows that have ended.
    pub refused: u64,
}

pub struct Bridge {
    datapath: Datapath,
    socket: AgentSocket,
    outbox: Outbox,
    presence: Presence,
    /// When the agent's socket became full; `None` if it has room.
    full_since_ns: Option<u64>,
    /// Whether the user has been told that the agent hangs.
    hung: bool,
    looked_ns: u64,
    reconciled_ns: u64,
    counts: Counts,
    printed: HashSet<String>,
    started: bool,
}

/// Messages that wait for the agent, and the filter of those it gets.
#[derive(Default)]
struct Outbox {
    waiting: VecDeque<Vec<u8>>,
    /// Live flows, each with the program that the agent set last.
    programs: HashMap<u32, Option<u32>>,
}

impl Outbox {
    fn clear(&mut self) {
        self.waiting.clear();
        self.programs.clear();
    }

    /// Queues a message of the datapath, unless the agent should not get it.
    fn push(&mut self, message: &[u8]) {
        match ToAgent::parse(message) {
            Ok(ToAgent::Ready { .. }) => {}
            Ok(ToAgent::Create { sid, .. }) => {
                self.programs.insert(sid, None);
            }
            Ok(ToAgent::Measure { sid, fields: 0, .. }) => {
                self.programs.remove(&sid);
            }
            Ok(ToAgent::Measure { sid, uid, .. })
                if self.programs.get(&sid) == Some(&Some(uid)) => {}
            _ => return,
        }
        self.waiting.push_back(message.to_vec());
    }

    /// Records an order that the datapath has accepted.
    fn obeyed(&mut self, order: &[u8]) {
        if let Ok(ToDatapath::ChangeProg { sid, uid, .. }) = ToDatapath::parse(order)
            && let Some(program) = self.programs.get_mut(&sid)
        {
            *program = Some(uid);
        }
    }
}

fn is_report(message: &[u8]) -> bool {
    message.first_chunk() == Some(&(Kind::Measure as u16).to_le_bytes())
}

impl Bridge {
    pub fn new(datapath: Datapath, socket: AgentSocket) -> Self {
        Self {
            datapath,
            socket,
            outbox: Outbox::default(),
            presence: Presence::Absent,
            full_since_ns: None,
            hung: false,
            looked_ns: 0,
            reconciled_ns: 0,
            counts: Counts::default(),
            printed: HashSet::new(),
            started: false,
        }
    }

    pub fn counts(&self) -> Counts {
        Counts { flows: self.outbox.programs.len(), ..self.counts }
    }

    /// Returns every flow to the kernel's own algorithm.
    pub fn let_go(mut self) -> Result<Walked, Failure> {
        Ok(self.datapath.let_go()?)
    }

    /// Waits until there is something to do, and does it. `obeyed` gets each order of the agent
    /// after the datapath has accepted it.
    pub fn turn(
        &mut self,
        notify: &mut dyn FnMut(Notice),
        obeyed: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Failure> {
        self.wait();
        let now_ns = clock::monotonic_ns();
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_INTERVAL_NS || !self.started {
            self.looked_ns = now_ns;
            self.look(notify);
        }
        self.receive(notify, obeyed);
        if self.is_served() {
            self.datapath.beat(now_ns);
        }
        if self.full_since_ns.is_none() {
            self.drain(now_ns, notify)?;
        }
        self.send(now_ns, notify);
        Ok(())
    }

    /// Whether an agent listens and reads.
    fn is_served(&self) -> bool {
        matches!(self.presence, Presence::Here | Presence::New) && !self.hung
    }

    fn look(&mut self, notify: &mut dyn FnMut(Notice)) {
        let presence = self.socket.look();
        let agent = || self.socket.agent().to_owned();
        let was_there = matches!(self.presence, Presence::Here | Presence::New);
        match &presence {
            Presence::New => {
                notify(Notice::Came(agent()));
                self.announce_all();
            }
            Presence::Here => {}
            Presence::Absent if was_there => notify(Notice::Went(agent())),
            Presence::Absent if !self.started => notify(Notice::Waiting(agent())),
            Presence::Absent => {}
            Presence::Untrusted(why) if presence != self.presence => {
                notify(Notice::Untrusted(why.clone()));
            }
            Presence::Untrusted(_) => {}
        }
        self.presence = presence;
        self.started = true;
    }

    /// Makes the next drain send READY and announce all live flows.
    fn announce_all(&mut self) {
        self.outbox.clear();
        self.full_since_ns = None;
        self.hung = false;
        let mut resync = Vec::new();
        encode_bare(&mut resync, Kind::Resync);
        // Cannot fail: the message is our own and uses no kernel call.
        let _ = self.datapath.handle(&resync);
        self.reconciled_ns = 0;
    }

    fn drain(&mut self, now_ns: u64, notify: &mut dyn FnMut(Notice)) -> Result<(), Failure> {
        let outbox = &mut self.outbox;
        self.datapath.drain_messages(&mut |message| outbox.push(message));
        if now_ns.saturating_sub(self.reconciled_ns) >= RECONCILE_INTERVAL_NS {
            self.reconciled_ns = now_ns;
            self.datapath.reconcile_messages(&mut |message| outbox.push(message));
            self.datapath.follow_cgroups()?.into_iter().for_each(|it| notify(Notice::Cgroup(it)));
        }
        Ok(())
    }

    /// Sends queued messages while the agent has room.
    fn send(&mut self, now_ns: u64, notify: &mut dyn FnMut(Notice)) {
        if !matches!(self.presence, Presence::Here | Presence::New) {
            self.outbox.waiting.clear();
            self.full_since_ns = None;
            return;
        }
        while let Some(message) = self.outbox.waiting.front() {
            match self.socket.send(message) {
                Sent::Done => {
                    self.counts.reports += u64::from(is_report(message));
                    self.full_since_ns = None;
                    self.outbox.waiting.pop_front();
                }
                Sent::Full => {
                    self.full(now_ns, notify);
                    return;
                }
                Sent::Gone => {
                    self.looked_ns = 0; // the next turn checks for the agent
                    self.outbox.waiting.clear();
                    return;
                }
            }
        }
        if std::mem::take(&mut self.hung) {
            notify(Notice::Came(self.socket.agent().to_owned()));
        }
    }

    /// The agent's socket is full. Until it has room, the datapath is not drained: its rings are
    /// the queue, which bounds the messages waiting here. Reports that find a ring full are lost,
    /// as on any datapath.
    fn full(&mut self, now_ns: u64, notify: &mut dyn FnMut(Notice)) {
        let since_ns = *self.full_since_ns.get_or_insert(now_ns);
        if !self.hung && now_ns.saturating_sub(since_ns) >= HUNG_AFTER_NS {
            self.hung = true;
            notify(Notice::Hung(self.socket.agent().to_owned()));
        }
    }

    fn receive(&mut self, notify: &mut dyn FnMut(Notice), obeyed: &mut dyn FnMut(&[u8])) {
        for _ in 0..RECEIVE_MAX {
            let message = match self.socket.receive() {
                Received::Nothing => return,
                Received::Message(message) => message,
                Received::OfUser(uid) => {
                    let why = format!("user {uid} has sent an order");
                    if self.printed.len() < REFUSALS_PRINTED_MAX && self.printed.insert(why.clone())
                    {
                        notify(Notice::Untrusted(why));
                    }
                    continue;
                }
            };
            match self.datapath.handle(message) {
                Ok(()) => {
                    self.counts.orders += 1;
                    self.outbox.obeyed(message);
                    obeyed(message);
                }
                Err(remuda_bpf::Error::NoFlow(_)) => {}
                Err(error) => {
                    self.counts.refused += 1;
                    let why = error.to_string();
                    if self.printed.len() < REFUSALS_PRINTED_MAX && self.printed.insert(why.clone())
                    {
                        notify(Notice::Refused(why));
                    }
                }
            }
        }
    }

    fn wait(&self) {
        let room = if self.full_since_ns.is_some() { libc::POLLOUT } else { 0 };
        let [events, reports] = self.datapath.poll_fds().map(|fd| fd.as_raw_fd());
        let own = (self.socket.fd(), libc::POLLIN | room);
        // While the agent has no room, the datapath's rings are not read.
        let rings = if room == 0 { libc::POLLIN } else { 0 };
        let mut polled = [(events, rings), (reports, rings), own]
            .map(|(fd, events)| libc::pollfd { fd, events, revents: 0 });
        // SAFETY: a valid array and its length. An interrupted wait is a short wait.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, WAIT_MS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_wire::to_agent::{Create, encode_measure, encode_ready};
    use remuda_wire::to_datapath::encode_change_prog;

    fn kinds(outbox: &Outbox) -> Vec<u8> {
        outbox.waiting.iter().map(|message| message[0]).collect()
    }

    #[test]
    fn the_agent_gets_ccp_s_messages_and_reports_of_the_program_it_set() {
        let (mut outbox, mut out) = (Outbox::default(), Vec::new());
        encode_bare(&mut out, Kind::Heartbeat);
        outbox.push(&out);
        encode_ready(&mut out, 0);
        outbox.push(&out);
        Create::default().encode(&mut out, 7);
        outbox.push(&out);
        encode_measure(&mut out, 7, 1, &[5]);
        outbox.push(&out); // a report of the previous agent's program
        encode_change_prog(&mut out, 7, 2, &[]);
        outbox.obeyed(&out);
        encode_measure(&mut out, 7, 1, &[5]);
        outbox.push(&out); // a report sent before the program changed
        assert_eq!(kinds(&outbox), [5, 0]);
        encode_measure(&mut out, 7, 2, &[5]);
        outbox.push(&out);
        encode_measure(&mut out, 7, 0, &[]);
        outbox.push(&out);
        assert_eq!(kinds(&outbox), [5, 0, 1, 1]);
        assert!(outbox.programs.is_empty());
        outbox.push(&[1]);
        assert_eq!(outbox.waiting.len(), 4);
    }
}
