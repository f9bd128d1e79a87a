//! Values by prefix: the longest prefix that contains an address counts.

use crate::antelope::memory::Network;
use std::collections::{BTreeMap, BTreeSet};

/// A map of prefixes of both families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixMap<V> {
    entries: BTreeMap<Network, V>,
    /// Lengths of prefixes that are or were in use, of IPv4 and of IPv6.
    bits: [BTreeSet<u8>; 2],
}

impl<V> Default for PrefixMap<V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), bits: Default::default() }
    }
}

impl<V> PrefixMap<V> {
    /// Adds a value, or replaces the one of that prefix.
    pub fn insert(&mut self, prefix: Network, value: V) -> Option<V> {
        self.bits[usize::from(prefix.address().is_ipv6())].insert(prefix.bits());
        self.entries.insert(prefix, value)
    }

    pub fn remove(&mut self, prefix: &Network) -> Option<V> {
        self.entries.remove(prefix)
    }

    /// Keeps the values of which `keeps` is true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Network) -> bool) {
        self.entries.retain(|prefix, _| keeps(prefix));
    }

    /// The value of this very prefix.
    pub fn get(&self, prefix: &Network) -> Option<&V> {
        self.entries.get(prefix)
    }

    /// The value of the longest prefix that holds all of `network`.
    pub fn longest(&self, network: Network) -> Option<(Network, &V)> {
        let bits = &self.bits[usize::from(network.address().is_ipv6())];
        bits.range(..=network.bits()).rev().find_map(|bits| {
            let prefix = Network::within(network.address(), *bits);
            self.entries.get(&prefix).map(|value| (prefix, value))
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (Network, &V)> {
        self.entries.iter().map(|(prefix, value)| (*prefix, value))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;
    use proptest::prelude::*;

    proptest! {
        /// The longest prefix is the one that a search through all finds.
        #[test]
        fn the_longest_prefix_counts(
            prefixes in prop::collection::vec((any::<u16>(), 0_u8..=32), 0..40),
            address: u16,
        ) {
            let at = |low: u16| IpAddr::V4((0x0a00_0000 | u32::from(low) << 9).into());
            let mut map = PrefixMap::default();
            for (low, bits) in prefixes {
                map.insert(Network::within(at(low), bits), bits);
            }
            let host = Network::host(at(address));
            let holds = |prefix: &Network| prefix.contains(&host);
            let want = map.iter().map(|(prefix, _)| prefix).filter(holds).max_by_key(Network::bits);
            let found = map.longest(host);
            prop_assert_eq!(found.map(|(prefix, _)| prefix), want);
            prop_assert!(found.is_none_or(|(prefix, bits)| prefix.bits() == *bits));
        }
    }
}
