//! Finds the first rule that matches a flow, without looking at all rules.
//!
//! A rule lies under one key that its flows must have: a port, a cgroup, a mark, a prefix, a user
//! or a namespace, namely the one that fewest rules have. A rule that has none, such as one of a
//! range of ports alone, is looked at for each flow.

use crate::select::Live;
use foldhash::fast::RandomState;
use ipnet::IpNet;
use remuda_wire::to_agent::FlowInfo;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Port(u16),
    Cgroup(u64),
    Mark(u32),
    Destination(IpNet),
    User(u32),
    Namespace(u64),
}

/// Where the rules lie, by their position.
#[derive(Debug, Default)]
pub struct Index {
    /// Positions, the first rule first. Each new flow costs some twenty lookups, so the hash is a
    /// fast one. Only the operator chooses keys of this map, so nobody can make them collide.
    by_key: HashMap<Key, Vec<usize>, RandomState>,
    /// The lengths of the prefixes among the keys, in bits, of IPv4 and of IPv6.
    lengths: [BTreeSet<u8>; 2],
    others: Vec<usize>,
}

/// The keys under which a rule may lie. A rule whose cgroup does not exist matches nothing.
fn keys_of(rule: &Live) -> Vec<Key> {
    let on = rule.selector();
    let keys = [
        on.local_port.as_ref().and_then(|ports| ports.single()).map(Key::Port),
        rule.cgroup_id().map(Key::Cgroup),
        on.mark.and_then(|mark| mark.single()).map(Key::Mark),
        on.destination.map(Key::Destination),
        on.uid.map(|user| Key::User(user.0)),
        on.netns.map(|netns| Key::Namespace(netns.0)),
    ];
    keys.into_iter().flatten().collect()
}

fn family(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

impl Index {
    pub fn of(rules: &[Live]) -> Self {
        let keys: Vec<Vec<Key>> = rules.iter().map(keys_of).collect();
        let mut counts: HashMap<Key, usize> = HashMap::new();
        for key in keys.iter().flatten() {
            *counts.entry(*key).or_default() += 1;
        }
        let mut index = Self::default();
        for (position, of_rule) in keys.iter().enumerate() {
            if rules[position].selector().cgroup.is_some() && rules[position].cgroup_id().is_none()
            {
                continue;
            }
            let Some(key) = of_rule.iter().min_by_key(|key| counts[key]) else {
                index.others.push(position);
                continue;
            };
            if let Key::Destination(net) = key {
                index.lengths[family(net.addr())].insert(net.prefix_len());
            }
            index.by_key.entry(*key).or_default().push(position);
        }
        index
    }

    /// The first rule that matches the flow, from a position on.
    pub fn first(&self, rules: &[Live], flow: &FlowInfo, from: usize) -> Option<usize> {
        let remote = flow.remote.0.to_canonical();
        let prefixes = self.lengths[family(remote)].iter().filter_map(|bits| {
            let net = IpNet::new(remote, *bits).ok()?.trunc();
            Some(Key::Destination(net))
        });
        let keys = [
            Key::Port(flow.local.1),
            Key::Cgroup(flow.cgroup_id),
            Key::Mark(flow.mark),
            Key::User(flow.origin.uid),
            Key::Namespace(flow.origin.netns),
        ];
        let under = keys.into_iter().chain(prefixes).filter_map(|key| self.by_key.get(&key));
        under.chain([&self.others]).fold(None, |first: Option<usize>, positions| {
            let begin = positions.partition_point(|at| *at < from);
            let earlier = positions[begin..].iter().copied();
            let mut earlier = earlier.take_while(|at| first.is_none_or(|first| *at < first));
            let found = earlier.find(|at| rules[*at].matches(flow));
            found.or(first)
        })
    }
}
