//! How far a model misses, arm by arm.

use remuda_selector::antelope::model::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A miss counts for no more, in natural logarithms: nobody is judged by one broken flow, or by a
/// prediction that is no number.
const MISS_MAX: f64 = 20.0;

/// What came, less what was predicted; natural logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    throughput: f64,
    delay: f64,
}

impl Miss {
    /// Of a prediction, and what came.
    pub fn of(said: &Value, came: &Value) -> Self {
        let miss = |came: f32, said: f32| {
            let miss = f64::from(came) - f64::from(said);
            if miss.is_nan() { MISS_MAX } else { miss.clamp(-MISS_MAX, MISS_MAX) }
        };
        Self {
            throughput: miss(came.ln_throughput, said.ln_throughput),
            delay: miss(came.ln_delay, said.ln_delay),
        }
    }

    /// Both, squared and added.
    pub fn square(&self) -> f64 {
        self.throughput * self.throughput + self.delay * self.delay
    }

    /// Of power, which is throughput over delay.
    pub fn power(&self) -> f64 {
        self.throughput - self.delay
    }
}

/// How far predictions of an arm miss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmScore {
    pub arm: String,
    /// Of so many predictions.
    pub predictions: u64,
    /// Mean error of the logarithm of throughput; above 0 if more came than was predicted.
    pub throughput: f64,
    /// Mean error of the logarithm of delay.
    pub delay: f64,
    /// Mean square error, of both together.
    pub square: f64,
}

/// How far a model misses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Of so many flows.
    pub flows: u64,
    /// Of so many predictions.
    pub predictions: u64,
    /// Mean square error, of throughput and delay together; 0 of none.
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

/// What adds up to a score.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    flows: u64,
    arms: BTreeMap<&'static str, Sums>,
}

impl Scores {
    /// Adds a prediction of that arm, the first of its flow or not.
    pub fn add(&mut self, arm: &'static str, miss: Miss, is_first: bool) {
        self.flows += u64::from(is_first);
        let sums = self.arms.entry(arm).or_default();
        sums.predictions += 1;
        sums.throughput += miss.throughput;
        sums.delay += miss.delay;
        sums.square += miss.square();
    }

    /// What it comes to.
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
        let miss = |came| Miss::of(&value(0.0, 0.0), &came);
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
        let came = Value { ln_throughput: 0.0, ln_delay: 0.0 };
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            let said = Value { ln_throughput: odd, ln_delay: 0.0 };
            assert_eq!(Miss::of(&said, &came).square(), MISS_MAX * MISS_MAX);
        }
    }
}
