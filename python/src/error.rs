//! Errors of environments.

/// Why an environment cannot be created, or cannot step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One setting breaks a rule.
    #[error("`{key}` is {value}: {rule}")]
    Invalid {
        key: &'static str,
        /// The value that was set.
        value: String,
        /// The rule for the value.
        rule: &'static str,
    },
    /// An environment cannot drive this scenario.
    #[error("scenario {name}: {rule}")]
    Unfit {
        name: String,
        /// The rule that the scenario breaks.
        rule: String,
    },
    /// The scenario itself is invalid.
    #[error(transparent)]
    Scenario(#[from] remuda_scenarios::Error),
    /// The simulator refused the scenario.
    #[error(transparent)]
    Simulation(#[from] remuda_sim::Error),
    /// An action that is not finite.
    #[error("the action is {action}: must be a finite number")]
    Action { action: f32 },
    /// An action that is no place in the list of arms.
    #[error("the action is {action}: must be a whole number from 0 to {last}, the place of an arm")]
    Choice { action: f32, last: usize },
    #[error("the saved state is not that of an environment of this version of remuda")]
    Saved,
    #[error("no episode runs: call reset() first, and again after one has ended")]
    Over,
    #[error("`{key}` has {found} values: must have {wanted}")]
    Length {
        key: &'static str,
        found: usize,
        /// The length that the buffer must have.
        wanted: usize,
    },
    /// An error in one of many environments.
    #[error("environment {index}: {source}")]
    In { index: usize, source: Box<Error> },
}

impl Error {
    pub(crate) fn invalid(key: &'static str, value: impl ToString, rule: &'static str) -> Self {
        Self::Invalid { key, value: value.to_string(), rule }
    }
}

/// Returns an error if a buffer has a wrong length.
pub fn hold_length(key: &'static str, found: usize, wanted: usize) -> Result<(), Error> {
    if found == wanted { Ok(()) } else { Err(Error::Length { key, found, wanted }) }
}
