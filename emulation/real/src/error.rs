//! Everything that can go wrong with a run on real TCP.

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is none.
    #[error(transparent)]
    Scenario(Box<remuda_scenarios::Error>),
    #[error(transparent)]
    Live(#[from] remuda_live::Error),
    #[error(transparent)]
    Agent(#[from] ccp_agent::Error),
    /// Real TCP cannot run it.
    #[error("{scenario}: `{key}` is {value}: {rule}")]
    Unsupported {
        scenario: String,
        /// The key, with its table.
        key: String,
        /// What it is set to.
        value: String,
        /// What it must be on real TCP.
        rule: &'static str,
    },
    /// The system refused something.
    #[error("cannot {action}: {source}")]
    System {
        action: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl From<remuda_scenarios::Error> for Error {
    fn from(error: remuda_scenarios::Error) -> Self {
        Self::Scenario(Box::new(error))
    }
}

impl Error {
    /// For `map_err`: names what was tried.
    pub(crate) fn doing<E: Into<std::io::Error>>(
        action: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let action = action.into();
        move |source| Self::System { action, source: source.into() }
    }
}
