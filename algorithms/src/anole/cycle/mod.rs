//! The stages of a cycle: algorithm 1.
//!
//! ```text
//! slow start   the classic drives; the learned arm is called each 5 RTT
//! evaluation   half a round trip each: the lower candidate, the higher one, a step above the rate;
//!              then the flow's rate until all ACKs of these are back
//! draining     a round trip below the rate, if a queue stands (equation 9)
//! probing      N - 1 = 2 round trips at the rate that the evaluation chose
//! last         one more, at whose end the learned arm is called, once
//! acceleration in place of probing, while a candidate is left out: v segments each 2 RTT
//! climbing     in place of probing, in situation IV: a step each round trip until one is too much
//! ```
//!
//! Timers end the stages, with reports or without.
//!
//! Differs from the paper:
//!   - the last round trip is sent at the flow's rate: the learned arm decides once, at its end, so
//!     there is no rate of its own before;
//!   - a candidate's slot is sent at 0.5 to 1.25 of the flow's rate;
//!   - a slot lasts longer than half a round trip if that holds fewer than 8 ACKs, and doubles
//!     after a cycle in which slots had to be merged;
//!   - equation 10 steps once a round trip while its steps succeed, by v segments or more, so that
//!     flows that share a path gain alike; the paper has a step a cycle;
//!   - a least round trip that was not seen for 8 s is looked for by draining;
//!   - where slow start ends without much of a queue, a climb begins at the classic's rate, as
//!     HyStart ends it at half of the path or below;
//!   - the loss of the path itself counts as a tenth at most;
//!   - a flow that shares the path with no other sends less after its slots, so that the queue of
//!     the slots drains sooner.

mod between;

use super::candidate::Candidate;
use super::confidence::Confidence;
use super::config::{AnoleConfig, NONE};
use super::drain::Queue;
use super::evaluation::{BELOW, Given, Heard, STEP_SELF, Verdict};
use super::inference::{Capacity, step_up};
use super::notes::{Chosen, Facts, Note, Notes, Owner, Tally};
use super::slots::{OPEN_MAX, Outcome, Tag};
use super::speed::{Velocity, segments_per_round};
use super::utility::QUEUE_TOLERANCE;
use super::wireless::Wireless;
use crate::arm::{Decision, Readiness, Registers, Stage};
use crate::filter::Windowed;
use crate::loaded::Loaded;
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::pcc::Trials;
use crate::pcc::monitor::Interval;
use crate::units::{Gain, Packets, Rate, Time};
use crate::window;
use std::time::Duration;

/// N - 1 (section IV: the probing stage lasts 3 RTT, the last of which is the learned arm's).
const PROBING_RTTS: u32 = 2;
/// The number of round trips in a cycle. In slow start, too, the learned arm is called once in so
/// many.
const CYCLE_RTTS: u32 = 5;
/// An evaluation waits for this many round trips for the results of its slots.
const PATIENCE_RTTS: u32 = 3;
/// The paper's mu, in the acceleration stage alone. With the value of the utility function, a flow
/// whose candidates are left out would keep a queue of a tenth of the round trip.
const ACCELERATION_TOLERANCE: f64 = 0.02;
/// The number of round trips from one step of acceleration to the next.
const ADJUSTING_RTTS: u32 = 2;
/// A climb ends after this many steps.
const CLIMB_MAX: u32 = 16;
/// A slot holds eight ACKs of two segments each.
const SLOT_SEGMENTS: Packets = Packets(16);
/// A slot is lengthened at most this many times.
const STRETCH_MAX: u32 = 4;
/// No stage is shorter than this. Round trips above [`RTT_MAX`] count as [`RTT_MAX`].
const STAGE_MIN: Duration = Duration::from_millis(2);
const RTT_MAX: Duration = Duration::from_secs(10);
/// The rate of a candidate's slot is 0.5 to 1.25 of the flow's rate.
const SLOT_LEAST: Gain = Gain(500);
const SLOT_MOST: Gain = Gain(1_250);
/// The weight of the newest cycle in the mean of the path's own loss.
const LOSS_WEIGHT: f64 = 0.125;
/// The loss of the path itself counts as this share at most. Without a limit, flows that fill a
/// short buffer together take their own losses for the path's, and send ever more.
const LOSS_MOST: f64 = 0.1;
/// A delay of up to this many standard deviations of the round trip counts as jitter, not as a
/// queue.
const DEVIATIONS: f64 = 4.0;
/// The jitter of a wired path, as a part of its round trip. Only what exceeds this counts as
/// jitter.
const FINE: f64 = 0.01;
/// The round trip without a queue is taken from this many microseconds.
const EMPTY_WINDOW_US: u64 = 10_000_000;
/// The flow drains its queue if no round trip near the least one was seen for this long, so that
/// the least one is seen again before it leaves its window of 10 s.
const RTT_MIN_AGE: Duration = Duration::from_secs(8);
/// A round trip is near the least one if it exceeds it by at most this part and the jitter.
const RTT_MIN_NEAR: f64 = 0.02;
/// The limit that a climb has found is remembered for this long.
const LIMIT_AGE: Duration = Duration::from_secs(10);
const HALF: Gain = Gain(500);
const DOUBLE: Gain = Gain(2_000);

/// What is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    Slot(Tag),
    /// All slots are sent; their ACKs are on the way.
    Collecting,
    Draining(Next),
    Probing,
    Last,
    Climbing,
    /// A step was too much; what it brought is on the way.
    Settling,
    Accelerating,
}

/// What comes after a drained queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Probing,
    Last,
    Climbing,
    Accelerating,
}

/// The rates of an evaluation.
#[derive(Clone, Copy, Debug, Default)]
struct Slots {
    low: Rate,
    /// Only with a learned arm.
    high: Option<Rate>,
    /// Unless a candidate is a step by itself.
    step: Option<Rate>,
}

/// Anole on one flow.
pub struct Cycle {
    infers: bool,
    deprecates: bool,
    classic: Candidate,
    learned: Option<Candidate>,
    trials: Trials<Tag>,
    phase: Phase,
    /// When the phase ends.
    ends: Time,
    /// The flow's rate, which slots vary for half a round trip.
    rate: Rate,
    owner: Owner,
    slots: Slots,
    /// What the slots have sent above the flow's rate, in Mbit.
    extra: f64,
    heard: Heard,
    /// Of classic and learned arm.
    confidence: [Confidence; 2],
    capacity: Capacity,
    wireless: Wireless,
    /// The least mean round trip of a slot.
    calm: Option<Windowed<Duration>>,
    /// What the path loses of any rate, 0 to 1.
    path_loss: Option<f64>,
    velocity: Velocity,
    /// Steps of this climb, and the last rate of it that was not too much.
    climbed: u32,
    clean: Rate,
    /// What the last climb ended at, in Mbit/s, and when.
    limit: Option<(f64, Time)>,
    /// When a round trip near the least was seen last.
    empty_at: Time,
    /// The flow's share of the path, 0 to 1, and when it gave way last.
    share: Option<f64>,
    gave_at: Option<Time>,
    /// Slots last so many times half a round trip.
    stretch: u32,
    /// All that the learned arm has not seen of this round trip.
    gathered: Option<Measurement>,
    /// When it was called last in slow start.
    called_at: Time,
    /// The round trip of the last report.
    rtt: Option<Duration>,
    /// Nothing was reported since the last wake, or the program holds no further boundary.
    waits: bool,
    last_at: Time,
    notes: Notes,
    tally: Tally,
}

fn mbit(rate: Rate) -> f64 {
    rate.bytes_per_sec() as f64 * 8.0 / 1e6
}

/// A rate that is no number, or negative, is 0; the trials bound it.
fn rate_of(mbit_per_sec: f64) -> Rate {
    Rate::from_bytes_per_sec((mbit_per_sec * 1e6 / 8.0) as u64)
}

impl Cycle {
    /// One that has no flow yet. What cannot be embedded is left out: settings are checked before.
    pub fn new(config: &AnoleConfig, loaded: &Loaded) -> Self {
        let default = AnoleConfig::default();
        let classic = Candidate::new(&config.classic, loaded)
            .or_else(|| Candidate::new(&default.classic, loaded))
            .expect("the default classic arm is embeddable: a test checks it");
        let learned = Some(&config.learned).filter(|name| *name != NONE);
        let path = window::no_path();
        Self {
            infers: config.inference,
            deprecates: config.deprecation,
            classic,
            learned: learned.and_then(|name| Candidate::new(name, loaded)),
            trials: Trials::with_open_max(OPEN_MAX, &path, Time::ZERO),
            phase: Phase::SlowStart,
            ends: Time::ZERO,
            rate: Rate::default(),
            owner: Owner::default(),
            slots: Slots::default(),
            extra: 0.0,
            heard: Heard::default(),
            confidence: [Confidence::default(); 2],
            capacity: Capacity::default(),
            wireless: Wireless::default(),
            calm: None,
            path_loss: None,
            velocity: Velocity::default(),
            climbed: 0,
            clean: Rate::default(),
            limit: None,
            empty_at: Time::ZERO,
            share: None,
            gave_at: None,
            stretch: 1,
            gathered: None,
            called_at: Time::ZERO,
            rtt: None,
            waits: true,
            last_at: Time::ZERO,
            notes: Notes::default(),
            tally: Tally::default(),
        }
    }

    pub fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        self.trials = Trials::with_open_max(OPEN_MAX, path, now);
        (self.phase, self.ends, self.waits) = (Phase::SlowStart, now, true);
        (self.rate, self.owner) = (self.trials.rate(), Owner::default());
        (self.slots, self.extra, self.heard) = (Slots::default(), 0.0, Heard::default());
        self.confidence = [Confidence::default(); 2];
        (self.capacity, self.wireless) = (Capacity::default(), Wireless::default());
        (self.calm, self.path_loss, self.velocity) = (None, None, Velocity::default());
        (self.climbed, self.clean, self.stretch) = (0, Rate::default(), 1);
        (self.gathered, self.called_at, self.last_at) = (None, now, now);
        (self.limit, self.empty_at) = (None, now);
        (self.share, self.gave_at) = (None, None);
        self.rtt = path.srtt;
        (self.notes, self.tally) = (Notes::default(), Tally::default());
        let first = self.classic.resume(path, now);
        if let Some(learned) = &mut self.learned {
            learned.resume(path, now);
        }
        if self.trials.known {
            let decision = self.trials.decision();
            self.begin_last(now);
            return decision;
        }
        Decision { rate: None, ..first }
    }

    pub fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        let done = self.trials.observe(m, now);
        self.waits = false;
        if let Some(rtt) = &m.rtt {
            self.rtt = Some(rtt.mean());
            self.wireless.observe(rtt);
            let near = 1.0 + RTT_MIN_NEAR + self.wireless.deviation();
            let least = self.trials.path.rtt_min().unwrap_or_default();
            if rtt.min.as_secs_f64() <= least.as_secs_f64() * near {
                self.empty_at = now;
            }
        }
        self.gathered = Some(self.gathered.map_or(*m, |before| before.and(m)));
        self.count_time(now);
        if self.phase == Phase::SlowStart {
            return self.slow_start(m, now);
        }
        if !self.confidence[0].is_deprecated() {
            self.classic.observe(m, false, now);
        }
        if m.timed_out {
            self.timed_out(now);
        } else if let Some(done) = done {
            self.hear(&done, now);
        }
        self.advance(now);
        self.trials.decision()
    }

    pub fn wake_at(&self) -> Option<Time> {
        (self.phase != Phase::SlowStart && !self.waits).then_some(self.ends)
    }

    pub fn on_wake(&mut self, now: Time) -> Option<Decision> {
        if self.phase == Phase::SlowStart || now < self.ends {
            return None;
        }
        self.count_time(now);
        self.advance(now);
        self.waits = true;
        Some(self.trials.decision())
    }

    pub fn stage(&mut self) -> Option<Stage> {
        self.notes.pop()
    }

    pub fn registers(&self, registers: &mut Registers) {
        self.trials.registers(registers);
    }

    pub fn can_resume(&self, path: &PathState) -> Readiness {
        let learned = self.learned.as_ref().map(|learned| learned.can_resume(path));
        match (self.classic.can_resume(path), learned) {
            (Readiness::Ready, Some(other)) => other,
            (own, _) => own,
        }
    }

    pub fn can_hand_off(&self) -> Readiness {
        match self.phase {
            Phase::SlowStart => Readiness::Defer("slow start"),
            _ => Readiness::Ready,
        }
    }

    /// Leaves the flow's rate, not that of a slot.
    pub fn hand_off(&self, path: &mut PathState) {
        let rate = match self.phase {
            Phase::SlowStart => self.trials.rate(),
            _ => self.rate,
        };
        self.trials.hand_off(rate, path);
    }

    /// The round trip that stages are measured by.
    fn round(&self) -> Duration {
        self.trials.srtt().min(RTT_MAX).max(STAGE_MIN)
    }

    fn count_time(&mut self, now: Time) {
        let spent = (now - self.last_at).as_secs_f64();
        self.last_at = self.last_at.max(now);
        if matches!(self.phase, Phase::Probing | Phase::Climbing | Phase::Accelerating) {
            self.tally.seconds[self.owner as usize] += spent;
        }
    }

    /// The classic drives the flow.
    fn slow_start(&mut self, m: &Measurement, now: Time) -> Decision {
        let decision = self.classic.observe(m, true, now);
        self.trials.follow(self.classic.rate(self.trials.srtt()));
        let over = m.timed_out || !self.classic.is_starting();
        if over && self.trials.path.srtt.is_some() {
            self.begin_cycles(now);
            return self.trials.decision();
        }
        if now - self.called_at >= self.round() * CYCLE_RTTS {
            self.call_learned(None, now);
        }
        // As Linux paces slow start (`tcp_pacing_ss_ratio`).
        let paced = |srtt| self.trials.bound(decision.cwnd / srtt * DOUBLE);
        let rate = self.trials.path.srtt.map(paced);
        Decision { rate, ..decision }
    }

    /// Slow start is over. If hardly a queue stands, a climb begins at the classic's rate.
    /// Otherwise the first rate is the mean of both candidates' rates, each limited to the delivery
    /// rate of the path.
    fn begin_cycles(&mut self, now: Time) {
        let srtt = self.trials.srtt();
        let classic = self.classic.rate(srtt);
        self.call_learned(None, now);
        let learned = self.learned.as_ref().map(|learned| learned.rate(srtt));
        let note = Note::Started { classic: mbit(classic), learned: learned.map(mbit) };
        self.notes.push(note);
        let most = self.trials.path.delivery_rate().unwrap_or(classic);
        if self.ended_early(classic) {
            return self.climb_on(classic, most, now);
        }
        let capped = |rate: Rate| mbit(rate.min(most));
        let mean = learned.map_or(capped(classic), |it| f64::midpoint(capped(classic), capped(it)));
        self.set_rate(mean, Owner::Inferred);
        self.drain_then(Next::Last, now);
    }

    fn set_rate(&mut self, mbit_per_sec: f64, owner: Owner) {
        self.rate = self.trials.bound(rate_of(mbit_per_sec));
        self.owner = owner;
    }

    /// The learned arm's one call, with what was gathered; it goes on from `rate`.
    fn call_learned(&mut self, rate: Option<Rate>, now: Time) {
        self.called_at = now;
        let (Some(learned), false) = (&mut self.learned, self.confidence[1].is_deprecated()) else {
            return;
        };
        let Some(m) = self.gathered.take() else { return };
        if let Some(rate) = rate {
            learned.rebase_unless_near(&self.trials.path, rate, now);
        }
        learned.observe(&m, false, now);
        self.tally.learned_calls += 1;
    }

    /// Sends at `rate` for that long.
    fn begin(&mut self, phase: Phase, tag: Option<Tag>, rate: Rate, length: Duration, now: Time) {
        self.trials.begin(tag, rate, now);
        (self.phase, self.ends) = (phase, now + length.max(STAGE_MIN));
    }

    /// The phase is over: the next.
    fn advance(&mut self, now: Time) {
        if now < self.ends {
            return;
        }
        if !self.trials.can_begin() {
            // What was sent above the flow's rate ends all the same.
            self.trials.follow(self.trials.rate().min(self.rate));
            self.waits = true;
            return;
        }
        match self.phase {
            Phase::SlowStart => {}
            Phase::Slot(tag) => self.next_slot(tag, now),
            Phase::Collecting => self.decide(now),
            Phase::Draining(next) => self.enter(next, now),
            Phase::Probing => self.begin_last(now),
            Phase::Last => self.begin_evaluation(now),
            Phase::Climbing => self.climb(now),
            Phase::Settling => {
                self.set_rate(mbit(self.clean), Owner::Inferred);
                self.end_climb(Next::Probing, now);
            }
            Phase::Accelerating => self.accelerate(now),
        }
    }

    fn enter(&mut self, next: Next, now: Time) {
        match next {
            Next::Last => self.begin_last(now),
            Next::Probing => {
                let rate = self.queue().drained_over(self.rate, PROBING_RTTS);
                let length = self.round() * PROBING_RTTS;
                self.begin(Phase::Probing, Some(Tag::Hold), rate, length, now);
            }
            Next::Climbing => {
                (self.velocity, self.climbed, self.clean) = (Velocity::default(), 0, self.rate);
                self.climb(now);
            }
            Next::Accelerating => {
                self.velocity = Velocity::default();
                let rate = self.queue().drained_over(self.rate, ADJUSTING_RTTS);
                let length = self.round() * ADJUSTING_RTTS;
                self.begin(Phase::Accelerating, Some(Tag::Hold), rate, length, now);
            }
        }
    }

    /// The last round trip of a cycle, whose ACKs tell what the flow's rate is worth.
    fn begin_last(&mut self, now: Time) {
        self.gathered = None;
        self.heard = Heard::default();
        self.begin(Phase::Last, Some(Tag::Prev), self.rate, self.round(), now);
    }

    /// Candidates in ascending order, and the step of equation 10 if no candidate is one.
    fn begin_evaluation(&mut self, now: Time) {
        self.call_learned(Some(self.rate), now);
        self.tally.cycles += 1;
        self.slots = self.slot_rates();
        let Slots { low, high, step } = self.slots;
        let (high, step) = (high.map(mbit), step.map(mbit));
        self.notes.push(Note::Evaluation { low: mbit(low), high, step });
        self.begin_slot(Tag::Low, low, now);
    }

    /// The candidates' rates in ascending order, within what a slot may have, and a step.
    fn slot_rates(&mut self) -> Slots {
        let srtt = self.trials.srtt();
        let (least, most) = (self.rate * SLOT_LEAST, self.rate * SLOT_MOST);
        let within = |rate: Rate| rate.max(least).min(most);
        let classic = within(self.classic.rate(srtt));
        let learned = self.learned.as_ref().map(|it| within(it.rate(srtt)));
        self.heard.classic_is_low = learned.is_none_or(|learned| classic <= learned);
        let low = learned.map_or(classic, |learned| learned.min(classic));
        let high = learned.map(|learned| learned.max(classic));
        let rate = mbit(self.rate);
        let is_step = high.is_some_and(|high| mbit(high) >= STEP_SELF * rate);
        let step = (self.infers && !is_step).then(|| rate_of(step_up(rate)));
        Slots { low, high, step }
    }

    fn begin_slot(&mut self, tag: Tag, rate: Rate, now: Time) {
        let holds = SLOT_SEGMENTS.to_bytes(self.trials.path.mss) / rate;
        let round = self.round();
        let length = (round / 2).max(holds.min(round * 2)).saturating_mul(self.stretch);
        let extra = (mbit(rate) - mbit(self.rate)) * length.as_secs_f64();
        self.extra = if tag == Tag::Low { extra } else { self.extra + extra };
        self.begin(Phase::Slot(tag), Some(tag), rate, length, now);
    }

    fn next_slot(&mut self, tag: Tag, now: Time) {
        let next = match (tag, self.slots.high) {
            (Tag::Low, Some(high)) => Some((Tag::High, high)),
            (Tag::Low | Tag::High, _) => self.slots.step.map(|step| (Tag::Step, step)),
            _ => None,
        };
        match next {
            Some((tag, rate)) => self.begin_slot(tag, rate, now),
            None => {
                let patience = self.round() * PATIENCE_RTTS;
                let rate = rate_of(mbit(self.rate) - self.given_back());
                self.begin(Phase::Collecting, None, rate, patience, now);
            }
        }
    }

    /// A slot's ACKs are all in.
    fn hear(&mut self, done: &Interval<Tag>, now: Time) {
        let path = &self.trials.path;
        let outcome = Outcome::of(done, path.mss, self.empty_rtt(), self.wireless.deviation());
        self.calm_down(done, now);
        let (high, step) = (self.slots.high.is_some(), self.slots.step.is_some());
        let last = match done.tag {
            Some(Tag::Prev | Tag::Hold) => {
                self.heard.prev = Some(outcome);
                return self.decide_if_crowded(&outcome, now);
            }
            Some(Tag::Low) => {
                self.heard.low = Some(outcome);
                let before = self.path_loss.unwrap_or(outcome.loss);
                let seen = before + (outcome.loss - before) * LOSS_WEIGHT;
                self.path_loss = Some(seen.min(LOSS_MOST));
                !high && !step
            }
            Some(Tag::High) => {
                self.heard.high = Some(outcome);
                !step
            }
            Some(Tag::Step) => {
                self.heard.step = Some(outcome);
                true
            }
            Some(Tag::Climb) => return self.hear_climb(&outcome, done.rate, now),
            None => false,
        };
        if last && self.phase == Phase::Collecting && self.trials.can_begin() {
            self.decide(now);
        }
    }

    /// mu, and what the path varies by itself.
    fn tolerance(&self) -> f64 {
        QUEUE_TOLERANCE + self.wireless.deviation()
    }

    /// What a path varies by itself, beyond what pacing and delayed ACKs do on any path.
    fn own_deviation(&self) -> f64 {
        (self.wireless.deviation() - FINE).clamp(0.0, 1.0)
    }

    /// The round trip of the path without a queue: the least mean of a slot lately, which on a path
    /// that varies is more than the least round trip, but not by more than such a path varies.
    fn empty_rtt(&self) -> Duration {
        let least = self.trials.path.rtt_min().unwrap_or_default().min(RTT_MAX);
        let most = least.mul_f64(1.0 + DEVIATIONS * self.own_deviation());
        self.calm.map_or(least, |calm| calm.get().max(least).min(most))
    }

    /// Learns the mean round trip of a slot.
    fn calm_down(&mut self, done: &Interval<Tag>, now: Time) {
        let Some(mean) = done.rtt_mean_s().filter(|_| done.reports() > 1) else { return };
        let mean = Duration::from_secs_f64(mean.clamp(0.0, RTT_MAX.as_secs_f64()));
        let at_us = u64::try_from(now.0.as_micros()).unwrap_or(u64::MAX);
        let first = Windowed::min(EMPTY_WINDOW_US, at_us, mean);
        self.calm.get_or_insert(first).update(at_us, mean);
    }

    /// The queue by the last report, less what the path varies by itself.
    fn queue(&self) -> Queue {
        let rtt = self.rtt.unwrap_or_default().min(RTT_MAX);
        let own = rtt.mul_f64(self.own_deviation());
        Queue { rtt: rtt.saturating_sub(own), rtt_min: self.empty_rtt() }
    }

    fn given(&self) -> Given {
        Given {
            rate: mbit(self.rate),
            owner: self.owner,
            tolerance: self.tolerance(),
            path_loss: self.path_loss.unwrap_or_default(),
            is_wireless: self.wireless.is_wireless(),
            infers: self.infers,
        }
    }

    /// Decides before the cycle ends if the path takes far less than the flow's rate.
    fn decide_if_crowded(&mut self, outcome: &Outcome, now: Time) {
        let given = self.given();
        let is_crowded = given.is_crowded(&outcome.on_path_of_loss(given.path_loss));
        if is_crowded && !outcome.spoilt && self.trials.can_begin() {
            self.trials.forget();
            self.decide(now);
        }
    }

    /// The evaluation is over.
    fn decide(&mut self, now: Time) {
        let verdict = self.heard.decide(&self.given(), &mut self.capacity, now);
        self.stretch = match verdict.why {
            Chosen::Merged | Chosen::Nothing => (self.stretch * 2).min(STRETCH_MAX),
            _ => (self.stretch / 2).max(1),
        };
        self.set_rate(verdict.rate, verdict.owner);
        self.give_way(&verdict, now);
        self.judge(&verdict);
        let facts = self.facts(&verdict);
        self.notes.push(Note::Probing { facts });
        self.classic.rebase(&self.trials.path, self.rate, now);
        let next = if verdict.climbs && !self.is_giving(now) {
            Next::Climbing
        } else if self.is_deprecating() {
            Next::Accelerating
        } else {
            Next::Probing
        };
        self.drain_then(next, now);
    }

    fn is_deprecating(&self) -> bool {
        self.confidence.iter().any(Confidence::is_deprecated)
    }

    /// A climb is over: the candidates go on from the flow's rate.
    fn end_climb(&mut self, next: Next, now: Time) {
        self.classic.rebase(&self.trials.path, self.rate, now);
        let next = if self.is_deprecating() { Next::Accelerating } else { next };
        self.drain_then(next, now);
    }

    fn facts(&self, verdict: &Verdict) -> Facts {
        Facts {
            rate: mbit(self.rate),
            owner: verdict.owner,
            why: verdict.why,
            classic: verdict.classic,
            learned: verdict.learned,
            previous: verdict.previous,
            confidence: self.confidence.map(|of| of.score()),
            inferred: verdict.inferred,
            tally: self.tally,
        }
    }

    /// Algorithm 2, at the end of an evaluation.
    fn judge(&mut self, verdict: &Verdict) {
        if !self.deprecates {
            return;
        }
        let names = [Some(&self.classic), self.learned.as_ref()];
        let names = names.map(|it| it.map_or("", |it| it.info().name));
        let judged = [(Owner::Classic, verdict.classic), (Owner::Learned, verdict.learned)];
        for (at, (who, of)) in judged.into_iter().enumerate() {
            if let Some((_, utility)) = of
                && self.confidence[at].judge(utility, verdict.best)
            {
                let facts = self.facts(verdict);
                self.notes.push(Note::Deprecated { who, name: names[at], facts });
            }
        }
    }

    /// Consumes a queue first, if one stands, or looks for the least round trip.
    fn drain_then(&mut self, next: Next, now: Time) {
        let queue = self.queue();
        let stale = now - self.empty_at > RTT_MIN_AGE;
        let stands = queue.ratio() > 1.0 + QUEUE_TOLERANCE;
        if !(stands || stale) {
            return self.enter(next, now);
        }
        let rate = if stale { self.rate * HALF } else { queue.drained(self.rate) };
        self.empty_at = if stale { now } else { self.empty_at };
        self.notes.push(Note::Draining { ratio: queue.ratio(), rate: mbit(rate) });
        let length = self.rtt.unwrap_or_default().min(RTT_MAX);
        self.begin(Phase::Draining(next), None, rate, length, now);
    }
}
