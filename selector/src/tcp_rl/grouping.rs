//! User grouping, section IV-B: the finest groups that have enough samples and a steady network.
//!
//! The tree is that of [`super::geography`]. Bottom-up (steps 1 to 4): a leaf that meets the
//! requirement is a group. The leaves of one parent that do not are merged into its *Others*. An
//! *Others* that meets the requirement is a group; one that does not is merged, with those of its
//! siblings, into the *Others* one level up. Flows of an *Others* of all that does not meet the
//! requirement are in no group and get the standard window.
//!
//! The requirement: at least `samples_min` samples in each time bin, and jitter (equation 5)
//!
//! ```text
//! J = mean over s of |X_s - X_(s-1)| / X_s  <=  jitter_max
//! ```
//!
//! What the paper leaves open:
//!   - X_s of a bin depends on the windows that its flows had. So a bin is compared with an earlier
//!     one window by window: each window's mean with that window's mean in the last bin that had
//!     it, and the windows weigh the same in both (the smaller of the two counts). A change of the
//!     mix alone is no jitter. A bin says nothing if the windows that can be compared have less
//!     than a tenth of `samples_min`. Without any bin that says something, a group is not steady.
//!   - A bin in which all flows together had fewer than `samples_min` samples is no bin: the
//!     service was idle. There must be two bins.
//!   - The last bin is no bin either if it has less than half the samples of the bin before it, nor
//!     is the first if it has less than half of the next one's: records began or end in the middle
//!     of it. Two bins stay.

use super::geography::{Geography, Node};
use super::record::Record;
use super::reward::{Mean, Outcomes, Scale};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// What a group must meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requirement {
    /// The fewest samples of a time bin, the paper's S_min.
    pub samples_min: u64,
    /// The paper's T, also called theta.
    pub jitter_max: f64,
    /// The weight of throughput in the reward.
    pub alpha: f64,
}

/// The outcomes of one initial window in one time bin.
#[derive(Clone, Copy, Debug)]
struct Cell {
    bin: u32,
    cwnd_pkts: u32,
    outcomes: Outcomes,
}

/// The cells of a node, in order of bin and window once they are merged.
#[derive(Clone, Debug, Default)]
struct Cells(Vec<Cell>);

impl Cells {
    fn add(&mut self, bin: u32, cwnd_pkts: u32, of: Mean) {
        let same = |cell: &&mut Cell| cell.bin == bin && cell.cwnd_pkts == cwnd_pkts;
        if let Some(cell) = self.0.iter_mut().rev().find(same) {
            return cell.outcomes.add(of);
        }
        let mut outcomes = Outcomes::default();
        outcomes.add(of);
        self.0.push(Cell { bin, cwnd_pkts, outcomes });
    }

    /// Sorts the cells, and merges those of one bin and window.
    fn merge(&mut self) {
        self.0.sort_by_key(|cell| (cell.bin, cell.cwnd_pkts));
        self.0.dedup_by(|next, kept| {
            let is_same = next.bin == kept.bin && next.cwnd_pkts == kept.cwnd_pkts;
            if is_same {
                kept.outcomes.merge(&next.outcomes);
            }
            is_same
        });
    }

    fn samples(&self) -> f64 {
        self.0.iter().map(|cell| cell.outcomes.count).sum()
    }

    /// The cells of each bin.
    fn bins(&self) -> impl Iterator<Item = &[Cell]> {
        self.0.chunk_by(|a, b| a.bin == b.bin)
    }
}

fn count(cells: &[Cell]) -> f64 {
    cells.iter().map(|cell| cell.outcomes.count).sum()
}

/// The samples of all leaves, by time bin and window.
#[derive(Debug)]
pub struct Tally {
    bin_s: u64,
    leaves: HashMap<Node, Cells>,
    /// The samples of each bin.
    bins: BTreeMap<u32, f64>,
}

/// The time bins without the first and the last, if records began or end in the middle of these:
/// if they have less than half the samples of the bin beside them. Two bins stay at least.
fn whole(mut bins: &[(u32, f64)]) -> Vec<u32> {
    if let [_, .., before, last] = bins
        && last.1 * 2.0 < before.1
    {
        bins = &bins[..bins.len() - 1];
    }
    if let [first, next, _, ..] = bins
        && first.1 * 2.0 < next.1
    {
        bins = &bins[1..];
    }
    bins.iter().map(|(bin, _)| *bin).collect()
}

/// Why some flows are no group of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// There are fewer than two time bins.
    FewBins,
    /// A bin has fewer than `samples_min` samples.
    FewSamples,
    /// No two bins had the same window.
    Incomparable,
    /// The jitter is above `jitter_max`.
    Jitter,
}

/// One group of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub node: Node,
    /// The flows under the node that are in no finer group; else the node is a leaf.
    pub is_others: bool,
    pub jitter: f64,
    pub samples: u64,
}

/// The groups that were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grouping {
    /// In the order in which they were found: leaves first.
    pub groups: Vec<Group>,
    leaves: HashMap<Node, usize>,
    others: HashMap<Node, usize>,
    /// The samples that are in no group, and why.
    pub rest: Option<(u64, Fault)>,
}

impl Tally {
    /// An empty tally with time bins of `bin_s` seconds.
    pub fn new(bin_s: u64) -> Self {
        Self { bin_s: bin_s.max(1), leaves: HashMap::new(), bins: BTreeMap::new() }
    }

    pub fn add(&mut self, geography: &Geography, record: &Record) {
        let bin = u32::try_from(record.ended_unix_s / self.bin_s).unwrap_or(u32::MAX);
        *self.bins.entry(bin).or_default() += 1.0;
        let cells = self.leaves.entry(geography.leaf(record.peer)).or_default();
        cells.add(bin, record.initial_cwnd_pkts, record.into());
    }

    /// How many leaves have samples.
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Finds the groups, by steps 1 to 4 of the paper.
    pub fn group(self, geography: &Geography, must: &Requirement) -> Grouping {
        let samples_min = must.samples_min as f64;
        let mut busy: Vec<(u32, f64)> = self.bins.into_iter().collect();
        busy.retain(|(_, samples)| *samples >= samples_min);
        let busy = whole(&busy);
        let mut found = Grouping::default();
        let mut leaves: Vec<(Node, Cells)> = self.leaves.into_iter().collect();
        leaves.sort_by_key(|(node, _)| *node);
        let mut level = BTreeMap::new();
        for (node, cells) in leaves {
            found
                .take(geography, (node, false), cells, &mut level, |cells| must.test(cells, &busy));
        }
        while !level.is_empty() {
            for (node, cells) in std::mem::take(&mut level) {
                found.take(geography, (node, true), cells, &mut level, |cells| {
                    must.test(cells, &busy)
                });
            }
        }
        found
    }
}

impl Requirement {
    /// The jitter of a group that meets the requirement.
    fn test(&self, cells: &Cells, busy: &[u32]) -> Result<f64, Fault> {
        if busy.len() < 2 {
            return Err(Fault::FewBins);
        }
        let mut bins = cells.bins().peekable();
        let mut scale = Scale::default();
        let mut series = Vec::with_capacity(busy.len());
        for bin in busy {
            while bins.next_if(|cells| cells[0].bin < *bin).is_some() {}
            let enough =
                |cells: &&[Cell]| cells[0].bin == *bin && count(cells) >= self.samples_min as f64;
            let cells = bins.next_if(enough).ok_or(Fault::FewSamples)?;
            let mut all = Outcomes::default();
            cells.iter().for_each(|cell| all.merge(&cell.outcomes));
            all.mean().into_iter().for_each(|mean| scale.widen(mean));
            series.push(cells);
        }
        let jitter = self.jitter(&series, &scale).ok_or(Fault::Incomparable)?;
        if jitter <= self.jitter_max { Ok(jitter) } else { Err(Fault::Jitter) }
    }

    /// Equation 5. `None` if no two bins had the same window.
    fn jitter(&self, series: &[&[Cell]], scale: &Scale) -> Option<f64> {
        let mut last: HashMap<u32, Outcomes> = HashMap::new();
        let (mut sum, mut bins) = (0.0, 0.0);
        for cells in series {
            let (mut now, mut before, mut weights) = (0.0, 0.0, 0.0);
            for Cell { cwnd_pkts, outcomes, .. } in *cells {
                let Some(earlier) = last.insert(*cwnd_pkts, *outcomes) else { continue };
                let (Some(mean), Some(mean_before)) = (outcomes.mean(), earlier.mean()) else {
                    continue;
                };
                let weight = outcomes.count.min(earlier.count);
                weights += weight;
                now += weight * scale.reward(self.alpha, mean);
                before += weight * scale.reward(self.alpha, mean_before);
            }
            if weights * 10.0 >= self.samples_min as f64 && now > 0.0 {
                sum += (now - before).abs() / now;
                bins += 1.0;
            }
        }
        (bins > 0.0).then(|| sum / bins)
    }
}

impl Grouping {
    /// Makes a group of these cells, or merges them into the *Others* of their node's parent, in
    /// `level`. `of` is a leaf, or a node and true for the node's *Others*.
    fn take(
        &mut self,
        geography: &Geography,
        of: (Node, bool),
        mut cells: Cells,
        level: &mut BTreeMap<Node, Cells>,
        test: impl Fn(&Cells) -> Result<f64, Fault>,
    ) {
        let (node, is_others) = of;
        cells.merge();
        let samples = cells.samples() as u64;
        match (test(&cells), geography.parent(node)) {
            (Ok(jitter), _) => self.add(Group { node, is_others, jitter, samples }),
            (Err(_), Some(parent)) => level.entry(parent).or_default().0.append(&mut cells.0),
            (Err(fault), None) => self.rest = Some((samples, fault)),
        }
    }

    /// Adds a group; used when a file is read, too.
    pub(super) fn add(&mut self, group: Group) {
        let of = if group.is_others { &mut self.others } else { &mut self.leaves };
        of.insert(group.node, self.groups.len());
        self.groups.push(group);
    }

    /// The group of the flows of a leaf.
    pub fn of(&self, geography: &Geography, leaf: Node) -> Option<usize> {
        if let Some(group) = self.leaves.get(&leaf) {
            return Some(*group);
        }
        let parents = std::iter::successors(geography.parent(leaf), |node| geography.parent(*node));
        parents.into_iter().find_map(|node| self.others.get(&node).copied())
    }
}

impl Group {
    /// The name of the group: its node's, or the node's *others*.
    pub fn name(&self, geography: &Geography) -> String {
        let name = geography.name(self.node);
        if self.is_others { format!("{name} others") } else { name }
    }
}

#[cfg(test)]
mod tests;
