//! Errors in a link's spec.

use crate::trace::TraceError;
use std::fmt;

#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("`{key}` is {value}: {rule}")]
    Invalid {
        /// The key, with its table.
        key: String,
        value: String,
        /// The rule that the value breaks.
        rule: &'static str,
    },
    #[error("`{key}`: {source}")]
    Trace {
        /// The key, with its table.
        key: String,
        source: TraceError,
    },
}

impl SpecError {
    pub(super) fn invalid(key: &str, value: impl fmt::Display, rule: &'static str) -> Self {
        Self::Invalid { key: key.to_owned(), value: value.to_string(), rule }
    }

    pub(super) fn within(mut self, table: &str) -> Self {
        let (Self::Invalid { key, .. } | Self::Trace { key, .. }) = &mut self;
        *key = format!("{table}.{key}");
        self
    }
}

pub(super) fn check(
    holds: bool,
    key: &str,
    value: impl fmt::Display,
    rule: &'static str,
) -> Result<(), SpecError> {
    if holds { Ok(()) } else { Err(SpecError::invalid(key, value, rule)) }
}

pub(super) fn percent(key: &str, value: f64) -> Result<(), SpecError> {
    check((0.0..=100.0).contains(&value), key, value, "must be between 0 and 100")
}
