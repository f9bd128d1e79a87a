//! All rules in force, in the order in which they count.

use super::added::ADDED_MAX;
use super::configured::Rules;
use super::group::{Group, salt};
use super::index::Index;
use super::rule::Rule;
use crate::Error;
use crate::select::{Live, Seen};
use remuda_wire::to_agent::FlowInfo;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many rules that did not match a test names.
const MISSED_MAX: usize = 20;

/// Where a rule comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// `remuda rule add`, with the rule's number.
    Added(u32),
    /// The configuration, with the rule's position, from 1.
    Configured(usize),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(number) => write!(f, "added rule {number}"),
            Self::Configured(number) => write!(f, "rule {number}"),
        }
    }
}

/// The rule that counts for a flow.
#[derive(Clone, Debug)]
pub struct Ruled {
    pub source: Source,
    /// The rule's own name, or `rule 3` or `added rule 3` if the rule has none.
    pub name: Arc<str>,
    /// The arm or policy that it uses.
    pub used: Arc<str>,
    /// The flows that it matches.
    pub on: Arc<str>,
    pub group: Group,
    /// What drives the flow: in the control group, what the next rules say; `None` if none says.
    driver: Option<Arc<str>>,
    /// The position of the rule when the rule was found.
    at: usize,
}

impl Ruled {
    /// What drives the flow; `None` if no rule says.
    pub fn driver(&self) -> Option<&str> {
        self.driver.as_deref()
    }
}

/// Equal if the rule and the driver are the same. The position may differ: other rules move it.
impl PartialEq for Ruled {
    fn eq(&self, other: &Self) -> bool {
        let Self { source, name, used, on, group, driver, at: _ } = self;
        (source, group) == (&other.source, &other.group)
            && (name, used) == (&other.name, &other.used)
            && (on, driver) == (&other.on, &other.driver)
    }
}

impl fmt::Display for Ruled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, name, group, .. } = self;
        match group {
            Group::Rule => write!(f, "{source}")?,
            Group::Control => write!(f, "control group of {source}")?,
        }
        if **name == *source.to_string() { Ok(()) } else { write!(f, " ({name})") }
    }
}

/// One row of `remuda rule list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The number for `remuda rule remove`; `None` for a rule of the configuration.
    pub number: Option<u32>,
    pub name: String,
    /// The flows that it matches.
    pub on: String,
    #[serde(rename = "use")]
    pub driver: String,
    /// From 0 to 1.
    pub share: f64,
    /// Flows since it is in force that got its driver.
    pub flows: u64,
    /// Flows since then in its control group.
    pub control_flows: u64,
    /// Why it may reach fewer flows than it seems to.
    pub notes: Vec<String>,
}

/// A rule that did not match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missed {
    pub name: String,
    pub on: String,
    /// The first key that the flow does not match.
    pub key: String,
}

/// What `remuda rule test` finds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// The rule that wins.
    pub won: Option<Row>,
    /// The rules before it, the first ones.
    pub missed: Vec<Missed>,
    /// How many further rules before it did not match.
    pub missed_more: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    source: Source,
    rule: Rule,
    name: Arc<str>,
    driver: Arc<str>,
    on: Arc<str>,
    salt: u64,
    /// Flows of the rule, and of its control group.
    flows: [u64; 2],
}

impl Entry {
    fn new(source: Source, rule: Rule) -> Self {
        let name = rule.name.clone().unwrap_or_else(|| source.to_string());
        let on = rule.on.to_string();
        Self {
            source,
            name: name.into(),
            driver: rule.driver.as_str().into(),
            salt: salt(&on),
            on: on.into(),
            rule,
            flows: [0; 2],
        }
    }
}

/// What a rule can reach, as the agent was started.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// The name that sockets ask for.
    pub name: String,
    /// Every new socket of the agent's network namespace comes to it.
    pub takes_default: bool,
    /// The agent takes over every new TCP socket of these cgroups.
    pub attached: Vec<PathBuf>,
}

impl Reach {
    fn note(&self, rule: &Rule) -> Option<String> {
        let directory = rule.cgroup_directory()?;
        // What is attached to a cgroup reaches those beneath it too.
        let is_attached = self.attached.iter().any(|it| directory.starts_with(it));
        let path = directory.display();
        if !directory.exists() {
            Some(format!(
                "{path} does not exist yet; the rule takes effect when the directory appears"
            ))
        } else if rule.attach && !is_attached {
            Some(format!("{path} is attached when the agent starts next"))
        } else if !is_attached && !self.takes_default {
            Some(format!("reaches only sockets that ask for {:?}", self.name))
        } else {
            None
        }
    }
}

#[derive(Debug)]
pub struct Book {
    /// Those that were added come first, the newest before the others.
    entries: Vec<Entry>,
    /// The selectors of the entries.
    on: Vec<Live>,
    index: Index,
    cgroups_seen: Seen,
    next_number: u32,
    reach: Reach,
}

impl Book {
    pub fn new(configured: &Rules, reach: Reach) -> Self {
        let mut book = Self {
            entries: Vec::new(),
            on: Vec::new(),
            index: Index::default(),
            cgroups_seen: Seen::default(),
            next_number: 1,
            reach,
        };
        book.configure(configured);
        book
    }

    fn rebuild(&mut self) {
        self.on = self.entries.iter().map(|it| Live::new(it.rule.on.clone())).collect();
        self.index = Index::of(&self.on);
    }

    /// Replaces the rules of the configuration. A rule that stays keeps its counts.
    pub fn configure(&mut self, configured: &Rules) {
        let is_added = |entry: &Entry| matches!(entry.source, Source::Added(_));
        let (added, old): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.entries).into_iter().partition(is_added);
        self.entries = added;
        let old: HashMap<_, _> = old.iter().map(|it| ((&it.on, &it.driver), it)).collect();
        for (number, rule) in (1..).zip(configured.as_slice()) {
            let mut entry = Entry::new(Source::Configured(number), rule.clone());
            let same = old.get(&(&entry.on, &entry.driver)).filter(|it| it.rule == entry.rule);
            entry.flows = same.map_or([0; 2], |before| before.flows);
            self.entries.push(entry);
        }
        self.rebuild();
    }

    /// The rules that were added, with their numbers, the newest first.
    pub fn added(&self) -> Vec<(u32, Rule)> {
        let added = self.entries.iter().filter_map(|entry| match entry.source {
            Source::Added(number) => Some((number, entry.rule.clone())),
            Source::Configured(_) => None,
        });
        added.collect()
    }

    /// Restores the rules that operators added before a restart.
    pub fn restore(&mut self, added: Vec<(u32, Rule)>) {
        let newest = added.iter().map(|(number, _)| *number).max().unwrap_or(0);
        self.next_number = self.next_number.max(newest.wrapping_add(1)).max(1);
        let entries = added.into_iter().map(|(number, it)| Entry::new(Source::Added(number), it));
        self.entries.splice(0..0, entries);
        self.rebuild();
    }

    /// Adds a rule before all others, in place of one that was added for the same flows. Returns
    /// its number.
    pub fn add(&mut self, rule: Rule) -> Result<u32, Error> {
        let is_replaced =
            |it: &Entry| matches!(it.source, Source::Added(_)) && it.rule.on == rule.on;
        let is_named_so = |it: &Entry| rule.name.as_deref() == Some(&*it.name) && !is_replaced(it);
        if let Some(other) = self.entries.iter().find(|it| is_named_so(it)) {
            return Err(Error::Refused(format!(
                "name = {:?}: {} has that name\nfix: choose another name",
                other.name, other.source
            )));
        }
        self.entries
            .retain(|entry| !matches!(entry.source, Source::Added(_)) || entry.rule.on != rule.on);
        if self.added().len() >= ADDED_MAX {
            return Err(Error::Refused(format!(
                "{ADDED_MAX} rules were added already\nfix: write rules to the configuration \
                 ([[rule]]), and remove added ones with `remuda rule remove`"
            )));
        }
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1).max(1);
        self.entries.insert(0, Entry::new(Source::Added(number), rule));
        self.rebuild();
        Ok(number)
    }

    /// Removes one of the added rules, or all. Returns how many were removed.
    pub fn remove(&mut self, number: Option<u32>) -> Result<usize, Error> {
        let before = self.entries.len();
        self.entries.retain(|entry| match entry.source {
            Source::Added(known) => number.is_some_and(|number| number != known),
            Source::Configured(_) => true,
        });
        match (number, before - self.entries.len()) {
            (Some(number), 0) => Err(Error::Refused(format!(
                "there is no added rule {number}\nfix: `remuda rule list` shows the numbers; rules \
                 of the configuration are removed there"
            ))),
            (_, removed) => {
                self.rebuild();
                Ok(removed)
            }
        }
    }

    /// The rule that counts for a flow.
    pub fn of(&mut self, flow: &FlowInfo) -> Option<Ruled> {
        if self.entries.is_empty() {
            return None;
        }
        self.see_cgroup(flow.cgroup_id);
        let at = self.index.first(&self.on, flow, 0)?;
        let group = |at: usize| {
            let Entry { rule, salt, .. } = &self.entries[at];
            Group::of(flow, rule.share, *salt)
        };
        let mut driving = Some(at);
        while let Some(next) = driving.filter(|at| group(*at) == Group::Control) {
            driving = self.index.first(&self.on, flow, next + 1);
        }
        let Entry { source, name, driver, on, .. } = &self.entries[at];
        Some(Ruled {
            source: *source,
            name: Arc::clone(name),
            used: Arc::clone(driver),
            on: Arc::clone(on),
            group: group(at),
            driver: driving.map(|at| Arc::clone(&self.entries[at].driver)),
            at,
        })
    }

    /// Counts a flow that a rule has just been found for.
    pub fn count(&mut self, ruled: &Ruled) {
        let entry = self.entries.get_mut(ruled.at);
        if let Some(entry) = entry.filter(|entry| entry.source == ruled.source) {
            entry.flows[usize::from(ruled.group == Group::Control)] += 1;
        }
    }

    /// Looks the cgroups up again if the flow's cgroup is a new one.
    fn see_cgroup(&mut self, cgroup_id: u64) {
        let directories = self.on.iter_mut().filter(|on| on.has_directory());
        if self.cgroups_seen.is_new(cgroup_id)
            && directories.fold(false, |changed, on| on.read_cgroup() | changed)
        {
            self.index = Index::of(&self.on);
        }
    }

    /// The name of each rule, with the flows that it had and those of its control group.
    pub fn counts(&self) -> impl Iterator<Item = (&str, [u64; 2])> {
        self.entries.iter().map(|entry| (&*entry.name, entry.flows))
    }

    pub fn rows(&self) -> Vec<Row> {
        (0..self.entries.len()).map(|at| self.row(at)).collect()
    }

    fn row(&self, at: usize) -> Row {
        let Entry { source, rule, name, flows, .. } = &self.entries[at];
        let added_before =
            self.entries[..at].iter().take_while(|it| matches!(it.source, Source::Added(_)));
        let covering = added_before.filter(|it| it.rule.on.covers(&rule.on)).map(|it| it.source);
        let covering = covering.map(|it| format!("never counts: {it} matches all its flows"));
        Row {
            number: match source {
                Source::Added(number) => Some(*number),
                Source::Configured(_) => None,
            },
            name: name.to_string(),
            on: rule.on.to_string(),
            driver: rule.driver.clone(),
            share: rule.share.get(),
            flows: flows[0],
            control_flows: flows[1],
            notes: covering.take(1).chain(self.reach.note(rule)).collect(),
        }
    }

    /// Which rule wins for such a flow, and why those before it do not.
    pub fn test(&mut self, flow: &FlowInfo) -> Tested {
        self.see_cgroup(flow.cgroup_id);
        let won = self.index.first(&self.on, flow, 0);
        let before = won.unwrap_or(self.entries.len());
        let missed = self.entries.iter().zip(&self.on).take(before.min(MISSED_MAX));
        let missed = missed.map(|(entry, on)| Missed {
            name: entry.name.to_string(),
            on: entry.rule.on.to_string(),
            key: on.selector().mismatch(flow, on.cgroup_id()).unwrap_or_default().to_owned(),
        });
        Tested {
            won: won.map(|at| self.row(at)),
            missed: missed.collect(),
            missed_more: before.saturating_sub(MISSED_MAX),
        }
    }
}

/// The directories that rules let the agent attach to.
pub fn directories(rules: &Rules) -> impl Iterator<Item = &Path> {
    let attached = rules.as_slice().iter().filter(|rule| rule.attach);
    attached.filter_map(Rule::cgroup_directory)
}
