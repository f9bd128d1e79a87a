//! Congestion-control algorithms as pure controllers.
//!
//! One file, one algorithm. A new one edits two places: its file, and its line in [`ARMS`].

pub mod bbr;
pub mod controller;
pub mod cubic;
pub mod filter;
pub mod fixed;
pub mod hystart;
pub mod path;
pub mod recovery;
pub mod reno;
pub mod round;
#[cfg(test)]
mod script;
pub mod signals;
pub mod units;
pub mod westwood;
pub mod window;

pub use controller::{
    Controller, Decision, Measurement, ProgramId, Proposal, Readiness, RttSamples, Why,
};
pub use path::PathState;

/// One algorithm of the herd: what the agent needs to build it and to install its program.
#[derive(Clone, Copy)]
pub struct Arm {
    /// The name in commands, configuration, logs and models.
    pub name: &'static str,
    /// One line for `remuda programs` and help texts.
    pub summary: &'static str,
    /// The program it runs in the datapath.
    pub program: ProgramId,
    /// Its text, in CCP's language.
    pub program_text: &'static str,
    /// Builds one for a flow. It drives nothing until [`Controller::resume`].
    pub build: fn() -> Box<dyn Controller>,
}

impl std::fmt::Debug for Arm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arm").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every algorithm, one line each.
#[rustfmt::skip]
pub const ARMS: &[Arm] = &[
    fixed::ARM,
    reno::ARM,
    cubic::ARM,
    bbr::ARM,
    westwood::ARM,
];

/// The arm of that name.
pub fn arm(name: &str) -> Option<&'static Arm> {
    ARMS.iter().find(|arm| arm.name == name)
}
