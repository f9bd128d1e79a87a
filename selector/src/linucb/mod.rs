//! LinUCB: each arm's reward is linear in what is known of the flow; the arm of the highest bound
//! gets the flow.
//!
//! L. Li, W. Chu, J. Langford, R. Schapire, "A Contextual-Bandit Approach to Personalized News
//! Article Recommendation", WWW 2010, section 3.1, algorithm 1 (disjoint linear models). Of context
//! x, for each arm:
//!
//! ```text
//! theta = inverse(A) b
//! bound = theta.x + alpha sqrt(xT inverse(A) x)
//! pick the arm of the highest bound; of its reward r:  A += x xT,  b += r x
//! ```
//!
//! The context is that of the flow's last data unit before the decision ([`context`]); the reward
//! is Antelope's ([`RewardConfig`]) of the turn that follows, with each millisecond of delay
//! counted, held to 0 to 1. Decisions are made every 5 s and 20 round trips.
//!
//! Differs from the paper:
//!   - A and b are a flow's own, and begin with those of a file, `policy.linucb.prior`
//!     ([`prior`]), or with nothing: a controller has no memory of other flows;
//!   - the inverse of A is kept, and not worked out anew ([`ridge`]);
//!   - alpha is 0.5: by the paper's formula for 95 % certainty it is 2.4, with which a flow tries
//!     each of the arms for minutes. It was tuned on four development suites: 0.3, 0.5, 0.7 and 1
//!     miss 27.5, 27.3, 27.3 and 29.9 % of the best merit;
//!   - a turn in which the application had too little to send teaches nothing, and nothing is
//!     decided after it;
//!   - of equal bounds the first arm's counts. A flow begins with the first arm, or with the arm
//!     remembered of the destination.
//!
//! An arm may have the highest bound because little is known of it. That does not count as
//! exploration, of which the guard allows a share of a flow's life, unless `budget_optimism` is
//! set.

pub mod context;
pub mod prior;
pub mod ridge;

use crate::antelope::reward::{Achieved, RewardConfig};
use crate::arm_runner::ArmRunner;
use crate::candidates::{CANDIDATES, first, place};
use crate::features::Features;
use crate::policy::{Policy, PolicyInfo};
use crate::sampling::Sampling;
use crate::turn::{DWELL_RTTS_MIN, Outcome, SPAN_RTTS_MIN, Turn};
use crate::{ConfigError, check, check_dwell};
use context::{Context, context};
use prior::Prior;
use remuda_algorithms::Reason;
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState, Preference, Proposal, Sample, Verdict, Why};
use ridge::{Estimate, Ridge};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Its line in [`crate::POLICIES`].
pub const POLICY: PolicyInfo = PolicyInfo {
    name: "linucb",
    summary: "the arm of the highest bound of a linear reward (LinUCB; a baseline)",
    build: |config, loaded| {
        let prior = loaded.slot::<Prior>(PRIOR).map(|slot| slot.get());
        Box::new(ArmRunner::new(LinUcb::new(config.linucb.clone(), prior), loaded))
    },
};

/// The name of the prior among what is loaded. If none is loaded, arms begin with nothing.
pub const PRIOR: &str = "linucb";

/// Each millisecond of delay counts, in each turn.
const REWARD_DELTA: f64 = 1.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinUcbConfig {
    /// How long a turn lasts, in milliseconds; 20 round trips at least.
    pub dwell_ms: u64,
    /// How much what is not known of an arm counts for it: standard deviations.
    pub alpha: f64,
    /// An arm that has not the highest expected reward counts as exploration.
    pub budget_optimism: bool,
    /// The file with what arms begin with. Absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior: Option<PathBuf>,
}

impl Default for LinUcbConfig {
    fn default() -> Self {
        Self { dwell_ms: 5_000, alpha: 0.5, budget_optimism: false, prior: None }
    }
}

impl LinUcbConfig {
    /// Checks every value. The file is read, and checked, elsewhere.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_dwell("linucb.dwell_ms", self.dwell_ms)?;
        let alpha = self.alpha;
        check((0.0..=100.0).contains(&alpha), "linucb.alpha", alpha, "must be 0 to 100")
    }
}

/// LinUCB, for one flow.
pub struct LinUcb {
    config: LinUcbConfig,
    prior: Option<Arc<Prior>>,
    arms: [Arc<Ridge>; CANDIDATES.len()],
    wants: Preference,
    sampling: Sampling,
    turn: Turn,
    /// What was known when the turn began, or soon after.
    context: Option<Context>,
    proposal: Option<Proposal>,
    /// As of the last decision.
    verdict: Option<Verdict>,
}

impl LinUcb {
    /// One that has no flow yet.
    pub fn new(config: LinUcbConfig, prior: Option<Arc<Prior>>) -> Self {
        Self {
            arms: prior.as_ref().map_or_else(prior::nothing_known, |prior| prior.arms.clone()),
            prior,
            config,
            wants: Preference::DEFAULT,
            sampling: Sampling::default(),
            turn: Turn::begin(CANDIDATES[0], Time::ZERO),
            context: None,
            proposal: None,
            verdict: None,
        }
    }

    fn reward(&self, features: &Features, outcome: &Outcome) -> Option<f64> {
        let got = Achieved {
            throughput_mbit_per_sec: outcome.seen.throughput_mbit_per_sec,
            lost_mbit_per_sec: outcome.seen.lost_mbit_per_sec,
            rtt_mean_ms: outcome.seen.rtt_mean_ms,
            rate_max_mbit_per_sec: features.get("rate_max_mbit_per_sec")?.into(),
            rtt_min_ms: features.get("rtt_min_ms")?.into(),
        };
        let config = RewardConfig {
            delta_first: REWARD_DELTA,
            delta_max: REWARD_DELTA,
            ..RewardConfig::default()
        };
        Some(config.reward(&got, self.wants, 0)?.clamp(0.0, 1.0))
    }

    /// Takes in what came of the turn, if that says something: the reward.
    fn learn(&mut self) -> Option<f64> {
        let (at, x) = (place(self.turn.arm())?, self.context?);
        let features = &self.sampling.latest()?.features;
        let reward = self.reward(features, &self.turn.outcome(SPAN_RTTS_MIN)?)?;
        Arc::make_mut(&mut self.arms[at]).learn(&x, reward);
        Some(reward)
    }

    fn next_turn(&mut self, arm: &'static str, now: Time) {
        self.turn = self.turn.next(arm, now);
        self.context = self.sampling.latest().map(|unit| context(&unit.features));
    }

    fn estimates(&self, x: &Context) -> [Estimate; CANDIDATES.len()] {
        std::array::from_fn(|at| self.arms[at].estimate(x))
    }

    fn bound(&self, estimate: &Estimate) -> f64 {
        estimate.mean + self.config.alpha * estimate.width
    }

    fn pick(&mut self, current: &'static str, reward: f64) -> Option<Proposal> {
        let x = context(&self.sampling.latest()?.features);
        let estimates = self.estimates(&x);
        let at = highest(&estimates, current, |it| self.bound(it));
        let expected = highest(&estimates, current, |it| it.mean);
        let score = estimates[expected].mean;
        let verdict = Verdict { arm: CANDIDATES[expected], score: score.min(1.0) };
        self.verdict = (score > 0.0).then_some(verdict);
        let (to, Estimate { mean, width }) = (CANDIDATES[at], estimates[at]);
        let text = format!(
            "{to} has the highest bound, {:.3}: {mean:.3} expected, {width:.3} unsure; {current} \
             earned {reward:.3}",
            self.bound(&estimates[at])
        );
        let value = |it: &Estimate| format!("{:.3} +- {:.3}", it.mean, it.width);
        let scores = CANDIDATES.iter().zip(&estimates);
        let mut features: Vec<Reason> = scores.map(|(arm, it)| (*arm, value(it))).collect();
        features.push(("reward", format!("{reward:.3}")));
        let explores = self.config.budget_optimism && at != expected;
        Some(Proposal { explores, ..Proposal::new(to, Why { text, features }) })
    }
}

/// The place of the highest; of equals the arm in charge, or the first.
fn highest(
    estimates: &[Estimate; CANDIDATES.len()],
    current: &str,
    of: impl Fn(&Estimate) -> f64,
) -> usize {
    let start = place(current).unwrap_or(0);
    (0..CANDIDATES.len())
        .fold(start, |best, at| if of(&estimates[at]) > of(&estimates[best]) { at } else { best })
}

impl Policy for LinUcb {
    fn begin(&mut self, path: &PathState, now: Time) -> &'static str {
        *self = Self::new(self.config.clone(), self.prior.clone());
        self.wants = path.wants;
        self.sampling = Sampling::begin(now);
        let first = first(path.remembered_arm);
        self.turn = Turn::begin(first, now);
        first
    }

    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time) {
        self.turn.add(m, now);
        if let Some(unit) = self.sampling.add(m, arm, now) {
            self.context.get_or_insert_with(|| context(&unit.features));
        }
        if self.turn.has_lasted(Duration::from_millis(self.config.dwell_ms), DWELL_RTTS_MIN, now) {
            if let Some(reward) = self.learn() {
                self.proposal = self.pick(arm, reward);
            }
            self.next_turn(arm, now);
        }
    }

    fn proposal(&mut self) -> Option<Proposal> {
        self.proposal.take()
    }

    fn taken(&mut self, arm: &'static str, now: Time) {
        self.learn();
        self.sampling.switched(self.turn.arm(), now);
        self.next_turn(arm, now);
    }

    fn picks(&self, arm: &str) -> bool {
        place(arm).is_some()
    }

    fn prefer(&mut self, wants: Preference) {
        self.wants = wants;
    }

    fn sample(&mut self) -> Option<Sample> {
        self.sampling.sample()
    }

    fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }
}

#[cfg(test)]
mod tests;
