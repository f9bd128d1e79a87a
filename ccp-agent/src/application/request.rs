//! The protocol for applications: one request and one answer, each one datagram.
//!
//! A request is `prefer T D`, with the weights of throughput and delay in thousandths, and passes
//! one socket as SCM_RIGHTS. The answer is `0 FLOW` or `ERRNO WHY`. FLOW is the agent's flow
//! number, or 0 if the socket has no flow yet. Weights are integers because C prints decimals by
//! the locale.

use crate::prefer::Wants;
use nix::errno::Errno;
use remuda_algorithms::Preference;
use std::fmt;

/// Longest request in bytes; `prefer 1000 1000` has 16.
pub const REQUEST_BYTES_MAX: usize = 64;
/// The integer that stands for a weight of 1.
const WEIGHT_MAX: u16 = 1_000;

/// Why a request is refused: an errno for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    errno: Errno,
    why: String,
}

impl Refusal {
    pub fn new(errno: Errno, why: impl Into<String>) -> Self {
        Self { errno, why: why.into() }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::new(errno, errno.desc())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.errno as i32, self.why)
    }
}

fn weight(text: &str) -> Option<f64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number: u16 = digits.then(|| text.parse().ok())??;
    (number <= WEIGHT_MAX).then(|| f64::from(number) / f64::from(WEIGHT_MAX))
}

fn wants(bytes: &[u8]) -> Option<Wants> {
    let words = std::str::from_utf8(bytes).ok()?.strip_prefix("prefer ")?;
    let (throughput, delay) = words.split_once(' ')?;
    let weights = Preference { throughput: weight(throughput)?, delay: weight(delay)? };
    Wants::checked(weights).ok()
}

pub fn parse(bytes: &[u8]) -> Result<Wants, Refusal> {
    let rule = "a request is \"prefer THROUGHPUT DELAY\", two weights of 0 to 1000, not both 0";
    wants(bytes).ok_or_else(|| Refusal::new(Errno::EINVAL, rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_weights_in_thousandths() {
        for (text, want) in [
            ("prefer 1000 1000", "default"),
            ("prefer 0 1000", "delay"),
            ("prefer 1000 0", "throughput"),
            ("prefer 700 1000", "throughput=0.7,delay=1"),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(want.parse().expect(want)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "prefer",
            "prefer ",
            "prefer 1000",
            "prefer 0 0",
            "prefer 1001 0",
            "prefer 65536 0",
            "prefer -1 1000",
            "prefer +1 1000",
            "prefer 0.7 1",
            "prefer 1 1 1",
            "prefer  1 1",
            "prefer 1 1\n",
            "PREFER 1 1",
            "flows",
        ] {
            let refusal = parse(text.as_bytes()).expect_err(text).to_string();
            assert!(refusal.starts_with("22 a request is"), "{refusal}");
        }
        assert!(parse(b"prefer 1 \xff").is_err());
    }

    proptest! {
        #[test]
        fn any_weights_in_range_are_taken(throughput in 0u16..=1_000, delay in 0u16..=1_000) {
            let got = parse(format!("prefer {throughput} {delay}").as_bytes());
            prop_assert_eq!(got.is_ok(), throughput + delay > 0);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&bytes);
        }
    }
}
