//! Random: another arm every dwell, whatever comes of it.
//!
//! The floor that a policy must beat, and the way training data is collected: Zhou et al., Antelope
//! (ICNP 2021), section VI-B, "set the sender to a fixed CCA then randomly switch to other
//! algorithms to observe their performance".
//!
//! Differs from the paper:
//!   - the first arm is drawn as well, or is the one remembered of the destination;
//!   - draws follow from the flow's own history ([`crate::draw`]), as no controller has randomness
//!     of its own: one flow, replayed, has the same arms;
//!   - an arm stays for 10 s and 20 round trips: the guard lets six switches a minute pass.

use crate::arm_runner::ArmRunner;
use crate::candidates::{CANDIDATES, place};
use crate::draw::Draws;
use crate::policy::{Policy, PolicyInfo};
use crate::sampling::Sampling;
use crate::turn::{DWELL_RTTS_MIN, Turn};
use crate::{ConfigError, check_dwell};
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{Measurement, PathState, Proposal, Sample, Why};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Its line in [`crate::POLICIES`].
pub const POLICY: PolicyInfo = PolicyInfo {
    name: "random",
    summary: "another arm every dwell, drawn from ten (a baseline)",
    build: |config, loaded| Box::new(ArmRunner::new(Random::new(config.random.clone()), loaded)),
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomConfig {
    /// How long an arm has the flow, in milliseconds; 20 round trips at least.
    pub dwell_ms: u64,
}

impl Default for RandomConfig {
    fn default() -> Self {
        Self { dwell_ms: 10_000 }
    }
}

impl RandomConfig {
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_dwell("random.dwell_ms", self.dwell_ms)
    }
}

/// Random, for one flow.
pub struct Random {
    config: RandomConfig,
    draws: Draws,
    turn: Turn,
    sampling: Sampling,
    proposal: Option<Proposal>,
}

impl Random {
    /// One that has no flow yet.
    pub fn new(config: RandomConfig) -> Self {
        Self {
            config,
            draws: Draws::of(&PathState::new(Bytes(0), Bytes(0)), Time::ZERO),
            turn: Turn::begin(CANDIDATES[0], Time::ZERO),
            sampling: Sampling::default(),
            proposal: None,
        }
    }

    /// One of the others.
    fn draw_other(&mut self, current: &str) -> &'static str {
        let current = place(current).unwrap_or(0);
        let further = 1 + self.draws.below(CANDIDATES.len() - 1);
        CANDIDATES[(current + further) % CANDIDATES.len()]
    }
}

impl Policy for Random {
    fn begin(&mut self, path: &PathState, now: Time) -> &'static str {
        *self = Self::new(self.config.clone());
        self.draws = Draws::of(path, now);
        self.sampling = Sampling::begin(now);
        let remembered_arm = path.remembered_arm.and_then(place);
        let first =
            CANDIDATES[remembered_arm.unwrap_or_else(|| self.draws.below(CANDIDATES.len()))];
        self.turn = Turn::begin(first, now);
        first
    }

    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time) {
        self.draws.stir(m, now);
        self.turn.add(m, now);
        self.sampling.add(m, arm, now);
        if self.turn.has_lasted(Duration::from_millis(self.config.dwell_ms), DWELL_RTTS_MIN, now) {
            let to = self.draw_other(arm);
            let why = Why {
                text: format!("drawn after {arm}"),
                features: vec![("drawn_from", CANDIDATES.len().to_string())],
            };
            self.proposal = Some(Proposal::new(to, why));
            self.turn = self.turn.next(arm, now);
        }
    }

    fn proposal(&mut self) -> Option<Proposal> {
        self.proposal.take()
    }

    fn taken(&mut self, arm: &'static str, now: Time) {
        self.sampling.switched(self.turn.arm(), now);
        self.turn = self.turn.next(arm, now);
    }

    fn picks(&self, arm: &str) -> bool {
        place(arm).is_some()
    }

    fn sample(&mut self) -> Option<Sample> {
        self.sampling.sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{at, drive, holds, path, report, suits, whatever_is_reported};
    use proptest::prelude::*;
    use remuda_algorithms::Loaded;

    fn random() -> ArmRunner<Random> {
        ArmRunner::new(Random::new(RandomConfig::default()), &Loaded::default())
    }

    /// The arms of a flow, with the seconds at which they took it.
    fn arms(bytes: u64, secs: u64) -> Vec<(u64, &'static str)> {
        let mut random = random();
        random.resume(&path(), Time::ZERO);
        drive(&mut random, secs, |_, _| report(bytes, 40))
    }

    #[test]
    fn another_arm_has_the_flow_every_ten_seconds() {
        let arms = arms(10_000, 600);
        assert_eq!(arms.len(), 60);
        assert!(arms.windows(2).all(|two| two[0].1 != two[1].1 && two[1].0 == two[0].0 + 10));
        assert!(CANDIDATES.iter().all(|name| arms.iter().any(|(_, arm)| arm == name)), "{arms:?}");
    }

    #[test]
    fn a_replay_has_the_same_arms_and_another_flow_has_others() {
        assert_eq!(arms(10_000, 100), arms(10_000, 100));
        assert_ne!(arms(10_000, 100), arms(11_000, 100));
    }

    #[test]
    fn what_suited_before_is_first() {
        for remembered_arm in CANDIDATES {
            let mut random = random();
            random.resume(&suits(remembered_arm), Time::ZERO);
            assert_eq!(random.arm(), remembered_arm);
        }
    }

    #[test]
    fn what_it_saw_of_each_arm_can_be_learned_from() {
        let mut random = random();
        random.resume(&path(), Time::ZERO);
        let mut samples = Vec::new();
        for ms in (10..=2_000).step_by(10) {
            random.on_measurement(&report(10_000, 40), at(ms));
            samples.extend(random.sample());
        }
        assert_eq!(samples.len(), 4);
        assert!(samples.iter().all(|sample| sample.arm == random.arm()));
    }

    #[test]
    fn a_bad_setting_is_named_with_its_value_and_the_rule() {
        let error = RandomConfig { dwell_ms: 10 }.validate().expect_err("it is too short");
        assert_eq!(error.to_string(), "random.dwell_ms = 10: must be 100 to 3600000");
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_arm_is_a_candidate(reports in whatever_is_reported()) {
            let config = RandomConfig { dwell_ms: 100 };
            holds(ArmRunner::new(Random::new(config), &Loaded::default()), &reports)?;
        }
    }
}
