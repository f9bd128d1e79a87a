//! Antelope's decision: at the stream level, while a flow runs.
//!
//! Zhou et al., "A Machine Learning-based Framework for Dynamic Selection of Congestion Control
//! Algorithms", section IV-A, algorithm 1: each data unit's features go through a model per arm;
//! the arm that is best in M units one after the other gets the flow. A flow begins with the arm
//! that is remembered of its destination (algorithm 2, [`super::memory`]).
//!
//! Differs from the paper:
//!   - a unit lasts a round trip at least ([`crate::features`]), and decisions are
//!     `decide_ms` apart: two units of twenty ACKs are 0.1 s, in which no arm shows anything;
//!   - every arm is compared with the model's home arm, and its gain counts less the more the model
//!     doubts it: where it is unsure, a flow has the arm that does best on the whole. Doubt counts
//!     against a change only, so not against the arm that has the flow, and on some paths more than
//!     on others ([`super::caution`]);
//!   - two decisions that agree are enough for a gain of 0.15 of the best arm's reward, and one for
//!     0.6: where round trips are long, a unit may last half a second;
//!   - what the flow has earned with the arms that it has had corrects their scores
//!     ([`super::earned`]), and so does what it got before and after a switch
//!     ([`super::before_after`]);
//!   - the next arm must be better by a margin, and the guard's dwell comes on top;
//!   - where much is lost, and more flows go along than in anything that models are trained on,
//!     arms that do not answer losses are none to pick, whatever their score: a hundred flows of
//!     copa on one link sent two of five packets twice;
//!   - the guard undoes a switch only if next to nothing is left of the power, or if much is lost
//!     for little: power may have fallen for all arms, as when others come, and models see that;
//!     undoing more kept flows of one host apart that had each picked the same arm. But an arm
//!     that yields to others may be left with a hundredth, and a model that has not seen the like
//!     thinks well of it. An arm whose switch was undone has no score while the guard refuses it,
//!     so that the next best one is proposed;
//!   - long flows try another arm now and then, if they are to, for some seconds and within the
//!     guard's budget for it: what learns from live flows otherwise sees only what a model picks;
//!   - where nothing is lost, a flow older than 15 s counts as one of 15 s ([`super::age`]);
//!   - scores are shares of the best arm's reward, with their uncertainty ([`super::model`]).

use super::age;
use super::before_after::BeforeAfter;
use super::caution;
use super::config::AntelopeConfig;
use super::earned::Earned;
use super::model::{Model, Score};
use crate::arm_runner::ArmRunner;
use crate::draw::Draws;
use crate::features::{Features, Unit};
use crate::policy::{Policy, PolicyInfo};
use crate::sampling::Sampling;
use remuda_algorithms::Reason;
use remuda_algorithms::units::Time;
use remuda_algorithms::{
    Measurement, PathState, Preference, Proposal, REFUSED_FOR, Sample, Slot, Verdict, Why, cubic,
};
use std::sync::Arc;
use std::time::Duration;

/// Its line in [`crate::POLICIES`].
pub const POLICY: PolicyInfo = PolicyInfo {
    name: "antelope",
    summary: "boosted trees predict how well each arm would do; the best one gets the flow \
              (Antelope)",
    build: |config, loaded| {
        let antelope = Antelope::new(config.antelope.clone(), loaded.slot(MODEL));
        Box::new(ArmRunner::new(antelope, loaded))
    },
};

/// The name of the model in force among what is loaded. If none is loaded, flows use the model that
/// comes with the program.
pub const MODEL: &str = "antelope";

/// A proposal that the guard or the moment has not let pass is made again after this.
const RETRY: Duration = Duration::from_secs(2);
/// A decision to stay is said again after this, if nothing changes.
const SAID_AGAIN: Duration = Duration::from_secs(10);

/// Another arm is tried for so long, unless the guard undoes it: what live flows teach is of
/// outcomes of 4 s at least.
const TRIED_FOR: Duration = Duration::from_secs(6);
/// Only arms that have so much of the best one's score, if they do as well as they may, are tried.
const WORTH_TRYING: f32 = 0.5;

/// Gains, in shares of the best arm's reward, and how many decisions must agree for more than each.
const ENOUGH_FOR: [(f32, u32); 2] = [(0.15, 2), (0.6, 1)];

/// More companions than these no flow has that models are trained on.
const COMPANIONS_KNOWN: f32 = 20.0;

fn answers_losses(arm: &str) -> bool {
    remuda_algorithms::arm(arm).is_none_or(|info| info.answers_losses)
}

/// What the last decision found.
#[derive(Clone, Debug, Default)]
struct Scores {
    all: Vec<Score>,
    /// The arm that has the flow: doubt does not count against it.
    current: &'static str,
    /// The score of the home arm.
    home: f32,
    /// How much of the doubt counts against the others.
    caution: f32,
}

impl Scores {
    fn of(&self, arm: &str) -> Option<&Score> {
        self.all.iter().find(|score| score.arm == arm)
    }

    /// What an arm has more than the home arm, less what is doubted of it.
    fn gain(&self, score: &Score) -> f32 {
        let doubt = if score.arm == self.current { 0.0 } else { score.uncertainty };
        score.mean - self.home - self.caution * doubt
    }

    /// The arm of the largest gain; of two alike, the one that the model names first.
    fn best(&self) -> Option<&Score> {
        let higher = |best: &&Score, it: &&Score| self.gain(it) > self.gain(best);
        self.all.iter().reduce(|best, it| if higher(&best, &it) { it } else { best })
    }

    /// What may be tried in place of `arm`.
    fn worth_trying(&self, arm: &str) -> Vec<Score> {
        let most = self.all.iter().map(|it| it.mean).fold(0.0, f32::max);
        let is_worth =
            |it: &&Score| it.arm != arm && it.mean + it.uncertainty > WORTH_TRYING * most;
        self.all.iter().filter(is_worth).copied().collect()
    }
}

/// Antelope, for one flow.
pub struct Antelope {
    config: AntelopeConfig,
    /// Where another model may come into force; `None`: the one that comes with the program stays.
    slot: Option<Slot<Model>>,
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
    earned: Earned,
    before_after: BeforeAfter,
    proposal: Option<Proposal>,
    /// The arm of the last proposal.
    proposed: Option<&'static str>,
    /// The arm that the guard has taken back, and when.
    undone: Option<(&'static str, Time)>,
    draws: Option<Draws>,
    explored_at: Time,
    /// The arm that is proposed to be tried.
    to_try: Option<&'static str>,
    /// An arm is being tried until then.
    tries_until: Time,
    said: Option<(&'static str, Time)>,
}

impl Antelope {
    /// One that has no flow yet.
    pub fn new(config: AntelopeConfig, slot: Option<Slot<Model>>) -> Self {
        Self {
            model: slot.as_ref().map_or_else(Model::shipped, Slot::get),
            slot,
            config,
            wants: Preference::DEFAULT,
            arm: cubic::ARM.name,
            sampling: Sampling::default(),
            began: Time::ZERO,
            units: 0,
            next_at: Time::ZERO,
            agreed: None,
            scores: Scores::default(),
            earned: Earned::default(),
            before_after: BeforeAfter::default(),
            proposal: None,
            proposed: None,
            undone: None,
            draws: None,
            explored_at: Time::ZERO,
            to_try: None,
            tries_until: Time::ZERO,
            said: None,
        }
    }

    /// The model's, corrected; of an arm that may not have the flow it is 0.
    fn score(&self, features: &Features, into: &mut Scores) {
        self.model.predict_into(&age::without_age(features), self.wants, &mut into.all);
        let scores = &mut into.all;
        self.earned.correct(scores);
        self.before_after.correct(scores, self.arm, self.sampling.now());
        let now = self.sampling.now();
        let undone = self.undone.filter(|(_, at)| now - *at < REFUSED_FOR);
        let known = |name| features.get(name).unwrap_or(0.0);
        let is_crowded = known("companions") > COMPANIONS_KNOWN;
        let is_lossy = f64::from(known("lost_percent_long")) > self.config.lost_percent_max;
        let is_barred = |arm: &str| {
            is_crowded && is_lossy && !answers_losses(arm)
                || undone.is_some_and(|(undone, _)| undone == arm)
        };
        for score in scores.iter_mut().filter(|score| is_barred(score.arm)) {
            (score.mean, score.uncertainty) = (0.0, 0.0);
        }
        let home = scores.iter().find(|score| score.arm == self.model.home());
        into.home = home.map_or(0.0, |score| score.mean);
        into.current = self.arm;
        into.caution = self.config.caution as f32 * caution::weight(features, into.home);
    }

    fn scores_of(&self, features: &Features) -> Scores {
        let mut scores = Scores::default();
        self.score(features, &mut scores);
        scores
    }

    fn decide(&mut self, unit: &Unit, now: Time) {
        self.units += 1;
        if self.units < self.config.units_min || now < self.next_at.max(self.tries_until) {
            return;
        }
        self.next_at = now + Duration::from_millis(self.config.decide_ms);
        self.renew();
        let mut scores = std::mem::take(&mut self.scores);
        self.score(&unit.features, &mut scores);
        self.scores = scores;
        let Some(&best) = self.scores.best() else { return };
        let current = self.scores.of(self.arm).copied();
        let more =
            current.map_or(f32::INFINITY, |it| self.scores.gain(&best) - self.scores.gain(&it));
        if best.arm == self.arm || f64::from(more) < self.config.margin_percent / 100.0 {
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
        let enough = ENOUGH_FOR.iter().filter(|(gain, _)| more > *gain).map(|(_, count)| *count);
        if count >= enough.fold(self.config.agreements, u32::min) {
            self.agreed = None;
            let mean = current.map_or(0.0, |it| it.mean);
            let than = format!("{} has {mean:.2}", self.arm);
            let text = format!("{} has {:.2} of the best reward, {than}", best.arm, best.mean);
            self.propose(best.arm, text, false, unit, now);
        }
    }

    /// Takes the model in force: what another one was about to agree on does not count.
    fn renew(&mut self) {
        let model = self.slot.as_ref().map(Slot::get);
        if let Some(model) = model.filter(|model| !Arc::ptr_eq(model, &self.model)) {
            (self.model, self.agreed) = (model, None);
        }
    }

    fn propose(&mut self, to: &'static str, text: String, explores: bool, unit: &Unit, now: Time) {
        self.next_at = now + RETRY;
        let text = if self.config.dry_run { format!("would change: {text}") } else { text };
        let why = Why { text, features: self.features(unit) };
        let to = if self.config.dry_run { self.arm } else { to };
        self.proposed = Some(to);
        self.to_try = explores.then_some(to);
        self.proposal = Some(Proposal { to, why, explores, is_watched: !explores });
    }

    /// Of a long flow, and not often: one of the arms that may be as good, each as likely.
    fn explore(&mut self, unit: &Unit, now: Time) -> bool {
        let (after, every) = (self.config.explore_after_s, self.config.explore_every_s);
        let since = |at: Time| (now - at).as_secs();
        if every == 0 || since(self.began) < after || since(self.explored_at) < every {
            return false;
        }
        let others = self.scores.worth_trying(self.arm);
        let drawn = self.draws.as_mut().map_or(0, |draws| draws.below(others.len()));
        let Some(other) = others.get(drawn) else { return false };
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
        self.proposal = Some(Proposal::new(self.arm, why));
    }

    /// What the decision was derived from: each arm's score by its name, then the unit's features.
    fn features(&self, unit: &Unit) -> Vec<Reason> {
        let score = |it: &Score| (it.arm, format!("{:.3} +- {:.3}", it.mean, it.uncertainty));
        let feature = |(name, value): (&'static str, f32)| (name, format!("{value}"));
        let known = unit.features.named().filter(|(_, value)| !value.is_nan());
        self.scores.all.iter().map(score).chain(known.map(feature)).collect()
    }
}

impl Policy for Antelope {
    fn begin(&mut self, path: &PathState, now: Time) -> &'static str {
        *self = Self::new(self.config.clone(), self.slot.clone());
        self.wants = path.wants;
        (self.began, self.sampling, self.explored_at) = (now, Sampling::begin(now), now);
        self.before_after = BeforeAfter::begin(now);
        self.draws = (self.config.explore_every_s > 0).then(|| Draws::of(path, now));
        let first = self.config.first.as_deref().unwrap_or_else(|| self.model.home());
        let first = remuda_algorithms::arm(first).map_or(self.arm, |arm| arm.name);
        let remembered_arm = path.remembered_arm.filter(|arm| self.model.arms().contains(arm));
        self.arm = remembered_arm.filter(|_| !self.config.dry_run).unwrap_or(first);
        self.arm
    }

    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time) {
        self.arm = arm;
        if let Some(draws) = &mut self.draws {
            draws.stir(m, now);
        }
        let unit = self.sampling.add(m, arm, now);
        if let Some(sample) = self.sampling.ended().filter(|sample| sample.until == now) {
            self.earned.add(sample, &self.model, self.wants);
            self.before_after.add(sample, self.wants);
        }
        if let Some(unit) = unit {
            self.decide(&unit, now);
        }
    }

    fn proposal(&mut self) -> Option<Proposal> {
        self.proposal.take()
    }

    fn taken(&mut self, arm: &'static str, now: Time) {
        self.sampling.switched(self.arm, now);
        self.earned.switched(arm, now);
        self.before_after.switched(self.arm, now);
        if self.proposed.take() != Some(arm) {
            self.undone = Some((self.arm, now));
        }
        (self.arm, self.units, self.agreed) = (arm, 0, None);
        let is_tried = self.to_try.take() == Some(arm);
        self.tries_until = if is_tried { now + TRIED_FOR } else { now };
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
        self.scores_of(&unit.features).best().map(known)
    }

    fn remembers(&self) -> bool {
        !self.config.dry_run
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::{constant, doubted};
    use super::*;
    use remuda_algorithms::Loaded;
    use remuda_algorithms::RttSamples;
    use remuda_algorithms::units::Bytes;

    fn slot(default: [f32; 2]) -> Slot<Model> {
        Slot::new(constant(default, [1.0, 0.2], [0.2, 1.0]))
    }

    fn path() -> PathState {
        PathState::new(Bytes(1_000), Bytes(10_000))
    }

    fn started_with(config: AntelopeConfig, slot: Slot<Model>) -> ArmRunner<Antelope> {
        let mut antelope = ArmRunner::new(Antelope::new(config, Some(slot)), &Loaded::default());
        antelope.resume(&path(), Time::ZERO);
        antelope
    }

    fn exploring() -> AntelopeConfig {
        AntelopeConfig { explore_every_s: 20, ..two_agree() }
    }

    fn two_agree() -> AntelopeConfig {
        AntelopeConfig { agreements: 2, ..AntelopeConfig::default() }
    }

    fn started(default: [f32; 2]) -> ArmRunner<Antelope> {
        started_with(two_agree(), slot(default))
    }

    /// A data unit each 50 ms from one moment to the other: what is proposed, and when.
    fn feed(
        antelope: &mut ArmRunner<Antelope>,
        span_ms: std::ops::Range<u64>,
    ) -> Vec<(u64, Proposal)> {
        let samples = RttSamples { count: 20, ..RttSamples::one(Duration::from_millis(20)) };
        let m = Measurement { rtt: Some(samples), delivered: Bytes(9_000), ..Measurement::QUIET };
        let mut all = Vec::new();
        for ms in span_ms.step_by(50) {
            antelope.on_measurement(&m, Time(Duration::from_millis(ms)));
            all.extend(antelope.proposal().map(|proposal| (ms, proposal)));
        }
        all
    }

    #[test]
    fn the_second_decision_in_a_row_for_an_arm_proposes_it() {
        let mut antelope = started([0.8, 0.9]);
        assert_eq!(antelope.arm(), "bbr");
        let proposed = feed(&mut antelope, 50..1_000);
        let [(at_ms, proposal)] = &proposed[..] else { panic!("{proposed:?}") };
        // A unit of 50 ms, once a report has begun it; the next decision is 250 ms on.
        assert_eq!((*at_ms, proposal.to, proposal.explores), (350, "vegas", false));
        let want = "vegas has 0.90 of the best reward, bbr has 0.80";
        assert_eq!(proposal.why.text, want);
        let scores = [("bbr", "0.800 +- 0.000"), ("vegas", "0.900 +- 0.000")];
        let said = &proposal.why.features;
        assert!(said.iter().zip(scores).all(|(it, want)| (it.0, &*it.1) == want), "{said:?}");
        assert!(said.iter().any(|(name, _)| *name == "rtt_mean_ms"));
        // The guard has not let it pass: again after two seconds, by two decisions.
        let again = feed(&mut antelope, 1_000..4_000);
        assert_eq!(again.iter().map(|it| it.0).collect::<Vec<_>>(), [2_600]);
    }

    #[test]
    fn a_gain_below_the_margin_is_none_and_it_says_that_it_stays_each_ten_seconds() {
        let mut antelope = started([0.8, 0.82]);
        let said = feed(&mut antelope, 50..25_000);
        assert!(said.iter().all(|(_, proposal)| proposal.to == "bbr"), "{said:?}");
        assert_eq!(said.len(), 3);
        let want = "stays with bbr, which has 0.80 of the best reward";
        assert_eq!(said[0].1.why.text, want);
    }

    #[test]
    fn the_more_a_gain_is_doubted_the_larger_it_must_be() {
        // Without a queue, half as much again counts.
        let proposed = |default, doubt, counts: f64| {
            let caution = counts / f64::from(caution::WITHOUT_QUEUE);
            let config = AntelopeConfig { caution, ..AntelopeConfig::default() };
            let slot = Slot::new(doubted(default, doubt));
            let mut antelope = started_with(config, slot);
            assert_eq!(antelope.arm(), "bbr", "home");
            feed(&mut antelope, 50..2_000)[0].1.to
        };
        // Vegas has 0.2 more, less so many times 0.3.
        assert_eq!(proposed([0.6, 0.8], 0.3, 0.5), "vegas");
        assert_eq!(proposed([0.6, 0.8], 0.3, 0.6), "bbr");
        assert_eq!(proposed([0.6, 0.8], 0.0, 10.0), "vegas");
    }

    #[test]
    fn doubt_does_not_send_a_flow_back_home() {
        let config = AntelopeConfig { caution: 0.6, ..AntelopeConfig::default() };
        let mut antelope = started_with(config, Slot::new(doubted([0.6, 0.7], 0.3)));
        let now = Time(Duration::from_millis(40));
        antelope.switch_to("vegas", &path(), now).expect("an arm");
        // For a minute bbr has no score, because this switch was not proposed.
        feed(&mut antelope, 50..61_000);
        assert!(feed(&mut antelope, 61_000..71_000).iter().all(|it| it.1.to == "vegas"));
    }

    #[test]
    fn behind_the_queue_of_others_doubt_counts_by_what_home_has() {
        let best = |home: f32, floor_over_min: f32| {
            let slot = Slot::new(doubted([home, home + 0.2], 0.5));
            let mut antelope = started_with(AntelopeConfig::default(), slot);
            feed(&mut antelope, 50..150);
            let chooser = antelope.policy();
            let mut features = chooser.sampling.latest().expect("a unit").features;
            let at = features.named().position(|it| it.0 == "rtt_floor_4s_over_min");
            features.0[at.expect("a feature")] = floor_over_min;
            chooser.scores_of(&features).best().expect("two arms").arm
        };
        // Vegas has 0.2 more, less 0.25 or less.
        assert_eq!([best(0.2, 1.15), best(0.2, 1.3)], ["bbr", "vegas"]);
        assert_eq!([best(0.5, 1.15), best(0.5, 1.3)], ["bbr", "vegas"]);
        assert_eq!([best(1.0, 1.15), best(1.0, 1.3)], ["bbr"; 2]);
    }

    #[test]
    fn fewer_decisions_are_enough_for_a_large_gain() {
        let first_ms = |vegas| {
            let mut antelope = started_with(AntelopeConfig::default(), slot([0.5, vegas]));
            feed(&mut antelope, 50..3_000)[0].0
        };
        assert_eq!([first_ms(0.6), first_ms(0.7), first_ms(1.2)], [850, 350, 100]);
    }

    #[test]
    fn an_arm_that_does_not_answer_losses_has_no_flow_where_many_lose_much() {
        let lossy = |(companions, lost_percent): (f32, f32)| {
            let mut antelope = started([0.9, 0.5]);
            feed(&mut antelope, 50..150);
            let chooser = antelope.policy();
            let mut features = chooser.sampling.latest().expect("a unit").features;
            for (name, value) in [("companions", companions), ("lost_percent_long", lost_percent)] {
                let at = features.named().position(|it| it.0 == name);
                features.0[at.expect("a feature")] = value;
            }
            chooser.scores_of(&features).best().expect("two arms").arm
        };
        let many = [0.0, 9.9, 10.1, 60.0].map(|lost_percent| lossy((21.0, lost_percent)));
        assert_eq!(many, ["bbr", "bbr", "vegas", "vegas"]);
        assert_eq!([lossy((0.0, 60.0)), lossy((20.0, 60.0))], ["bbr"; 2], "models know these");
    }

    #[test]
    fn a_switch_is_given_time_before_it_is_judged() {
        let mut antelope = started([0.8, 0.9]);
        feed(&mut antelope, 50..1_000);
        let first = antelope.switch_to("vegas", &path(), Time(Duration::from_secs(1)));
        first.expect("an arm");
        antelope.prefer(Preference::THROUGHPUT);
        let proposed = feed(&mut antelope, 1_050..4_000);
        assert_eq!(proposed[0].1.to, "bbr", "{proposed:?}");
    }

    #[test]
    fn a_model_that_takes_over_decides_for_running_flows_and_new_ones() {
        let slot = slot([0.9, 0.8]);
        let started = || started_with(AntelopeConfig::default(), slot.clone());
        let mut antelope = started();
        assert!(feed(&mut antelope, 50..2_000).iter().all(|it| it.1.to == "bbr"));
        slot.put(constant([0.5, 0.9], [1.0, 0.2], [0.2, 1.0]));
        let changed = feed(&mut antelope, 2_000..3_000);
        assert_eq!(changed.first().map(|it| it.1.to), Some("vegas"), "{changed:?}");
        let mut next = started();
        feed(&mut next, 50..1_000);
        assert_eq!(next.verdict().map(|it| it.arm), Some("vegas"));
    }

    #[test]
    fn what_suited_a_destination_has_the_flow_first_if_the_model_knows_it() {
        for (remembered_arm, want) in
            [(Some("vegas"), "vegas"), (Some("reno"), "bbr"), (None, "bbr")]
        {
            let mut antelope = ArmRunner::new(
                Antelope::new(AntelopeConfig::default(), Some(slot([0.5, 0.5]))),
                &Loaded::default(),
            );
            let mut path = path();
            path.remembered_arm = remembered_arm;
            antelope.resume(&path, Time::ZERO);
            assert_eq!(antelope.arm(), want, "{remembered_arm:?}");
        }
    }

    #[test]
    fn an_arm_that_the_guard_has_taken_back_has_no_score_for_a_minute() {
        let mut antelope = started([0.8, 0.9]);
        let mut switched = |to: &str, span_s: std::ops::Range<u64>| {
            let now = Time(Duration::from_secs(span_s.start));
            antelope.switch_to(to, &path(), now).expect("an arm");
            let proposed = feed(&mut antelope, span_s.start * 1_000 + 50..span_s.end * 1_000);
            proposed.iter().find(|it| it.1.to != to).map(|it| it.0 / 1_000)
        };
        // The first switch was not proposed either, so bbr has no score.
        assert_eq!(switched("vegas", 1..3), None);
        assert_eq!(switched("bbr", 3..80), Some(63));
    }

    #[test]
    fn preferences_pick_the_mode() {
        for (wants, want) in [
            (Preference::DEFAULT, "bbr"),
            (Preference::THROUGHPUT, "bbr"),
            (Preference::DELAY, "vegas"),
        ] {
            let mut antelope = ArmRunner::new(
                Antelope::new(AntelopeConfig::default(), Some(slot([0.9, 0.8]))),
                &Loaded::default(),
            );
            let mut path = path();
            path.wants = wants;
            antelope.resume(&path, Time::ZERO);
            feed(&mut antelope, 50..1_000);
            assert_eq!(antelope.verdict().expect("a verdict").arm, want, "{wants:?}");
        }
    }

    #[test]
    fn a_short_flow_has_a_verdict_and_a_flow_never_seen_has_none() {
        let mut antelope = started([0.5, 0.7]);
        assert_eq!(antelope.verdict(), None);
        assert_eq!(feed(&mut antelope, 50..150), []);
        let verdict = antelope.verdict().expect("of one unit");
        assert_eq!((verdict.arm, (verdict.score * 10.0).round()), ("vegas", 7.0));
    }

    #[test]
    fn a_dry_run_says_what_it_would_do_and_proposes_to_stay() {
        let dry = AntelopeConfig { dry_run: true, ..AntelopeConfig::default() };
        let mut antelope = started_with(dry, slot([0.1, 0.9]));
        let proposed = feed(&mut antelope, 50..10_000);
        assert!(proposed.len() > 2 && proposed.iter().all(|it| it.1.to == "bbr"));
        assert!(proposed[0].1.why.text.starts_with("would change: vegas has 0.90"));
    }

    #[test]
    fn only_a_long_flow_tries_another_arm_and_not_often() {
        let mut antelope = started_with(exploring(), slot([0.9, 0.7]));
        let tried = feed(&mut antelope, 50..65_000);
        let tried: Vec<_> = tried.iter().filter(|it| it.1.explores).collect();
        let at_s: Vec<u64> = tried.iter().map(|it| it.0 / 1_000).collect();
        assert_eq!(at_s, [20, 40, 60]);
        assert!(tried.iter().all(|it| it.1.to == "vegas"));
    }

    #[test]
    fn what_is_tried_has_the_flow_for_as_long_as_can_be_learned_from() {
        let mut antelope = started_with(exploring(), slot([0.9, 0.7]));
        let tried = feed(&mut antelope, 50..20_500).pop().expect("it tries").1;
        assert!(tried.explores, "{tried:?}");
        let now = Time(Duration::from_millis(20_500));
        antelope.switch_to(tried.to, &path(), now).expect("an arm");
        let back = feed(&mut antelope, 20_550..30_000).remove(0);
        assert_eq!((back.0, back.1.to, back.1.explores), (26_750, "bbr", false));
        // What has none of the reward is not worth it.
        let mut antelope = started_with(exploring(), slot([0.9, 0.4]));
        assert!(feed(&mut antelope, 50..65_000).iter().all(|it| !it.1.explores));
    }
}
