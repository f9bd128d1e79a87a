//! The driver of a flow: an arm, a policy, or another source of decisions.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A window of a million segments is 1.4 GB in flight: more than any path here holds.
pub const WINDOW_PKTS_MAX: u32 = 1_000_000;
/// The longest name of an arm, a policy or an algorithm of the kernel.
const NAME_CHARS_MAX: usize = 64;

/// The source of a flow's window and rate.
///
/// In a file it is one string: `cubic`, `native:cubic`, `window:100`, `external`, `unresponsive`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Driver {
    /// An arm or a policy of ours. The engine checks that the name exists.
    Named(String),
    /// The kernel's algorithm of that name; on real TCP only.
    Native(String),
    /// A constant window in segments, without program or agent; in the simulator only.
    Window(u32),
    /// Decisions come from outside, for example from Python; in the simulator only.
    External,
    /// Sends at its application's rate, whatever is lost, and expects no ACKs.
    Unresponsive,
}

/// A text that is not a driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    #[error(
        "`{text}` is not a driver: use a name of 1 to 64 letters, digits, `-` or `_`; or \
         `native:NAME`, `window:SEGMENTS`, `external`, `unresponsive`"
    )]
    Name { text: String },
    #[error("`{text}`: a fixed window is 1 to 1000000 segments, as in `window:100`")]
    Window { text: String },
    #[error("`{text}`: only `native` or `window` may come before a colon")]
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
            ("", "`` is not a driver: use a name of"),
            ("cu bic", "`cu bic` is not a driver"),
            ("native:", "`native:` is not a driver"),
            ("window:0", "`window:0`: a fixed window is 1 to 1000000"),
            ("window:1000001", "`window:1000001`: a fixed window"),
            ("window:ten", "`window:ten`: a fixed window"),
            ("kernel:cubic", "`kernel:cubic`: only `native` or `window` may"),
        ] {
            let error = text.parse::<Driver>().unwrap_err().to_string();
            assert!(error.starts_with(part), "{error}");
        }
    }
}
