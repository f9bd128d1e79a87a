//! What enters the agents of a simulation, and the orders that leave them, kept in memory.
//!
//! The agent's own host must give the same orders for the same events: tests feed it these.

use ccp_agent::lock::lock;
use remuda_wire::to_agent::{Create, FlowInfo, Signals};
use std::sync::{Arc, Mutex};

/// What entered, as the event that a datapath of the agent sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entered {
    /// A flow starts. The algorithm that it asks for is its driver.
    Created {
        create: Create,
        info: FlowInfo,
    },
    Report {
        /// The agent's number of the program that reported.
        uid: u32,
        fields: Vec<u64>,
        signals: Signals,
    },
    /// The timer of the flow's arm went off: no event of a datapath, but it makes orders.
    Wake,
    Closed,
}

/// One event, and the orders that it led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Simulated time, in microseconds.
    pub at_us: u64,
    /// The datapath's number of the flow.
    pub sid: u32,
    pub entered: Entered,
    /// The orders, as [`remuda_wire::Order`] is printed.
    pub orders: Vec<String>,
}

/// The events of all flows of a simulation, in their order; a copy is the same recording.
#[derive(Clone, Debug, Default)]
pub struct Recording(Arc<Mutex<Vec<Entry>>>);

impl Recording {
    pub(crate) fn add(&self, entry: Entry) {
        lock(&self.0).push(entry);
    }

    /// What has been recorded since the last call.
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut lock(&self.0))
    }
}
