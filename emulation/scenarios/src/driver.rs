//! What drives a flow, as a scenario file says it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A window of a million segments is 1.4 GB in flight: more than any path of ours holds.
pub const WINDOW_PKTS_MAX: u32 = 1_000_000;
/// The longest name of an arm, a policy or one of the kernel's algorithms.
const NAME_CHARS_MAX: usize = 64;

/// What drives a flow.
///
/// In a file it is one string: `cubic`, `native:cubic`, `window:100`, `external`, `unresponsive`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Driver {
    /// An arm or a policy of ours. Whether there is one of that name, the engine knows.
    Named(String),
    /// The kernel's own algorithm of that name; on real TCP only.
    Native(String),
    /// A window that never changes, in segments: no program, no agent; in the simulator only.
    Window(u32),
    /// An environment decides; in the simulator only.
    External,
    /// Nobody: it sends at its application's rate, whatever is lost, and expects no ACKs.
    Unresponsive,
}

/// A text that names no driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// It holds what a name does not.
    #[error(
        "`{text}` is no driver: a name has 1 to 64 letters, digits, `-` or `_`; or `native:NAME`, \
         `window:SEGMENTS`, `external`, `unresponsive`"
    )]
    Name { text: String },
    /// The window is no number of segments.
    #[error("`{text}`: a fixed window is 1 to 1000000 segments, as in `window:100`")]
    Window { text: String },
    /// There is no such kind of driver.
    #[error("`{text}`: before a colon stands `native` or `window`")]
    Prefix { text: String },
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(fits)
}

impl FromStr for Driver {
    type Err = DriverError;

    fn from_str(text: &str) -> Result<Self, DriverError> {
        let named = |name: &str| {
            let name = is_name(name).then(|| name.to_owned());
            name.ok_or_else(|| DriverError::Name { text: text.to_owned() })
        };
        match text.split_once(':') {
            None if text == "external" => Ok(Self::External),
            None if text == "unresponsive" => Ok(Self::Unresponsive),
            None => named(text).map(Self::Named),
            Some(("native", name)) => named(name).map(Self::Native),
            Some(("window", segments)) => {
                let segments = segments.parse().ok();
                let segments = segments.filter(|it| (1..=WINDOW_PKTS_MAX).contains(it));
                segments.map(Self::Window).ok_or_else(|| DriverError::Window { text: text.into() })
            }
            Some(_) => Err(DriverError::Prefix { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Native(name) => write!(f, "native:{name}"),
            Self::Window(segments) => write!(f, "window:{segments}"),
            Self::External => f.write_str("external"),
            Self::Unresponsive => f.write_str("unresponsive"),
        }
    }
}

impl TryFrom<String> for Driver {
    type Error = DriverError;

    fn try_from(text: String) -> Result<Self, DriverError> {
        text.parse()
    }
}

impl From<Driver> for String {
    fn from(driver: Driver) -> Self {
        driver.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        for (text, want) in [
            ("cubic", Driver::Named("cubic".to_owned())),
            ("native:bbr", Driver::Native("bbr".to_owned())),
            ("window:100", Driver::Window(100)),
            ("external", Driver::External),
            ("unresponsive", Driver::Unresponsive),
        ] {
            let driver: Driver = text.parse().unwrap();
            assert_eq!(driver, want);
            assert_eq!(driver.to_string(), text);
        }
    }

    #[test]
    fn a_refusal_says_what_a_driver_is() {
        for (text, part) in [
            ("", "`` is no driver: a name has"),
            ("cu bic", "`cu bic` is no driver"),
            ("native:", "`native:` is no driver"),
            ("window:0", "`window:0`: a fixed window is 1 to 1000000"),
            ("window:1000001", "`window:1000001`: a fixed window"),
            ("window:ten", "`window:ten`: a fixed window"),
            ("kernel:cubic", "`kernel:cubic`: before a colon stands"),
        ] {
            let error = text.parse::<Driver>().unwrap_err().to_string();
            assert!(error.starts_with(part), "{error}");
        }
    }
}
