//! Congestion-control algorithms, the arms, as pure state machines.
//!
//! One file, one algorithm. A new one edits two places: its file, and its line in [`ARMS`].

pub mod allegro;
pub mod anole;
pub mod arm;
pub mod bbr;
pub mod bbr3;
pub mod c2tcp;
pub mod copa;
pub mod cubic;
pub mod dctcp;
pub mod filter;
pub mod fixed;
pub mod hystart;
pub mod illinois;
pub mod interned;
pub mod learned;
pub mod ledbat;
pub mod lingbo;
pub mod list;
pub mod loaded;
pub mod lost_without_queue;
pub mod measurement;
pub mod merit;
pub mod native;
pub mod network;
pub mod nimbus;
pub mod overflow;
pub mod path;
pub mod pcc;
pub mod preference;
pub mod proposal;
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

pub use arm::{
    Arm, ArmInfo, Decision, OWN_REGISTERS_MAX, ProgramId, Queue, Readiness, Registers, Stage,
};
pub use list::{add, arm, arms};
pub use loaded::{Loadable, Loaded, Slot};
pub use measurement::{CwndUse, Measurement, OWN_FIELDS_MAX, RttSamples};
pub use network::{Network, Validity};
pub use path::{Abilities, PathState};
pub use preference::Preference;
pub use proposal::{Proposal, REFUSED_FOR, Reason, Why};
pub use sample::{Sample, Seen, Verdict};
pub use wants::Wants;
pub use window::WindowArm;

/// Every algorithm of this crate, one line each. [`arms`] are these and those added.
#[rustfmt::skip]
pub const ARMS: &[ArmInfo] = &[
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
    learned::ARM,
    lingbo::ARM,
    anole::ARM,
];
