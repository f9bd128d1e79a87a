//! What the BPF datapath has of the memory: how a flow to a destination begins, before the agent
//! knows of the flow.
//!
//! The kernel's map is compared with the memory, and changed where it differs: once a second if the
//! memory has changed, less often if it is large, and a bounded number of entries at a time. It
//! belongs to the datapath that was loaded, so a dead agent leaves none.

use crate::clock;
use crate::host::Host;
use crate::lock::lock;
use crate::programs;
use remuda_bpf::{Beginning, Datapath};
use remuda_selector::antelope::memory::{self, Network};
use std::collections::HashMap;
use std::sync::Mutex;

/// How often the memory is looked at, if there is little in it; and with how many entries more it
/// is that much less often, as a look takes the longer the more there are.
const LOOK_INTERVAL_NS: u64 = 1_000_000_000;
const LOOK_ENTRIES: u64 = 8_192;
/// How often, if nothing has changed in it: what is too old is taken out.
const PRUNE_INTERVAL_NS: u64 = 60_000_000_000;
/// Entries changed at a time: some two milliseconds of the run loop's.
const BATCH: usize = 1_024;

/// What the kernel has, as far as this agent knows.
#[derive(Debug, Default)]
pub struct InKernel {
    has: HashMap<Network, Beginning>,
    revision: Option<u64>,
    looked_ns: u64,
    pruned_ns: u64,
    is_behind: bool,
}

/// The number of the program of that arm.
fn uid_of(arm: &'static str) -> Option<u32> {
    let program = remuda_algorithms::arm(arm)?.program;
    programs::ours().ok()?.iter().find(|it| it.id == program).map(|it| it.uid)
}

impl InKernel {
    /// Brings the kernel a step nearer to the memory. Says whether there is more to do at once.
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
        let gone = self.has.keys().filter(|network| !wanted.contains_key(*network));
        let gone: Vec<Network> = gone.take(BATCH).copied().collect();
        let is_new = |(network, it): &(&Network, &Beginning)| self.has.get(network) != Some(it);
        let room = BATCH - gone.len();
        let mut new: Vec<(Network, Beginning)> =
            wanted.iter().filter(is_new).take(room + 1).map(|(of, it)| (*of, *it)).collect();
        self.is_behind = gone.len() == BATCH || new.len() > room;
        new.truncate(room);
        let done = self.change(bpf, &gone, &new);
        if done.is_err() {
            self.is_behind = false; // it is tried again with the next look
            self.revision = None;
        }
        done.map(|()| self.is_behind)
    }

    /// What the kernel should have; none if nothing has changed.
    fn wanted(&mut self, host: &Mutex<Host>, now_ns: u64) -> Option<HashMap<Network, Beginning>> {
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
        let all: Vec<(Network, memory::Beginning)> = host.memory().beginnings(now_s).collect();
        drop(host);
        let mut wanted = HashMap::with_capacity(all.len());
        for (network, memory::Beginning { arm, initial_cwnd_pkts }) in all {
            let program_uid = arm.and_then(uid_of);
            wanted.insert(network, Beginning { program_uid, initial_cwnd_pkts });
        }
        Some(wanted)
    }

    fn change(
        &mut self,
        bpf: &mut Datapath,
        gone: &[Network],
        new: &[(Network, Beginning)],
    ) -> Result<(), remuda_bpf::Error> {
        for network in gone {
            bpf.forget_destination(network.mapped())?;
            self.has.remove(network);
        }
        for (network, beginning) in new {
            bpf.set_destination(network.mapped(), *beginning)?;
            self.has.insert(*network, *beginning);
        }
        Ok(())
    }
}
