//! Gives each shell its addresses, so that shells nest and run side by side without NAT.
//!
//! As in Mahimahi, addresses come from 100.64.0.0/10 (RFC 6598). Each shell has a block of them,
//! and divides it among the shells called within it. So a namespace reaches every shell below it by
//! one route to that shell's block, and everything else by its default route.
//!
//! ```text
//! where it is called        100.64.0.1/16   ─┐ mm-delay
//!   └ behind it             100.64.0.2/16   ─┘
//!     called there          100.64.16.1/20  ─┐ mm-link
//!       └ behind both       100.64.16.2/20  ─┘
//! ```

use crate::subnet::Subnet;
use std::net::Ipv4Addr;

/// Prefix lengths of the blocks at each depth: 64 shells side by side on a host, then 15, 15, 3, 3
/// and 3.
const BITS: [u8; 6] = [16, 20, 24, 26, 28, 30];
/// How deep shells nest.
pub(super) const DEPTH_MAX: usize = BITS.len();

/// The range from which shells get their addresses.
pub(super) const ALL: Subnet = Subnet { address: Ipv4Addr::new(100, 64, 0, 0), bits: 10 };

/// The addresses of a shell and of all shells within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block(Subnet);

impl Block {
    /// The block of the shell whose inner end has this address; `None` if it is no shell's inner
    /// end.
    pub(super) fn of_ingress(end: Subnet) -> Option<Self> {
        let block = Self(Subnet { address: end.network(), bits: end.bits });
        let inside = Subnet { bits: ALL.bits, ..end }.network() == ALL.address;
        (inside && BITS.contains(&end.bits) && block.ingress() == end).then_some(block)
    }

    /// The blocks that a new shell may take: within `outer`, or directly on the host.
    pub(super) fn free(outer: Option<Self>) -> impl Iterator<Item = Self> {
        let within = outer.map_or(ALL, |block| block.0);
        let bits = BITS.into_iter().find(|bits| *bits > within.bits);
        // The first block in `outer` contains the ends of that shell itself. A host has no such
        // ends.
        let first = u32::from(outer.is_some());
        let count = bits.map_or(0, |bits| 1 << (bits - within.bits));
        (first..count).zip(std::iter::repeat(bits.unwrap_or(32))).map(move |(number, bits)| {
            let base = within.address.to_bits() + (number << (32 - bits));
            Self(Subnet { address: Ipv4Addr::from_bits(base), bits })
        })
    }

    /// Whether the block shares an address with a subnet.
    pub(super) fn overlaps(self, subnet: Subnet) -> bool {
        self.0.overlaps(subnet)
    }

    /// The address outside, where the shell was called.
    pub(super) fn egress(self) -> Subnet {
        self.host(1)
    }

    /// The address inside, where the shell's command runs.
    pub(super) fn ingress(self) -> Subnet {
        self.host(2)
    }

    fn host(self, number: u32) -> Subnet {
        let Subnet { address, bits } = self.0;
        Subnet { address: Ipv4Addr::from_bits(address.to_bits() + number), bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(outer: Option<Block>) -> Option<Block> {
        Block::free(outer).next()
    }

    #[test]
    fn shells_nest_six_deep_and_each_finds_its_block_again() {
        let (mut outer, mut ends) = (None, Vec::new());
        while let Some(block) = first(outer) {
            assert_eq!(Block::of_ingress(block.ingress()), Some(block));
            assert_eq!(Block::of_ingress(block.egress()), None);
            ends.push(block.egress().to_string());
            outer = Some(block);
        }
        assert_eq!(
            ends,
            [
                "100.64.0.1/16",
                "100.64.16.1/20",
                "100.64.17.1/24",
                "100.64.17.65/26",
                "100.64.17.81/28",
                "100.64.17.85/30"
            ]
        );
        assert_eq!(ends.len(), DEPTH_MAX);
    }

    #[test]
    fn blocks_side_by_side_share_no_address_and_leave_the_outer_ends_alone() {
        let outer = first(None);
        let inner: Vec<Block> = Block::free(outer).collect();
        assert_eq!((Block::free(None).count(), inner.len()), (64, 15));
        for (at, one) in inner.iter().enumerate() {
            let within =
                |end: Subnet| Subnet { bits: one.0.bits, ..end }.network() == one.0.address;
            assert!(!within(outer.unwrap().ingress()) && !within(outer.unwrap().egress()));
            assert!(inner[..at].iter().all(|other| !within(other.ingress())));
        }
    }

    #[test]
    fn an_address_of_another_is_no_shells() {
        let end = |a, b, c, d, bits| Subnet { address: Ipv4Addr::new(a, b, c, d), bits };
        for other in [end(10, 11, 0, 2, 24), end(100, 64, 0, 2, 32), end(100, 128, 0, 2, 16)] {
            assert_eq!(Block::of_ingress(other), None);
        }
    }
}
