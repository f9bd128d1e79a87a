//! What a scrape shows, copied from the host.

use crate::counts::Counts;
use crate::flow::ArmTotals;
use crate::flows::Totals;
use crate::rules::{Group, RESERVED};
use std::collections::BTreeMap;

/// More arms than this are shown together, under the name [`RESERVED`].
const ARMS_MAX: usize = 64;
/// More rules than this are shown together, under that name.
const RULES_MAX: usize = 200;

/// The flows of one rule or of its control group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RuleFlows {
    /// Flows that run now.
    pub running: u64,
    /// Flows that started since the rule is in force.
    pub started: u64,
}

/// What a scrape shows.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub counts: Counts,
    /// Running flows by arm.
    pub flows: BTreeMap<String, u64>,
    /// Running flows that their datapath controls itself.
    pub fallback_flows: u64,
    /// What arms have done.
    pub arms: BTreeMap<String, ArmTotals>,
    /// Rules by name: their flows, and those of their control groups.
    pub rules: BTreeMap<String, [RuleFlows; 2]>,
    /// Addresses and networks that are remembered.
    pub destinations: u64,
}

/// The entry of this name, or the one of [`RESERVED`] if there is no room for another name.
fn entry<'a, V: Default>(known: &'a mut BTreeMap<String, V>, name: &str, most: usize) -> &'a mut V {
    let name = if known.contains_key(name) || known.len() < most { name } else { RESERVED };
    if !known.contains_key(name) {
        known.insert(name.to_owned(), V::default());
    }
    known.get_mut(name).expect("it was just inserted if it was not there")
}

impl Snapshot {
    /// Counts a running flow.
    pub fn flow(&mut self, arm: &str, fell_back: bool, rule: Option<(&str, Group)>) {
        *entry(&mut self.flows, arm, ARMS_MAX) += 1;
        self.fallback_flows += u64::from(fell_back);
        if let Some((rule, group)) = rule {
            self.rule(rule, group).running += 1;
        }
    }

    /// Adds the totals of arms.
    pub fn totals(&mut self, totals: &Totals) {
        let mut arms: Vec<_> = totals.iter().collect();
        arms.sort_by_key(|(arm, _)| *arm);
        for (arm, of_arm) in arms {
            entry(&mut self.arms, arm, ARMS_MAX).add(of_arm);
        }
    }

    /// The flows of a rule, or of its control group.
    pub fn rule(&mut self, rule: &str, group: Group) -> &mut RuleFlows {
        let groups = entry(&mut self.rules, rule, RULES_MAX);
        &mut groups[usize::from(group == Group::Control)]
    }
}
