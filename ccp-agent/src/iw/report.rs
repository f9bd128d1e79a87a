//! What `remuda iw` shows.

use super::Iw;
use super::collector::Collector;
use crate::interval::Interval;
use remuda_selector::antelope::memory::LeftOutRow;
use remuda_selector::tcp_rl::grouping::Fault;
use remuda_selector::tcp_rl::learner::GroupRow;
use serde::{Deserialize, Serialize};

/// One group, with what its windows gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    #[serde(flatten)]
    pub row: GroupRow,
    /// The mean reward with the learned windows less that with the standard one, since the agent
    /// started; `None` before both are known.
    pub gain: Option<Interval>,
    /// Records with learned windows, and with the standard one, since the agent started.
    pub compared: [u64; 2],
}

/// The learner, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub groups: Vec<GroupReport>,
    /// The records in no group when groups were last formed, and why.
    pub rest: Option<(u64, Fault)>,
    pub table_prefixes: usize,
    /// Prefixes for which the table has no room.
    pub table_left_out: usize,
    /// Records written since the agent started.
    pub records_stored: u64,
    /// Records dropped because the learner fell behind.
    pub records_dropped: u64,
    /// Records refused because they cannot be true.
    pub records_impossible: u64,
    pub not_learned: Vec<LeftOutRow>,
}

impl Iw {
    pub fn report(&self, collector: (u64, u64), not_learned: Vec<LeftOutRow>) -> Report {
        let group = |row: GroupRow| {
            let gain = self.gains.get(&row.name);
            let compared = gain.map_or([0, 0], |gain| gain.counts());
            let gain = gain.filter(|_| !compared.contains(&0)).map(|gain| gain.difference());
            GroupReport { row, gain, compared }
        };
        Report {
            groups: self.learner.rows().into_iter().map(group).collect(),
            rest: self.learner.rest(),
            table_prefixes: self.table.0.len(),
            table_left_out: self.table_left_out,
            records_stored: self.stored,
            records_dropped: collector.0,
            records_impossible: collector.1,
            not_learned,
        }
    }
}

/// What the collector has left out, for a report.
pub(super) fn left_out(collector: &Collector) -> ((u64, u64), Vec<LeftOutRow>) {
    (collector.dropped(), collector.not_learned().rows())
}
