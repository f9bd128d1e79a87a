//! Finds the flows whose lifecycle events the ring has lost.
//!
//! The kernel side first changes a flow's slot, then sends the event, and counts the event if the
//! ring is full. So while that count stays the same there is nothing to find, and no slot is read.
//! When the count has grown, every slot in use is compared once with what the agent knows, in steps
//! of bounded length.

use crate::layout::Shared;
use crate::slots;
use std::sync::atomic::{Ordering, fence};

/// A table of at most this many slots is compared in one step.
const STEP_SLOTS: usize = 8_192;
/// A larger table is compared in this many steps: with five steps a second, in one second.
const STEPS: usize = 5;
/// The most differences that one step finds: the agent must handle all of them before its next
/// heartbeat.
const FOUND_MAX: usize = 256;

/// The flows that were announced to the agent: the sid of each slot's flow.
#[derive(Debug)]
pub struct Announced {
    /// 0: no flow of this slot was announced.
    sids: Vec<u32>,
    len: usize,
}

impl Announced {
    pub fn new(flows_max: u32) -> Self {
        Self { sids: vec![0; flows_max as usize], len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn contains(&self, sid: &u32) -> bool {
        *sid != 0 && self.sids.get(slots::split(*sid).0) == Some(sid)
    }

    /// The flow that was announced before on this flow's slot and has not been removed.
    pub fn predecessor(&self, sid: u32) -> Option<u32> {
        let known = self.sids.get(slots::split(sid).0).copied();
        known.filter(|known| *known != 0 && *known != sid)
    }

    /// Returns whether the flow is new. A predecessor on the same slot is forgotten.
    pub fn insert(&mut self, sid: u32) -> bool {
        let Some(known) = self.sids.get_mut(slots::split(sid).0) else { return false };
        let before = std::mem::replace(known, sid);
        self.len += usize::from(before == 0);
        before != sid
    }

    /// Returns whether the flow was there.
    pub fn remove(&mut self, sid: &u32) -> bool {
        let was_there = self.contains(sid);
        if was_there {
            self.sids[slots::split(*sid).0] = 0;
            self.len -= 1;
        }
        was_there
    }

    pub fn clear(&mut self) {
        self.sids.fill(0);
        self.len = 0;
    }
}

/// What one step has found.
#[derive(Debug, Default)]
pub struct Differences {
    /// Flows that were announced and have ended.
    pub ended: Vec<u32>,
    /// Flows that are live and were not announced.
    pub started: Vec<u32>,
    /// The step ended early, with [`FOUND_MAX`] differences: the next step should follow at once.
    pub has_more: bool,
}

/// Where the comparison stands.
#[derive(Debug, Default)]
pub struct Walk {
    next: usize,
    /// Slots still to compare; 0 while there is nothing to find.
    left: usize,
    lost_events: u64,
}

impl Walk {
    /// Compares every slot again, as after an agent's RESYNC.
    pub fn restart(&mut self) {
        self.left = usize::MAX;
    }

    /// Compares the next slots. `occupant` is the sid of the flow that has a slot, or 0.
    pub fn step(
        &mut self,
        counters: &Shared,
        announced: &Announced,
        occupant: impl Fn(usize) -> u32,
    ) -> Differences {
        let mut found = Differences::default();
        if counters.lost_events != self.lost_events {
            self.lost_events = counters.lost_events;
            self.restart();
        }
        let used = announced.sids.len().min(counters.slots_used as usize);
        self.left = self.left.min(used);
        // Read the slots after the counter, so that they show every change whose event it counted.
        fence(Ordering::Acquire);
        for _ in 0..self.left.min(STEP_SLOTS.max(used.div_ceil(STEPS))) {
            if found.ended.len() + found.started.len() >= FOUND_MAX {
                found.has_more = true;
                break;
            }
            let index = self.next % used;
            self.next = index + 1;
            self.left -= 1;
            let (known, live) = (announced.sids[index], occupant(index));
            if known != 0 && known != live {
                found.ended.push(known);
            }
            if live != 0 && known != live {
                found.started.push(live);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::SLOT_BITS;
    use std::cell::Cell;

    fn counted(lost_events: u64, slots_used: u64) -> Shared {
        Shared { lost_events, slots_used, ..Shared::default() }
    }

    fn sid(index: usize, generation: u32) -> u32 {
        generation << SLOT_BITS | index as u32
    }

    #[test]
    fn no_slot_is_read_while_no_event_is_lost() {
        let announced = Announced::new(100_000);
        let mut walk = Walk::default();
        let found = walk.step(&counted(0, 100_000), &announced, |_| panic!("a slot is read"));
        assert!(found.started.is_empty() && !found.has_more);
    }

    #[test]
    fn a_lost_event_has_every_used_slot_compared_once() {
        for (used, steps) in [(0, 1), (5, 1), (8_192, 1), (20_000, 3), (100_000, 5)] {
            let announced = Announced::new(100_000);
            let mut walk = Walk::default();
            let reads = Cell::new(0);
            let read = |index: usize| {
                assert!(index < used, "{index} was never used");
                reads.set(reads.get() + 1);
                0
            };
            for _ in 0..steps {
                walk.step(&counted(1, used as u64), &announced, read);
            }
            assert_eq!(reads.get(), used, "in {steps} steps");
            walk.step(&counted(1, used as u64), &announced, read);
            assert_eq!(reads.get(), used, "and not again");
        }
    }

    #[test]
    fn an_event_lost_behind_the_walk_is_found_too() {
        let mut announced = Announced::new(20_000);
        let mut walk = Walk::default();
        walk.step(&counted(1, 20_000), &announced, |_| 0);
        let late = |index| if index == 3 { sid(3, 1) } else { 0 };
        let mut started = Vec::new();
        for _ in 0..4 {
            let found = walk.step(&counted(2, 20_000), &announced, late);
            for sid in &found.started {
                announced.insert(*sid);
            }
            started.extend(found.started);
        }
        assert_eq!(started, [sid(3, 1)]);
    }

    #[test]
    fn differences_come_in_bounded_numbers_and_all_of_them() {
        let mut announced = Announced::new(1_000);
        for index in 0..1_000 {
            announced.insert(sid(index, 1));
        }
        let live =
            |index: usize| if index.is_multiple_of(2) { sid(index, 1) } else { sid(index, 2) };
        let (mut ended, mut started, mut steps) = (0, 0, 0);
        let mut walk = Walk::default();
        loop {
            let found = walk.step(&counted(9, 1_000), &announced, live);
            assert!(found.ended.len() + found.started.len() <= FOUND_MAX + 1);
            (ended, started, steps) =
                (ended + found.ended.len(), started + found.started.len(), steps + 1);
            if !found.has_more {
                break;
            }
        }
        assert_eq!((ended, started, steps), (500, 500, 4));
    }

    #[test]
    fn a_slot_knows_its_last_announced_flow_only() {
        let mut announced = Announced::new(10);
        assert!(announced.insert(sid(3, 1)) && !announced.insert(sid(3, 1)));
        assert_eq!(announced.predecessor(sid(3, 2)), Some(sid(3, 1)));
        assert_eq!(announced.predecessor(sid(3, 1)), None);
        assert!(announced.insert(sid(3, 2)));
        assert_eq!(announced.len(), 1);
        assert!(announced.contains(&sid(3, 2)) && !announced.contains(&sid(3, 1)));
        assert!(!announced.remove(&sid(3, 1)) && announced.remove(&sid(3, 2)));
        assert_eq!(announced.len(), 0);
        assert!(!announced.contains(&0) && !announced.insert(sid(10, 1)), "beyond the table");
        assert!(!announced.contains(&sid(10, 1)) && !announced.remove(&sid(70_000, 1)));
    }
}
