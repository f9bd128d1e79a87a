//! What moves the flow's rate between evaluations: climbs, timeouts, acceleration, and giving way.

use super::{
    ACCELERATION_TOLERANCE, ADJUSTING_RTTS, BELOW, CLIMB_MAX, Cycle, HALF, LIMIT_AGE, Next, Note,
    Outcome, Owner, Phase, QUEUE_TOLERANCE, Tag, Velocity, Verdict, mbit, segments_per_round,
};
use crate::units::{Packets, Rate, Time};

/// A step of a climb is at most this part of the rate. Until the path's limit was found once, steps
/// may be [`FIRST_STEP_MOST`], as a random loss may have ended slow start early.
const STEP_MOST: f64 = 0.25;
const FIRST_STEP_MOST: f64 = 0.35;
/// A climb stops at a remembered limit, unless this many times the flow's rate reaches that limit.
const LIMIT_NEAR: f64 = 1.02;
/// Acceleration changes the rate by at most this part: in a small window, one segment is a large
/// part.
const ADJUSTMENT_MOST: f64 = 0.02;
/// A climb ends if its rate is more than this many times the last rate that the path was seen to
/// take: the steps since then held too few ACKs to be judged.
const UNHEARD_MOST: f64 = 4.0;
/// Other flows are on the path if the mean of this flow's last shares is below this.
const SHARING: f64 = 0.7;
/// The weight of the newest share in that mean.
const SHARE_WEIGHT: f64 = 0.3;
/// A flow that gives way lowers its rate by this times its share of the path.
const GIVEN: f64 = 0.2;
/// The number of round trips from one giving way to the next.
const GIVING_RTTS: u32 = 20;
/// The number of round trips for which a flow that gave way does not climb.
const LEAVING_RTTS: u32 = 10;

/// A flow climbs at the end of slow start only if its window has this many segments. With fewer, a
/// step of the climb has too few ACKs to show what a full buffer drops.
const EARLY_LEAST: Packets = Packets(64);
/// After its slots a flow sends less than its rate, by this part of what the slots sent above it.
const GIVEN_BACK: f64 = 0.5;

impl Cycle {
    /// Whether slow start has ended without much of a queue, so that more is available.
    pub(super) fn ended_early(&self, classic: Rate) -> bool {
        let path = &self.trials.path;
        let is_wide = classic * self.trials.srtt() >= EARLY_LEAST.to_bytes(path.mss);
        self.infers && is_wide && self.queue().ratio() < 1.0 + QUEUE_TOLERANCE
    }

    /// Goes on from the classic's rate at the end of slow start, as the first step of a climb.
    /// `delivered` is the rate that the path was seen to take.
    pub(super) fn climb_on(&mut self, classic: Rate, delivered: Rate, now: Time) {
        self.set_rate(mbit(classic), Owner::Inferred);
        (self.velocity, self.climbed) = (Velocity::fastest(), 1);
        self.clean = self.trials.bound(classic.min(delivered));
        let (from, to) = (mbit(self.clean), mbit(self.rate));
        self.notes.push(Note::Climbing { from, step: to - from });
        self.begin(Phase::Climbing, Some(Tag::Climb), self.rate, self.round(), now);
    }

    /// By how much a flow is slower while it waits for the ACKs of its slots, in Mbit/s, so that
    /// the queue of the faster slots drains. Zero if other flows share the path.
    pub(super) fn given_back(&self) -> f64 {
        if self.is_sharing() {
            return 0.0;
        }
        let extra = GIVEN_BACK * self.extra / self.round().as_secs_f64();
        extra.clamp(0.0, mbit(self.rate) / 2.0)
    }

    /// Whether other flows share the path.
    pub(super) fn is_sharing(&self) -> bool {
        self.share.is_some_and(|share| share < SHARING)
    }

    /// Whether it has just given way, and leaves what it gave to others.
    pub(super) fn is_giving(&self, now: Time) -> bool {
        self.gave_at.is_some_and(|at| now - at < self.round() * LEAVING_RTTS)
    }

    /// Flows that share a path give way now and then, the more the larger their share, and climb
    /// again by equal steps: so shares become equal though nobody knows how many flows there are.
    pub(super) fn give_way(&mut self, verdict: &Verdict, now: Time) {
        if let Some(seen) = verdict.share {
            let before = self.share.unwrap_or(1.0);
            self.share = Some(before + (seen - before) * SHARE_WEIGHT);
        }
        let Some(share) = self.share.filter(|_| self.infers && self.is_sharing()) else { return };
        let last = self.gave_at.map_or(self.round() * GIVING_RTTS, |at| now - at);
        if verdict.climbs || last < self.round() * GIVING_RTTS {
            return;
        }
        self.gave_at = Some(now);
        let rate = mbit(self.rate);
        self.set_rate(rate * (1.0 - GIVEN * share), self.owner);
        self.notes.push(Note::Yielding { share, rate: mbit(self.rate) });
    }

    /// Equation 10, once a round trip.
    pub(super) fn climb(&mut self, now: Time) {
        if self.climbed > 0 && self.queue().ratio() > 1.0 + QUEUE_TOLERANCE {
            let rate = self.queue().drained(self.clean);
            return self.begin(Phase::Settling, None, rate, self.round() * 2, now);
        }
        if self.climbed >= CLIMB_MAX {
            return self.end_climb(Next::Last, now);
        }
        if mbit(self.rate) > UNHEARD_MOST * mbit(self.clean) {
            self.set_rate(mbit(self.clean), Owner::Inferred);
            return self.end_climb(Next::Last, now);
        }
        self.climbed += 1;
        if self.climbed.is_multiple_of(ADJUSTING_RTTS) {
            self.recover();
        }
        let from = mbit(self.rate);
        let segments = self.velocity.next(true);
        let added = segments_per_round(segments, self.trials.path.mss, self.trials.srtt());
        let most = if self.limit.is_none() { FIRST_STEP_MOST } else { STEP_MOST };
        let mut up = mbit(added).min(most * from);
        // What was the limit of a flow alone lately is not passed in one step.
        let limit = self.limit.filter(|(_, at)| now - *at < LIMIT_AGE);
        let is_fixed = !self.wireless.is_wireless() && !self.is_sharing();
        if let Some((limit, _)) = limit.filter(|_| is_fixed)
            && from * LIMIT_NEAR < limit
            && from + up > limit
        {
            up = limit - from;
            self.velocity = Velocity::default();
        }
        self.set_rate(from + up, Owner::Inferred);
        if self.climbed == 1 {
            self.notes.push(Note::Climbing { from, step: up });
        }
        self.begin(Phase::Climbing, Some(Tag::Climb), self.rate, self.round(), now);
    }

    /// What a step of a climb brought.
    pub(super) fn hear_climb(&mut self, outcome: &Outcome, sent: Rate, now: Time) {
        if !matches!(self.phase, Phase::Climbing | Phase::Settling) || !self.trials.can_begin() {
            return;
        }
        let outcome = outcome.on_path_of_loss(self.path_loss.unwrap_or_default());
        if outcome.spoilt {
            self.set_rate(mbit(self.clean), Owner::Inferred);
            self.end_climb(Next::Last, now);
        } else if outcome.is_over() {
            let rate = BELOW * outcome.sent / (1.0 + outcome.excess());
            self.limit = Some((rate, now));
            self.limited(rate, outcome.excess(), now);
        } else if outcome.is_enough() {
            self.clean = self.clean.max(sent);
        }
    }

    /// The rate was too high: lowers the rate, and discards all open intervals.
    fn limited(&mut self, rate: f64, excess: f64, now: Time) {
        self.set_rate(rate, Owner::Inferred);
        self.notes.push(Note::Limited { rate: mbit(self.rate), excess });
        self.give_up(now);
    }

    fn give_up(&mut self, now: Time) {
        self.trials.forget();
        self.end_climb(Next::Probing, now);
    }

    pub(super) fn timed_out(&mut self, now: Time) {
        self.set_rate(mbit(self.rate * HALF), Owner::Inferred);
        self.notes.push(Note::TimedOut { rate: mbit(self.rate) });
        if self.trials.can_begin() {
            self.give_up(now);
        } else {
            self.trials.follow(self.rate);
        }
    }

    /// Two round trips have passed for candidates that are left out.
    fn recover(&mut self) {
        for (at, who) in [Owner::Classic, Owner::Learned].into_iter().enumerate() {
            if self.confidence[at].recover() {
                let of = if at == 0 { Some(&self.classic) } else { self.learned.as_ref() };
                let name = of.map_or("", |of| of.info().name);
                self.notes.push(Note::Active { who, name });
            }
        }
    }

    /// Two round trips of acceleration have passed.
    pub(super) fn accelerate(&mut self, now: Time) {
        self.recover();
        let queued = self.queue().ratio() > 1.0 + ACCELERATION_TOLERANCE;
        let segments = self.velocity.next(!queued);
        let change = segments_per_round(segments, self.trials.path.mss, self.trials.srtt());
        let (from, change) = (mbit(self.rate), mbit(change));
        let change = change.min(ADJUSTMENT_MOST * from);
        self.set_rate(if queued { from - change } else { from + change }, Owner::Inferred);
        if self.is_deprecating() {
            let length = self.round() * ADJUSTING_RTTS;
            return self.begin(Phase::Accelerating, Some(Tag::Hold), self.rate, length, now);
        }
        self.classic.rebase(&self.trials.path, self.rate, now);
        self.begin_last(now);
    }
}
