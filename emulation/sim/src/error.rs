//! Why a scenario cannot be simulated.

/// What is wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario, a link of it or its trace breaks a rule.
    #[error(transparent)]
    Scenario(#[from] remuda_scenarios::Error),
    /// What is to drive a flow does not exist, or not in the simulator.
    #[error("{rule}")]
    Driver {
        /// The rule, with the names there are.
        rule: String,
    },
    /// The same, of this flow.
    #[error("flow `{flow}`: {rule}")]
    Flow { flow: String, rule: String },
    /// A datapath program of ours does not compile: a defect.
    #[error("a datapath program is refused: {rule}")]
    Program { rule: String },
}
