//! Errors in the setup of a simulation.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario, one of its links or a trace breaks a rule.
    #[error(transparent)]
    Scenario(#[from] remuda_scenarios::Error),
    /// The configuration of the agent breaks a rule, or names a file that cannot be used.
    #[error("{rule}")]
    Config {
        /// The rule, with the place.
        rule: String,
    },
    /// A driver does not exist, or does not exist in the simulator.
    #[error("{rule}")]
    Driver {
        /// The rule, with the known names.
        rule: String,
    },
    /// The same error with the name of the flow.
    #[error("flow `{flow}`: {rule}")]
    Flow { flow: String, rule: String },
    /// A built-in datapath program does not compile, which is a defect.
    #[error("a datapath program is refused: {rule}")]
    Program { rule: String },
}
