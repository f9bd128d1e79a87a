//! When which flow is to be woken: one entry for each flow whose arm has set a timer.
//!
//! After each step of a flow the engine compares the entry with what the flow's arm asks for now.
//! A flow whose arm has no timer has no entry, and costs one comparison.

use crate::flow::Flow;
use std::collections::BTreeSet;

/// The queue, by time in microseconds and the agent's number of the flow.
#[derive(Debug, Default)]
pub struct Wakes(BTreeSet<(u64, u32)>);

impl Wakes {
    /// When the first wake is due.
    pub fn first_us(&self) -> Option<u64> {
        self.0.first().map(|(at_us, _)| *at_us)
    }

    /// Takes a flow whose wake is due, the earliest first.
    pub fn take_due(&mut self, now_us: u64) -> Option<u32> {
        if self.first_us()? > now_us {
            return None;
        }
        self.0.pop_first().map(|(_, id)| id)
    }

    /// `flow` has taken a step: its arm may have set its timer, moved it or dropped it.
    pub fn follow(&mut self, flow: &mut Flow) {
        let at_us = flow.wake_us();
        self.queue(flow, at_us);
    }

    /// `flow` has ended.
    pub fn ended(&mut self, flow: &mut Flow) {
        self.queue(flow, None);
    }

    fn queue(&mut self, flow: &mut Flow, at_us: Option<u64>) {
        let before_us = flow.queue_wake(at_us);
        if before_us == at_us {
            return;
        }
        if let Some(before_us) = before_us {
            self.0.remove(&(before_us, flow.id()));
        }
        if let Some(at_us) = at_us {
            self.0.insert((at_us, flow.id()));
        }
    }
}
