//! The BPF datapath: its kernel side is loaded in this process, or by a broker.
//!
//! If the broker goes, the flows run on under this agent. When a broker comes again, it loads the
//! kernel side anew and takes the flows over, which looks to the agent as if it had started anew.

use crate::clock;
use crate::datapath::{Agent, Datapath, LetGo, Obey, Peer, Refusals};
use crate::trouble::Trouble;
use remuda_bpf::{
    DRAIN_RECORDS_MAX, Datapath as Bpf, Error, LOOK_INTERVAL, Sockets, Started, Walked,
};
use remuda_wire::Order;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

/// The shortest time between two tries to reach a broker that is gone.
const RETRY_NS: u64 = 500_000_000;

type Reconnection = Result<(Bpf, Started), remuda_bpf::broker::Unreached>;

pub struct BpfEnd {
    bpf: Bpf,
    sockets: Sockets,
    /// The broker's socket, if the kernel side is loaded by one.
    broker: Option<PathBuf>,
    /// A thread that waits for a broker to load the kernel side again.
    reconnecting: Option<JoinHandle<Reconnection>>,
    tried_ns: u64,
    /// The kernel side has been loaded again, and knows nothing that was set before.
    is_new: bool,
    /// The last comparison of slots with what was announced is to go on.
    reconciles: bool,
    /// Whether flows stay with the datapath when the agent ends.
    hands_over: bool,
    /// Failures to look at flows under the kernel's own algorithms, for warnings.
    looking: Trouble,
    /// Failures to follow the cgroups, for warnings.
    following: Trouble,
    /// How many refused sockets the agent has been told of.
    refused_told: u64,
}

impl BpfEnd {
    /// `broker`: the socket of the broker that `bpf` was loaded by.
    pub fn new(bpf: Bpf, broker: Option<PathBuf>, hands_over: bool) -> Self {
        Self {
            sockets: bpf.sockets(),
            bpf,
            broker,
            reconnecting: None,
            tried_ns: 0,
            is_new: false,
            reconciles: false,
            hands_over,
            looking: Trouble::default(),
            following: Trouble::default(),
            refused_told: 0,
        }
    }

    /// Says which flow a socket is.
    pub fn sockets(&self) -> Sockets {
        self.sockets.clone()
    }

    /// Tells the agent of refused sockets, if there are new ones.
    fn tell_refusals(&mut self, agent: &mut dyn Agent) {
        let counters = self.bpf.counters();
        if counters.refused == self.refused_told {
            return;
        }
        self.refused_told = counters.refused;
        match self.bpf.refusals() {
            Ok(refused) => agent.sockets_refused(Refusals {
                refused,
                sockets: counters.refused,
                table_full: counters.table_full,
                flows_max: self.bpf.flows_max(),
            }),
            Err(error) => tracing::warn!(%error, "reading which sockets were refused"),
        }
    }

    pub fn bpf(&mut self) -> &mut Bpf {
        &mut self.bpf
    }

    /// Whether the kernel side has been loaded anew since the last call.
    pub fn take_is_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// If the broker is gone, tries every half second to reach the next one.
    fn seek_broker(&mut self, now_ns: u64) {
        let is_due = now_ns.saturating_sub(self.tried_ns) >= RETRY_NS;
        let Some(broker) = self.broker.clone() else { return };
        if self.reconnecting.is_some() || !is_due || !self.bpf.is_orphaned() {
            return;
        }
        if self.tried_ns == 0 {
            tracing::warn!("the broker has gone: flows run on, and a broker is looked for");
        }
        self.tried_ns = now_ns;
        let registered = self.bpf.release();
        let thread = thread::Builder::new().name("broker".to_owned());
        // If no thread can start, the name is free for the next broker all the same.
        self.reconnecting = thread.spawn(move || Bpf::reconnect(&broker, registered)).ok();
    }

    /// Replaces the kernel side by the one that a new broker has loaded.
    fn meet_broker(&mut self, agent: &mut dyn Agent) {
        let Some(thread) = self.reconnecting.take_if(|thread| thread.is_finished()) else { return };
        match thread.join() {
            Ok(Ok((bpf, started))) => {
                agent.lost(&Peer::Bpf, "a new broker has loaded the datapath anew".to_owned());
                started.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                tracing::warn!(adopted = started.adopted, "a broker has come");
                self.sockets.become_those_of(&bpf.sockets());
                self.bpf = bpf;
                (self.tried_ns, self.is_new, self.reconciles) = (0, true, false);
            }
            Ok(Err(unreached)) => self.bpf.retain(unreached.registered),
            Err(_) => {}
        }
    }
}

impl Obey for Bpf {
    fn order(&mut self, _peer: &Peer, order: &Order<'_>) -> Result<(), String> {
        let done = Self::order(self, order);
        if matches!(order, Order::Install(_)) {
            // The kernel may take some milliseconds for each program, and its flows must not take
            // the agent for dead meanwhile.
            self.beat(clock::monotonic_ns());
        }
        match done {
            Ok(()) | Err(Error::NoFlow(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Obey for BpfEnd {
    fn order(&mut self, peer: &Peer, order: &Order<'_>) -> Result<(), String> {
        Obey::order(&mut self.bpf, peer, order)
    }
}

impl Datapath for BpfEnd {
    fn reaches(&self, peer: &Peer) -> bool {
        *peer == Peer::Bpf
    }

    fn beat(&mut self, now_ns: u64) {
        self.bpf.beat(now_ns);
    }

    fn drain(&mut self, agent: &mut dyn Agent, now_ns: u64) -> bool {
        self.meet_broker(agent);
        let count = self.bpf.drain(&mut |bpf, event| agent.event(bpf, &Peer::Bpf, event));
        let looked = self.bpf.look(now_ns, &mut |bpf, event| agent.event(bpf, &Peer::Bpf, event));
        if let Err(error) = looked
            && let Some(times) = self.looking.again(now_ns)
        {
            tracing::warn!(%error, times, "looking at the flows under the kernel's own algorithms");
        }
        if self.reconciles {
            self.keep_house(agent, now_ns);
        }
        count >= DRAIN_RECORDS_MAX || self.reconciles
    }

    fn keep_house(&mut self, agent: &mut dyn Agent, now_ns: u64) {
        match self.bpf.follow_cgroups() {
            Ok(changes) => changes.iter().for_each(|change| tracing::warn!("{change}")),
            Err(error) => {
                if let Some(times) = self.following.again(now_ns) {
                    tracing::warn!(%error, times, "looking at the cgroups");
                }
            }
        }
        self.seek_broker(now_ns);
        self.reconciles = self.bpf.reconcile(&mut |bpf, event| agent.event(bpf, &Peer::Bpf, event));
        self.tell_refusals(agent);
    }

    fn poll_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.bpf.poll_fds().to_vec()
    }

    fn wait_ms_max(&self) -> u16 {
        if self.bpf.looks() { LOOK_INTERVAL.as_millis() as u16 } else { u16::MAX }
    }

    /// Gives the host's default back, then every flow.
    fn let_go(&mut self) -> LetGo {
        if self.hands_over {
            return LetGo { flows_handed_over: self.bpf.flows() as u64, ..LetGo::default() };
        }
        match self.bpf.let_go() {
            Ok(Walked { changed, refused, missed: None }) => {
                LetGo { flows_let_go: changed, flows_left: refused, ..LetGo::default() }
            }
            Ok(Walked { changed, refused, missed: Some(error) }) => {
                tracing::warn!(%error, "giving the flows back");
                // How many flows those namespaces have is not known; the others have gone.
                let flows_left = (self.bpf.flows() as u64).saturating_sub(changed).max(refused);
                LetGo { flows_let_go: changed, flows_left, ..LetGo::default() }
            }
            Err(error) => {
                tracing::warn!(%error, "flows stay with the datapath's fallback");
                LetGo { flows_left: self.bpf.flows() as u64, ..LetGo::default() }
            }
        }
    }
}
