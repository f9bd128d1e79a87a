//! The agent's side of the map of destinations (bpf/destinations.h): how a flow begins before the
//! agent has seen it.

use crate::Error;
use crate::error::tried;
use crate::layout::{self, ADDRESS_BITS};
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

/// The map's key: the bits of the prefix, then the IPv6 address (IPv4 is written as a mapped
/// address).
fn key((address, bits): (Ipv6Addr, u8)) -> [u8; size_of::<layout::Destination>()] {
    let mut key = [0; size_of::<layout::Destination>()];
    key[..4].copy_from_slice(&u32::from(bits).min(ADDRESS_BITS).to_ne_bytes());
    key[4..].copy_from_slice(&address.octets());
    key
}

impl Destinations {
    pub fn new(map: Map) -> Self {
        Self { map }
    }

    /// Sets how flows to a network begin: with the program at index `program` of the jump table (0:
    /// none) and with this initial window (0: the kernel's).
    pub fn set(
        &self,
        network: (Ipv6Addr, u8),
        program: u32,
        initial_cwnd_pkts: u32,
    ) -> Result<(), Error> {
        let mut value = [0; size_of::<layout::RememberedStart>()];
        value[..4].copy_from_slice(&program.to_ne_bytes());
        value[4..].copy_from_slice(&initial_cwnd_pkts.to_ne_bytes());
        let done = self.map.update(&key(network), &value);
        done.map_err(tried("remembering a destination"))
    }

    /// Removes the entry of a network, if there is one.
    pub fn forget(&self, network: (Ipv6Addr, u8)) -> Result<(), Error> {
        match self.map.delete(&key(network)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(tried("forgetting a destination")(error))
            }
            _ => Ok(()),
        }
    }
}
