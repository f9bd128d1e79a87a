//! What a flow has earned with each of its arms, compared with what the model predicted.
//!
//! The model is trained on other paths, so a prediction for this path may be wrong. A sample of an
//! arm says what the arm achieved. The residual is the logarithm of the merit that the sample
//! shows, less the logarithm that the model's values predict ([`super::model::value`]). An error
//! that all arms share does not change their order. So the score of an arm is corrected by the
//! difference between the residual of that arm and the mean residual of all arms that the flow has
//! had. The longer an arm has had the flow, the more weight its residual has, and the smaller is
//! the uncertainty of its score.
//!
//! This is a bandit whose prior is the model. A residual contains throughput and delay. It does not
//! contain harm to neighbours, which a sender cannot see: for harm, the model's word stays.

use super::model::value::Norm;
use super::model::{Model, Score};
use crate::features::{COUNT, Features};
use remuda_algorithms::merit::ln_change;
use remuda_algorithms::units::Time;
use remuda_algorithms::{Preference, Sample};
use std::time::Duration;

/// Samples do not count for this time after a switch, because the previous arm's packets may still
/// stand in the queue.
pub(super) const SETTLES: Duration = Duration::from_secs(2);
/// A residual of this age counts half.
const HALF_LIFE_S: f64 = 60.0;
/// With samples of this many seconds, the flow and the model count the same.
const PRIOR_S: f64 = 8.0;
/// Residuals and corrections are at most this large, as natural logarithms of a merit.
const LN_MAX: f64 = 1.5;

/// What one arm has earned.
#[derive(Clone, Copy, Debug)]
struct OfArm {
    arm: &'static str,
    /// Seconds of its residuals, older ones less.
    weight_s: f64,
    /// Sum of residuals, each by its seconds.
    sum: f64,
}

/// What one flow has earned, arm by arm.
#[derive(Clone, Debug, Default)]
pub(super) struct Earned {
    arms: Vec<OfArm>,
    /// The arm that has the flow, and since when.
    had: Option<(&'static str, Time)>,
    /// The path as of the last sample.
    before: Option<Features>,
}

impl Earned {
    /// Another arm has the flow.
    pub fn switched(&mut self, arm: &'static str, now: Time) {
        self.had = Some((arm, now));
    }

    /// Takes in a sample that has ended.
    pub fn add(&mut self, sample: &Sample, model: &Model, wants: Preference) {
        let after = <[f32; COUNT]>::try_from(&sample.features[..]).ok().map(Features);
        let before = std::mem::replace(&mut self.before, after);
        let (arm, since) = *self.had.get_or_insert((sample.arm, sample.from));
        let Some(before) = before.filter(|_| arm == sample.arm && sample.from >= since + SETTLES)
        else {
            return;
        };
        let (Some(norm), Some(said)) = (Norm::of(&before), model.value(&before, arm)) else {
            return;
        };
        let got = norm.value(&sample.seen);
        let more = f64::from(got.ln_throughput - said.ln_throughput);
        let slower = f64::from(got.ln_delay - said.ln_delay);
        let residual = ln_change(more, slower, wants);
        if residual.is_finite() {
            self.note(arm, residual.clamp(-LN_MAX, LN_MAX), sample.seen.span_s);
        }
    }

    fn note(&mut self, arm: &'static str, residual: f64, span_s: f64) {
        let kept = 0.5f64.powf(span_s / HALF_LIFE_S);
        for it in &mut self.arms {
            (it.weight_s, it.sum) = (it.weight_s * kept, it.sum * kept);
        }
        let at = self.arms.iter().position(|it| it.arm == arm);
        let at = at.unwrap_or_else(|| {
            self.arms.push(OfArm { arm, weight_s: 0.0, sum: 0.0 });
            self.arms.len() - 1
        });
        self.arms[at].weight_s += span_s;
        self.arms[at].sum += residual * span_s;
    }

    /// Corrects the scores of the arms that the flow has had.
    pub fn correct(&self, scores: &mut [Score]) {
        let all: f64 = self.arms.iter().map(|it| it.weight_s).sum();
        if all <= 0.0 {
            return;
        }
        let common = self.arms.iter().map(|it| it.sum).sum::<f64>() / all;
        for score in scores {
            let Some(it) = self.arms.iter().find(|it| it.arm == score.arm) else { continue };
            let known = it.weight_s / (it.weight_s + PRIOR_S);
            let ln = known * (it.sum / it.weight_s.max(f64::MIN_POSITIVE) - common);
            score.mean *= ln.clamp(-LN_MAX, LN_MAX).exp() as f32;
            score.uncertainty *= (1.0 - known) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::constant;
    use super::*;
    use crate::features::schema;
    use remuda_algorithms::Seen;

    fn path() -> Features {
        let mut features = Features([f32::NAN; COUNT]);
        for (name, value) in [("rate_max_mbit_per_sec", 10.0), ("rtt_min_ms", 40.0)] {
            let at = schema().features.iter().position(|it| it.name == name);
            features.0[at.expect("a feature")] = value;
        }
        features
    }

    /// Adds a sample for each half second in which the arm delivers `mbit` Mbit/s.
    fn run(earned: &mut Earned, arm: &'static str, span_s: std::ops::Range<u64>, mbit: f64) {
        let model = constant([0.8, 0.7], [1.0, 0.2], [0.2, 1.0]);
        earned.switched(arm, Time(Duration::from_secs(span_s.start)));
        for half in span_s.start * 2..span_s.end * 2 {
            let [from, until] = [half, half + 1].map(|at| Time(Duration::from_millis(at * 500)));
            let seen = Seen {
                span_s: 0.5,
                throughput_mbit_per_sec: mbit,
                lost_mbit_per_sec: 0.0,
                rtt_mean_ms: 50.0,
            };
            let sample = Sample { arm, from, until, seen, features: path().0.into() };
            earned.add(&sample, &model, Preference::DEFAULT);
        }
    }

    fn means(earned: &Earned) -> [f32; 2] {
        let model = constant([0.8, 0.7], [1.0, 0.2], [0.2, 1.0]);
        let mut scores = model.predict(&path(), Preference::DEFAULT);
        earned.correct(&mut scores);
        [scores[0].mean, scores[1].mean]
    }

    #[test]
    fn one_arm_alone_says_nothing_of_the_others() {
        let mut earned = Earned::default();
        assert_eq!(means(&earned), [0.8, 0.7]);
        run(&mut earned, "bbr", 0..20, 1.0);
        assert_eq!(means(&earned), [0.8, 0.7]);
    }

    #[test]
    fn of_two_arms_the_one_that_did_worse_than_said_loses() {
        let mut earned = Earned::default();
        run(&mut earned, "bbr", 0..20, 2.0);
        run(&mut earned, "vegas", 20..40, 8.0);
        let [bbr, vegas] = means(&earned);
        assert!(bbr < 0.5 && vegas > 0.9, "{bbr} {vegas}");
    }

    #[test]
    fn the_first_two_seconds_of_an_arm_do_not_count() {
        let mut earned = Earned::default();
        run(&mut earned, "bbr", 0..20, 8.0);
        run(&mut earned, "vegas", 20..22, 0.1);
        assert_eq!(means(&earned), [0.8, 0.7]);
    }
}
