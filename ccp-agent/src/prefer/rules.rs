//! Rules: the preference of all flows that a selector matches. They come from `[[prefer]]` in the
//! configuration and from `remuda prefer`.

use super::cgroup::Cgroup;
use super::selector::{Mark, Ports, Selector, destination};
use remuda_algorithms::wants::Wants;
use serde::{Deserialize, Serialize};

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

/// A port range, mark or cgroup, written as a number or as text.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged, expecting = "a number, or text such as \"8000-8099\"")]
enum Value {
    Number(i64),
    Text(String),
}

/// A rule as TOML and JSON have it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    local_port: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    wants: Wanted,
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

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// Stores the text as a number if it is one.
    fn of(text: String) -> Self {
        text.parse().map_or(Self::Text(text), Self::Number)
    }
}

/// Parses one part of a rule; an error names key and value.
fn part<T, E: std::fmt::Display>(
    key: &str,
    value: Option<String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, String> {
    let parsed =
        |text: String| parse(&text).map(Some).map_err(|rule| format!("{key} = {text:?}: {rule}"));
    value.map_or(Ok(None), parsed)
}

impl Rule {
    /// Parses the parts given on a command line; `None` means not given.
    pub fn parse(parts: &Parts, wants: Wants) -> Result<Self, String> {
        let Parts { local_port, cgroup, mark, destination: to } = parts.clone();
        let on = Selector {
            local_port: part("local_port", local_port, Ports::parse)?,
            cgroup: part("cgroup", cgroup, Cgroup::parse)?,
            mark: part("mark", mark, Mark::parse)?,
            destination: part("destination", to, destination)?,
        };
        if on.is_empty() {
            return Err("it selects no flows\nfix: give local_port, cgroup, mark or destination; \
                        destination = \"0.0.0.0/0\" selects all of IPv4, \"::/0\" of IPv6"
                .to_owned());
        }
        Ok(Self { on, wants })
    }

    /// Checks that the cgroup, if the rule names one, exists.
    pub fn check(&self) -> Result<(), String> {
        let Some(cgroup) = &self.on.cgroup else { return Ok(()) };
        cgroup.check().map_err(|why| format!("cgroup = \"{cgroup}\": {why}"))
    }
}

/// The parts of a selector as text.
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
}

impl TryFrom<Written> for Rule {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let text = |value: Option<Value>| value.map(|value| value.text());
        let parts = Parts {
            local_port: text(written.local_port),
            cgroup: text(written.cgroup),
            mark: text(written.mark),
            destination: written.destination,
        };
        Self::parse(&parts, written.wants.0.try_into()?)
    }
}

impl From<Rule> for Written {
    fn from(Rule { on, wants }: Rule) -> Self {
        Self {
            local_port: on.local_port.map(|it| Value::of(it.to_string())),
            cgroup: on.cgroup.map(|it| Value::of(it.to_string())),
            mark: on.mark.map(|it| Value::of(it.to_string())),
            destination: on.destination.map(|it| it.to_string()),
            wants: Wanted(wants.into()),
        }
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
