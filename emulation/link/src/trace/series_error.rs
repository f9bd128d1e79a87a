//! What is wrong with a series of rates.

use std::fmt;

/// A rule that a series breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesError {
    /// The line, counted from 1; or the position in a list, counted from 0.
    pub place: String,
    pub rule: String,
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.rule)
    }
}

impl std::error::Error for SeriesError {}

pub(crate) fn refuse(place: impl fmt::Display, rule: impl Into<String>) -> SeriesError {
    SeriesError { place: place.to_string(), rule: rule.into() }
}
