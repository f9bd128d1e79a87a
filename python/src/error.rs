//! Everything that can be wrong with an environment.

/// Why an environment could not be made, or could not step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One setting breaks a rule.
    #[error("`{key}` is {value}: {rule}")]
    Invalid {
        key: &'static str,
        /// What it was set to.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// The scenario is none that an environment can drive.
    #[error("scenario {name}: {rule}")]
    Unfit {
        name: String,
        /// What it must have.
        rule: String,
    },
    /// The scenario is none.
    #[error(transparent)]
    Scenario(#[from] remuda_scenarios::Error),
    /// The simulator refused it.
    #[error(transparent)]
    Simulation(#[from] remuda_sim::Error),
    /// An action that is no number.
    #[error("the action is {action}: must be a finite number")]
    Action { action: f32 },
    #[error("no episode runs: call reset() first, and again after one has ended")]
    Over,
    /// A buffer of the wrong length.
    #[error("`{key}` has {found} values: must have {wanted}")]
    Length {
        /// What the buffer is for.
        key: &'static str,
        found: usize,
        /// What it must have.
        wanted: usize,
    },
    /// Any of these, in one of many environments.
    #[error("environment {index}: {source}")]
    In { index: usize, source: Box<Error> },
}

impl Error {
    pub(crate) fn invalid(key: &'static str, value: impl ToString, rule: &'static str) -> Self {
        Self::Invalid { key, value: value.to_string(), rule }
    }
}

/// Refuses a buffer of the wrong length.
pub(crate) fn hold_length(key: &'static str, found: usize, wanted: usize) -> Result<(), Error> {
    if found == wanted { Ok(()) } else { Err(Error::Length { key, found, wanted }) }
}
