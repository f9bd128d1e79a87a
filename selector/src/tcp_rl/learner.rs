//! The learner: a bandit a group, over rounds.
//!
//! A round of a group lasts until the group's window has `samples_min` records. Then the bandit
//! takes in their mean and the next window is chosen. In a share of the rounds, drawn from the
//! group's name and the number of the round, the window is the standard one: these rounds are the
//! control, of which the bandit learns nothing.

use super::bandit::{ArmRow, Rules, SlidingUcb};
use super::config::IwConfig;
use super::geography::{Geography, Node};
use super::grouping::{Fault, Group, Grouping};
use super::record::{CWND_PKTS_MAX, Record, STANDARD_PKTS};
use super::reward::{Mean, Outcomes};
use super::table::{Entry, Table};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};

/// The groups and their bandits.
#[derive(Clone, Debug, PartialEq)]
pub struct Learner {
    pub(super) config: IwConfig,
    pub(super) grouping: Grouping,
    /// The state of each group, in the order of the grouping.
    pub(super) states: Vec<State>,
    /// Windows that an operator has set, by the group's name.
    pub(super) pins: BTreeMap<String, u32>,
}

/// The state of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub name: String,
    pub bandit: SlidingUcb,
    /// The window of this round, in segments.
    pub playing_pkts: u32,
    /// In this round the group has the standard window, to compare with.
    pub is_control: bool,
    /// The records of this round.
    pub pending: Outcomes,
    pub rounds: u64,
}

/// A record that counts in its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken<'a> {
    pub group: &'a str,
    /// On the scale of the group at this time; `None` before its first round.
    pub reward: Option<f64>,
    pub is_control: bool,
}

/// An order that the learner refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no group {0:?}\nfix: `remuda iw` lists the groups")]
    NoGroup(String),
    #[error("an initial window of {0} segments: it must lie in 1..=1000")]
    Cwnd(u32),
}

/// One group, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupRow {
    pub name: String,
    pub jitter: f64,
    /// The records that the group was formed from.
    pub samples: u64,
    pub arms: Vec<ArmRow>,
    /// The window of new flows, in segments.
    pub playing_pkts: u32,
    pub is_control: bool,
    pub is_pinned: bool,
    /// The window of the largest mean reward so far, in segments.
    pub best_pkts: Option<u32>,
    pub rounds: u64,
    /// The records of this round so far.
    pub pending: u64,
}

impl State {
    fn new(name: String, config: &IwConfig) -> Self {
        let bandit = SlidingUcb::new(&config.arms_pkts);
        let pending = Outcomes::default();
        let mut it = Self { name, bandit, playing_pkts: 0, is_control: false, pending, rounds: 0 };
        it.begin_round(config);
        it
    }

    /// Whether this round is one of the control: a draw from the group's name and the round.
    fn draws_control(&self, share: f64) -> bool {
        let hash = Sha256::new().chain_update(&self.name).chain_update(self.rounds.to_le_bytes());
        let first =
            hash.finalize().into_iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(byte));
        f64::from(first) < share * f64::from(u32::MAX)
    }

    fn begin_round(&mut self, config: &IwConfig) {
        self.is_control = self.draws_control(config.control_share);
        let next = self.bandit.next(&config.rules());
        self.playing_pkts = if self.is_control { STANDARD_PKTS } else { next };
        self.pending = Outcomes::default();
    }

    /// Ends the round if its window has enough records, and begins the next one.
    fn decide(&mut self, config: &IwConfig) {
        let Some(mean) =
            self.pending.mean().filter(|_| self.pending.count >= config.samples_min as f64)
        else {
            return;
        };
        if !self.is_control {
            self.bandit.observe(&config.rules(), self.playing_pkts, mean);
        }
        self.rounds += 1;
        self.begin_round(config);
    }
}

impl Learner {
    /// One without groups: every flow has the standard window.
    pub fn new(config: IwConfig) -> Self {
        let (grouping, states, pins) = (Grouping::default(), Vec::new(), BTreeMap::new());
        Self { config, grouping, states, pins }
    }

    /// Puts new groups in force. A group that was there before goes on as it was.
    pub fn regroup(&mut self, geography: &Geography, grouping: Grouping) {
        let before = std::mem::take(&mut self.states).into_iter();
        let mut before: HashMap<String, State> =
            before.map(|state| (state.name.clone(), state)).collect();
        let state = |group: &Group| {
            let name = group.name(geography);
            before.remove(&name).unwrap_or_else(|| State::new(name, &self.config))
        };
        self.states = grouping.groups.iter().map(state).collect();
        self.grouping = grouping;
    }

    /// Takes a record in. `None` if it is in no group, or began with another window than its group
    /// has now.
    pub fn take(&mut self, geography: &Geography, record: &Record) -> Option<Taken<'_>> {
        let group = self.grouping.of(geography, geography.leaf(record.peer))?;
        let state = &mut self.states[group];
        if self.pins.contains_key(&state.name) || !record.began_with(state.playing_pkts) {
            return None;
        }
        let mean = Mean::from(record);
        state.pending.add(mean);
        let rules = self.config.rules();
        let reward = state.bandit.best(&rules).map(|_| state.bandit.reward(&rules, mean));
        Some(Taken { group: &state.name, reward, is_control: state.is_control })
    }

    /// Chooses the window of each group again.
    pub fn decide(&mut self) {
        self.states.iter_mut().for_each(|state| state.decide(&self.config));
    }

    pub fn has_groups(&self) -> bool {
        !self.states.is_empty()
    }

    fn playing(&self, group: usize) -> Entry {
        let State { name, playing_pkts, .. } = &self.states[group];
        let cwnd_pkts = self.pins.get(name).copied().unwrap_or(*playing_pkts);
        Entry { cwnd_pkts, group: name.clone() }
    }

    /// The windows by prefix, at most `table_entries_max`, and how many prefixes it lacks. Groups
    /// of many records go first.
    pub fn table(&self, geography: &Geography) -> (Table, usize) {
        let mut wanted = Vec::new();
        for (at, group) in self.grouping.groups.iter().enumerate() {
            let all = || ["0.0.0.0/0", "::/0"].iter().filter_map(|text| text.parse().ok());
            let prefixes = match group.node {
                Node::All => all().collect(),
                node => geography.prefixes(node),
            };
            wanted.extend(prefixes.into_iter().map(|prefix| (group.samples, prefix, Some(at))));
        }
        let networks: Vec<_> = wanted.iter().map(|(_, prefix, _)| *prefix).collect();
        for subnet in geography.subnets() {
            let group = self.grouping.of(geography, subnet);
            let samples = group.map_or(0, |at| self.grouping.groups[at].samples);
            for prefix in geography.prefixes(subnet) {
                // What is in no group must not get the window of an unknown network around it.
                if group.is_some() || networks.iter().any(|network| network.contains(&prefix)) {
                    wanted.push((samples, prefix, group));
                }
            }
        }
        wanted.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut table = Table::default();
        let mut left_out = 0;
        for (_, prefix, group) in wanted {
            if table.0.len() >= self.config.table_entries_max {
                left_out += 1;
                continue;
            }
            let standard = || Entry { cwnd_pkts: STANDARD_PKTS, group: "none".to_owned() };
            table.0.insert(prefix, group.map_or_else(standard, |at| self.playing(at)));
        }
        (table, left_out)
    }

    /// The samples in no group when groups were last formed, and why.
    pub fn rest(&self) -> Option<(u64, Fault)> {
        self.grouping.rest
    }

    pub fn rows(&self) -> Vec<GroupRow> {
        let rules: Rules = self.config.rules();
        let row = |(at, (group, state)): (usize, (&Group, &State))| GroupRow {
            name: state.name.clone(),
            jitter: group.jitter,
            samples: group.samples,
            arms: state.bandit.rows(&rules),
            playing_pkts: self.playing(at).cwnd_pkts,
            is_control: state.is_control,
            is_pinned: self.pins.contains_key(&state.name),
            best_pkts: state.bandit.best(&rules),
            rounds: state.rounds,
            pending: state.pending.count as u64,
        };
        self.grouping.groups.iter().zip(&self.states).enumerate().map(row).collect()
    }

    fn state_mut(&mut self, name: &str) -> Result<&mut State, Refusal> {
        let state = self.states.iter_mut().find(|state| state.name == name);
        state.ok_or_else(|| Refusal::NoGroup(name.to_owned()))
    }

    /// Gives a group this window until it is unpinned; `None` unpins it.
    pub fn pin(&mut self, name: &str, cwnd_pkts: Option<u32>) -> Result<(), Refusal> {
        match cwnd_pkts {
            Some(pkts) if !(1..=CWND_PKTS_MAX).contains(&pkts) => return Err(Refusal::Cwnd(pkts)),
            Some(pkts) => {
                self.state_mut(name)?;
                self.pins.insert(name.to_owned(), pkts);
            }
            // A pin outlives its group, so that it holds when the group is formed again.
            None if self.pins.remove(name).is_some() => {}
            None => {
                self.state_mut(name)?;
            }
        }
        Ok(())
    }

    /// Makes a group begin anew with the first list of windows.
    pub fn forget(&mut self, name: &str) -> Result<(), Refusal> {
        let new = State::new(name.to_owned(), &self.config);
        *self.state_mut(name)? = new;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
