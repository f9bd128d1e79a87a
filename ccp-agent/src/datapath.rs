//! What the agent asks of a datapath: events up, orders down, as values.
//!
//! Only the edges in `ipc/` know how a datapath is reached. The one that lies in this process, BPF,
//! encodes nothing.

use remuda_bpf::Refused;
use remuda_wire::{Event, Order};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// A datapath, as flows are told apart by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Linux TCP of this host.
    Bpf,
    /// The same, by the kernel module.
    Module,
    /// Linux TCP by CCP's own module, ccp-kernel.
    Netlink,
    /// A datapath behind a unix datagram socket, by its address.
    Unix(Arc<PathBuf>),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bpf => f.write_str("bpf"),
            Self::Module => f.write_str("module"),
            Self::Netlink => f.write_str("netlink"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What the datapath says of the sockets that it refused.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    pub refused: Vec<Refused>,
    /// Refused sockets in total.
    pub sockets: u64,
    /// Sockets that found every slot taken.
    pub table_full: u64,
    pub flows_max: u32,
}

/// The datapath, and its number of the flow.
pub type Key = (Peer, u32);

/// Carries out what the agent wants of its flows. It never blocks: a datapath that does not take
/// orders suffers alone.
pub trait Obey {
    /// Carries out one order for `peer`, whole or not at all; the error says why not. An order for
    /// a flow that has just ended is no error.
    fn order(&mut self, peer: &Peer, order: &Order<'_>) -> Result<(), String>;

    /// `peer` has said `HELLO`: it speaks Remuda's own messages.
    fn greeted(&mut self, _peer: &Peer) {}

    /// `peer` reports for a flow that the agent does not know: it is asked, not too often, to
    /// announce its flows again.
    fn resync(&mut self, _peer: &Peer) {}
}

/// Takes what datapaths say.
pub trait Agent {
    /// `datapath` takes the orders that follow from the event, before this returns.
    fn event(&mut self, datapath: &mut dyn Obey, peer: &Peer, event: Event<'_>);

    /// A message of `peer`, or an order for it, was refused.
    fn refused(&mut self, peer: &Peer, reason: String);

    /// `peer` is gone, and its flows with it.
    fn lost(&mut self, peer: &Peer, reason: String);

    /// The datapath has refused sockets, of any user and for any reason, since it was loaded.
    fn sockets_refused(&mut self, _refusals: Refusals) {}
}

/// One way to reach datapaths.
pub trait Datapath: Obey {
    /// Whether `peer` is reached by it.
    fn reaches(&self, peer: &Peer) -> bool;

    /// Says that the agent lives, as often as a datapath needs that. `now_ns` is CLOCK_MONOTONIC.
    fn beat(&mut self, now_ns: u64);

    /// Hands a bounded number of events to `agent`. True: there may be more at once.
    fn drain(&mut self, agent: &mut dyn Agent, now_ns: u64) -> bool;

    /// What is to be done a few times a second, without haste.
    fn keep_house(&mut self, _agent: &mut dyn Agent, _now_ns: u64) {}

    /// Descriptors that become readable when there is something to drain.
    fn poll_fds(&self) -> Vec<BorrowedFd<'_>>;

    /// For how many milliseconds the agent may wait for these descriptors at most.
    fn wait_ms_max(&self) -> u16 {
        u16::MAX
    }

    /// The agent ends: flows go back to the kernel's own algorithm where a kernel has them. How
    /// many did, and how many did not.
    fn let_go(&mut self) -> LetGo {
        LetGo::default()
    }
}

/// Flows at the agent's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LetGo {
    /// They are back with the kernel's own algorithm.
    pub flows_let_go: u64,
    /// They stay in the datapath's fallback.
    pub flows_left: u64,
    /// They wait in the datapath's fallback for the next agent, as the configuration says.
    pub flows_handed_over: u64,
}
