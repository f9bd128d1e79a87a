//! Linux TCP of this host by BPF, in this process: rings and slots in shared memory.

use crate::clock;
use crate::datapath::{Agent, Datapath, LetGo, Obey, Peer, Refusals};
use remuda_bpf::{DRAIN_RECORDS_MAX, DefaultAlgorithm, LOOK_INTERVAL, Sockets, Walked};
use remuda_wire::Order;
use std::os::fd::BorrowedFd;

/// The BPF datapath, and the host's default algorithm while that is ours.
pub struct BpfEnd {
    bpf: remuda_bpf::Datapath,
    default_algorithm: Option<DefaultAlgorithm>,
    /// The last comparison of slots with what was announced is to go on.
    reconciles: bool,
    /// How many refused sockets the agent has been told of.
    refused_told: u64,
}

impl BpfEnd {
    pub fn new(bpf: remuda_bpf::Datapath, default_algorithm: Option<DefaultAlgorithm>) -> Self {
        Self { bpf, default_algorithm, reconciles: false, refused_told: 0 }
    }

    /// Says which flow a socket is.
    pub fn sockets(&self) -> Result<Sockets, remuda_bpf::Error> {
        self.bpf.sockets()
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

    pub fn bpf(&mut self) -> &mut remuda_bpf::Datapath {
        &mut self.bpf
    }
}

impl Obey for remuda_bpf::Datapath {
    fn order(&mut self, _peer: &Peer, order: &Order<'_>) -> Result<(), String> {
        let done = Self::order(self, order);
        if matches!(order, Order::Install(_)) {
            // The kernel may take some milliseconds for each program, and its flows must not take
            // the agent for dead meanwhile.
            self.beat(clock::monotonic_ns());
        }
        match done {
            Ok(()) | Err(remuda_bpf::Error::NoFlow(_)) => Ok(()),
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
        let count = self.bpf.drain(&mut |bpf, event| agent.event(bpf, &Peer::Bpf, event));
        let looked = self.bpf.look(now_ns, &mut |bpf, event| agent.event(bpf, &Peer::Bpf, event));
        if let Err(error) = looked {
            tracing::warn!(%error, "looking at the flows under the kernel's own algorithms");
        }
        if self.reconciles {
            self.keep_house(agent, now_ns);
        }
        count >= DRAIN_RECORDS_MAX || self.reconciles
    }

    fn keep_house(&mut self, agent: &mut dyn Agent, _now_ns: u64) {
        match self.bpf.follow_cgroups() {
            Ok(changes) => changes.iter().for_each(|change| tracing::warn!("{change}")),
            Err(error) => tracing::warn!(%error, "looking at the cgroups"),
        }
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
        self.default_algorithm = None;
        match self.bpf.let_go() {
            Ok(Walked { changed, refused, missed: None }) => {
                LetGo { flows_let_go: changed, flows_left: refused }
            }
            Ok(Walked { changed, refused, missed: Some(error) }) => {
                tracing::warn!(%error, "giving the flows back");
                // How many flows those namespaces have is not known; the others have gone.
                let flows_left = (self.bpf.flows() as u64).saturating_sub(changed).max(refused);
                LetGo { flows_let_go: changed, flows_left }
            }
            Err(error) => {
                tracing::warn!(%error, "flows stay with the datapath's fallback");
                LetGo { flows_let_go: 0, flows_left: self.bpf.flows() as u64 }
            }
        }
    }
}
