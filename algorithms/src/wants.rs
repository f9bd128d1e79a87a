//! What is wanted of a flow, as people write it: a name, or two weights.

use crate::preference::Preference;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const RULE: &str = "it is \"default\", \"delay\", \"throughput\", or two weights of 0 to 1, not \
                    both 0: { throughput = 0.7, delay = 1.0 }, or throughput=0.7,delay=1 on a \
                    command line";
/// The weights that have a name.
const NAMES: [(&str, Preference); 3] = [
    ("default", Preference::DEFAULT),
    ("delay", Preference::DELAY),
    ("throughput", Preference::THROUGHPUT),
];

/// A preference whose weights are in range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Wants(Preference);

/// In TOML and JSON, before it is checked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "wants: \"default\", \"delay\", \"throughput\", or two weights of 0 to 1, such as \
                 { throughput = 0.7, delay = 1.0 }"
)]
pub enum Written {
    /// `"delay"` and its like.
    Name(String),
    Weights(Preference),
}

impl Wants {
    pub const DEFAULT: Self = Self(Preference::DEFAULT);

    /// Of weights that somebody has named.
    pub fn checked(weights: Preference) -> Result<Self, String> {
        if weights.is_valid() {
            return Ok(Self(weights));
        }
        let Preference { throughput, delay } = weights;
        Err(format!("wants = {{ throughput = {throughput}, delay = {delay} }}: {RULE}"))
    }

    /// Whether both count in full, as where nobody says anything.
    pub fn is_default(&self) -> bool {
        *self == Self::DEFAULT
    }

    pub fn preference(self) -> Preference {
        self.0
    }

    fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, weights)| *weights == self.0).map(|(name, _)| *name)
    }
}

impl FromStr for Wants {
    type Err = String;

    /// A name, or `throughput=0.7,delay=1`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, weights)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(Self(*weights));
        }
        let refuse = || format!("wants = {text:?}: {RULE}");
        let (mut throughput, mut delay) = (None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(refuse)?;
            let weight = match key {
                "throughput" => &mut throughput,
                "delay" => &mut delay,
                _ => return Err(refuse()),
            };
            if weight.replace(value.parse().map_err(|_| refuse())?).is_some() {
                return Err(refuse());
            }
        }
        let (Some(throughput), Some(delay)) = (throughput, delay) else {
            return Err(refuse());
        };
        Self::checked(Preference { throughput, delay }).map_err(|_| refuse())
    }
}

impl fmt::Display for Wants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Preference { throughput, delay } = self.0;
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "throughput={throughput},delay={delay}"),
        }
    }
}

impl TryFrom<Written> for Wants {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Name(text) => text.parse(),
            Written::Weights(weights) => Self::checked(weights),
        }
    }
}

impl From<Wants> for Written {
    fn from(wants: Wants) -> Self {
        match wants.name() {
            Some(name) => Self::Name(name.to_owned()),
            None => Self::Weights(wants.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weights(throughput: f64, delay: f64) -> Wants {
        Wants(Preference { throughput, delay })
    }

    #[test]
    fn a_name_or_two_weights() {
        for (text, want) in [
            ("default", weights(1.0, 1.0)),
            ("delay", weights(0.0, 1.0)),
            ("throughput", weights(1.0, 0.0)),
            ("throughput=0.7,delay=1", weights(0.7, 1.0)),
            ("delay=0.25,throughput=0", weights(0.0, 0.25)),
        ] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_rule() {
        for text in [
            "",
            "Delay",
            "fast",
            "throughput=1",
            "throughput=0,delay=0",
            "throughput=1.5,delay=1",
            "throughput=-1,delay=1",
            "throughput=nan,delay=1",
            "throughput=1,throughput=1",
            "throughput=1,delay=1,loss=1",
            "throughput=1,delay",
        ] {
            let error = text.parse::<Wants>().expect_err(text);
            assert!(error.contains(&format!("{text:?}")) && error.contains("0 to 1"), "{error}");
        }
    }

    #[test]
    fn json_has_the_same_rule() {
        for (json, want) in [
            ("\"delay\"", Some(weights(0.0, 1.0))),
            ("{\"throughput\":0.5,\"delay\":1}", Some(weights(0.5, 1.0))),
            ("{\"throughput\":2,\"delay\":1}", None),
            ("{\"throughput\":1}", None),
            ("{\"throughput\":1,\"delay\":1,\"loss\":1}", None),
            ("7", None),
        ] {
            assert_eq!(serde_json::from_str::<Wants>(json).ok(), want, "{json}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(throughput in 0u32..=1_000, delay in 1u32..=1_000) {
            let wants = weights(f64::from(throughput) / 1e3, f64::from(delay) / 1e3);
            prop_assert_eq!(wants.to_string().parse(), Ok(wants));
            let json = serde_json::to_string(&wants).expect("it is plain data");
            prop_assert_eq!(serde_json::from_str::<Wants>(&json).expect("it parses"), wants);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Wants>();
        }
    }
}
