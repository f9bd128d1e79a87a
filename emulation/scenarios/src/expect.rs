//! A rule of a suite that a run passes or fails: `METRIC >= VALUE` or `METRIC <= VALUE`, as in
//! transperf's tests.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The side of the value on which the metric must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expectation {
    /// A column of the matrix' table.
    pub metric: String,
    pub side: Side,
    /// In the unit of the column.
    pub value: f64,
}

impl Expectation {
    /// Whether this value of the metric passes. NaN does not.
    pub fn is_met_by(&self, value: f64) -> bool {
        match self.side {
            Side::AtLeast => value >= self.value,
            Side::AtMost => value <= self.value,
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::AtLeast => ">=",
            Side::AtMost => "<=",
        };
        write!(f, "{} {side} {}", self.metric, self.value)
    }
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            let rule = "must be METRIC >= VALUE or METRIC <= VALUE, as in utilisation >= 0.8";
            format!("expectation `{text}`: {rule}")
        };
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [metric, side, value] = parts[..] else { return Err(refuse()) };
        let side = match side {
            ">=" => Side::AtLeast,
            "<=" => Side::AtMost,
            _ => return Err(refuse()),
        };
        let value = value.parse().ok().filter(|it: &f64| it.is_finite()).ok_or_else(refuse)?;
        Ok(Self { metric: metric.to_owned(), side, value })
    }
}

impl From<Expectation> for String {
    fn from(line: Expectation) -> Self {
        line.to_string()
    }
}

impl TryFrom<String> for Expectation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written() {
        for text in ["utilisation >= 0.8", "queueing_p95_ms <= 74"] {
            let line: Expectation = text.parse().unwrap();
            assert_eq!(line.to_string(), text);
        }
        let least: Expectation = "jain >= 0.7".parse().unwrap();
        assert!(least.is_met_by(0.7) && !least.is_met_by(0.69) && !least.is_met_by(f64::NAN));
        let most: Expectation = "a <= 2".parse().unwrap();
        assert!(most.is_met_by(2.0) && !most.is_met_by(2.1));
    }

    #[test]
    fn what_is_no_such_line_is_refused_by_name() {
        for text in ["", "jain", "jain > 0.7", "jain >= x", "jain >= nan", "jain >= 1 2"] {
            let error = text.parse::<Expectation>().unwrap_err();
            assert!(error.starts_with(&format!("expectation `{text}`: must be")), "{error}");
        }
    }
}
