//! How much the agent has done.

use serde::{Deserialize, Serialize};

/// Totals since the agent started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Flows that started or were taken over.
    pub created: u64,
    pub closed: u64,
    pub reports: u64,
    /// Reports with missing fields, or of a program that the flow no longer runs.
    pub stale_reports: u64,
    pub refused: u64,
    /// Flows beyond those that their datapath may have.
    #[serde(default)]
    pub flows_refused: u64,
    /// Sockets that the BPF datapath did not take as flows.
    #[serde(default)]
    pub sockets_refused: u64,
}
