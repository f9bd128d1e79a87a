//! What an evaluation decides: which rate the flow has until the next.
//!
//! ```text
//! crowded    the rate before is 10 % more than the path takes now: half of its share, then a climb
//! best       a candidate is acceptable: the rate of the highest utility, the one before included
//! inferred   otherwise: inference.rs
//! ```
//!
//! Differs from the paper:
//!   - the rate before is a candidate too, as the abstract says and algorithm 1 does not;
//!   - a candidate that raised the delay is not acceptable, however little better the others are;
//!   - where somebody has come, all flows fall to half of their shares and climb by equal steps:
//!     shares that only shrink in proportion never become equal;
//!   - situation IV is told by a slot at equation 10's step, as candidates that follow the flow's
//!     rate never show that more is available.

use super::inference::{Capacity, Inferred, infer};
use super::notes::{Chosen, Owner};
use super::slots::Outcome;
use super::utility::{is_accepted, utility};
use crate::units::Time;

/// The path has changed if the previous rate exceeds what the path takes by more than this share.
const CROWDED: f64 = 0.1;
/// If the path has changed, the flow keeps this part of its share.
const YIELD: f64 = 0.5;
/// A rate that was too high is set to this part of what it should have been, so that the queue
/// drains.
pub const BELOW: f64 = 0.985;
/// A step up has succeeded if it delivered this many times what the previous rate delivered.
const GAIN_MIN: f64 = 1.01;
/// A climb begins only if the chosen rate is at least this part of the previous rate.
const KEPT_MIN: f64 = 0.97;
/// A candidate that is this many times as fast as the flow serves as the step up.
pub const STEP_SELF: f64 = 1.04;

/// What came of the slots of a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    pub low: Option<Outcome>,
    pub high: Option<Outcome>,
    pub step: Option<Outcome>,
    pub prev: Option<Outcome>,
    /// Whose rate the lower one was.
    pub classic_is_low: bool,
}

/// What the decision needs beside the outcomes.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// The flow's rate, in Mbit/s, and whose it is.
    pub rate: f64,
    pub owner: Owner,
    /// mu, and what the path varies by itself.
    pub tolerance: f64,
    /// What the path loses of any rate.
    pub path_loss: f64,
    pub is_wireless: bool,
    /// Whether rates are inferred: [`super::config::AnoleConfig::inference`].
    pub infers: bool,
}

/// What an evaluation has decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The rate until the next evaluation, in Mbit/s.
    pub rate: f64,
    pub owner: Owner,
    pub why: Chosen,
    pub inferred: Option<Inferred>,
    /// Whether more is available.
    pub climbs: bool,
    /// Which share of the path the flow has, 0 to 1, if that was to be seen.
    pub share: Option<f64>,
    /// Rate and utility of classic, learned arm and the rate before; `None` where not judged.
    pub classic: Option<(f64, f64)>,
    pub learned: Option<(f64, f64)>,
    pub previous: Option<(f64, f64)>,
    /// The best utility of these.
    pub best: f64,
}

impl Given {
    /// Whether the flow's rate is far more than the path takes, though it was not before.
    pub fn is_crowded(&self, of: &Outcome) -> bool {
        self.infers && of.excess() >= CROWDED && of.rtt_ratio > 1.0 + self.tolerance
    }
}

/// A rate that was judged.
type Judged = (Owner, Outcome, f64);

impl Heard {
    /// Decides by what was heard.
    pub fn decide(&self, given: &Given, memory: &mut Capacity, now: Time) -> Verdict {
        let usable = |of: Option<Outcome>| {
            of.filter(|it| !it.spoilt).map(|it| it.on_path_of_loss(given.path_loss))
        };
        let (low, high) = (usable(self.low), usable(self.high));
        let (step, prev) = (usable(self.step), usable(self.prev));
        let nothing = Verdict::keep(given);
        if let Some(prev) = prev
            && given.is_crowded(&prev)
        {
            let rate = YIELD * given.rate / (1.0 + prev.excess());
            let (owner, why) = (Owner::Inferred, Chosen::Crowded);
            return Verdict { rate, owner, why, climbs: true, ..nothing };
        }
        let Some(low) = low else { return nothing };
        if self.high.is_some() && high.is_none() {
            return nothing;
        }
        let worth = |of: &Outcome| utility(of, given.tolerance);
        let (low_owner, high_owner) = match self.classic_is_low {
            true => (Owner::Classic, Owner::Learned),
            false => (Owner::Learned, Owner::Classic),
        };
        if !low.is_enough() || high.is_some_and(|high| !high.is_enough()) {
            let merged = high.map_or(low, |high| low.merged(&high));
            return nothing.of_merged(&merged, prev.as_ref(), worth);
        }
        let mut judged: [Option<Judged>; 3] = [None; 3];
        judged[0] = Some((low_owner, low, worth(&low)));
        judged[1] = high.map(|high| (high_owner, high, worth(&high)));
        judged[2] = prev.map(|prev| (given.owner, prev, worth(&prev)));
        let all = || judged.iter().flatten();
        let best = all().fold(f64::MIN, |best, (_, _, u)| best.max(*u));
        let of = |owner| {
            let candidates = judged[..2].iter().flatten();
            candidates.clone().find(|it| it.0 == owner).map(|(_, it, u)| (it.sent, *u))
        };
        let verdict = Verdict {
            classic: of(Owner::Classic),
            learned: of(Owner::Learned),
            previous: prev.map(|prev| (prev.sent, worth(&prev))),
            best,
            ..nothing
        };
        let acceptable = |it: &Judged| is_accepted(it.2, best) && !it.1.is_over();
        let accepted = judged[..2].iter().flatten().any(acceptable);
        let chosen = match (prev, high.or(step)) {
            (Some(prev), Some(third)) if given.infers && !accepted => {
                let sorted = [low, prev, third].map(|it| (it, worth(&it)));
                verdict.of_inference(sorted, given, memory, now)
            }
            _ => verdict.of_best(judged, given, prev),
        };
        let chosen = match prev {
            Some(prev) if given.infers => chosen.or_share(&prev),
            _ => chosen,
        };
        let more = step.or(high.filter(|high| high.sent >= STEP_SELF * given.rate));
        let gained = more.zip(prev).is_some_and(|(more, prev)| {
            more.is_enough() && !more.is_over() && more.delivered >= GAIN_MIN * prev.delivered
        });
        let kept = chosen.rate >= KEPT_MIN * given.rate;
        let share = step.zip(prev).and_then(|(step, prev)| share_of_path(&step, &prev));
        Verdict { climbs: given.infers && gained && kept, share, ..chosen }
    }
}

/// Which share of the path the flow has, by equation 4: a rate higher by dx makes the round trip
/// steeper by dx / C. `None` where the step was not too much.
fn share_of_path(step: &Outcome, prev: &Outcome) -> Option<f64> {
    let (apart, steeper) = (step.sent - prev.sent, step.slope - prev.slope.max(0.0));
    let is_known = step.slope > 0.0 && apart > 0.0;
    is_known.then(|| (prev.sent * steeper / apart).clamp(0.0, 1.0))
}

impl Verdict {
    /// Neither candidate is acceptable.
    fn of_inference(
        self,
        mut sorted: [(Outcome, f64); 3],
        given: &Given,
        memory: &mut Capacity,
        now: Time,
    ) -> Self {
        sorted.sort_by(|a, b| a.0.sent.total_cmp(&b.0.sent));
        let inferred = infer(&sorted, memory, (given.rate, given.is_wireless), now);
        let (owner, why) = (Owner::Inferred, Chosen::Inferred);
        Self { rate: inferred.rate, owner, why, inferred: Some(inferred), ..self }
    }

    /// The rate of the highest utility, the first of equals.
    fn of_best(self, judged: [Option<Judged>; 3], given: &Given, prev: Option<Outcome>) -> Self {
        let all = judged.into_iter().flatten();
        let top = all.reduce(|top, it| if it.2 > top.2 { it } else { top });
        let Some((owner, top, _)) = top else { return self };
        let rate = if prev == Some(top) { given.rate } else { top.sent };
        Self { rate, owner, why: Chosen::Best, ..self }
    }

    /// Nothing can be judged: the rate stays.
    fn keep(given: &Given) -> Self {
        Self {
            rate: given.rate,
            owner: given.owner,
            why: Chosen::Nothing,
            inferred: None,
            climbs: false,
            share: None,
            classic: None,
            learned: None,
            previous: None,
            best: 0.0,
        }
    }

    /// What is left of a rate before that was too high, if that is more than what was chosen.
    fn or_share(self, prev: &Outcome) -> Self {
        let share = BELOW * prev.sent / (1.0 + prev.excess());
        if prev.is_over() && self.rate < share {
            Self { rate: share, owner: Owner::Inferred, why: Chosen::Share, ..self }
        } else {
            self
        }
    }

    /// Both slots were too short to tell the candidates apart: their mean is compared with the rate
    /// before.
    fn of_merged(
        self,
        merged: &Outcome,
        prev: Option<&Outcome>,
        worth: impl Fn(&Outcome) -> f64,
    ) -> Self {
        if !merged.is_enough() {
            return self;
        }
        let why = Chosen::Merged;
        match prev {
            Some(prev) if worth(prev) >= worth(merged) => {
                Self { rate: self.rate / (1.0 + prev.excess()), why, ..self }
            }
            _ => Self { rate: merged.sent, owner: Owner::Inferred, why, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: f64 = 48.0;

    fn seen(sent: f64) -> Outcome {
        let slope = ((sent - C) / C).max(0.0);
        Outcome { sent, delivered: sent.min(C), slope, acks: 50.0, reports: 8, ..Outcome::NONE }
    }

    fn given(rate: f64) -> Given {
        Given {
            rate,
            owner: Owner::Learned,
            tolerance: 0.25,
            path_loss: 0.0,
            is_wireless: false,
            infers: true,
        }
    }

    fn heard(low: f64, high: f64, step: f64, prev: f64) -> Heard {
        let [low, high, step, prev] = [low, high, step, prev].map(|rate| Some(seen(rate)));
        Heard { low, high, step, prev, classic_is_low: true }
    }

    fn decided(heard: &Heard, rate: f64) -> Verdict {
        heard.decide(&given(rate), &mut Capacity::default(), Time::ZERO)
    }

    #[test]
    fn an_acceptable_candidate_is_taken_and_the_rate_before_if_it_is_better() {
        let faster = decided(&heard(44.0, 47.0, 49.0, 46.0), 46.0);
        assert_eq!((faster.rate, faster.owner, faster.why), (47.0, Owner::Learned, Chosen::Best));
        let before = decided(&heard(33.0, 44.0, 49.0, 46.0), 46.0);
        assert_eq!((before.rate, before.why), (46.0, Chosen::Best));
        assert!(!before.climbs, "the step was too much");
    }

    #[test]
    fn where_neither_is_acceptable_the_rate_is_inferred_unless_that_is_switched_off() {
        let bad = heard(20.0, 60.0, 50.0, 46.0);
        let got = decided(&bad, 46.0);
        assert_eq!((got.owner, got.why), (Owner::Inferred, Chosen::Inferred));
        assert!((44.0..=60.0).contains(&got.rate), "{got:?}");
        let without = Given { infers: false, ..given(46.0) };
        let got = bad.decide(&without, &mut Capacity::default(), Time::ZERO);
        assert_eq!((got.rate, got.why), (46.0, Chosen::Best));
    }

    #[test]
    fn a_step_that_delivers_more_starts_a_climb() {
        let got = decided(&heard(29.0, 30.5, 31.5, 30.0), 30.0);
        assert!(got.climbs && got.rate == 30.5, "{got:?}");
        let without = Given { infers: false, ..given(30.0) };
        let step = heard(29.0, 30.5, 31.5, 30.0);
        assert!(!step.decide(&without, &mut Capacity::default(), Time::ZERO).climbs);
    }

    #[test]
    fn a_crowded_path_leaves_half_of_the_share_and_a_climb() {
        let mut crowded = heard(58.0, 61.0, 62.0, 60.0);
        crowded.prev = crowded.prev.map(|prev| Outcome { rtt_ratio: 1.4, ..prev });
        let got = decided(&crowded, 60.0);
        assert!((got.rate - 24.0).abs() < 0.01 && got.climbs, "{got:?}");
        assert_eq!(got.why, Chosen::Crowded);
    }

    #[test]
    fn what_is_spoilt_or_empty_decides_nothing() {
        let mut spoilt = heard(20.0, 60.0, 50.0, 46.0);
        spoilt.low = spoilt.low.map(|low| Outcome { spoilt: true, ..low });
        for none in [spoilt, Heard::default()] {
            assert_eq!(decided(&none, 46.0), Verdict::keep(&given(46.0)));
        }
    }

    #[test]
    fn short_slots_are_merged() {
        let mut short = heard(40.0, 46.0, 49.0, 30.0);
        short.high = short.high.map(|high| Outcome { acks: 4.0, ..high });
        let got = decided(&short, 30.0);
        assert_eq!((got.why, got.owner), (Chosen::Merged, Owner::Inferred));
        assert!((40.0..46.0).contains(&got.rate), "{got:?}");
    }
}
