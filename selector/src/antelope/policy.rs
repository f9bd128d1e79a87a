//! Antelope's decision: at the stream level, while a flow runs.
//!
//! Zhou et al., "A Machine Learning-based Framework for Dynamic Selection of Congestion Control
//! Algorithms", section IV-A, algorithm 1: each data unit's features go through a model per arm; the
//! arm that is best in M units one after the other gets the flow. What suited a destination before
//! (algorithm 2, [`super::memory`]) has a flow from its first packet.
//!
//! Differs from the paper:
//!   - a unit lasts a round trip at least ([`crate::features`]), and decisions are
//!     `decide_ms` apart: two units of twenty ACKs are 0.1 s, in which no arm shows anything;
//!   - the next arm must be better by a margin, and the guard's dwell comes on top;
//!   - long flows try another arm now and then, within the guard's budget for it: a model otherwise
//!     sees only what it picks;
//!   - scores are shares of the best arm's reward, with their uncertainty ([`super::model`]).

use super::model::{Model, Score};
use crate::features::Unit;
use crate::riding::{Chooser, Riding};
use crate::sampling::Sampling;
use crate::{ConfigError, Policy, check};
use remuda_algorithms::controller::Reason;
use remuda_algorithms::units::Time;
use remuda_algorithms::{
    Measurement, PathState, Preference, Proposal, Sample, Verdict, Why, bbr, cubic,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Its line in [`crate::POLICIES`].
pub const POLICY: Policy = Policy {
    name: "antelope",
    summary: "boosted trees predict how well each arm would do; the best one rides (Antelope)",
    build: |config| Box::new(Riding::new(Antelope::new(config.antelope.clone()))),
};

/// A proposal that the guard or the moment has not let pass is made again after this.
const RETRY: Duration = Duration::from_secs(2);
/// A decision to stay is said again after this, if nothing changes.
const SAID_AGAIN: Duration = Duration::from_secs(10);

/// Antelope's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AntelopeConfig {
    /// The file of the model; absent: the one that comes with the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// The arm of a flow to a destination of which nothing is known.
    pub first: String,
    /// Decisions in a row that must agree, the paper's M.
    pub agreements: u32,
    /// The least time between two decisions, in milliseconds.
    pub decide_ms: u64,
    /// Data units of an arm before the first decision about it.
    pub units_min: u32,
    /// How much better the next arm must be, in hundredths of the best arm's reward.
    pub margin_percent: f64,
    /// A flow older than this, in seconds, tries another arm now and then.
    pub explore_after_s: u64,
    /// So many seconds lie between two such tries; 0: none.
    pub explore_every_s: u64,
    /// Decides, says what it would do, and changes nothing.
    pub dry_run: bool,
    /// What [`Self::model`] was read into; absent: the one that comes with the program.
    #[serde(skip)]
    pub loaded: Option<Arc<Model>>,
}

impl Default for AntelopeConfig {
    fn default() -> Self {
        Self {
            model: None,
            first: bbr::ARM.name.to_owned(),
            agreements: 2,
            decide_ms: 250,
            units_min: 8,
            margin_percent: 3.0,
            explore_after_s: 10,
            explore_every_s: 0,
            dry_run: false,
            loaded: None,
        }
    }
}

impl AntelopeConfig {
    /// Checks every value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let first = &self.first;
        let is_arm = remuda_algorithms::arm(first).is_some();
        check(is_arm, "antelope.first", first, "must be an arm")?;
        let (m, units) = (self.agreements, self.units_min);
        check((1..=1_000).contains(&m), "antelope.agreements", m, "must be 1 to 1000")?;
        check((1..=1_000).contains(&units), "antelope.units_min", units, "must be 1 to 1000")?;
        let ms = self.decide_ms;
        check((1..=60_000).contains(&ms), "antelope.decide_ms", ms, "must be 1 to 60000")?;
        let margin = self.margin_percent;
        let is_share = (0.0..=100.0).contains(&margin);
        check(is_share, "antelope.margin_percent", margin, "must be 0 to 100")?;
        let (after, every) = (self.explore_after_s, self.explore_every_s);
        check(after >= 10, "antelope.explore_after_s", after, "must be at least 10")?;
        let rare = every == 0 || every >= 10;
        check(rare, "antelope.explore_every_s", every, "must be 0 or at least 10")
    }

    fn model(&self) -> Arc<Model> {
        self.loaded.clone().unwrap_or_else(Model::shipped)
    }
}

/// What the last decision found.
#[derive(Clone, Debug, Default)]
struct Scores(Vec<Score>);

impl Scores {
    fn of(&self, arm: &str) -> Option<&Score> {
        self.0.iter().find(|score| score.arm == arm)
    }

    /// The highest; of two alike, the one that the model names first.
    fn best(&self) -> Option<&Score> {
        let higher = |best: &&Score, it: &&Score| it.mean > best.mean;
        self.0.iter().reduce(|best, it| if higher(&best, &it) { it } else { best })
    }

    /// What may be best after all, beside `arm`: the highest that it may well be.
    fn most_promising(&self, arm: &str) -> Option<&Score> {
        let most = |score: &Score| score.mean + score.uncertainty;
        let others = self.0.iter().filter(|score| score.arm != arm);
        others.reduce(|best, it| if most(it) > most(best) { it } else { best })
    }
}

/// Antelope, for one flow.
pub struct Antelope {
    config: AntelopeConfig,
    model: Arc<Model>,
    wants: Preference,
    arm: &'static str,
    sampling: Sampling,
    began: Time,
    /// Units since the arm has the flow.
    units: u32,
    next_at: Time,
    /// What the last decisions agree on, and how many they are.
    agreed: Option<(&'static str, u32)>,
    scores: Scores,
    proposal: Option<Proposal>,
    explored_at: Time,
    said: Option<(&'static str, Time)>,
}

impl Antelope {
    /// One that has no flow yet.
    pub fn new(config: AntelopeConfig) -> Self {
        Self {
            model: config.model(),
            config,
            wants: Preference::DEFAULT,
            arm: cubic::ARM.name,
            sampling: Sampling::default(),
            began: Time::ZERO,
            units: 0,
            next_at: Time::ZERO,
            agreed: None,
            scores: Scores::default(),
            proposal: None,
            explored_at: Time::ZERO,
            said: None,
        }
    }

    fn decide(&mut self, unit: &Unit, now: Time) {
        self.units += 1;
        if self.units < self.config.units_min || now < self.next_at {
            return;
        }
        self.next_at = now + Duration::from_millis(self.config.decide_ms);
        self.scores = Scores(self.model.predict(&unit.features, self.wants));
        let Some(&best) = self.scores.best() else { return };
        let current = self.scores.of(self.arm).map_or(0.0, |score| score.mean);
        let margin = self.config.margin_percent / 100.0;
        if best.arm == self.arm || f64::from(best.mean - current) < margin {
            self.agreed = None;
            if !self.explore(unit, now) {
                self.stay(unit, now);
            }
            return;
        }
        let count = match self.agreed {
            Some((arm, count)) if arm == best.arm => count + 1,
            _ => 1,
        };
        self.agreed = Some((best.arm, count));
        if count >= self.config.agreements {
            self.agreed = None;
            let than = format!("{} has {current:.2}", self.arm);
            let text = format!("{} has {:.2} of the best reward, {than}", best.arm, best.mean);
            self.propose(best.arm, text, false, unit, now);
        }
    }

    fn propose(&mut self, to: &'static str, text: String, explores: bool, unit: &Unit, now: Time) {
        self.next_at = now + RETRY;
        let text = if self.config.dry_run { format!("would change: {text}") } else { text };
        let why = Why { text, features: self.features(unit) };
        let to = if self.config.dry_run { self.arm } else { to };
        self.proposal = Some(Proposal { to, why, explores });
    }

    /// Of a long flow, and not often: the arm that may be best after all, as far as can be known.
    fn explore(&mut self, unit: &Unit, now: Time) -> bool {
        let (after, every) = (self.config.explore_after_s, self.config.explore_every_s);
        let since = |at: Time| (now - at).as_secs();
        if every == 0 || since(self.began) < after || since(self.explored_at) < every {
            return false;
        }
        let Some(&other) = self.scores.most_promising(self.arm) else { return false };
        self.explored_at = now;
        let text = format!("tries {}: {:.2} +- {:.2}", other.arm, other.mean, other.uncertainty);
        self.propose(other.arm, text, true, unit, now);
        true
    }

    /// Says why it stays, if that is news.
    fn stay(&mut self, unit: &Unit, now: Time) {
        let is_known = |(arm, at): (&str, Time)| arm == self.arm && now - at < SAID_AGAIN;
        if self.said.is_some_and(is_known) {
            return;
        }
        self.said = Some((self.arm, now));
        let mean = self.scores.of(self.arm).map_or(0.0, |score| score.mean);
        let text = format!("stays with {}, which has {mean:.2} of the best reward", self.arm);
        let why = Why { text, features: self.features(unit) };
        self.proposal = Some(Proposal { to: self.arm, why, explores: false });
    }

    /// What the decision was derived from: each arm's score by its name, then the unit's features.
    fn features(&self, unit: &Unit) -> Vec<Reason> {
        let score = |it: &Score| (it.arm, format!("{:.3} +- {:.3}", it.mean, it.uncertainty));
        let feature = |(name, value): (&'static str, f32)| (name, format!("{value}"));
        let known = unit.features.named().filter(|(_, value)| !value.is_nan());
        self.scores.0.iter().map(score).chain(known.map(feature)).collect()
    }
}

impl Chooser for Antelope {
    fn begin(&mut self, path: &PathState, now: Time) -> &'static str {
        *self = Self::new(self.config.clone());
        self.wants = path.wants;
        (self.began, self.sampling, self.explored_at) = (now, Sampling::begin(now), now);
        let first = remuda_algorithms::arm(&self.config.first).map_or(self.arm, |arm| arm.name);
        let suited = path.suited.filter(|arm| self.model.arms().contains(arm));
        self.arm = suited.filter(|_| !self.config.dry_run).unwrap_or(first);
        self.arm
    }

    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time) {
        self.arm = arm;
        if let Some(unit) = self.sampling.add(m, arm, now) {
            self.decide(&unit, now);
        }
    }

    fn proposal(&mut self) -> Option<Proposal> {
        self.proposal.take()
    }

    fn switched(&mut self, arm: &'static str, now: Time) {
        self.sampling.switched(self.arm, now);
        (self.arm, self.units, self.agreed) = (arm, 0, None);
    }

    fn prefer(&mut self, wants: Preference) {
        (self.wants, self.agreed) = (wants, None);
    }

    fn sample(&mut self) -> Option<Sample> {
        self.sampling.sample()
    }

    fn verdict(&self) -> Option<Verdict> {
        let known = |best: &Score| Verdict { arm: best.arm, score: best.mean.into() };
        if let Some(best) = self.scores.best() {
            return Some(known(best));
        }
        // A short flow has ended before the first decision.
        let unit = self.sampling.latest()?;
        Scores(self.model.predict(&unit.features, self.wants)).best().map(known)
    }
}
