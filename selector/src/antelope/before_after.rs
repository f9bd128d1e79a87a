//! What a flow got before and after each of its switches.
//!
//! The model scores an arm from what the flow measures while another arm has it. So after a switch
//! the former arm may have as high a score as if it had never had the flow. But the flow's merit in
//! the last seconds before the switch and in the first seconds after it differ by what the two arms
//! differ by. Such differences add up over several switches: each arm that the flow has had gets a
//! level, the natural logarithm of a merit. If an arm's level is below that of the arm that has the
//! flow, by more than the scores say, the arm's score falls. Where the merit varies in itself, as
//! on a radio link, a difference must exceed a standard deviation of it.
//!
//! No score rises: the merit that a flow measures does not contain the harm to its neighbours.

use super::earned::SETTLES;
use super::model::Score;
use super::model::value::Norm;
use crate::features::{COUNT, Features};
use remuda_algorithms::units::Time;
use remuda_algorithms::{Preference, Sample};

/// Before a switch, a sample of this age counts half.
const BEFORE_HALF_LIFE_S: f64 = 4.0;
/// The seconds of samples that a comparison needs on either side.
const SIDE_S_MIN: f64 = 1.0;
/// After a switch, samples of this many seconds count.
const AFTER_S: f64 = 6.0;
/// A level counts half when its arm has not had the flow for this long.
const HALF_LIFE_S: f64 = 30.0;
/// A score falls at most by this much, as a natural logarithm.
const LN_MAX: f64 = 3.0;
/// A lower score counts as this one, so that its logarithm is a number.
const SCORE_MIN: f64 = 1e-3;

#[derive(Clone, Copy, Debug)]
struct Level {
    arm: &'static str,
    ln: f64,
    /// The variance of the comparisons of which `ln` is the sum.
    variance: f64,
    /// The arm's last sample.
    at: Time,
}

/// Sums over samples of a logarithm of the merit, each by its seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    span_s: f64,
    sum: f64,
    squares: f64,
}

impl Side {
    fn add(&mut self, ln: f64, span_s: f64, kept: f64) {
        self.span_s = self.span_s * kept + span_s;
        self.sum = self.sum * kept + ln * span_s;
        self.squares = self.squares * kept + ln * ln * span_s;
    }

    fn mean(&self) -> f64 {
        self.sum / self.span_s
    }

    fn variance(&self) -> f64 {
        (self.squares / self.span_s - self.mean() * self.mean()).max(0.0)
    }

    fn says_something(&self) -> bool {
        self.span_s >= SIDE_S_MIN
    }
}

/// The levels of a flow's arms.
#[derive(Clone, Debug, Default)]
pub(super) struct BeforeAfter {
    levels: Vec<Level>,
    /// Since when the arm has the flow.
    since: Time,
    /// Logarithms of the merit of the last seconds.
    last: Side,
    /// The level of the former arm, less the logarithm of its merit before the switch. The second
    /// number is the variance of this difference.
    base: Option<(f64, f64)>,
    /// Logarithms of the merit after the switch.
    after: Side,
}

impl BeforeAfter {
    /// The levels of a flow that begins now. The samples of the first [`SETTLES`] do not count,
    /// because they show the flow's slow start.
    pub fn begin(now: Time) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Another arm has the flow.
    pub fn switched(&mut self, from: &'static str, now: Time) {
        let last = std::mem::take(&mut self.last);
        self.base = last.says_something().then(|| {
            let first = Level { arm: from, ln: 0.0, variance: 0.0, at: now };
            let level = self.level(from).unwrap_or_else(|| {
                self.levels.push(first);
                first
            });
            (level.ln - last.mean(), level.variance + last.variance())
        });
        (self.since, self.after) = (now, Side::default());
    }

    /// Takes in a sample that has ended.
    pub fn add(&mut self, sample: &Sample, wants: Preference) {
        let features = <[f32; COUNT]>::try_from(&sample.features[..]).ok().map(Features);
        let Some(norm) = features.and_then(|it| Norm::of(&it)) else { return };
        if sample.from < self.since + SETTLES {
            return;
        }
        let (ln, span_s) = (norm.ln_merit(&sample.seen, wants), sample.seen.span_s);
        self.last.add(ln, span_s, 0.5f64.powf(span_s / BEFORE_HALF_LIFE_S));
        if let Some(level) = self.levels.iter_mut().find(|it| it.arm == sample.arm) {
            level.at = sample.until;
        }
        let Some((base, variance)) = self.base.filter(|_| self.after.span_s < AFTER_S) else {
            return;
        };
        self.after.add(ln, span_s, 1.0);
        if !self.after.says_something() {
            return;
        }
        let (ln, variance) = (base + self.after.mean(), variance + self.after.variance());
        let level = Level { arm: sample.arm, ln, variance, at: sample.until };
        match self.levels.iter_mut().find(|it| it.arm == sample.arm) {
            Some(it) => *it = level,
            None => self.levels.push(level),
        }
    }

    fn level(&self, arm: &str) -> Option<Level> {
        self.levels.iter().find(|it| it.arm == arm).copied()
    }

    /// Lowers the scores of arms that did worse than the one that has the flow.
    pub fn correct(&self, scores: &mut [Score], current: &str, now: Time) {
        let mean = scores.iter().find(|it| it.arm == current).map(|it| f64::from(it.mean));
        let (Some(level), Some(mean)) = (self.level(current), mean) else { return };
        if self.base.is_some() && !self.after.says_something() {
            return;
        }
        for score in scores.iter_mut().filter(|it| it.arm != current) {
            let Some(other) = self.level(score.arm) else { continue };
            let doubt = (other.variance - level.variance).abs().sqrt();
            let got = other.ln - level.ln + doubt;
            let said = (f64::from(score.mean).max(SCORE_MIN) / mean.max(SCORE_MIN)).ln();
            let age_s = (now - other.at).as_secs_f64();
            let known = 0.5f64.powf(age_s / HALF_LIFE_S);
            let ln = (known * (got - said)).clamp(-LN_MAX, 0.0);
            score.mean *= ln.exp() as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::constant;
    use super::*;
    use crate::features::schema;
    use remuda_algorithms::Seen;
    use std::time::Duration;

    /// Adds a sample for each half second in which the arm delivers a rate in Mbit/s.
    fn run(
        it: &mut BeforeAfter,
        arm: &'static str,
        span_s: std::ops::Range<u64>,
        rate: impl Fn(u64) -> f64,
    ) {
        let mut features = [f32::NAN; COUNT];
        for (name, value) in [("rate_max_mbit_per_sec", 10.0), ("rtt_min_ms", 40.0)] {
            let at = schema().features.iter().position(|it| it.name == name);
            features[at.expect("a feature")] = value;
        }
        for half in span_s.start * 2..span_s.end * 2 {
            let [from, until] = [half, half + 1].map(|at| Time(Duration::from_millis(at * 500)));
            let seen = Seen {
                span_s: 0.5,
                throughput_mbit_per_sec: rate(half),
                lost_mbit_per_sec: 0.0,
                rtt_mean_ms: 50.0,
            };
            let sample = Sample { arm, from, until, seen, features: features.into() };
            it.add(&sample, Preference::DEFAULT);
        }
    }

    fn at_s(secs: u64) -> Time {
        Time(Duration::from_secs(secs))
    }

    /// The scores of bbr and vegas, which are 0.8 and 0.7 by the model, while vegas has the flow.
    fn means(it: &BeforeAfter, now: Time) -> [f32; 2] {
        let model = constant([0.8, 0.7], [1.0, 0.2], [0.2, 1.0]);
        let mut scores = model.predict(&Features([1.0; COUNT]), Preference::DEFAULT);
        it.correct(&mut scores, "vegas", now);
        [scores[0].mean, scores[1].mean]
    }

    /// Bbr has the flow for ten seconds, then vegas.
    fn changed(bbr: impl Fn(u64) -> f64, vegas: impl Fn(u64) -> f64) -> BeforeAfter {
        let mut it = BeforeAfter::default();
        run(&mut it, "bbr", 0..10, bbr);
        it.switched("bbr", at_s(10));
        run(&mut it, "vegas", 10..20, vegas);
        it
    }

    #[test]
    fn the_former_arm_is_no_better_than_it_was_beside_the_present_one() {
        let it = changed(|_| 2.0, |_| 4.0);
        let [bbr, vegas] = means(&it, at_s(20));
        assert!(vegas == 0.7 && bbr < 0.35, "a quarter by the merit, ten seconds ago: {bbr}");
        let [later, _] = means(&it, at_s(200));
        assert!(later > 0.75, "{later}");
    }

    #[test]
    fn no_score_rises() {
        assert_eq!(means(&changed(|_| 8.0, |_| 2.0), at_s(20)), [0.8, 0.7]);
    }

    #[test]
    fn where_the_merit_varies_a_difference_says_little() {
        let varies = |least: f64| move |half: u64| least * [1.0, 4.0][half as usize % 2];
        let [bbr, _] = means(&changed(varies(1.0), varies(1.5)), at_s(20));
        assert_eq!(bbr, 0.8);
        let [bbr, _] = means(&changed(varies(1.0), varies(40.0)), at_s(20));
        assert!(bbr < 0.3, "{bbr}");
    }

    #[test]
    fn differences_add_up_over_switches() {
        let mut it = changed(|_| 2.0, |_| 4.0);
        it.switched("vegas", at_s(20));
        run(&mut it, "cubic", 20..30, |_| 4.0);
        it.switched("cubic", at_s(30));
        run(&mut it, "vegas", 30..40, |_| 4.0);
        let [bbr, _] = means(&it, at_s(40));
        assert!(bbr < 0.6, "bbr had the flow before two switches: {bbr}");
    }

    #[test]
    fn the_first_two_seconds_after_a_switch_or_the_start_do_not_count() {
        let mut it = BeforeAfter::default();
        run(&mut it, "bbr", 0..10, |_| 2.0);
        it.switched("bbr", at_s(10));
        run(&mut it, "vegas", 10..12, |_| 9.0);
        assert_eq!(means(&it, at_s(12)), [0.8, 0.7]);
        let mut it = BeforeAfter::begin(at_s(100));
        run(&mut it, "bbr", 100..102, |_| 2.0);
        it.switched("bbr", at_s(102));
        run(&mut it, "vegas", 102..110, |_| 9.0);
        assert_eq!(means(&it, at_s(110)), [0.8, 0.7]);
    }
}
