//! Collects what models learn from: runs arms by a plan, and samples what each does.
//!
//! Zhou et al., Antelope (ICNP 2021), section VI-B: "we set the sender to a fixed CCA then randomly
//! switch to other algorithms to observe their performance". The caller draws the plan, so the
//! sampler is pure and one seed gives the same samples.
//!
//! Differs from the paper: a plan may have one arm only. Those runs say what each arm would have
//! made of the same path at the same time.

use crate::arm_runner::ArmRunner;
use crate::policy::{Policy, PolicyInfo};
use crate::sampling::Sampling;
use crate::{ConfigError, check};
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState, Proposal, Sample, Why, cubic};
use serde::{Deserialize, Serialize};

/// Its line in [`crate::POLICIES`].
pub const POLICY: PolicyInfo = PolicyInfo {
    name: "sampler",
    summary: "runs arms by a plan and samples what each does: training data for antelope",
    build: |config, loaded| Box::new(ArmRunner::new(Sampler::new(config.sampler.clone()), loaded)),
};

/// A plan with more turns is refused.
const TURNS_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// When it is due, in seconds since the flow began.
    pub at_s: f64,
    pub arm: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplerConfig {
    /// The arm that begins.
    pub first: String,
    /// Those that follow, by time.
    pub turns: Vec<Turn>,
}

impl Default for SamplerConfig {
    fn default() -> Self {
        Self { first: cubic::ARM.name.to_owned(), turns: Vec::new() }
    }
}

impl SamplerConfig {
    pub fn validate(&self) -> Result<(), ConfigError> {
        let is_arm = |name: &str| remuda_algorithms::arm(name).is_some();
        check(is_arm(&self.first), "sampler.first", &self.first, "must be an arm")?;
        let count = self.turns.len();
        check(count <= TURNS_MAX, "sampler.turns", count, "must be at most 1000")?;
        let mut last = 0.0;
        for Turn { at_s, arm } in &self.turns {
            check(is_arm(arm), "sampler.turns.arm", arm, "must be an arm")?;
            let grows = at_s.is_finite() && *at_s >= last;
            check(grows, "sampler.turns.at_s", at_s, "must grow from turn to turn, from 0 on")?;
            last = *at_s;
        }
        Ok(())
    }
}

/// The sampler, for one flow.
pub struct Sampler {
    config: SamplerConfig,
    began: Time,
    arm: &'static str,
    sampling: Sampling,
    next: usize,
    proposal: Option<Proposal>,
}

impl Sampler {
    /// One that has no flow yet.
    pub fn new(config: SamplerConfig) -> Self {
        let (arm, sampling) = (cubic::ARM.name, Sampling::default());
        Self { config, began: Time::ZERO, arm, sampling, next: 0, proposal: None }
    }
}

impl Policy for Sampler {
    fn begin(&mut self, _path: &PathState, now: Time) -> &'static str {
        *self = Self::new(self.config.clone());
        (self.began, self.sampling) = (now, Sampling::begin(now));
        self.arm = remuda_algorithms::arm(&self.config.first).map_or(self.arm, |arm| arm.name);
        self.arm
    }

    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time) {
        self.arm = arm;
        self.sampling.add(m, arm, now);
        let Some(turn) = self.config.turns.get(self.next) else { return };
        // Before the first data unit there is nothing to decide by, so nothing to learn from.
        if (now - self.began).as_secs_f64() < turn.at_s || self.sampling.latest().is_none() {
            return;
        }
        self.next += 1;
        let to = remuda_algorithms::arm(&turn.arm).map_or(arm, |arm| arm.name);
        if to != arm {
            let why = Why::because("its turn");
            self.proposal = Some(Proposal::new(to, why));
        }
    }

    fn proposal(&mut self) -> Option<Proposal> {
        self.proposal.take()
    }

    fn taken(&mut self, arm: &'static str, now: Time) {
        self.sampling.switched(self.arm, now);
        self.arm = arm;
    }

    fn sample(&mut self) -> Option<Sample> {
        self.sampling.sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::Loaded;
    use remuda_algorithms::RttSamples;
    use remuda_algorithms::units::Bytes;
    use std::time::Duration;

    fn plan(turns: &[(f64, &str)]) -> SamplerConfig {
        let turn = |(at_s, arm): &(f64, &str)| Turn { at_s: *at_s, arm: (*arm).to_owned() };
        SamplerConfig { first: "vegas".to_owned(), turns: turns.iter().map(turn).collect() }
    }

    #[test]
    fn arms_take_turns_as_planned_and_each_is_sampled() {
        let mut sampler =
            ArmRunner::new(Sampler::new(plan(&[(1.0, "bbr"), (2.0, "cubic")])), &Loaded::default());
        let path = PathState::new(Bytes(1_000), Bytes(10_000));
        sampler.resume(&path, Time::ZERO);
        assert_eq!(sampler.arm(), "vegas");
        let samples = RttSamples { count: 20, ..RttSamples::one(Duration::from_millis(20)) };
        let m = Measurement { rtt: Some(samples), delivered: Bytes(9_000), ..Measurement::QUIET };
        let mut ran = Vec::new();
        for step in 1..=30 {
            let now = Time(Duration::from_millis(step * 100));
            sampler.on_measurement(&m, now);
            if let Some(proposal) = sampler.proposal() {
                sampler.switch_to(proposal.to, &path, now).expect("an arm");
            }
            ran.extend(sampler.sample().map(|sample| sample.arm));
        }
        assert_eq!(ran, ["vegas", "vegas", "bbr", "bbr", "cubic", "cubic"]);
    }

    #[test]
    fn a_plan_that_is_none_is_refused_by_name() {
        for (config, want) in [
            (plan(&[(1.0, "cubicc")]), "sampler.turns.arm = cubicc"),
            (plan(&[(2.0, "bbr"), (1.0, "bbr")]), "sampler.turns.at_s = 1"),
            (plan(&[(f64::NAN, "bbr")]), "sampler.turns.at_s = NaN"),
            (SamplerConfig { first: "rein".to_owned(), ..plan(&[]) }, "sampler.first = rein"),
        ] {
            let error = config.validate().expect_err(want).to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
