//! The one `Ipc` that portus sees: it merges all datapaths, validates every message before portus
//! parses it, and never blocks on a send.
//!
//! portus ends its run loop on a malformed message, blocks in send when one datapath stalls, and
//! passes neither a flow's datapath nor anything of Remuda's own messages on.
//! So here: what portus would choke on is refused and counted; each datapath has a bounded queue of
//! its own; `HELLO`, `FLOW`, `SIGNALS` and `STATE` go to the flow host and not to portus; and whose
//! `CREATE` it is that portus handles stands in [`Junction::current`].

mod module;
mod unix;

pub use module::{DEVICE, ModuleEnd};
pub use unix::UnixEnd;

use crate::author::Authors;
use crate::clock;
use crate::events::Event;
use crate::host::{Host, Key};
use crate::memory::InKernel;
use portus::ipc::Ipc;
use remuda_algorithms::units::Bytes;
use remuda_bpf::{Datapath, DefaultAlgorithm};
use remuda_wire::to_agent::{Create, State, encode_measure, encode_state};
use remuda_wire::{ToAgent, ToDatapath};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The program number of a poke: portus counts its own from 1.
pub const POKE_UID: u32 = u32::MAX;
/// The heartbeat is written at least this often; by default it may be eight times as old.
const IDLE_WAIT_MS: u16 = 50;
/// A `MEASURE` is its header, program and count, and then its fields.
const MEASURE_FIELDS_AT: usize = 16;
/// [`remuda_bpf::LOOK_INTERVAL`].
const LOOK_WAIT_MS: u16 = remuda_bpf::LOOK_INTERVAL.as_millis() as u16;
/// While a datapath behind the unix socket has no room, it is looked at this often.
const ROOM_WAIT_MS: u16 = 5;
/// Lost lifecycle events are found this often.
const HOUSEKEEPING_NS: u64 = 200_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Peer {
    /// None: what portus starts with.
    #[default]
    Nobody,
    /// Linux TCP of this host.
    Bpf,
    /// The same, by the kernel module.
    Module,
    /// A datapath behind a unix datagram socket.
    Unix(Arc<PathBuf>),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("nobody"),
            Self::Bpf => f.write_str("bpf"),
            Self::Module => f.write_str("module"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Messages for datapaths that portus knows nothing of, until it has handled what caused them.
pub type Outbox = Arc<Mutex<Vec<(Peer, Vec<u8>)>>>;

/// What portus is handling now: the run loop is one thread.
#[derive(Debug, Default)]
pub struct Current {
    /// Whose message it is.
    pub peer: Peer,
    /// The `CREATE`, if it is one.
    pub create: Create,
    /// The program and the fields of the `MEASURE`, if it is one.
    pub report: (u32, Vec<u64>),
}

/// Locks what both threads share; a panic of the other one does not end this one.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The datapaths and what goes with them until the agent ends.
#[derive(Default)]
pub struct Datapaths {
    pub bpf: Option<Datapath>,
    /// Linux TCP by the kernel module, where it is loaded.
    pub module: Option<ModuleEnd>,
    pub unix: Option<UnixEnd>,
    /// The host's default algorithm, while it is ours.
    pub default_algorithm: Option<DefaultAlgorithm>,
}

/// What became of a message.
enum Passed {
    /// It is for portus, and so long.
    ToPortus(usize),
    /// So is it, and portus answers it with every program.
    IsReady(usize),
    /// It was ours, or refused.
    Kept,
    /// Its datapath speaks Remuda's own messages.
    Greeted,
    /// It is of a flow that this agent never heard of: a former agent had it.
    OfAStranger,
}

struct Inner {
    datapaths: Datapaths,
    inbox: VecDeque<(Peer, Vec<u8>)>,
    /// What a kernel did not take, until the host is told: who sends may hold its lock.
    refused: Vec<(Peer, String)>,
    housekept_ns: u64,
    /// The BPF datapath has more flows to announce at once.
    reconciles: bool,
    /// What the BPF datapath has of what is remembered.
    in_kernel: InKernel,
    /// The kernel's datapaths that have no programs yet.
    install: Vec<Peer>,
    /// Called once they have.
    ready: Option<Box<dyn FnOnce() + Send>>,
}

pub struct Junction {
    inner: RefCell<Inner>,
    host: Arc<Mutex<Host>>,
    current: Arc<Mutex<Current>>,
    outbox: Outbox,
    authors: Authors,
    stop: Arc<AtomicBool>,
    go_on: Arc<AtomicBool>,
}

impl Junction {
    /// Over these datapaths. `stop` (a signal's flag) ends the run loop by clearing `go_on`,
    /// portus' own flag, which means the opposite. `ready` is called once, from the run loop's
    /// thread, when the kernel's datapaths, if there are any, have all programs.
    pub fn new(
        datapaths: Datapaths,
        host: Arc<Mutex<Host>>,
        stop: Arc<AtomicBool>,
        go_on: Arc<AtomicBool>,
        ready: impl FnOnce() + Send + 'static,
    ) -> Self {
        let inner = Inner {
            install: datapaths.of_the_kernel(),
            datapaths,
            inbox: VecDeque::new(),
            refused: Vec::new(),
            housekept_ns: 0,
            reconciles: false,
            in_kernel: InKernel::default(),
            ready: Some(Box::new(ready)),
        };
        let (current, outbox) = (Arc::default(), Outbox::default());
        let authors = lock(&host).config.authors.clone();
        Self { inner: RefCell::new(inner), host, current, outbox, authors, stop, go_on }
    }

    /// Where to put messages of Remuda's own; for the run loop's own thread.
    pub fn outbox(&self) -> Outbox {
        Arc::clone(&self.outbox)
    }

    /// What portus is handling; for the run loop's own thread.
    pub fn current(&self) -> Arc<Mutex<Current>> {
        Arc::clone(&self.current)
    }

    /// The next message for portus, into `out`; none if nothing is there.
    fn next(&self, out: &mut [u8]) -> Option<(usize, Peer)> {
        let mut inner = self.inner.borrow_mut();
        // portus asks for more: so it has sent every program to who was ready.
        if inner.install.is_empty()
            && let Some(ready) = inner.ready.take()
        {
            while inner.remember(&self.host, clock::monotonic_ns()) {
                inner.beat(clock::monotonic_ns());
            }
            lock(&self.host).record(&Event::Ready {});
            ready();
        }
        loop {
            // A host's worth of flows may wait in the inbox, and for who hears nothing we are dead.
            inner.beat(clock::monotonic_ns());
            while let Some((peer, message)) = inner.inbox.pop_front() {
                match self.pass(&peer, &message, out) {
                    Passed::ToPortus(bytes) => return Some((bytes, peer)),
                    Passed::IsReady(bytes) => {
                        inner.install.retain(|waits| *waits != peer);
                        return Some((bytes, peer));
                    }
                    Passed::Kept => {}
                    Passed::Greeted => inner.greeted(&peer),
                    Passed::OfAStranger => inner.resync(&peer),
                }
            }
            let said = self.authors.receive();
            for (peer, sid) in self.pokes(&said, &mut inner) {
                let mut message = Vec::new();
                encode_measure(&mut message, sid, POKE_UID, &[0]);
                inner.inbox.push_back((peer, message));
            }
            if !inner.fill(&self.host) && inner.inbox.is_empty() {
                return None;
            }
        }
    }

    /// Tells the host what has happened beside the messages; the flows to poke.
    fn pokes(&self, answered: &[&'static str], inner: &mut Inner) -> Vec<Key> {
        let mut host = lock(&self.host);
        for (peer, reason) in std::mem::take(&mut inner.refused) {
            host.refuse(&peer, reason);
        }
        if !answered.is_empty() {
            host.answered(answered);
        }
        host.authors_went();
        host.take_pokes()
    }

    /// Passes a message on to its datapath. A flow that cannot have what it was told to run is told
    /// so, as a datapath would.
    fn pass_on(&self, message: &[u8], to: &Peer) {
        let mut inner = self.inner.borrow_mut();
        let Inner { datapaths, inbox, refused, .. } = &mut *inner;
        let error = match to {
            Peer::Nobody => None,
            Peer::Bpf => match datapaths.bpf.as_mut().map(|bpf| bpf.handle(message)) {
                None | Some(Ok(()) | Err(remuda_bpf::Error::NoFlow(_))) => None,
                Some(Err(error)) => Some(error.to_string()),
            },
            Peer::Module => {
                let sent = datapaths.module.as_mut().map(|module| module.send(message));
                sent.and_then(|sent| sent.err()).map(|error| error.to_string())
            }
            Peer::Unix(path) => {
                if let Some(unix) = &mut datapaths.unix {
                    unix.send(path, message);
                }
                None
            }
        };
        if let Some(error) = error {
            refused.push((to.clone(), error));
            if let Some(state) = refusal(message) {
                inbox.push_back((to.clone(), state));
            }
        }
    }

    /// Passes on what waits.
    fn flush(&self) {
        let waiting = std::mem::take(&mut *lock(&self.outbox));
        for (peer, message) in waiting {
            self.pass_on(&message, &peer);
        }
    }

    /// Checks a message, keeps what is ours, and copies what is portus'.
    fn pass(&self, peer: &Peer, message: &[u8], out: &mut [u8]) -> Passed {
        let mut host = lock(&self.host);
        let parsed = match ToAgent::parse(message) {
            Ok(parsed) => parsed,
            Err(error) => {
                host.refuse(peer, error.to_string());
                return Passed::Kept;
            }
        };
        let is_ready = matches!(parsed, ToAgent::Ready { .. });
        let key = |sid: u32| -> Key { (peer.clone(), sid) };
        match parsed {
            ToAgent::Hello(hello) => {
                host.greeted(peer, &hello);
                return Passed::Greeted;
            }
            ToAgent::Flow { sid, info } => {
                host.announce(key(sid), *info);
                return Passed::Kept;
            }
            ToAgent::Signals { sid, signals } => {
                host.signal(&key(sid), signals);
                return Passed::Kept;
            }
            ToAgent::State { sid, state, cwnd_bytes, at_us } => {
                host.state(&key(sid), (state, at_us), Bytes(cwnd_bytes.into()));
                return Passed::Kept;
            }
            ToAgent::Measure { sid, .. } if !host.knows(&key(sid)) => {
                host.counts.stale_reports += 1;
                return Passed::OfAStranger;
            }
            ToAgent::Measure { uid, .. } => {
                let words = message[MEASURE_FIELDS_AT..].chunks_exact(8);
                let fields = words.map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes")));
                lock(&self.current).report = (uid, fields.collect());
            }
            // portus forgets them, too; those that live are announced behind it.
            ToAgent::Ready { .. } => host.close_flows(peer),
            ToAgent::Create { create, .. } => lock(&self.current).create = create,
        }
        lock(&self.current).peer = peer.clone();
        let Some(room) = out.get_mut(..message.len()) else {
            host.refuse(peer, "longer than portus' buffer".to_owned());
            return Passed::Kept;
        };
        room.copy_from_slice(message);
        if is_ready { Passed::IsReady(message.len()) } else { Passed::ToPortus(message.len()) }
    }

    fn wait(&self) {
        let inner = self.inner.borrow();
        let lines = self.authors.lines();
        let fds = inner.datapaths.poll_fds();
        let fds = fds.into_iter().chain(lines.iter().map(|line| line.as_fd()));
        let mut polled: Vec<nix::poll::PollFd<'_>> =
            fds.map(|fd| nix::poll::PollFd::new(fd, nix::poll::PollFlags::POLLIN)).collect();
        let looks = inner.datapaths.bpf.as_ref().is_some_and(Datapath::looks);
        let is_full = inner.datapaths.unix.as_ref().is_some_and(UnixEnd::has_waiting);
        let limit_ms = match (is_full, looks) {
            (true, _) => ROOM_WAIT_MS,
            (_, true) => LOOK_WAIT_MS,
            (false, false) => IDLE_WAIT_MS,
        };
        // An interrupted or failed wait is a short wait: the caller looks again.
        let _ = nix::poll::poll(&mut polled, limit_ms);
    }
}

/// What a datapath says of a flow that cannot have what it was told to run, if that is what the
/// message was.
fn refusal(message: &[u8]) -> Option<Vec<u8>> {
    match ToDatapath::parse(message) {
        Ok(ToDatapath::ChangeProg { sid, .. } | ToDatapath::Native { sid, .. }) => {
            let mut state = Vec::new();
            encode_state(&mut state, sid, State::Refused, (0, clock::monotonic_us()));
            Some(state)
        }
        _ => None,
    }
}

impl Datapaths {
    /// Those that are installed programs before flows are served.
    fn of_the_kernel(&self) -> Vec<Peer> {
        let module = self.module.as_ref().is_some_and(ModuleEnd::is_open);
        let there = [(Peer::Bpf, self.bpf.is_some()), (Peer::Module, module)];
        there.into_iter().filter(|(_, is_there)| *is_there).map(|(peer, _)| peer).collect()
    }

    fn poll_fds(&self) -> Vec<BorrowedFd<'_>> {
        let bpf = self.bpf.iter().flat_map(|bpf| {
            bpf.poll_fds().map(|fd| {
                // SAFETY: the descriptors belong to `bpf`, which outlives the borrow of self.
                unsafe { BorrowedFd::borrow_raw(fd) }
            })
        });
        let module = self.module.iter().filter_map(ModuleEnd::poll_fd);
        bpf.chain(module).chain(self.unix.iter().map(|unix| unix.as_fd())).collect()
    }
}

impl Inner {
    fn greeted(&mut self, peer: &Peer) {
        if let (Peer::Unix(path), Some(unix)) = (peer, &mut self.datapaths.unix) {
            unix.greeted(path);
        }
    }

    /// Asks a datapath to announce its flows again. The BPF datapath's are adopted at start.
    fn resync(&mut self, peer: &Peer) {
        match peer {
            Peer::Unix(path) => self.datapaths.unix.iter_mut().for_each(|unix| unix.resync(path)),
            Peer::Module => self.datapaths.module.iter_mut().for_each(ModuleEnd::resync),
            Peer::Bpf | Peer::Nobody => {}
        }
    }

    /// Says to each datapath that we live, as often as it needs that.
    fn beat(&mut self, now_ns: u64) {
        let Datapaths { bpf, module, unix, .. } = &mut self.datapaths;
        if let Some(bpf) = bpf {
            bpf.beat(now_ns);
        }
        if let Some(module) = module {
            module.beat(now_ns);
        }
        if let Some(unix) = unix {
            unix.beat(now_ns);
        }
    }

    /// Brings what the BPF datapath knows of destinations a step nearer to what is remembered. Says
    /// whether there is more to do at once.
    fn remember(&mut self, host: &Mutex<Host>, now_ns: u64) -> bool {
        let Some(bpf) = &mut self.datapaths.bpf else { return false };
        if self.install.contains(&Peer::Bpf) {
            return false; // programs of arms are not there yet
        }
        self.in_kernel.follow(bpf, host, now_ns).unwrap_or_else(|error| {
            tracing::warn!(%error, "the kernel is not told what is remembered");
            false
        })
    }

    /// Beats, reads what the datapaths have, keeps house. Says whether something came.
    fn fill(&mut self, host: &Mutex<Host>) -> bool {
        let now_ns = clock::monotonic_ns();
        let housekeeping = now_ns.saturating_sub(self.housekept_ns) > HOUSEKEEPING_NS;
        if housekeeping {
            self.housekept_ns = now_ns;
        }
        self.beat(now_ns);
        if housekeeping {
            self.remember(host, now_ns);
        }
        let Self { datapaths, inbox, .. } = self;
        let before = inbox.len();
        if let Some(bpf) = &mut datapaths.bpf {
            let mut sink = |message: &[u8]| inbox.push_back((Peer::Bpf, message.to_vec()));
            bpf.drain(&mut sink);
            if let Err(error) = bpf.look(now_ns, &mut sink) {
                tracing::warn!(%error, "looking at the flows under the kernel's own algorithms");
            }
            if housekeeping || self.reconciles {
                self.reconciles = bpf.reconcile(&mut sink);
            }
        }
        if let Some(module) = &mut datapaths.module {
            if housekeeping {
                module.keep_house(host);
            }
            module.receive(host, |message| inbox.push_back((Peer::Module, message.to_vec())));
        }
        if let Some(unix) = &mut datapaths.unix {
            unix.receive(host, |peer, message| inbox.push_back((peer, message.to_vec())));
            unix.flush();
            unix.settle(host);
        }
        inbox.len() > before
    }
}

impl Ipc for Junction {
    type Addr = Peer;

    fn name() -> String {
        "remuda".to_owned()
    }

    /// Never blocks, and never fails: a datapath that does not take a message suffers alone. What
    /// waits in the outbox was said before it. Who calls may hold the host's lock.
    fn send(&self, message: &[u8], to: &Peer) -> portus::Result<()> {
        self.flush();
        self.pass_on(message, to);
        Ok(())
    }

    /// An error is only ever a time-out, after which portus looks whether it should end.
    fn recv(&self, out: &mut [u8]) -> portus::Result<(usize, Peer)> {
        self.flush();
        if self.stop.load(Ordering::Relaxed) {
            self.go_on.store(false, Ordering::SeqCst);
            return Err(portus::Error("the agent stops".to_owned()));
        }
        if let Some(next) = self.next(out) {
            return Ok(next);
        }
        self.wait();
        self.next(out).ok_or_else(|| portus::Error("nothing to read".to_owned()))
    }

    /// Gives the host's default back, then every flow.
    fn close(&mut self) -> portus::Result<()> {
        let inner = self.inner.get_mut();
        inner.datapaths.default_algorithm = None;
        let (mut flows_let_go, mut flows_left) = (0, 0);
        if let Some(mut bpf) = inner.datapaths.bpf.take() {
            match bpf.let_go() {
                Ok(counts) => (flows_let_go, flows_left) = counts,
                Err(error) => {
                    tracing::warn!(%error, "flows stay with the datapath's fallback");
                    flows_left = lock(&self.host).rows().len() as u64;
                }
            }
        }
        inner.datapaths.module = None;
        inner.datapaths.unix = None;
        let mut host = lock(&self.host);
        host.flows_left = flows_left;
        host.record(&Event::Stopped { flows_let_go, flows_left });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_wire::to_datapath::{encode_change_prog, encode_native, encode_update_fields};

    #[test]
    fn a_flow_is_told_what_it_cannot_run_and_nothing_else() {
        let mut message = Vec::new();
        encode_change_prog(&mut message, 7, 70_000, &[]);
        let state = refusal(&message).expect("a state");
        let Ok(ToAgent::State { sid, state, .. }) = ToAgent::parse(&state) else {
            panic!("not a STATE: {state:?}")
        };
        assert_eq!((sid, state), (7, State::Refused));
        encode_native(&mut message, 7, "cubic", 0);
        assert!(refusal(&message).is_some());
        encode_update_fields(&mut message, 7, &[]);
        assert_eq!(refusal(&message), None);
        assert_eq!(refusal(&[]), None);
    }
}
