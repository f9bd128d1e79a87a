//! Copies the memory into a map of the BPF datapath, so that the kernel can start a flow to a known
//! destination before the agent hears of the flow.
//!
//! The agent compares the map with the memory and updates what differs: once a second if the memory
//! has changed, less often if the memory is large, and a limited number of entries at a time. The
//! map belongs to the loaded datapath, so it disappears with the agent.

use crate::clock;
use crate::host::Host;
use crate::lock::lock;
use crate::programs;
use remuda_bpf::{Datapath, Reached, RememberedStart};
use remuda_selector::antelope::memory::{self, HOST_NETNS, Network, Route};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Mutex;

/// The shortest time between two comparisons. The time grows by as much again for every
/// `LOOK_ENTRIES` entries, because a comparison then takes longer.
const LOOK_INTERVAL_NS: u64 = 1_000_000_000;
const LOOK_ENTRIES: u64 = 8_192;
/// How often entries that are too old are removed, even if nothing has changed.
const PRUNE_INTERVAL_NS: u64 = 60_000_000_000;
/// Entries changed at a time; this takes the run loop some two milliseconds.
const BATCH: usize = 1_024;

/// The entries that this agent has put into the kernel's map.
#[derive(Debug, Default)]
pub struct InKernel {
    has: HashMap<Route, RememberedStart>,
    revision: Option<u64>,
    looked_ns: u64,
    pruned_ns: u64,
    is_behind: bool,
}

/// The agent's number of the arm's program.
fn uid_of(arm: &'static str) -> Option<u32> {
    let program = remuda_algorithms::arm(arm)?.program;
    programs::ours().ok()?.iter().find(|it| it.id == program).map(|it| it.uid)
}

/// The kernel's key of an entry.
fn reached(route: &Route) -> Reached {
    Reached { netns: route.netns, network: route.network.mapped() }
}

/// In the map, IPv4 lies within IPv6 (::ffff:0:0/96). A prefix of IPv6 around that would hold for
/// IPv4 too, so IPv4 gets an entry of its own, which says nothing.
fn keep_families_apart(wanted: &mut HashMap<Route, RememberedStart>) {
    let all_v4 = Network::within(Ipv4Addr::UNSPECIFIED.into(), 0);
    let (first, _) = all_v4.range();
    let holds_v4 = |network: &Network| {
        let (from, to) = network.range();
        network.address().is_ipv6() && (from..=to).contains(&first)
    };
    if wanted.keys().any(|route| holds_v4(&route.network)) {
        wanted.entry(Route { netns: HOST_NETNS, network: all_v4 }).or_default();
    }
}

impl InKernel {
    /// Updates the kernel's map by one batch. Returns whether another batch is due at once.
    pub fn follow(
        &mut self,
        bpf: &mut Datapath,
        host: &Mutex<Host>,
        now_ns: u64,
    ) -> Result<bool, remuda_bpf::Error> {
        let interval_ns = LOOK_INTERVAL_NS * (1 + self.has.len() as u64 / LOOK_ENTRIES);
        let is_due = now_ns.saturating_sub(self.looked_ns) >= interval_ns;
        if !(is_due || self.is_behind || self.revision.is_none()) {
            return Ok(false);
        }
        self.looked_ns = now_ns;
        let Some(wanted) = self.wanted(host, now_ns) else { return Ok(false) };
        let gone = self.has.keys().filter(|route| !wanted.contains_key(*route));
        let gone: Vec<Route> = gone.take(BATCH).copied().collect();
        let is_new = |(route, it): &(&Route, &RememberedStart)| self.has.get(route) != Some(it);
        let room = BATCH - gone.len();
        let mut new: Vec<(Route, RememberedStart)> =
            wanted.iter().filter(is_new).take(room + 1).map(|(of, it)| (*of, *it)).collect();
        self.is_behind = gone.len() == BATCH || new.len() > room;
        new.truncate(room);
        let done = self.change(bpf, &gone, &new);
        if done.is_err() {
            self.is_behind = false; // the next comparison tries again
            self.revision = None;
        }
        done.map(|()| self.is_behind)
    }

    /// The entries that the map should have; `None` if nothing has changed.
    fn wanted(
        &mut self,
        host: &Mutex<Host>,
        now_ns: u64,
    ) -> Option<HashMap<Route, RememberedStart>> {
        let now_s = clock::monotonic_s();
        let mut host = lock(host);
        if now_ns.saturating_sub(self.pruned_ns) >= PRUNE_INTERVAL_NS {
            self.pruned_ns = now_ns;
            host.memory_mut().prune(now_s);
        }
        let revision = Some(host.memory().revision());
        if revision == self.revision && !self.is_behind {
            return None;
        }
        self.revision = revision;
        let all: Vec<(Route, memory::RememberedStart)> = host.memory().starts(now_s).collect();
        drop(host);
        let mut wanted = HashMap::with_capacity(all.len());
        for (route, memory::RememberedStart { arm, initial_cwnd_pkts }) in all {
            let program_uid = arm.and_then(uid_of);
            wanted.insert(route, RememberedStart { program_uid, initial_cwnd_pkts });
        }
        keep_families_apart(&mut wanted);
        Some(wanted)
    }

    fn change(
        &mut self,
        bpf: &mut Datapath,
        gone: &[Route],
        new: &[(Route, RememberedStart)],
    ) -> Result<(), remuda_bpf::Error> {
        for route in gone {
            bpf.forget_destination(reached(route))?;
            self.has.remove(route);
        }
        for (route, remembered) in new {
            bpf.set_destination(reached(route), *remembered)?;
            self.has.insert(*route, *remembered);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_prefix_of_ipv6_does_not_hold_for_ipv4() {
        let start = RememberedStart { program_uid: None, initial_cwnd_pkts: 40 };
        let of = |networks: &[&str]| {
            let network = |text: &&str| text.parse().expect("a network");
            let route = |network| (Route { netns: HOST_NETNS, network }, start);
            let mut wanted = networks.iter().map(network).map(route).collect();
            keep_families_apart(&mut wanted);
            let all_v4 = Route { netns: HOST_NETNS, network: network(&"0.0.0.0/0") };
            wanted.get(&all_v4).map(|start| start.initial_cwnd_pkts)
        };
        assert_eq!(of(&["::/0"]), Some(0));
        assert_eq!(of(&["::/80", "192.0.2.0/24"]), Some(0));
        assert_eq!(of(&["::/0", "0.0.0.0/0"]), Some(40));
        assert_eq!(of(&["2001:db8::/32", "192.0.2.0/24"]), None);
    }
}
