//! Rules: the preference of all flows that a selector matches. They come from `[[prefer]]` in the
//! configuration and from `remuda prefer`.

use crate::select::{KEYS, Keys, Parts, Selector};
use remuda_algorithms::wants::Wants;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// More rules than this are refused.
pub const RULES_MAX: usize = 256;

/// The preference of the flows that a selector matches.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Rule {
    pub on: Selector,
    pub wants: Wants,
}

/// The rules of the configuration. The first that matches a flow counts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "Vec<Written>", into = "Vec<Written>")]
pub struct Rules(Vec<Rule>);

/// A rule as TOML and JSON have it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Written {
    #[serde(flatten)]
    on: Keys,
    wants: Wanted,
    /// Unknown keys, for the error.
    #[serde(flatten, skip_serializing)]
    others: BTreeMap<String, IgnoredAny>,
}

/// The unchecked preference of a rule. It is checked later, so that the error can name the rule.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
struct Wanted(remuda_algorithms::wants::Written);

impl Default for Wanted {
    fn default() -> Self {
        Self(Wants::DEFAULT.into())
    }
}

impl Rule {
    /// Parses the parts given on a command line.
    pub fn parse(parts: &Parts, wants: Wants) -> Result<Self, String> {
        parts.parse().map(|on| Self { on, wants })
    }

    /// Checks that the cgroup, if the rule names one, exists.
    pub fn check(&self) -> Result<(), String> {
        self.on.check()
    }
}

impl TryFrom<Written> for Rule {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        if let Some(key) = written.others.keys().next() {
            let known = KEYS.join(", ");
            return Err(format!("{key}: there is no such key; the keys are: {known}, wants"));
        }
        let wants = written.wants.0.try_into()?;
        Ok(Self { on: written.on.try_into()?, wants })
    }
}

impl From<Rule> for Written {
    fn from(Rule { on, wants }: Rule) -> Self {
        Self { on: on.into(), wants: Wanted(wants.into()), others: BTreeMap::new() }
    }
}

impl Rules {
    pub fn as_slice(&self) -> &[Rule] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that the cgroups of all rules exist.
    pub fn check(&self) -> Result<(), String> {
        (1..).zip(&self.0).try_for_each(|(number, rule)| {
            rule.check().map_err(|why| format!("prefer rule {number}: {why}"))
        })
    }
}

impl TryFrom<Vec<Written>> for Rules {
    type Error = String;

    fn try_from(written: Vec<Written>) -> Result<Self, String> {
        if written.len() > RULES_MAX {
            return Err(format!("prefer: {} rules; there are at most {RULES_MAX}", written.len()));
        }
        let rule = |(number, written): (usize, Written)| {
            Rule::try_from(written).map_err(|why| format!("prefer rule {number}: {why}"))
        };
        (1..).zip(written).map(rule).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Rules> for Vec<Written> {
    fn from(rules: Rules) -> Self {
        rules.0.into_iter().map(Into::into).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    struct File {
        prefer: Rules,
    }

    fn parse(text: &str) -> Result<File, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_is_read_and_written_again() {
        let text = "[[prefer]]\nlocal_port = 443\nwants = 'delay'\n\
                    [[prefer]]\nlocal_port = '8000-8099'\nmark = '0x10/0xff'\ncgroup = 77\n\
                    wants = { throughput = 0.7, delay = 1 }\n\
                    [[prefer]]\ndestination = '10.0.0.0/8'\nmark = 7\ncgroup = '/sys/fs/cgroup/a'\n\
                    wants = 'default'\n\
                    [[prefer]]\ndestination = 'fd00::1'\nwants = 'throughput'\n";
        let file = parse(text).expect("it parses");
        let shown: Vec<String> = file
            .prefer
            .as_slice()
            .iter()
            .map(|rule| format!("{}: {}", rule.on, rule.wants))
            .collect();
        assert_eq!(
            shown,
            [
                "local port 443: delay",
                "local port 8000-8099, cgroup 77, mark 0x10/0xff: throughput=0.7,delay=1",
                "cgroup /sys/fs/cgroup/a, mark 7, destination 10.0.0.0/8: default",
                "destination fd00::1/128: throughput",
            ]
        );
        let printed = toml::to_string(&file).expect("it prints");
        assert_eq!(parse(&printed), Ok(file), "{printed}");
    }

    #[test]
    fn a_bad_rule_is_named_by_number_key_value_and_rule() {
        let first = "[[prefer]]\nlocal_port = 1\nwants = 'delay'\n[[prefer]]\n";
        for (text, parts) in [
            ("local_port = 0\nwants = 'delay'", &["rule 2", "local_port = \"0\"", "65535"][..]),
            ("local_port = '9-8'\nwants = 'delay'", &["rule 2", "local_port = \"9-8\""]),
            ("local_port = 1.5\nwants = 'delay'", &["a number, or text"]),
            ("mark = '0x1/0x2'\nwants = 'delay'", &["rule 2", "mark = \"0x1/0x2\"", "mask"]),
            ("mark = -1\nwants = 'delay'", &["rule 2", "mark = \"-1\""]),
            ("cgroup = 'a/b'\nwants = 'delay'", &["rule 2", "cgroup = \"a/b\"", "absolute"]),
            ("destination = '10.0.0.1/8'\nwants = 'delay'", &["rule 2", "fix: \"10.0.0.0/8\""]),
            ("mark = 1\nwants = 'fast'", &["rule 2", "wants = \"fast\"", "0 to 1"]),
            ("mark = 1\nwants = { throughput = 0, delay = 0 }", &["rule 2", "not both 0"]),
            ("mark = 1\nwants = { throughput = 1 }", &["wants", "two weights"]),
            ("mark = 1", &["wants"]),
            ("wants = 'delay'", &["rule 2", "selects no flows", "fix:"]),
            ("remote_port = 1\nwants = 'delay'", &["remote_port"]),
        ] {
            let error = parse(&format!("{first}{text}\n")).expect_err(text);
            for part in parts {
                assert!(error.contains(part), "{text}: {part:?} is not in {error}");
            }
        }
        let many = "[[prefer]]\nmark = 1\nwants = 'delay'\n".repeat(RULES_MAX + 1);
        assert!(parse(&many).is_err_and(|error| error.contains("at most 256")));
    }

    #[test]
    fn a_cgroup_that_is_none_is_named() {
        let file = parse("[[prefer]]\ncgroup = '/proc'\nwants = 'delay'\n").expect("it parses");
        let error = file.prefer.check().expect_err("it is no cgroup");
        assert!(error.contains("rule 1: cgroup = \"/proc\"") && error.contains("fix:"), "{error}");
    }
}
