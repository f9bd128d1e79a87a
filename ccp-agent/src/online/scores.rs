//! Errors of a model, for each arm.

use remuda_selector::antelope::model::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Limit of an error, in natural logarithms, so that one broken flow or a prediction that is not a
/// number cannot decide the comparison.
const MISS_MAX: f64 = 20.0;

/// The actual value minus the predicted one, in natural logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    throughput: f64,
    delay: f64,
}

impl Miss {
    pub fn of(predicted: &Value, actual: &Value) -> Self {
        let miss = |actual: f32, predicted: f32| {
            let miss = f64::from(actual) - f64::from(predicted);
            if miss.is_nan() { MISS_MAX } else { miss.clamp(-MISS_MAX, MISS_MAX) }
        };
        Self {
            throughput: miss(actual.ln_throughput, predicted.ln_throughput),
            delay: miss(actual.ln_delay, predicted.ln_delay),
        }
    }

    /// The sum of both squared errors.
    pub fn square(&self) -> f64 {
        self.throughput * self.throughput + self.delay * self.delay
    }

    /// The squared error s as s / (1 + s), 0 to 1, so that a rare flow cannot decide a comparison.
    pub fn bounded(&self) -> f64 {
        let square = self.square();
        square / (1.0 + square)
    }

    /// The error of power, which is throughput over delay.
    pub fn power(&self) -> f64 {
        self.throughput - self.delay
    }
}

/// The errors of the predictions for one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmScore {
    pub arm: String,
    /// The number of predictions.
    pub predictions: u64,
    /// Mean error of the logarithm of throughput; above 0 if throughput was higher than predicted.
    pub throughput: f64,
    /// Mean error of the logarithm of delay.
    pub delay: f64,
    /// Mean squared error of both together.
    pub square: f64,
}

/// The errors of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The number of flows.
    pub flows: u64,
    /// The number of predictions.
    pub predictions: u64,
    /// Mean squared error of throughput and delay together; 0 without predictions.
    pub square: f64,
    pub arms: Vec<ArmScore>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    predictions: u64,
    throughput: f64,
    delay: f64,
    square: f64,
}

/// The sums from which a [`Score`] is computed.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    flows: u64,
    arms: BTreeMap<&'static str, Sums>,
}

impl Scores {
    /// Adds the error of one prediction; `is_first` says whether it is the first of its flow.
    pub fn add(&mut self, arm: &'static str, miss: Miss, is_first: bool) {
        self.flows += u64::from(is_first);
        let sums = self.arms.entry(arm).or_default();
        sums.predictions += 1;
        sums.throughput += miss.throughput;
        sums.delay += miss.delay;
        sums.square += miss.square();
    }

    pub fn score(&self) -> Score {
        let row = |(arm, sums): (&&'static str, &Sums)| {
            let mean = |sum: f64| sum / sums.predictions as f64;
            ArmScore {
                arm: (*arm).to_owned(),
                predictions: sums.predictions,
                throughput: mean(sums.throughput),
                delay: mean(sums.delay),
                square: mean(sums.square),
            }
        };
        let predictions: u64 = self.arms.values().map(|sums| sums.predictions).sum();
        let square: f64 = self.arms.values().map(|sums| sums.square).sum();
        Score {
            flows: self.flows,
            predictions,
            square: square / predictions.max(1) as f64,
            arms: self.arms.iter().map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_means_by_arm_and_over_all() {
        let value = |ln_throughput, ln_delay| Value { ln_throughput, ln_delay };
        let mut scores = Scores::default();
        assert_eq!(scores.score(), Score::default());
        let miss = |actual| Miss::of(&value(0.0, 0.0), &actual);
        scores.add("bbr", miss(value(1.0, 0.0)), true);
        scores.add("bbr", miss(value(3.0, 2.0)), false);
        scores.add("copa", miss(value(-1.0, 1.0)), true);
        let score = scores.score();
        assert_eq!((score.flows, score.predictions), (2, 3));
        assert_eq!(score.square, (1.0 + 13.0 + 2.0) / 3.0);
        let [bbr, copa] = &score.arms[..] else { panic!("{score:?}") };
        assert_eq!((bbr.predictions, bbr.throughput, bbr.delay, bbr.square), (2, 2.0, 1.0, 7.0));
        assert_eq!((copa.arm.as_str(), copa.throughput), ("copa", -1.0));
        assert_eq!(miss(value(3.0, 2.0)).power(), 1.0);
    }

    #[test]
    fn a_prediction_that_is_no_number_is_a_large_miss_and_no_more() {
        let actual = Value { ln_throughput: 0.0, ln_delay: 0.0 };
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            let predicted = Value { ln_throughput: odd, ln_delay: 0.0 };
            assert_eq!(Miss::of(&predicted, &actual).square(), MISS_MAX * MISS_MAX);
        }
    }
}
