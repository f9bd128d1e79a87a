//! What the application that owns a flow wants of it: throughput, short delays, or both.

use serde::{Deserialize, Serialize};

/// How much throughput and delay count for a flow, each from 0 to 1: `"default"`, `"delay"`,
/// `"throughput"`, or `{ throughput = 0.7, delay = 1.0 }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Said", into = "Said")]
pub struct Wants {
    /// The weight of throughput.
    pub throughput: f64,
    /// The weight of delay.
    pub delay: f64,
}

/// Those that have a name.
const NAMED: [(&str, Wants); 3] = [
    ("default", Wants { throughput: 1.0, delay: 1.0 }),
    ("delay", Wants { throughput: 0.0, delay: 1.0 }),
    ("throughput", Wants { throughput: 1.0, delay: 0.0 }),
];

impl Wants {
    /// Both count.
    pub const DEFAULT: Self = NAMED[0].1;

    /// Whether both count in full, as where a file says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::DEFAULT
    }

    /// Whether both weights are 0 to 1, and not both 0.
    pub(crate) fn is_valid(&self) -> bool {
        let weight = |value: f64| (0.0..=1.0).contains(&value);
        weight(self.throughput) && weight(self.delay) && self.throughput + self.delay > 0.0
    }
}

impl Default for Wants {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// As a file says it.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "must be \"default\", \"delay\", \"throughput\", \
    or { throughput = 0.7, delay = 1.0 }"
)]
enum Said {
    Name(String),
    Weights(Weights),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Weights {
    throughput: f64,
    delay: f64,
}

impl TryFrom<Said> for Wants {
    type Error = String;

    fn try_from(said: Said) -> Result<Self, String> {
        match said {
            Said::Weights(Weights { throughput, delay }) => Ok(Self { throughput, delay }),
            Said::Name(name) => NAMED
                .into_iter()
                .find_map(|(known, wants)| (known == name).then_some(wants))
                .ok_or_else(|| {
                    format!(
                        "wants = \"{name}\": must be \"default\", \"delay\" or \"throughput\", or \
                         weights, as in {{ throughput = 0.7, delay = 1.0 }}"
                    )
                }),
        }
    }
}

impl From<Wants> for Said {
    fn from(wants: Wants) -> Self {
        let named = NAMED.into_iter().find(|(_, known)| *known == wants);
        let Wants { throughput, delay } = wants;
        named.map_or(Self::Weights(Weights { throughput, delay }), |(name, _)| {
            Self::Name(name.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Flow {
        wants: Wants,
    }

    fn read(text: &str) -> Result<Wants, String> {
        let flow = toml::from_str::<Flow>(&format!("wants = {text}"));
        flow.map(|flow| flow.wants).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_name_or_weights_say_it_and_survive_a_file() {
        for (text, throughput, delay) in [
            ("'default'", 1.0, 1.0),
            ("'delay'", 0.0, 1.0),
            ("'throughput'", 1.0, 0.0),
            ("{ throughput = 0.7, delay = 1.0 }", 0.7, 1.0),
        ] {
            let wants = read(text).unwrap();
            assert_eq!(wants, Wants { throughput, delay }, "{text}");
            let again = toml::to_string(&Flow { wants }).unwrap();
            assert_eq!(toml::from_str::<Flow>(&again).unwrap(), Flow { wants }, "{again}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_it_must_be() {
        assert!(read("'speed'").unwrap_err().starts_with("wants = \"speed\": must be \"default\""));
        for text in ["3", "{ throughput = 1 }", "{ throughput = 1, delay = 1, loss = 1 }"] {
            assert!(read(text).unwrap_err().starts_with("must be \"default\""), "{text}");
        }
    }

    #[test]
    fn weights_are_0_to_1_and_not_both_0() {
        for (throughput, delay, want) in [
            (1.0, 1.0, true),
            (0.3, 0.0, true),
            (0.0, 0.0, false),
            (1.1, 0.0, false),
            (-0.1, 1.0, false),
            (f64::NAN, 1.0, false),
        ] {
            assert_eq!(Wants { throughput, delay }.is_valid(), want, "{throughput} {delay}");
        }
    }
}
