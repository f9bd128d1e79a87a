//! Policies of one arm, by which arms are measured with what is remembered of destinations. A
//! policy uses that memory; an arm alone does not, so its flows never jump, and
//! `memory.initial_cwnd_pkts` is not theirs.

use remuda_algorithms::units::Time;
use remuda_algorithms::{Loaded, Measurement, PathState, Proposal, Verdict};
use remuda_selector::{ArmRunner, CANDIDATES, Policy, PolicyConfig, PolicyInfo};
use std::sync::Once;

/// The policy of CUBIC alone.
pub const CUBIC: &str = "only_cubic";

/// A policy that drives every flow with one arm.
struct Only {
    arm: &'static str,
}

impl Policy for Only {
    fn begin(&mut self, _path: &PathState, _now: Time) -> &'static str {
        self.arm
    }
    fn observe(&mut self, _m: &Measurement, _arm: &'static str, _now: Time) {}
    fn proposal(&mut self) -> Option<Proposal> {
        None
    }
    fn taken(&mut self, _arm: &'static str, _now: Time) {}
    fn verdict(&self) -> Option<Verdict> {
        Some(Verdict { arm: self.arm, score: 1.0 })
    }
    fn remembers(&self) -> bool {
        true
    }
}

/// A policy for each of the arms that policies pick from, in the order of [`CANDIDATES`].
static ONLY: [PolicyInfo; CANDIDATES.len()] = [
    only::<0>("only_learned"),
    only::<1>(CUBIC),
    only::<2>("only_bbr"),
    only::<3>("only_bbr3"),
    only::<4>("only_c2tcp"),
    only::<5>("only_vegas"),
    only::<6>("only_illinois"),
    only::<7>("only_westwood"),
    only::<8>("only_copa"),
    only::<9>("only_lingbo"),
];

const fn only<const AT: usize>(name: &'static str) -> PolicyInfo {
    let summary = "drives every flow with the arm of its name, and uses the memory of destinations";
    PolicyInfo { name, summary, build: build::<AT> }
}

fn build<const AT: usize>(_: &PolicyConfig, loaded: &Loaded) -> Box<ArmRunner> {
    Box::new(ArmRunner::new(Only { arm: CANDIDATES[AT] }, loaded))
}

/// The names of these policies, in the order of [`CANDIDATES`].
pub fn names() -> impl Iterator<Item = &'static str> {
    ONLY.iter().map(|policy| policy.name)
}

/// Makes the policies known to this process. Call this before anything looks a policy up.
pub fn add() {
    static ADDED: Once = Once::new();
    let add = |policy| remuda_selector::add(policy).expect("no other policy has its name");
    ADDED.call_once(|| ONLY.iter().for_each(add));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_the_name_of_its_arm() {
        let of_arms = CANDIDATES.map(|arm| format!("only_{arm}"));
        assert_eq!(names().collect::<Vec<_>>(), of_arms);
    }
}
