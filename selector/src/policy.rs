//! What every policy is: it sees what the arm of one flow measures, and proposes another arm.
//!
//! ```text
//! begin ─▶ first arm      report ─▶ observe ─▶ proposal ─▶ guard ─▶ taken
//! ```

use crate::PolicyConfig;
use crate::arm_runner::ArmRunner;
use remuda_algorithms::units::Time;
use remuda_algorithms::{Loaded, Measurement, PathState, Preference, Proposal, Sample, Verdict};

/// Picks arms for one flow. Pure, as arms are. A policy proposes and never changes the arm itself:
/// the guard is asked between the two.
pub trait Policy: Send {
    /// Begins anew, as for a flow never seen: one starts, or is taken over. Names the first arm.
    fn begin(&mut self, path: &PathState, now: Time) -> &'static str;

    /// Takes in a report of the flow, which `arm` drives.
    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time);

    /// What it has decided since the last call, if anything: to change, or to stay.
    fn proposal(&mut self) -> Option<Proposal>;

    /// `arm` drives the flow now: as proposed, or as the guard undid it.
    fn taken(&mut self, arm: &'static str, now: Time);

    /// Whether it picks that arm at all.
    fn picks(&self, _arm: &str) -> bool {
        true
    }

    /// The application wants something else of the flow than `path.wants` said.
    fn prefer(&mut self, _wants: Preference) {}

    /// What it saw of the arm since the last sample, if that is enough to learn from.
    fn sample(&mut self) -> Option<Sample> {
        None
    }

    /// The arm that suits the flow's path best, as far as it has seen: where the next flow to the
    /// same destination may begin.
    fn verdict(&self) -> Option<Verdict> {
        None
    }

    /// Whether its flows use what is remembered of destinations: they may jump to a window by what
    /// flows had there.
    fn remembers(&self) -> bool {
        false
    }
}

/// One policy: what the agent needs to build it for a flow.
#[derive(Clone, Copy)]
pub struct PolicyInfo {
    /// The name in commands, configuration and logs.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Builds one for a flow, with an arm, and with the models of those that are loaded. It drives
    /// nothing until [`ArmRunner::resume`].
    pub build: fn(&PolicyConfig, &Loaded) -> Box<ArmRunner>,
}

impl std::fmt::Debug for PolicyInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyInfo").field("name", &self.name).finish_non_exhaustive()
    }
}
