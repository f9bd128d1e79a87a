//! The learner's model as a file keeps it: JSON, without trust when it is read.

use super::config::IwConfig;
use super::geography::{Geography, Node};
use super::grouping::Group;
use super::learner::{Learner, State};
use super::record::CWND_PKTS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

const VERSION: u32 = 1;

/// Why a saved model is refused.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Not JSON, or not of the form.
    #[error("it is not what the learner writes: {0}")]
    Form(#[from] serde_json::Error),
    /// JSON of that form, which breaks a rule.
    #[error("{what}: {rule}")]
    Rule { what: String, rule: &'static str },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    groups: Vec<Kept>,
    /// Windows that an operator has set, in segments, by the group's name.
    pins: BTreeMap<String, u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The name of the group's node.
    node: String,
    is_others: bool,
    jitter: f64,
    samples: u64,
    state: State,
}

fn rule_broken_by(kept: &Kept, config: &IwConfig) -> Option<&'static str> {
    let windows = 1..=CWND_PKTS_MAX;
    if !(kept.jitter.is_finite() && kept.jitter >= 0.0) {
        Some("jitter must be finite and not negative")
    } else if !windows.contains(&kept.state.playing_pkts) {
        Some("playing_pkts must lie in 1..=1000")
    } else if !kept.state.pending.is_valid() {
        Some("sums must be finite and not negative")
    } else {
        kept.state.bandit.broken_rule(&config.rules())
    }
}

/// The nodes of these names. A node that the table of prefixes no longer has is absent.
fn nodes(geography: &Geography, names: &HashSet<&str>) -> HashMap<String, Node> {
    let networks = names.iter().filter_map(|name| Some((*name, Node::Network(name.parse().ok()?))));
    let mut found: HashMap<String, Node> =
        networks.map(|(name, node)| (name.to_owned(), node)).collect();
    for node in geography.nodes() {
        let name = geography.name(node);
        if names.contains(name.as_str()) {
            found.insert(name, node);
        }
    }
    found
}

impl Learner {
    pub fn to_json(&self, geography: &Geography) -> String {
        let kept = |(group, state): (&Group, &State)| Kept {
            node: geography.name(group.node),
            is_others: group.is_others,
            jitter: group.jitter,
            samples: group.samples,
            state: state.clone(),
        };
        let groups = self.grouping.groups.iter().zip(&self.states).map(kept).collect();
        let file = File { version: VERSION, groups, pins: self.pins.clone() };
        serde_json::to_string(&file).expect("it is plain data")
    }

    /// Takes in what [`Learner::to_json`] wrote, whole or not at all. A group whose place the table
    /// of prefixes no longer has is left out.
    pub fn parse(text: &str, config: IwConfig, geography: &Geography) -> Result<Self, ModelError> {
        let refuse = |what: String, rule| Err(ModelError::Rule { what, rule });
        let file: File = serde_json::from_str(text)?;
        if file.version != VERSION {
            return refuse(format!("version {}", file.version), "it must be 1");
        }
        let windows = 1..=CWND_PKTS_MAX;
        if let Some((name, pkts)) = file.pins.iter().find(|(_, pkts)| !windows.contains(pkts)) {
            return refuse(format!("pin of {name:?} = {pkts}"), "it must lie in 1..=1000");
        }
        let names: HashSet<&str> = file.groups.iter().map(|kept| kept.node.as_str()).collect();
        let nodes = nodes(geography, &names);
        let mut learner = Self { pins: file.pins, ..Self::new(config) };
        let mut seen = HashSet::new();
        for kept in file.groups {
            if let Some(rule) = rule_broken_by(&kept, &learner.config) {
                return refuse(format!("group {:?}", kept.state.name), rule);
            }
            if !seen.insert((kept.node.clone(), kept.is_others)) {
                return refuse(format!("group {:?}", kept.state.name), "it must be there once");
            }
            let Kept { node, is_others, jitter, samples, mut state } = kept;
            let Some(node) = nodes.get(&node).copied() else { continue };
            let group = Group { node, is_others, jitter, samples };
            state.name = group.name(geography);
            learner.grouping.add(group);
            learner.states.push(state);
        }
        Ok(learner)
    }
}
