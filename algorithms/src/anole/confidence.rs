//! How much a candidate is trusted: equation 11 and algorithm 2.
//!
//! ```text
//! active      eta *= y, at most 1       below 0.6: deprecated
//! deprecated  eta += 0.1 each 2 RTT     above 0.8 - e: active again, after 4 RTT
//! y = 1 + theta - (u_max - u) / |u_max|
//! ```
//!
//! Differs from the paper:
//!   - its thresholds are swapped, as with its own a deprecated candidate is back at once;
//!   - y is a distance, as utilities can be negative, and at least 0.7, so that one slot alone
//!     deprecates nothing: "consistently" takes two.

use super::utility::scale;

/// The paper's eta_off: a candidate of lower confidence is deprecated.
const OFF: f64 = 0.6;
/// The paper's eta_on: a deprecated candidate of this confidence is active again.
const ON: f64 = 0.8;
/// Two round trips add this to the confidence of a deprecated candidate.
const STEP: f64 = 0.1;
/// The paper's theta: a candidate loses no confidence if its utility is behind the best by at most
/// this share.
const ALLOWED: f64 = 0.05;
const FACTOR_MIN: f64 = 0.7;
/// Rounding errors of sums of tenths are smaller than this.
const ROUNDING: f64 = 1e-9;

/// How far one candidate is trusted now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence {
    score: f64,
    deprecated: bool,
}

impl Default for Confidence {
    fn default() -> Self {
        Self { score: 1.0, deprecated: false }
    }
}

impl Confidence {
    pub fn score(&self) -> f64 {
        self.score
    }

    pub fn is_deprecated(&self) -> bool {
        self.deprecated
    }

    /// An evaluation found its rate worth `utility`, and the best worth `best`. Says whether the
    /// candidate is deprecated by that.
    pub fn judge(&mut self, utility: f64, best: f64) -> bool {
        if self.deprecated {
            return false;
        }
        let factor = 1.0 + ALLOWED - (best - utility) / scale(best);
        self.score = (self.score * factor.max(FACTOR_MIN)).min(1.0);
        if self.score < OFF {
            self.score = OFF;
            self.deprecated = true;
        }
        self.deprecated
    }

    /// Two round trips have passed. Says whether the candidate is active again by that.
    pub fn recover(&mut self) -> bool {
        if !self.deprecated {
            return false;
        }
        self.score += STEP;
        self.deprecated = self.score < ON - ROUNDING;
        !self.deprecated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_deprecated_after_two_bad_slots_and_back_after_four_round_trips() {
        let mut of = Confidence::default();
        assert!(!of.judge(-9_000.0, 30.0));
        assert!(of.judge(-9_000.0, 30.0) && of.is_deprecated());
        assert_eq!(of.score(), OFF);
        assert_eq!([of.recover(), of.recover(), of.recover()], [false, true, false]);
        assert!(!of.is_deprecated());
    }

    #[test]
    fn a_candidate_within_five_percent_is_not_deprecated() {
        let mut of = Confidence::default();
        for _ in 0..100 {
            assert!(!of.judge(28.6, 30.0));
        }
        assert_eq!(of.score(), 1.0);
    }

    #[test]
    fn seventy_percent_of_the_best_rate_is_too_little_within_three_cycles() {
        // 0.7 ^ 0.9 of the best utility, as CUBIC after a random loss
        let mut of = Confidence::default();
        let judged = [0; 3].map(|_| of.judge(0.725, 1.0));
        assert_eq!(judged, [false, false, true]);
    }
}
