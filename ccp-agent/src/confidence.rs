//! Intervals that hold at every look: a trial may be judged after each flow, and ended at any.
//!
//! The betting confidence sequence of Waudby-Smith and Ramdas (J. R. Stat. Soc. B 86, 2024,
//! theorem 3), for values of 0 to 1: for each possible mean two gamblers bet, one that the values
//! lie above it and one that they lie below, each with half of the stake. A mean at which the two
//! have won `1 / alpha` times the stake is ruled out. If it is the true mean, that happens with a
//! probability of at most `alpha`, at any time (Ville's inequality).
//!
//! Differences from the paper: means lie on a grid of [`STEPS`] steps, and the interval is one step
//! wider on both sides; the interval is the intersection of all before it, as the paper allows.

use crate::interval::Interval;

/// The steps of the grid of means.
const STEPS: usize = 1_000;
/// What share of what a gambler could lose it bets at most; the paper's `c`.
const BET_MAX: f64 = 0.75;

/// How much to bet, from the values so far alone.
#[derive(Clone, Debug)]
struct Bets {
    /// `ln (2 / alpha)`
    ln_threshold: f64,
    count: f64,
    sum: f64,
    /// The sum of squared distances from the means at the time.
    squares: f64,
}

impl Bets {
    fn new(alpha: f64) -> Self {
        Self { ln_threshold: (2.0 / alpha).ln(), count: 0.0, sum: 0.0, squares: 0.0 }
    }

    /// The bet on the next value; the paper's equation 26.
    fn next(&self) -> f64 {
        let time = self.count + 1.0;
        let variance = (0.25 + self.squares) / time;
        (2.0 * self.ln_threshold / (variance * time * time.ln_1p())).sqrt()
    }

    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        let mean = (0.5 + self.sum) / (self.count + 1.0);
        self.squares += (value - mean) * (value - mean);
    }
}

/// What the two gamblers at one possible mean have won, as logarithms.
#[derive(Clone, Copy, Debug, Default)]
struct Won {
    above: f64,
    below: f64,
}

impl Won {
    fn add(&mut self, value: f64, mean: f64, bet: f64) {
        let above = bet.min(BET_MAX / mean.max(f64::MIN_POSITIVE));
        let below = bet.min(BET_MAX / (1.0 - mean).max(f64::MIN_POSITIVE));
        self.above += (above * (value - mean)).ln_1p();
        self.below += (-below * (value - mean)).ln_1p();
    }

    /// Whether the larger half has reached the threshold.
    fn rules_out(&self, ln_threshold: f64) -> bool {
        self.above.max(self.below) >= ln_threshold
    }
}

/// The confidence sequence of the mean of values of 0 to 1.
#[derive(Clone, Debug)]
pub struct Sequence {
    bets: Bets,
    won: Vec<Won>,
    /// The means that are not ruled out: steps of the grid.
    kept: std::ops::Range<usize>,
    /// Every mean is ruled out: it has changed with time.
    drifts: bool,
}

impl Sequence {
    /// A sequence whose interval misses the mean, at any time, with a probability of at most
    /// `alpha`.
    pub fn new(alpha: f64) -> Self {
        Self {
            bets: Bets::new(alpha),
            won: vec![Won::default(); STEPS + 1],
            kept: 0..STEPS + 1,
            drifts: false,
        }
    }

    /// Takes in a value. A value below 0 counts as 0, a value above 1 as 1, and NaN as 0.5.
    pub fn add(&mut self, value: f64) {
        let value = if value.is_nan() { 0.5 } else { value.clamp(0.0, 1.0) };
        let bet = self.bets.next();
        self.bets.add(value);
        for step in self.kept.clone() {
            self.won[step].add(value, step as f64 / STEPS as f64, bet);
        }
        let is_out = |step: usize| self.won[step].rules_out(self.bets.ln_threshold);
        while self.kept.len() > 1 && is_out(self.kept.start) {
            self.kept.start += 1;
        }
        while self.kept.len() > 1 && is_out(self.kept.end - 1) {
            self.kept.end -= 1;
        }
        // The last mean that was possible stays, so that there is an interval to show.
        self.drifts |= self.kept.len() == 1 && is_out(self.kept.start);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.bets.count as u64
    }

    /// The interval at this look.
    pub fn interval(&self) -> Interval {
        let at = |step: f64| (step / STEPS as f64).clamp(0.0, 1.0);
        let least = at(self.kept.start as f64 - 1.0);
        let most = at(self.kept.end as f64);
        let mean = self.bets.sum / self.bets.count.max(1.0);
        Interval { mean, least, most }
    }

    /// Roughly how many values more it takes until the interval excludes 0.5, if the mean stays;
    /// `None` if it does already, or if there is nothing to go by.
    pub fn left(&self) -> Option<u64> {
        let Interval { mean, least, most } = self.interval();
        let effect = (mean - 0.5).abs();
        if !(least..=most).contains(&0.5) || self.count() < 2 || effect == 0.0 {
            return None;
        }
        let variance = (0.25 + self.bets.squares) / (self.bets.count + 1.0);
        // The growth of the better gambler's logarithm with the best bet that it may make.
        let bet = (effect / variance).min(BET_MAX / 0.5);
        let growth = bet * effect - bet * bet * variance / 2.0;
        Some((self.bets.ln_threshold / growth - self.bets.count).clamp(1.0, 1e12) as u64)
    }
}

/// The difference of the means of two groups whose outcomes come in any order.
///
/// Each outcome is paired with the last outcome of the other group that has no pair yet. So a rare
/// group is compared with what the other group did just before, on the same network.
#[derive(Clone, Debug)]
pub struct Comparison {
    least: f64,
    most: f64,
    /// The last outcome of each group; `None` if that outcome has a pair.
    single: [Option<f64>; 2],
    /// All outcomes of each group.
    counts: [u64; 2],
    sequence: Sequence,
}

impl Comparison {
    /// An outcome below `least` counts as `least`, one above `most` as `most`. The interval misses
    /// the difference, at any look, with a probability of at most `alpha`.
    pub fn new(least: f64, most: f64, alpha: f64) -> Self {
        Self { least, most, single: [None; 2], counts: [0; 2], sequence: Sequence::new(alpha) }
    }

    /// Takes in an outcome of the first or the second group.
    pub fn add(&mut self, is_second: bool, outcome: f64) {
        let group = usize::from(is_second);
        self.counts[group] += 1;
        self.single[group] = Some(outcome.clamp(self.least, self.most));
        if let [Some(first), Some(second)] = self.single {
            self.sequence.add(0.5 + (first - second) / (2.0 * (self.most - self.least)));
            self.single = [None; 2];
        }
    }

    /// How many outcomes each group has had.
    pub fn counts(&self) -> [u64; 2] {
        self.counts
    }

    /// The first group's mean less the second's.
    pub fn difference(&self) -> Interval {
        let wide = |it: f64| (it - 0.5) * 2.0 * (self.most - self.least);
        let Interval { mean, least, most } = self.sequence.interval();
        let mean = if self.sequence.count() == 0 { 0.0 } else { wide(mean) };
        Interval { mean, least: wide(least), most: wide(most) }
    }

    /// Whether no single difference can explain all outcomes: it has changed with time.
    pub fn drifts(&self) -> bool {
        self.sequence.drifts
    }

    /// Roughly how many pairs more it takes until the interval excludes 0, if the mean stays;
    /// `None` if it does already, or if there is nothing to go by.
    pub fn pairs_left(&self) -> Option<u64> {
        self.sequence.left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A random number from 0 to 1, from a generator that is good enough for a test.
    fn uniform(state: &mut u64) -> f64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal, within `mean` +- 6 `deviation`.
    fn score(state: &mut u64, mean: f64, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| uniform(state)).sum();
        (mean + deviation * (sum - 6.0)).clamp(0.0, 1.0)
    }

    /// After how many flows a side the difference of two groups is decided, looking after each.
    fn decided_after(
        alpha: f64,
        flows: u32,
        mut outcome: impl FnMut(bool) -> f64,
    ) -> Option<(u32, bool)> {
        let (mut bets, mut won) = (Bets::new(alpha), Won::default());
        for flow in 1..=flows {
            let value = 0.5 + (outcome(false) - outcome(true)) / 2.0;
            let bet = bets.next();
            bets.add(value);
            won.add(value, 0.5, bet);
            if won.rules_out(bets.ln_threshold) {
                return Some((flow, won.above > won.below));
            }
        }
        None
    }

    #[test]
    fn equal_groups_are_told_apart_in_fewer_trials_than_alpha_says() {
        let state = &mut 7;
        let trials = 10_000;
        let decided = |flows, outcome: &mut dyn FnMut(&mut u64) -> f64, state: &mut u64| {
            (0..trials).filter(|_| decided_after(0.01, flows, |_| outcome(state)).is_some()).count()
        };
        let bounded = decided(1_000, &mut |state| score(state, 0.5, 0.1), state);
        // Heavy-tailed: the share of the range that a Pareto variable of shape 1.2 takes.
        let heavy = decided(
            1_000,
            &mut |state| {
                let pareto = uniform(state).max(1e-12).powf(-1.0 / 1.2) - 1.0;
                pareto / (1.0 + pareto)
            },
            state,
        );
        let rare = decided(1_000, &mut |state| f64::from(uniform(state) < 0.01), state);
        println!("of {trials} trials decided: bounded {bounded}, heavy {heavy}, rare {rare}");
        assert!([bounded, heavy, rare].iter().all(|wrong| wrong * 100 <= trials));
    }

    #[test]
    fn a_loss_of_ten_per_cent_is_found_within_500_flows_a_side() {
        let state = &mut 7;
        for mean in [0.3, 0.5, 0.8] {
            let found = (0..2_000).filter(|_| {
                let mut outcome = |is_second| {
                    let mean = if is_second { mean * 0.9 } else { mean };
                    score(state, mean, mean * 0.2)
                };
                decided_after(0.01, 500, &mut outcome).is_some_and(|(_, above)| above)
            });
            let share = found.count() as f64 / 2_000.0;
            println!("scores of {mean}: a loss of 10 % is found in {share} of trials");
            assert!(share >= 0.95, "{share}");
        }
    }

    #[test]
    fn the_sequence_holds_the_mean_at_every_look() {
        let state = &mut 11;
        let wrong = (0..300).filter(|_| {
            let mut sequence = Sequence::new(0.05);
            (0..200).any(|_| {
                sequence.add(score(state, 0.4, 0.1));
                let Interval { least, most, .. } = sequence.interval();
                !(least..=most).contains(&0.4)
            })
        });
        assert!(wrong.count() <= 15);
    }

    #[test]
    fn a_rare_control_group_is_compared_with_what_the_other_did_just_before() {
        let state = &mut 3;
        let mut comparison = Comparison::new(0.0, 1.0, 0.05);
        for flow in 0..40_000_u32 {
            let is_control = flow % 100 == 99;
            comparison.add(is_control, score(state, if is_control { 0.45 } else { 0.5 }, 0.1));
        }
        assert_eq!(comparison.counts(), [39_600, 400]);
        let difference = comparison.difference();
        assert!(difference.least > 0.0 && difference.most < 0.1, "{difference:?}");
        assert!((difference.mean - 0.05).abs() < 0.02, "{difference:?}");
        assert!(comparison.pairs_left().is_none() && !comparison.drifts());
    }

    #[test]
    fn equal_groups_of_unequal_size_and_skewed_outcomes_are_not_told_apart() {
        let state = &mut 9;
        let decided = (0..200).filter(|_| {
            let mut comparison = Comparison::new(-4.0, 4.0, 0.05);
            (0..20_000_u32).any(|flow| {
                let outcome = if uniform(state) < 0.1 { -6.0 } else { 0.0 };
                comparison.add(flow % 100 == 99, outcome);
                let Interval { least, most, .. } = comparison.difference();
                !(least..=most).contains(&0.0)
            })
        });
        assert!(decided.count() <= 10);
    }

    #[test]
    fn a_difference_that_changes_with_time_is_said_to_drift() {
        let state = &mut 4;
        let mut comparison = Comparison::new(0.0, 1.0, 0.05);
        for flow in 0..6_000_u32 {
            let gain = if flow < 3_000 { 0.2 } else { -0.2 };
            comparison.add(false, score(state, 0.5 + gain, 0.05));
            comparison.add(true, score(state, 0.5, 0.05));
        }
        assert!(comparison.drifts());
    }

    #[test]
    fn how_many_flows_are_missing_is_said_within_a_factor() {
        let state = &mut 5;
        let mut comparison = Comparison::new(0.0, 1.0, 0.05);
        assert_eq!(comparison.pairs_left(), None, "nothing is known");
        let mut guessed = None;
        let mut flows: u64 = 0;
        while comparison.difference().least <= 0.0 {
            flows += 1;
            comparison.add(false, score(state, 0.52, 0.1));
            comparison.add(true, score(state, 0.5, 0.1));
            if flows == 50 {
                guessed = comparison.pairs_left();
            }
        }
        let guessed = guessed.expect("of 50 flows") + 50;
        println!("guessed {guessed}, took {flows}");
        assert!(guessed < 10 * flows && flows < 10 * guessed, "{guessed} {flows}");
    }

    proptest! {
        #[test]
        fn no_value_breaks_it(values in prop::collection::vec(any::<f64>(), 0..50)) {
            let mut sequence = Sequence::new(0.01);
            let mut comparison = Comparison::new(-1.0, 1.0, 0.01);
            for (at, value) in values.iter().enumerate() {
                let before = sequence.interval();
                sequence.add(*value);
                comparison.add(at % 3 == 0, *value);
                let after = sequence.interval();
                prop_assert!(0.0 <= after.least && after.least <= after.most && after.most <= 1.0);
                prop_assert!(before.least <= after.least && after.most <= before.most);
            }
            let _ = (comparison.difference(), comparison.pairs_left());
        }
    }
}
