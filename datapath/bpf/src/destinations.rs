//! The agent's side of the map of destinations (bpf/destinations.h): how a flow begins before the
//! agent has seen it.

use crate::Error;
use crate::error::tried;
use crate::layout::{self, ADDRESS_BITS, NETNS_BITS};
use crate::maps::Map;
use libbpf_rs::ErrorKind;
use std::net::Ipv6Addr;

/// How flows to a destination begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RememberedStart {
    /// The uid of the program that measures a flow until the agent gives it a program.
    pub program_uid: Option<u32>,
    /// The initial window, in segments; 0 leaves the kernel's.
    pub initial_cwnd_pkts: u32,
}

#[derive(Debug)]
pub struct Destinations {
    map: Map,
}

/// A network as the flows of one network namespace reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reached {
    /// The cookie of the namespace; 0 is the agent's own. What is set there also holds for the
    /// other namespaces that the initial user namespace owns.
    pub netns: u64,
    /// The network's address as one of IPv6 (IPv4 is written as a mapped address), and the bits of
    /// its prefix there.
    pub network: (Ipv6Addr, u8),
}

impl From<(Ipv6Addr, u8)> for Reached {
    /// As the agent's own namespace reaches the network.
    fn from(network: (Ipv6Addr, u8)) -> Self {
        Self { netns: 0, network }
    }
}

/// The map's key: the bits of the prefix, the namespace, then the address.
fn key(to: Reached) -> [u8; size_of::<layout::Destination>()] {
    let (address, bits) = to.network;
    let bits = NETNS_BITS + u32::from(bits).min(ADDRESS_BITS);
    let mut key = [0; size_of::<layout::Destination>()];
    key[..4].copy_from_slice(&bits.to_ne_bytes());
    key[4..8].copy_from_slice(&(to.netns as u32).to_ne_bytes());
    key[8..12].copy_from_slice(&((to.netns >> 32) as u32).to_ne_bytes());
    key[12..].copy_from_slice(&address.octets());
    key
}

impl Destinations {
    pub fn new(map: Map) -> Self {
        Self { map }
    }

    /// Sets how flows to a network begin: with the program at index `program` of the jump table (0:
    /// none) and with this initial window (0: the kernel's).
    pub fn set(&self, to: Reached, program: u32, initial_cwnd_pkts: u32) -> Result<(), Error> {
        let mut value = [0; size_of::<layout::RememberedStart>()];
        value[..4].copy_from_slice(&program.to_ne_bytes());
        value[4..].copy_from_slice(&initial_cwnd_pkts.to_ne_bytes());
        let done = self.map.update(&key(to), &value);
        done.map_err(tried("remembering a destination"))
    }

    /// Removes the entry of a network, if there is one.
    pub fn forget(&self, to: Reached) -> Result<(), Error> {
        match self.map.delete(&key(to)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(tried("forgetting a destination")(error))
            }
            _ => Ok(()),
        }
    }
}
