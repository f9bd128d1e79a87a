//! The calls of a datapath that need privileges. The datapath's own process carries them out
//! ([`crate::privileged`]), or a broker does ([`crate::broker`]).

use crate::Error;
use crate::cgroups::CgroupChange;
use std::collections::HashSet;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// The maps that a datapath reads and writes, by their names, in the order of [`Handles::maps`].
pub const MAPS: [&str; 8] = [
    "remuda_slots",
    "remuda_infos",
    "remuda_shared",
    "remuda_events",
    "remuda_reports",
    "remuda_refusals",
    "remuda_destinations",
    "remuda_flows",
];

/// What a start found on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// How many flows of a former agent were taken over.
    pub adopted: u64,
    /// A former agent had left itself as the host's default; this is the default now.
    pub mended: Option<String>,
    /// What did not succeed and did not keep the datapath from its start.
    pub warnings: Vec<String>,
}

/// The outcome of a walk over the sockets of every network namespace.
#[derive(Debug, Default)]
pub struct Walked {
    /// The number of flows that changed their algorithm.
    pub changed: u64,
    /// The number of flows for which the kernel refused the change.
    pub refused: u64,
    /// [`Error::Namespaces`] if some namespaces were not walked to the end: a user can make the
    /// walk through a namespace fail, and the flows of all others have changed.
    pub missed: Option<Error>,
}

/// What a datapath needs of a loaded object.
#[derive(Debug)]
pub struct Handles {
    /// Slots, descriptions, counters, both rings, refused sockets, destinations, and the flows'
    /// storage.
    pub maps: [OwnedFd; MAPS.len()],
    /// The name for `TCP_CONGESTION`.
    pub name: String,
    /// Whether the kernel accepted the iterator over the flows.
    pub can_look: bool,
}

/// Carries out the calls of a datapath that need privileges.
pub trait Privileges: Send {
    /// Registers the algorithm: from now on sockets can ask for it by name.
    fn attach(&mut self) -> Result<(), Error>;
    /// See [`crate::Datapath::attach_cgroup`].
    fn attach_cgroup(&mut self, cgroup: &Path) -> Result<CgroupChange, Error>;
    /// See [`crate::Datapath::follow_cgroups`].
    fn follow_cgroups(&mut self) -> Result<Vec<CgroupChange>, Error>;
    /// See [`crate::Datapath::adopt`].
    fn adopt(&mut self) -> Result<Walked, Error>;
    /// See [`crate::Datapath::let_go`].
    fn let_go(&mut self) -> Result<Walked, Error>;
    /// Checks, compiles and loads the program of an `INSTALL`. Returns its index in the jump table.
    fn install(&mut self, message: &[u8]) -> Result<u32, Error>;
    /// The link of the iterator over the flows.
    fn looker(&mut self) -> Result<OwnedFd, Error>;
    /// Changes the algorithm of the flows in these network namespaces as their slots say.
    fn recall(&mut self, namespaces: &HashSet<u32>, now_ns: u64) -> Result<(), Error>;
    /// Frees the slot of a flow whose end the kernel side could not see.
    fn vacate(&mut self, sid: u32) -> Result<(), Error>;
    /// Checks that the kernel has an algorithm, and loads its module.
    fn check_native(&mut self, name: &str) -> Result<(), Error>;
    /// Whether whoever had the privileges is gone: nothing more can be asked.
    fn are_lost(&mut self) -> bool {
        false
    }
    /// Takes out what keeps the algorithm registered if the broker goes.
    fn release(&mut self) -> Registered {
        Registered::default()
    }
    /// Takes back what [`Self::release`] took out.
    fn retain(&mut self, _registered: Registered) {}
    /// The descriptor of the BPF program at an index of the jump table, if it is in this process.
    fn program(&self, _index: u32) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The BPF program that runs at every ACK, if it is in this process.
    fn dispatcher(&self) -> Result<BorrowedFd<'_>, Error> {
        Err(Error::Template("the program is in another process"))
    }
}

/// What keeps the algorithm registered, and cgroups attached, while there is no broker.
#[derive(Debug, Default)]
#[expect(dead_code, reason = "the descriptors only have to stay open")]
pub struct Registered(pub(crate) Vec<OwnedFd>);
