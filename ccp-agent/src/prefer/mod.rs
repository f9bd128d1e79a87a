//! Preferences of flows: low delay, high throughput, or weights between.
//!
//! Several sources can set the preference of a flow. The first in this list counts: orders of
//! operators (`remuda prefer`, the newest first), the flow's application (through the socket for
//! applications), the rules of the configuration (`[[prefer]]`, in their order), and the default,
//! in which both weights are 1.

mod rules;
mod wishes;

pub use remuda_algorithms::wants::Wants;
pub use rules::{RULES_MAX, Rule, Rules};
pub use wishes::{SocketId, Wish, Wishes};

use crate::Error;
use crate::select::{Live, Seen};
use remuda_wire::to_agent::FlowInfo;
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One running flow, by the agent's number.
    Flow { flow: u32, wants: Wants },
    /// All flows that the rule matches, running and new ones.
    Rule(Rule),
}

impl Order {
    /// Checks that the cgroup of a rule exists. This reads the file system, so hold no lock.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Flow { .. } => Ok(()),
            Self::Rule(rule) => rule.check().map_err(Error::Refused),
        }
    }
}

/// The source of a flow's preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Default,
    /// An operator's order with this number.
    Order(u32),
    /// The flow's application, run by this user.
    Application(u32),
    /// The rule of the configuration with this number, from 1.
    Rule(usize),
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("nobody"),
            Self::Order(number) => write!(f, "an operator, order {number}"),
            Self::Application(uid) => write!(f, "its application, user {uid}"),
            Self::Rule(number) => write!(f, "the configuration, rule {number}"),
        }
    }
}

/// One row of `remuda prefer --list`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// The order's number; `None` for a rule of the configuration.
    pub order: Option<u32>,
    pub on: String,
    pub wants: Wants,
}

/// The flows of a rule, and what they prefer.
#[derive(Debug)]
struct ActiveRule {
    on: Live,
    wants: Wants,
}

impl ActiveRule {
    fn new(Rule { on, wants }: Rule) -> Self {
        Self { on: Live::new(on), wants }
    }
}

#[derive(Debug)]
enum ActiveOrder {
    Flow(u32, Wants),
    Rule(ActiveRule),
}

/// All preferences, except those that applications have set for running flows.
#[derive(Debug)]
pub struct Preferences {
    /// Newest first, each with its number.
    orders: Vec<(u32, ActiveOrder)>,
    rules: Vec<ActiveRule>,
    /// What applications have set for sockets that are not flows yet.
    pub wishes: Wishes,
    next_number: u32,
    cgroups_seen: Seen,
}

impl Preferences {
    pub fn new(rules: &Rules) -> Self {
        Self {
            orders: Vec::new(),
            rules: rules.as_slice().iter().cloned().map(ActiveRule::new).collect(),
            wishes: Wishes::default(),
            next_number: 1,
            cgroups_seen: Seen::default(),
        }
    }

    /// Replaces the rules of the configuration. Orders of operators stay.
    pub fn obey_rules(&mut self, rules: &Rules) {
        self.rules = rules.as_slice().iter().cloned().map(ActiveRule::new).collect();
    }

    /// The preference of flow `id` and its source; `wish` is what its application has set.
    pub fn of(&mut self, id: u32, info: &FlowInfo, wish: Option<Wish>) -> (Wants, By) {
        self.see_cgroup(info.cgroup_id);
        let order = self.orders.iter().find_map(|(number, active)| {
            let wants = match active {
                ActiveOrder::Flow(flow, wants) => (*flow == id).then_some(*wants),
                ActiveOrder::Rule(rule) => rule.on.matches(info).then_some(rule.wants),
            };
            wants.map(|wants| (wants, By::Order(*number)))
        });
        let application = || wish.map(|wish| (wish.wants, By::Application(wish.uid)));
        let rule = || {
            let mut rules = (1..).zip(&self.rules);
            let found = rules.find(|(_, rule)| rule.on.matches(info));
            found.map(|(number, rule)| (rule.wants, By::Rule(number)))
        };
        order.or_else(application).or_else(rule).unwrap_or((Wants::DEFAULT, By::Default))
    }

    /// Reads the directories of all rules again if the flow's cgroup is a new one.
    fn see_cgroup(&mut self, cgroup_id: u64) {
        if !self.cgroups_seen.is_new(cgroup_id) {
            return;
        }
        let orders = self.orders.iter_mut().filter_map(|(_, active)| match active {
            ActiveOrder::Rule(rule) => Some(rule),
            ActiveOrder::Flow(..) => None,
        });
        for rule in self.rules.iter_mut().chain(orders) {
            rule.on.read_cgroup();
        }
    }

    /// Adds a checked order in front of all others, and removes an older order for the same flows.
    /// Returns the new order's number.
    pub fn give(&mut self, order: Order) -> Result<u32, Error> {
        let active = match order {
            Order::Flow { flow, wants } => ActiveOrder::Flow(flow, wants),
            Order::Rule(rule) => ActiveOrder::Rule(ActiveRule::new(rule)),
        };
        self.orders.retain(|(_, old)| match (old, &active) {
            (ActiveOrder::Flow(a, _), ActiveOrder::Flow(b, _)) => a != b,
            (ActiveOrder::Rule(a), ActiveOrder::Rule(b)) => a.on.selector() != b.on.selector(),
            _ => true,
        });
        let rules =
            self.orders.iter().filter(|(_, old)| matches!(old, ActiveOrder::Rule(_))).count();
        if rules >= RULES_MAX && matches!(active, ActiveOrder::Rule(_)) {
            return Err(Error::Refused(format!(
                "operators have set {RULES_MAX} rules already\nfix: see `remuda prefer --list`, \
                 and remove rules with `remuda prefer --clear [NUMBER]`"
            )));
        }
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1).max(1);
        self.orders.insert(0, (number, active));
        Ok(number)
    }

    /// Removes one order, or all. Returns how many were removed.
    pub fn take_back(&mut self, number: Option<u32>) -> Result<usize, Error> {
        let before = self.orders.len();
        self.orders.retain(|(known, _)| number.is_some_and(|number| number != *known));
        match (number, before - self.orders.len()) {
            (Some(number), 0) => Err(Error::Refused(format!(
                "there is no order {number}\nfix: `remuda prefer --list` shows the numbers"
            ))),
            (_, gone) => Ok(gone),
        }
    }

    /// Removes the orders for a single flow that has ended.
    pub fn ended(&mut self, id: u32) {
        self.orders
            .retain(|(_, active)| !matches!(active, ActiveOrder::Flow(flow, _) if *flow == id));
    }

    /// The first row that matches a flow counts.
    pub fn rows(&self) -> Vec<Row> {
        let order = |(number, active): &(u32, ActiveOrder)| match active {
            ActiveOrder::Flow(flow, wants) => {
                Row { order: Some(*number), on: format!("flow {flow}"), wants: *wants }
            }
            ActiveOrder::Rule(rule) => row(Some(*number), rule),
        };
        let rules = self.rules.iter().map(|rule| row(None, rule));
        self.orders.iter().map(order).chain(rules).collect()
    }
}

fn row(order: Option<u32>, rule: &ActiveRule) -> Row {
    Row { order, on: rule.on.selector().to_string(), wants: rule.wants }
}

#[cfg(test)]
mod tests;
