//! Selectors whose cgroups are looked up: a directory has another id when it is made again.

use super::cgroup::Cgroup;
use super::selector::Selector;
use remuda_wire::to_agent::FlowInfo;
use std::collections::HashSet;

/// The most cgroup ids stored as seen; beyond it the list is cleared.
const CGROUPS_SEEN_MAX: usize = 4_096;

/// A selector, and the id that its cgroup had when last read.
#[derive(Clone, Debug)]
pub struct Live {
    on: Selector,
    cgroup_id: Option<u64>,
}

impl Live {
    pub fn new(on: Selector) -> Self {
        let mut live = Self { on, cgroup_id: None };
        live.read_cgroup();
        live
    }

    pub fn selector(&self) -> &Selector {
        &self.on
    }

    /// The id that its cgroup had when last read; `None` without a cgroup, or without a directory.
    pub fn cgroup_id(&self) -> Option<u64> {
        self.cgroup_id
    }

    /// Whether its cgroup is named by a directory, which can be made again.
    pub fn has_directory(&self) -> bool {
        self.on.cgroup.as_ref().is_some_and(|cgroup| cgroup.directory().is_some())
    }

    /// Reads the id of its cgroup again. Returns whether it is another one.
    pub fn read_cgroup(&mut self) -> bool {
        let id = self.on.cgroup.as_ref().and_then(Cgroup::id);
        std::mem::replace(&mut self.cgroup_id, id) != id
    }

    pub fn matches(&self, info: &FlowInfo) -> bool {
        self.on.matches(info, self.cgroup_id)
    }
}

/// Ids of the cgroups of all flows since directories were last read. The kernel never uses an id
/// twice, so only a flow with a new id can be in a new directory.
#[derive(Debug, Default)]
pub struct Seen(HashSet<u64>);

impl Seen {
    /// Whether directories are to be read again, because a flow is in a cgroup of this id.
    pub fn is_new(&mut self, cgroup_id: u64) -> bool {
        if self.0.len() >= CGROUPS_SEEN_MAX {
            self.0.clear();
        }
        self.0.insert(cgroup_id)
    }
}
