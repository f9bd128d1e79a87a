//! The ways to datapaths: in this process, through a device, behind a socket, by netlink. Messages
//! are read and written here and nowhere else in the agent.

mod bpf;
mod guest;
mod libccp;
mod module;
mod netlink;
mod outbox;
mod unix;

use crate::datapath::{Datapath, Obey, Peer};

pub use bpf::BpfEnd;
pub use module::{DEVICE, ModuleEnd};
pub use netlink::NetlinkEnd;
pub use unix::UnixEnd;

/// How many kinds of datapaths there are.
pub const DATAPATHS: usize = 4;

/// The datapaths of the agent.
#[derive(Default)]
pub struct Datapaths {
    /// Linux TCP of this host.
    pub bpf: Option<BpfEnd>,
    /// Linux TCP by the kernel module, where it is loaded.
    pub module: Option<ModuleEnd>,
    /// Linux TCP by CCP's own module.
    pub netlink: Option<NetlinkEnd>,
    /// Datapaths behind the unix socket.
    pub unix: Option<UnixEnd>,
}

impl Datapaths {
    pub fn all(&self) -> impl Iterator<Item = &dyn Datapath> {
        let Self { bpf, module, netlink, unix } = self;
        let bpf = bpf.iter().map(|it| it as &dyn Datapath);
        let module = module.iter().map(|it| it as &dyn Datapath);
        let netlink = netlink.iter().map(|it| it as &dyn Datapath);
        bpf.chain(module).chain(netlink).chain(unix.iter().map(|it| it as &dyn Datapath))
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut dyn Datapath> {
        let Self { bpf, module, netlink, unix } = self;
        let bpf = bpf.iter_mut().map(|it| it as &mut dyn Datapath);
        let module = module.iter_mut().map(|it| it as &mut dyn Datapath);
        let netlink = netlink.iter_mut().map(|it| it as &mut dyn Datapath);
        bpf.chain(module).chain(netlink).chain(unix.iter_mut().map(|it| it as &mut dyn Datapath))
    }

    /// Lets `act` give orders to the datapath that reaches `peer`.
    pub fn with(&mut self, peer: &Peer, act: &mut dyn FnMut(&mut dyn Obey)) {
        if let Some(datapath) = self.all_mut().find(|datapath| datapath.reaches(peer)) {
            act(datapath);
        }
    }
}
