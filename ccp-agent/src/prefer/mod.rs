//! What the owners of flows want of them: delay, throughput, or weights between.
//!
//! The first that says something of a flow counts: an operator at run time (`remuda prefer`, the
//! newest order first), the flow's application (through the socket for applications), the
//! configuration (`[[prefer]]`, in its order), and else both count.

mod cgroup;
mod rules;
mod selector;
mod wishes;

pub use cgroup::Cgroup;
pub use remuda_algorithms::wants::Wants;
pub use rules::{Parts, RULES_MAX, Rule, Rules};
pub use selector::{Mark, Ports, Selector};
pub use wishes::{SocketId, Wish, Wishes};

use crate::Error;
use remuda_wire::to_agent::FlowInfo;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// After so many cgroups those seen are forgotten, and looked for anew.
const CGROUPS_SEEN_MAX: usize = 4_096;

/// Which flows an operator's order means.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One that runs, by the agent's number.
    Flow { flow: u32, wants: Wants },
    /// Those that a rule means, running ones and those to come.
    Rule(Rule),
}

impl Order {
    /// Whether the cgroup of a rule is there. It looks, so no lock is to be held.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Flow { .. } => Ok(()),
            Self::Rule(rule) => rule.check().map_err(Error::Refused),
        }
    }
}

/// Who has said what a flow wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Default,
    /// An operator, by an order with this number.
    Order(u32),
    /// The flow's application, a process of this user.
    Application(u32),
    /// The configuration, by the rule with this number.
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

/// A rule, and what its cgroup was when it was last looked at.
#[derive(Debug)]
struct Standing {
    rule: Rule,
    cgroup_id: Option<u64>,
}

impl Standing {
    fn new(rule: Rule) -> Self {
        let mut standing = Self { rule, cgroup_id: None };
        standing.look();
        standing
    }

    fn look(&mut self) {
        self.cgroup_id = self.rule.on.cgroup.as_ref().and_then(Cgroup::id);
    }

    fn means(&self, info: &FlowInfo) -> bool {
        self.rule.on.means(info, self.cgroup_id)
    }
}

#[derive(Debug)]
enum Given {
    Flow(u32, Wants),
    Rule(Standing),
}

/// All that is said of flows, but for what applications say of one that runs.
#[derive(Debug)]
pub struct Preferences {
    /// Newest first, each with its number.
    orders: Vec<(u32, Given)>,
    rules: Vec<Standing>,
    /// What applications have said of sockets that are no flows yet.
    pub wishes: Wishes,
    next_number: u32,
    /// Cgroups of flows since directories were last looked at. An id is of one directory for ever:
    /// only a flow of an unknown one can be in a directory that is new.
    cgroups_seen: HashSet<u64>,
}

impl Preferences {
    /// With the rules of the configuration.
    pub fn new(rules: &Rules) -> Self {
        Self {
            orders: Vec::new(),
            rules: rules.as_slice().iter().cloned().map(Standing::new).collect(),
            wishes: Wishes::default(),
            next_number: 1,
            cgroups_seen: HashSet::new(),
        }
    }

    /// What flow `id` wants, of which its application has said `wish`, and who says so.
    pub fn of(&mut self, id: u32, info: &FlowInfo, wish: Option<Wish>) -> (Wants, By) {
        self.look_at(info.cgroup_id);
        let order = self.orders.iter().find_map(|(number, given)| {
            let wants = match given {
                Given::Flow(flow, wants) => (*flow == id).then_some(*wants),
                Given::Rule(standing) => standing.means(info).then_some(standing.rule.wants),
            };
            wants.map(|wants| (wants, By::Order(*number)))
        });
        let said = || wish.map(|wish| (wish.wants, By::Application(wish.uid)));
        let rule = || {
            let mut rules = (1..).zip(&self.rules);
            let found = rules.find(|(_, standing)| standing.means(info));
            found.map(|(number, standing)| (standing.rule.wants, By::Rule(number)))
        };
        order.or_else(said).or_else(rule).unwrap_or((Wants::DEFAULT, By::Default))
    }

    /// Looks at the directories of cgroups again if a flow is in one that was not seen yet.
    fn look_at(&mut self, cgroup_id: u64) {
        if self.cgroups_seen.len() >= CGROUPS_SEEN_MAX {
            self.cgroups_seen.clear();
        }
        if !self.cgroups_seen.insert(cgroup_id) {
            return;
        }
        self.rules.iter_mut().for_each(Standing::look);
        for (_, given) in &mut self.orders {
            if let Given::Rule(standing) = given {
                standing.look();
            }
        }
    }

    /// Takes an order that was checked, before all others. One that means the same flows goes. Its
    /// number.
    pub fn give(&mut self, order: Order) -> Result<u32, Error> {
        let given = match order {
            Order::Flow { flow, wants } => Given::Flow(flow, wants),
            Order::Rule(rule) => Given::Rule(Standing::new(rule)),
        };
        self.orders.retain(|(_, old)| match (old, &given) {
            (Given::Flow(a, _), Given::Flow(b, _)) => a != b,
            (Given::Rule(a), Given::Rule(b)) => a.rule.on != b.rule.on,
            _ => true,
        });
        let rules = self.orders.iter().filter(|(_, old)| matches!(old, Given::Rule(_))).count();
        if rules >= RULES_MAX && matches!(given, Given::Rule(_)) {
            return Err(Error::Refused(format!(
                "there are {RULES_MAX} rules of operators already\nfix: `remuda prefer --list`, \
                 and `remuda prefer --clear NUMBER` or `remuda prefer --clear`"
            )));
        }
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1).max(1);
        self.orders.insert(0, (number, given));
        Ok(number)
    }

    /// Takes back an order, or all of them. How many.
    pub fn take_back(&mut self, number: Option<u32>) -> Result<usize, Error> {
        let before = self.orders.len();
        self.orders.retain(|(known, _)| number.is_some_and(|number| number != *known));
        match (number, before - self.orders.len()) {
            (Some(number), 0) => Err(Error::Refused(format!(
                "no order {number}\nfix: `remuda prefer --list` has their numbers"
            ))),
            (_, gone) => Ok(gone),
        }
    }

    /// A flow has ended: what was said of it alone goes.
    pub fn ended(&mut self, id: u32) {
        self.orders.retain(|(_, given)| !matches!(given, Given::Flow(flow, _) if *flow == id));
    }

    /// In the order in which they count.
    pub fn rows(&self) -> Vec<Row> {
        let order = |(number, given): &(u32, Given)| match given {
            Given::Flow(flow, wants) => {
                Row { order: Some(*number), on: format!("flow {flow}"), wants: *wants }
            }
            Given::Rule(standing) => row(Some(*number), standing),
        };
        let rules = self.rules.iter().map(|standing| row(None, standing));
        self.orders.iter().map(order).chain(rules).collect()
    }
}

fn row(order: Option<u32>, standing: &Standing) -> Row {
    Row { order, on: standing.rule.on.to_string(), wants: standing.rule.wants }
}

#[cfg(test)]
mod tests;
