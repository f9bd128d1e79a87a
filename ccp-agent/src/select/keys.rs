//! The parts of a selector as text: on a command line, in TOML, and in JSON.

use super::cgroup::Cgroup;
use super::network::{Mark, Ports, destination};
use super::owner::{Namespace, User};
use super::selector::Selector;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// A port range, mark or cgroup, written as a number or as text.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged, expecting = "a number, or text such as \"8000-8099\"")]
enum Value {
    Number(i64),
    Text(String),
}

impl Value {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }

    /// Stores the text as a number if it is one.
    fn of(text: &impl ToString) -> Self {
        let text = text.to_string();
        text.parse().map_or(Self::Text(text), Self::Number)
    }
}

/// The keys of a selector, unchecked, as TOML and JSON have them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Keys {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    local_port: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    netns: Option<Value>,
}

/// The parts of a selector as text; `None` means not given.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// See [`Ports::parse`].
    pub local_port: Option<String>,
    /// See [`Cgroup::parse`].
    pub cgroup: Option<String>,
    /// See [`Mark::parse`].
    pub mark: Option<String>,
    /// An address or a prefix.
    pub destination: Option<String>,
    /// See [`User::parse`].
    pub uid: Option<String>,
    /// See [`Namespace::parse`].
    pub netns: Option<String>,
}

/// The keys of a selector, for errors.
pub const KEYS: [&str; 6] = ["local_port", "cgroup", "mark", "destination", "uid", "netns"];

/// Parses one part; an error names key and value.
fn part<T, E: Display>(
    key: &str,
    value: Option<&String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, String> {
    let Some(text) = value else { return Ok(None) };
    parse(text).map(Some).map_err(|rule| format!("{key} = {text:?}: {rule}"))
}

impl Parts {
    /// Checks each part; at least one must be given.
    pub fn parse(&self) -> Result<Selector, String> {
        let on = Selector {
            local_port: part("local_port", self.local_port.as_ref(), Ports::parse)?,
            cgroup: part("cgroup", self.cgroup.as_ref(), Cgroup::parse)?,
            mark: part("mark", self.mark.as_ref(), Mark::parse)?,
            destination: part("destination", self.destination.as_ref(), destination)?,
            uid: part("uid", self.uid.as_ref(), User::parse)?,
            netns: part("netns", self.netns.as_ref(), Namespace::parse)?,
        };
        if on.is_empty() {
            return Err(format!(
                "it selects no flows\nfix: give one of {}; destination = \"0.0.0.0/0\" selects all \
                 of IPv4, \"::/0\" of IPv6",
                KEYS.join(", ")
            ));
        }
        Ok(on)
    }
}

impl TryFrom<Keys> for Selector {
    type Error = String;

    fn try_from(keys: Keys) -> Result<Self, String> {
        let text = |value: Option<Value>| value.map(Value::text);
        let parts = Parts {
            local_port: text(keys.local_port),
            cgroup: text(keys.cgroup),
            mark: text(keys.mark),
            destination: keys.destination,
            uid: text(keys.uid),
            netns: text(keys.netns),
        };
        parts.parse()
    }
}

impl From<Selector> for Keys {
    fn from(on: Selector) -> Self {
        Self {
            local_port: on.local_port.as_ref().map(Value::of),
            cgroup: on.cgroup.as_ref().map(Value::of),
            mark: on.mark.as_ref().map(Value::of),
            destination: on.destination.map(|it| it.to_string()),
            uid: on.uid.as_ref().map(Value::of),
            netns: on.netns.as_ref().map(Value::of),
        }
    }
}
