//! The rate that suits the path, inferred from three rates and what came of them: equations 3 to 7
//! and 10, in the four situations of figure 4.
//!
//! ```text
//! a <= b <= c   the rates in ascending order; D the slope of the round trips
//! I     a is worth most, D_a > 0     all are above the optimum
//! II    a, D_a <= 0; or b, D_b > 0   the optimum lies between a and b
//! III   b, D_b <= 0; or c, D_c > 0   it lies between b and c
//! IV    c, D_c <= 0                  all are below it
//! ```
//!
//! Above the optimum D = (x + R - C) / C, with the capacity C and all others' rate R (equation 4),
//! so two rates there give C = (x2 - x1) / (D2 - D1). The flow's share, if the others give way as
//! it does, is x C / (R + x) (equation 7), which is x / (1 + D).
//!
//! Differs from the paper:
//!   - what is inferred is between 0.5 and 1.25 of the flow's rate;
//!   - D is a share of what the path takes, which a full buffer tells by what it drops.

use super::slots::Outcome;
use super::utility::gradient;
use crate::units::Time;
use std::time::Duration;

/// The capacity is not derived from two rates that differ by less than this share.
const APART_MIN: f64 = 0.03;
/// Nothing is inferred between two rates that differ by less than this share.
const NEAR: f64 = 0.05;
/// A capacity is remembered for this long. The paper gives no time.
const REMEMBERED: Duration = Duration::from_secs(10);
/// An inferred rate is at least this part of the flow's rate, and at most [`MOST`].
const LEAST: f64 = 0.5;
const MOST: f64 = 1.25;
/// Equation 10: each step adds this to the amplifier, until it is [`AMPLIFIER_MAX`].
const AMPLIFIER_STEP: f64 = 0.5;
const AMPLIFIER_MAX: f64 = 4.0;
/// A step is at least this part of the rate: equation 10 alone gives steps of 0.6 Mbit/s at 48
/// Mbit/s.
const STEP_MIN: f64 = 0.05;
const SLOT_STEP_MAX: f64 = 0.1;

/// Where the optimum lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// All rates are above it.
    AllAbove,
    /// It lies between the two lowest.
    AboveLowest,
    /// It lies between the two highest.
    BelowHighest,
    /// All rates are below it.
    AllBelow,
}

impl Situation {
    /// The number of the paper.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllAbove => "I",
            Self::AboveLowest => "II",
            Self::BelowHighest => "III",
            Self::AllBelow => "IV",
        }
    }
}

/// A rate that was inferred, in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inferred {
    pub rate: f64,
    pub situation: Situation,
    /// The capacity that it was derived from, if it was.
    pub capacity: Option<f64>,
}

/// What is remembered of the capacity.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capacity(Option<(f64, Time)>);

impl Capacity {
    /// The capacity, if it was found lately and the path is not a radio's.
    fn get(&self, now: Time, is_wireless: bool) -> Option<f64> {
        let (capacity, at) = self.0?;
        (!is_wireless && now - at < REMEMBERED).then_some(capacity)
    }

    fn learn(&mut self, capacity: Option<f64>, now: Time) {
        if let Some(capacity) = capacity {
            self.0 = Some((capacity, now));
        }
    }
}

/// Which situation it is: outcomes in ascending order of rate, with their utilities.
pub fn situation(sorted: &[(Outcome, f64); 3]) -> Situation {
    let mut best = 0;
    for at in [1, 2] {
        if sorted[at].1 > sorted[best].1 {
            best = at;
        }
    }
    match (best, sorted[best].0.is_over()) {
        (0, true) => Situation::AllAbove,
        (0, false) | (1, true) => Situation::AboveLowest,
        (1, false) | (2, true) => Situation::BelowHighest,
        _ => Situation::AllBelow,
    }
}

/// The capacity by two rates that are both above the optimum.
fn capacity_of(lower: &Outcome, higher: &Outcome) -> Option<f64> {
    let (apart, steeper) = (higher.sent - lower.sent, higher.excess() - lower.excess());
    let found = lower.is_over() && apart > APART_MIN * higher.sent && steeper > 0.0;
    let capacity = apart / steeper.max(f64::MIN_POSITIVE);
    // A path has at least what it was seen to deliver.
    let plausible = capacity >= lower.delivered && capacity.is_finite();
    (found && plausible).then_some(capacity)
}

/// Equation 7, with R by equation 4.
fn share(of: &Outcome, capacity: Option<f64>) -> f64 {
    let grown = 1.0 + of.excess();
    match capacity {
        Some(capacity) => {
            let others = (capacity * grown - of.sent).max(0.0);
            capacity * of.sent / (others + of.sent).max(f64::MIN_POSITIVE)
        }
        None => of.sent / grown,
    }
}

/// Infers the rate. `utilities` go with the outcomes, which are in ascending order of rate; `rate`
/// is the flow's.
pub fn infer(
    sorted: &[(Outcome, f64); 3],
    memory: &mut Capacity,
    (rate, is_wireless): (f64, bool),
    now: Time,
) -> Inferred {
    let [(a, u_a), (b, u_b), (c, u_c)] = sorted;
    let near = |low: &Outcome, high: &Outcome| high.sent - low.sent < NEAR * high.sent;
    let better = |x: (&Outcome, f64), y: (&Outcome, f64)| {
        if y.1 > x.1 { y.0.sent } else { x.0.sent }
    };
    let situation = situation(sorted);
    let (inferred, capacity) = match situation {
        Situation::AllAbove => {
            let capacity = capacity_of(a, c).or_else(|| capacity_of(a, b));
            memory.learn(capacity, now);
            (share(a, capacity), capacity)
        }
        Situation::AboveLowest if near(a, b) => (better((a, *u_a), (b, *u_b)), None),
        Situation::AboveLowest => {
            let capacity = capacity_of(b, c);
            memory.learn(capacity, now);
            (share(b, capacity).max(a.sent), capacity)
        }
        Situation::BelowHighest if near(b, c) => (better((b, *u_b), (c, *u_c)), None),
        Situation::BelowHighest => match memory.get(now, is_wireless) {
            Some(capacity) => (share(c, Some(capacity)).clamp(b.sent, c.sent), Some(capacity)),
            None => (f64::midpoint(b.sent, c.sent), None),
        },
        Situation::AllBelow => (c.sent + step(c.sent, 1), None),
    };
    let rate = inferred.clamp(LEAST * rate, (MOST * rate).max(LEAST * rate));
    Inferred { rate, situation, capacity }
}

/// The rate of the slot that looks for more: the first step, but no more than a tenth above, as it
/// is sent in every cycle.
pub fn step_up(rate: f64) -> f64 {
    rate + step(rate, 1).min(SLOT_STEP_MAX * rate)
}

/// The step of equation 10 from that rate, the `nth` in a row, 1 for the first; in Mbit/s.
pub fn step(rate: f64, nth: u32) -> f64 {
    let amplifier = 1.0 + AMPLIFIER_STEP * (f64::from(nth) - 1.0);
    let step = amplifier.min(AMPLIFIER_MAX) * gradient(rate);
    step.max(STEP_MIN * rate).min((MOST - 1.0) * rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: f64 = 48.0;

    /// What a link of capacity C with others' rate `others` shows of a rate.
    fn seen(sent: f64, others: f64) -> (Outcome, f64) {
        let slope = ((sent + others - C) / C).max(0.0);
        let delivered = sent * (C / (sent + others)).min(1.0);
        let outcome = Outcome { sent, delivered, slope, ..Outcome::NONE };
        (outcome, super::super::utility::utility(&outcome, 0.25))
    }

    fn inferred(rates: [f64; 3], others: f64, memory: &mut Capacity) -> Inferred {
        let sorted = rates.map(|rate| seen(rate, others));
        infer(&sorted, memory, (rates[1], false), Time::ZERO)
    }

    #[test]
    fn two_rates_above_the_optimum_tell_capacity_and_share() {
        let mut memory = Capacity::default();
        let all_above = inferred([50.0, 55.0, 60.0], 0.0, &mut memory);
        assert_eq!(all_above.situation, Situation::AllAbove);
        assert!((all_above.rate - C).abs() < 0.01, "{all_above:?}");
        assert!((all_above.capacity.expect("two are above") - C).abs() < 0.01);
        // 30 beside 30: each gives way alike
        let shared = inferred([30.0, 33.0, 36.0], 30.0, &mut memory);
        assert!((shared.rate - 24.0).abs() < 0.01, "{shared:?}");
        let between = inferred([40.0, 55.0, 60.0], 0.0, &mut memory);
        assert_eq!(between.situation, Situation::AboveLowest);
        assert!((between.rate - C).abs() < 0.01, "{between:?}");
    }

    #[test]
    fn one_rate_above_needs_what_is_remembered_and_has_the_middle_without() {
        let rates = [30.0, 40.0, 60.0];
        let without = inferred(rates, 0.0, &mut Capacity::default());
        assert_eq!((without.rate, without.situation), (50.0, Situation::BelowHighest));
        let mut memory = Capacity(Some((C, Time::ZERO)));
        assert!((inferred(rates, 0.0, &mut memory).rate - C).abs() < 0.01);
        let sorted = rates.map(|rate| seen(rate, 0.0));
        let radio = infer(&sorted, &mut memory, (40.0, true), Time::ZERO);
        assert_eq!(radio.rate, 50.0, "what is remembered of a radio is not used");
        let late = infer(&sorted, &mut memory, (40.0, false), Time(REMEMBERED));
        assert_eq!(late.rate, 50.0, "what is old is not used");
    }

    #[test]
    fn all_below_is_a_step_up() {
        let below = inferred([30.0, 35.0, 40.0], 0.0, &mut Capacity::default());
        assert_eq!((below.rate, below.situation), (42.0, Situation::AllBelow));
        assert!((step(48.0, 1) - 2.4).abs() < 1e-9);
        assert!((step(1.0, 1) - 0.25).abs() < 1e-9, "a quarter at most");
        assert!(step(10.0, 5) > step(10.0, 1));
    }

    #[test]
    fn what_is_inferred_stays_near_the_flows_rate() {
        let mut memory = Capacity::default();
        let far = infer(
            &[200.0, 220.0, 240.0].map(|r| seen(r, 0.0)),
            &mut memory,
            (220.0, false),
            Time::ZERO,
        );
        assert_eq!(far.rate, 110.0);
        let none = [(Outcome::NONE, 0.0); 3];
        assert!(infer(&none, &mut memory, (0.0, false), Time::ZERO).rate.is_finite());
    }
}
