//! Errors of runs on real TCP.

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario breaks a rule.
    #[error(transparent)]
    Scenario(Box<remuda_scenarios::Error>),
    #[error(transparent)]
    Live(#[from] crate::Error),
    #[error(transparent)]
    Agent(#[from] ccp_agent::Error),
    /// The scenario uses a setting that only the simulator supports.
    #[error("{scenario}: `{key}` is {value}: {rule}")]
    Unsupported {
        scenario: String,
        /// The key, with its table.
        key: String,
        value: String,
        /// The rule for real TCP.
        rule: &'static str,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System { action: String, source: std::io::Error },
}

impl From<remuda_scenarios::Error> for Error {
    fn from(error: remuda_scenarios::Error) -> Self {
        Self::Scenario(Box::new(error))
    }
}

impl Error {
    /// For `map_err`: names the action that failed.
    pub(crate) fn doing<E: Into<std::io::Error>>(
        action: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let action = action.into();
        move |source| Self::System { action, source: source.into() }
    }
}
