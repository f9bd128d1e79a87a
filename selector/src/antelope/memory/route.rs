//! A destination as the flows of one network namespace reach it: the key of what is remembered.
//!
//! An address may be another host in each namespace, and who makes a namespace decides which. So
//! what flows of one namespace found out holds for that namespace. The agent's own namespace has
//! the number 0. What is known there is used in the host's other namespaces too, as long as their
//! own flows have found out nothing; namespaces that users have made get nothing of it.

use super::Network;
use core::net::IpAddr;

/// The number of the agent's own network namespace.
pub const HOST_NETNS: u64 = 0;

/// A network, as one network namespace reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The cookie of the network namespace, or [`HOST_NETNS`].
    pub netns: u64,
    pub network: Network,
}

/// The remote end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    pub address: IpAddr,
    /// The cookie of the flow's network namespace, or [`HOST_NETNS`].
    pub netns: u64,
    /// What is known in the agent's own namespace is used as well.
    pub follows_host: bool,
    /// The user that the flow counts for.
    pub uid: u32,
}

impl From<IpAddr> for Remote {
    /// As the agent's own namespace reaches the address, of a flow of root.
    fn from(address: IpAddr) -> Self {
        Self { address, netns: HOST_NETNS, follows_host: true, uid: 0 }
    }
}

impl Remote {
    /// The address, and the network around it.
    pub(super) fn routes(&self) -> [Route; 2] {
        self.routes_in(self.netns)
    }

    fn routes_in(&self, netns: u64) -> [Route; 2] {
        let networks = [Network::host(self.address), Network::around(self.address)];
        networks.map(|network| Route { netns, network })
    }

    /// The keys under which the flow may find something, the most telling first.
    pub(super) fn lookups(&self) -> impl Iterator<Item = Route> + use<> {
        let falls_back = self.follows_host && self.netns != HOST_NETNS;
        let host = falls_back.then(|| self.routes_in(HOST_NETNS));
        self.routes().into_iter().chain(host.into_iter().flatten())
    }
}
