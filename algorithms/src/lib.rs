//! Congestion-control algorithms as pure controllers.
//!
//! One file, one algorithm. A new one edits two places: its file, and its line in [`ARMS`].

pub mod allegro;
pub mod bbr;
pub mod bbr3;
pub mod c2tcp;
pub mod controller;
pub mod copa;
pub mod cubic;
pub mod dctcp;
pub mod filter;
pub mod fixed;
pub mod herd;
pub mod hystart;
pub mod illinois;
pub mod kept;
pub mod ledbat;
pub mod native;
pub mod nimbus;
pub mod overflow;
pub mod path;
pub mod pcc;
pub mod preference;
pub mod proteus;
pub mod proteus_s;
pub mod recovery;
pub mod remy;
pub mod reno;
pub mod round;
pub mod sample;
#[cfg(test)]
mod script;
pub mod signals;
pub mod sprout;
pub mod units;
pub mod vegas;
pub mod verus;
pub mod vivace;
pub mod wants;
pub mod westwood;
pub mod window;

pub use controller::{
    Controller, Decision, Measurement, ProgramId, Proposal, Readiness, Registers, RttSamples, Why,
};
pub use herd::{add, arm, arms};
pub use path::{Abilities, PathState};
pub use preference::Preference;
pub use sample::{Sample, Seen, Verdict};
pub use wants::Wants;

use std::sync::Arc;

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
    /// Makes one for a flow: see [`Arm::build`].
    pub make: fn(&Settings) -> Box<dyn Controller>,
}

/// What arms need beside a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub remy: Option<Arc<remy::tree::Tree>>,
}

impl Arm {
    /// Builds one for a flow. It drives nothing until [`Controller::resume`].
    pub fn build(&self) -> Box<dyn Controller> {
        self.build_with(&Settings::default())
    }

    /// Builds one with these settings.
    pub fn build_with(&self, settings: &Settings) -> Box<dyn Controller> {
        (self.make)(settings)
    }
}

impl std::fmt::Debug for Arm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arm").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every algorithm of this crate, one line each. [`arms`] are these and those added.
#[rustfmt::skip]
pub const ARMS: &[Arm] = &[
    fixed::ARM,
    reno::ARM,
    cubic::ARM,
    bbr::ARM,
    bbr3::ARM,
    vegas::ARM,
    westwood::ARM,
    illinois::ARM,
    c2tcp::ARM,
    copa::ARM,
    allegro::ARM,
    vivace::ARM,
    proteus::ARM,
    proteus_s::ARM,
    ledbat::ARM,
    dctcp::ARM,
    nimbus::ARM,
    remy::ARM,
    verus::ARM,
    sprout::ARM,
];
