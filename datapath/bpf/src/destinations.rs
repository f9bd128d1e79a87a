//! The agent's end of the map of destinations (bpf/destinations.h): how a flow begins, before the
//! agent knows of it.

use crate::Error;
use crate::error::tried;
use crate::layout::{self, ADDRESS_BITS};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};
use std::net::Ipv6Addr;

/// How flows to a destination begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// The program that measures them until they are told to run one, by the agent's number.
    pub program_uid: Option<u32>,
    /// Their initial window, in segments; 0 leaves it.
    pub initial_cwnd_pkts: u32,
}

#[derive(Debug)]
pub struct Destinations {
    map: MapHandle,
}

/// A key: a network of IPv6, or one of IPv4 written as such, and the bits of its prefix.
fn key((address, bits): (Ipv6Addr, u8)) -> [u8; size_of::<layout::Destination>()] {
    let mut key = [0; size_of::<layout::Destination>()];
    key[..4].copy_from_slice(&u32::from(bits).min(ADDRESS_BITS).to_ne_bytes());
    key[4..].copy_from_slice(&address.octets());
    key
}

impl Destinations {
    pub fn new(map: MapHandle) -> Self {
        Self { map }
    }

    /// Flows to there begin with the program at that place of the jump table (0: none), and with
    /// that window.
    pub fn set(
        &self,
        network: (Ipv6Addr, u8),
        program: u32,
        initial_cwnd_pkts: u32,
    ) -> Result<(), Error> {
        let mut value = [0; size_of::<layout::Beginning>()];
        value[..4].copy_from_slice(&program.to_ne_bytes());
        value[4..].copy_from_slice(&initial_cwnd_pkts.to_ne_bytes());
        let done = self.map.update(&key(network), &value, MapFlags::ANY);
        done.map_err(tried("noting a destination"))
    }

    /// They begin as others do. Nothing happens if they did.
    pub fn forget(&self, network: (Ipv6Addr, u8)) -> Result<(), Error> {
        match self.map.delete(&key(network)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(tried("forgetting a destination")(error))
            }
            _ => Ok(()),
        }
    }
}
