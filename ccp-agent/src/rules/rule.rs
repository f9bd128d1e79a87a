//! One rule, as TOML and JSON have it and as it is used.

use crate::select::{KEYS, Keys, Parts, Selector};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A longer name is refused: names are columns of tables and labels of metrics.
const NAME_CHARS_MAX: usize = 32;

/// Metrics show all rules beyond a bound under this name.
pub const RESERVED: &str = "other";

/// What share of a rule's flows get its driver, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    pub const ALL: Self = Self(1.0);

    pub fn new(share: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&share) {
            Ok(Self(share))
        } else {
            Err(format!("share = {share}: it must lie in 0 to 1"))
        }
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", (self.0 * 1e4).round() / 1e2)
    }
}

/// What drives the flows that a selector matches.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Rule {
    pub name: Option<String>,
    pub on: Selector,
    /// An arm or a policy.
    pub driver: String,
    pub share: Share,
    /// The agent takes over every new TCP socket of the rule's cgroup. Without it the rule reaches
    /// the flows that come to the agent otherwise.
    pub attach: bool,
}

/// A rule as TOML and JSON have it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(flatten)]
    on: Keys,
    #[serde(rename = "use")]
    driver: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    attach: bool,
    /// Unknown keys, for the error.
    #[serde(flatten, skip_serializing)]
    others: BTreeMap<String, IgnoredAny>,
}

impl Rule {
    /// A rule of the parts given on a command line.
    pub fn parse(parts: &Parts, driver: String) -> Result<Self, String> {
        let on = parts.parse()?;
        Ok(Self { name: None, on, driver, share: Share::ALL, attach: false })
    }

    /// Gives it a name.
    pub fn named(self, name: Option<String>) -> Result<Self, String> {
        if let Some(name) = &name {
            let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            if name == RESERVED {
                return Err(format!(
                    "name = {name:?}: metrics use this name for the sum of all rules beyond the \
                     limit; choose another"
                ));
            }
            if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_fit) {
                return Err(format!(
                    "name = {name:?}: it must be 1 to {NAME_CHARS_MAX} letters, digits, -, _ or ."
                ));
            }
        }
        Ok(Self { name, ..self })
    }

    /// Lets the agent attach to its cgroup.
    pub fn attached(self, attach: bool) -> Result<Self, String> {
        if attach && self.cgroup_directory().is_none() {
            let fix = "fix: give cgroup the directory, or remove attach";
            return Err(format!("attach = true: the rule names no directory of a cgroup\n{fix}"));
        }
        Ok(Self { attach, ..self })
    }

    /// The directory of its cgroup.
    pub fn cgroup_directory(&self) -> Option<&std::path::Path> {
        self.on.cgroup.as_ref()?.directory()
    }

    /// Checks what the kernel says of its cgroup. A directory that is missing is waited for.
    pub fn check(&self) -> Result<(), String> {
        match self.cgroup_directory() {
            Some(path) if !path.exists() => Ok(()),
            _ => self.on.check(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.on, self.driver)?;
        if self.share != Share::ALL {
            write!(f, " for {}", self.share)?;
        }
        Ok(())
    }
}

impl TryFrom<Written> for Rule {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        if let Some(key) = written.others.keys().next() {
            let known = KEYS.join(", ");
            return Err(format!(
                "{key}: there is no such key; the keys are: {known}, use, share, name, attach"
            ));
        }
        let share = written.share.map_or(Ok(Share::ALL), Share::new)?;
        let on = written.on.try_into()?;
        let rule = Self { name: None, on, driver: written.driver, share, attach: false };
        rule.named(written.name)?.attached(written.attach)
    }
}

impl From<Rule> for Written {
    fn from(rule: Rule) -> Self {
        Self {
            name: rule.name,
            on: rule.on.into(),
            driver: rule.driver,
            share: (rule.share != Share::ALL).then_some(rule.share.get()),
            attach: rule.attach,
            others: BTreeMap::new(),
        }
    }
}
