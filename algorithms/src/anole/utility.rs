//! What a rate was worth: equations 1 and 2.
//!
//! ```text
//! u(x) = alpha x^t - beta x max(dRTT/dt, 0) - lambda x (RTT / RTTmin) I_Q
//! I_Q  = 1 where RTT / RTTmin > 1 + mu, else 0
//! ```
//!
//! x is in Mbit/s, dRTT/dt in seconds a second, as in Vivace. x is what was delivered, not what was
//! sent: on a buffer too short to show a delay, a sent rate would be worth more the more of it is
//! dropped.

use super::slots::Outcome;

/// Section IV: t, alpha, beta and lambda.
pub const EXPONENT: f64 = 0.9;
const RATE_WEIGHT: f64 = 1.0;
const SLOPE_WEIGHT: f64 = 900.0;
const QUEUE_WEIGHT: f64 = 11.0;
/// The paper's mu: a queueing delay of this part of the least round trip is tolerated. The paper
/// gives no value. Of 0.1 to 0.5 the least was chosen, as only then a path of 48 Mbit/s had the
/// power of its better candidate.
pub const QUEUE_TOLERANCE: f64 = 0.1;
/// Section IV, T: a rate is acceptable if its utility is at least this part of the best one.
const ACCEPTED: f64 = 0.85;
/// The least scale of differences, for utilities near 0.
const SCALE_MIN: f64 = 1e-6;

/// Equation 1. `tolerance` is mu.
pub fn utility(of: &Outcome, tolerance: f64) -> f64 {
    let x = of.delivered;
    let queued = if of.rtt_ratio > 1.0 + tolerance { of.rtt_ratio } else { 0.0 };
    RATE_WEIGHT * libm::pow(x, EXPONENT)
        - SLOPE_WEIGHT * x * of.excess().max(0.0)
        - QUEUE_WEIGHT * x * queued
}

/// The derivative of the first term, in Mbit/s a Mbit/s: equation 10's gradient.
pub fn gradient(x: f64) -> f64 {
    RATE_WEIGHT * EXPONENT * libm::pow(x.max(1e-3), EXPONENT - 1.0)
}

/// The scale of differences of utilities, which can be negative.
pub fn scale(best: f64) -> f64 {
    best.abs().max(SCALE_MIN)
}

/// Whether a utility reaches the threshold T of the best.
pub fn is_accepted(utility: f64, best: f64) -> bool {
    utility >= best - (1.0 - ACCEPTED) * scale(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(delivered: f64, slope: f64, rtt_ratio: f64) -> Outcome {
        Outcome { delivered, slope, rtt_ratio, ..Outcome::NONE }
    }

    #[test]
    fn a_rate_is_worth_its_power_less_slope_and_queue() {
        let u = |x, slope, ratio| utility(&outcome(x, slope, ratio), 0.25);
        assert!((u(48.0, 0.0, 1.2) - 32.59).abs() < 0.01);
        assert!((u(48.0, 0.01, 1.2) - (32.59 - 432.0)).abs() < 0.01);
        assert!((u(48.0, -0.01, 1.2) - 32.59).abs() < 0.01);
        assert!((u(48.0, 0.0, 1.3) - (32.59 - 686.4)).abs() < 0.01);
    }

    #[test]
    fn the_threshold_holds_for_negative_utilities_too() {
        assert!(is_accepted(85.1, 100.0) && !is_accepted(84.9, 100.0));
        assert!(is_accepted(-114.9, -100.0) && !is_accepted(-115.1, -100.0));
    }

    #[test]
    fn the_gradient_falls_with_the_rate() {
        assert!((gradient(48.0) - 0.611).abs() < 0.001);
        assert!(gradient(1.0) > gradient(10.0));
        assert!(gradient(0.0).is_finite());
    }
}
