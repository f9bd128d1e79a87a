//! The number of rounds of each measurement; some have more than others.

use std::fmt;
use std::str::FromStr;

/// The value of an option: `bbr=5` means five rounds for each name that contains `bbr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundsOf {
    text: String,
    rounds: u64,
}

impl RoundsOf {
    /// Whether `name` contains the text.
    pub fn is_of(&self, name: &str) -> bool {
        name.contains(&self.text)
    }

    /// The number of rounds of `name`: that of the last match in `some`, or else `otherwise`.
    pub fn rounds(name: &str, some: &[Self], otherwise: u64) -> u64 {
        some.iter().rfind(|of| of.is_of(name)).map_or(otherwise, |of| of.rounds)
    }
}

impl FromStr for RoundsOf {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = text.split_once('=').filter(|(text, _)| !text.is_empty());
        let parts = named.and_then(|(text, rounds)| {
            let rounds = rounds.parse().ok().filter(|rounds| *rounds > 0)?;
            Some(Self { text: text.to_owned(), rounds })
        });
        parts.ok_or("must be TEXT=N, as in bbr=5")
    }
}

impl fmt::Display for RoundsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.text, self.rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_is_of_a_name_counts() {
        let some = ["bbr=5", "bbr-96=9"].map(|text| text.parse().expect("it is right"));
        let rounds = ["bbr-24", "bbr-96", "reno"].map(|name| RoundsOf::rounds(name, &some, 1));
        assert_eq!(rounds, [5, 9, 1]);
    }

    #[test]
    fn what_is_no_number_of_rounds_is_refused() {
        for text in ["bbr", "bbr=", "bbr=0", "bbr=many", "=5"] {
            assert!(text.parse::<RoundsOf>().is_err(), "{text}");
        }
    }
}
