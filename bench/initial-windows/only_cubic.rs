//! CUBIC as a policy of one arm. A policy uses what is remembered of a destination; an arm alone
//! does not, so its flows never jump, and `memory.initial_cwnd_pkts` is not theirs.

use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState, Proposal, Verdict};
use remuda_selector::{ArmRunner, Policy, PolicyInfo};
use std::sync::Once;

/// The name of the policy.
pub const NAME: &str = "only_cubic";
const CUBIC: &str = "cubic";

struct OnlyCubic;

impl Policy for OnlyCubic {
    fn begin(&mut self, _path: &PathState, _now: Time) -> &'static str {
        CUBIC
    }
    fn observe(&mut self, _m: &Measurement, _arm: &'static str, _now: Time) {}
    fn proposal(&mut self) -> Option<Proposal> {
        None
    }
    fn taken(&mut self, _arm: &'static str, _now: Time) {}
    fn verdict(&self) -> Option<Verdict> {
        Some(Verdict { arm: CUBIC, score: 1.0 })
    }
    fn remembers(&self) -> bool {
        true
    }
}

static ONLY_CUBIC: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "drives every flow with CUBIC, and uses the memory of destinations",
    build: |_, loaded| Box::new(ArmRunner::new(OnlyCubic, loaded)),
};

/// Makes the policy known to this process. Call this before the registry of policies is first read.
pub fn add() {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| remuda_selector::add(&ONLY_CUBIC).expect("no other policy has its name"));
}
