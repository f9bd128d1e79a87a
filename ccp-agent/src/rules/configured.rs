//! The rules of the configuration.

use super::rule::Rule;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// More rules than this are refused.
pub const RULES_MAX: usize = 10_000;

/// The rules of the configuration, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<toml::Value>", into = "Vec<Rule>")]
pub struct Rules(Vec<Rule>);

impl Rules {
    pub fn as_slice(&self) -> &[Rule] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks each rule's driver by `driver`, its cgroup, and that it can match a flow at all.
    /// Errors name the rule by its number, from 1.
    pub fn check(&self, driver: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
        for (number, rule) in (1..).zip(&self.0) {
            let named = |why: String| format!("rule {number}: {why}");
            driver(&rule.driver).map_err(|why| named(format!("use = {:?}: {why}", rule.driver)))?;
            rule.check().map_err(named)?;
        }
        let mut names = HashMap::new();
        for (number, rule) in (1..).zip(&self.0) {
            let Some(name) = &rule.name else { continue };
            if let Some(first) = names.insert(name, number) {
                return Err(format!("rule {number}: name = {name:?}: rule {first} has that name"));
            }
        }
        match shadowed(&self.0) {
            None => Ok(()),
            Some((first, second)) => Err(format!(
                "rule {}: it never counts, because rule {} matches every flow that it matches\n\
                 fix: remove it, or move it before rule {1}",
                second + 1,
                first + 1
            )),
        }
    }
}

/// A rule that never counts, and the earlier one that matches all its flows: `(earlier, later)`.
fn shadowed(rules: &[Rule]) -> Option<(usize, usize)> {
    rules.iter().enumerate().find_map(|(later, rule)| {
        let earlier = rules[..later].iter().position(|before| before.on.covers(&rule.on))?;
        Some((earlier, later))
    })
}

impl TryFrom<Vec<toml::Value>> for Rules {
    type Error = String;

    fn try_from(written: Vec<toml::Value>) -> Result<Self, String> {
        if written.len() > RULES_MAX {
            return Err(format!("rule: {} rules; there are at most {RULES_MAX}", written.len()));
        }
        let rule = |(number, value): (usize, toml::Value)| {
            value.try_into::<Rule>().map_err(|error| format!("rule {number}: {}", error.message()))
        };
        (1..).zip(written).map(rule).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Rules> for Vec<Rule> {
    fn from(rules: Rules) -> Self {
        rules.0
    }
}
