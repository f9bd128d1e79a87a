//! Compares the errors of two models, flow by flow.
//!
//! Predictions within a flow are not independent. So the unit is a flow, and its value is the mean
//! difference over its spans. The interval is Student's t over flows. The interval is computed only
//! when the number of flows has doubled: out of a hundred looks at 95 %, some would show a
//! difference that does not exist.

use crate::interval::Interval;
use std::collections::BTreeMap;

/// The 97.5 % point of Student's t, for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same for any degree of freedom; beyond the table, the normal distribution's point and the
/// first correction term.
fn t(freedom: usize) -> f64 {
    let beyond = || 1.96 + 2.45 / freedom as f64;
    T.get(freedom.saturating_sub(1)).copied().unwrap_or_else(beyond)
}

/// Sum and number of differences of each flow. Comparison ends after a set number of flows, which
/// limits the size.
#[derive(Clone, Debug, Default)]
pub struct Paired {
    flows: BTreeMap<u32, (f64, f64)>,
}

impl Paired {
    /// Adds the difference in one span of a flow.
    pub fn add(&mut self, flow: u32, difference: f64) {
        let (sum, count) = self.flows.entry(flow).or_default();
        *sum += difference;
        *count += 1.0;
    }

    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// The mean over flows with its interval of 95 %; `None` for fewer than two flows.
    pub fn interval(&self) -> Option<Interval> {
        let count = self.flows.len();
        if count < 2 {
            return None;
        }
        let each = || self.flows.values().map(|(sum, count)| sum / count);
        let mean = each().sum::<f64>() / count as f64;
        let squares: f64 = each().map(|it| (it - mean) * (it - mean)).sum();
        let error = (squares / (count - 1) as f64 / count as f64).sqrt();
        let half = t(count - 1) * error;
        Some(Interval { mean, least: mean - half, most: mean + half })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(differences: &[f64]) -> Paired {
        let mut paired = Paired::default();
        for (flow, difference) in (1..).zip(differences) {
            paired.add(flow, *difference);
        }
        paired
    }

    #[test]
    fn the_interval_by_hand() {
        // Mean 2 and standard deviation 1 of three values: 4.303 / sqrt 3 on both sides.
        let interval = of(&[1.0, 2.0, 3.0]).interval().expect("of three");
        assert_eq!(interval.mean, 2.0);
        assert!((interval.least - (2.0 - 2.4843)).abs() < 1e-3, "{interval:?}");
        assert!((interval.most - (2.0 + 2.4843)).abs() < 1e-3, "{interval:?}");
        assert_eq!(of(&[1.0]).interval(), None);
        for (freedom, want) in [(1, 12.706), (30, 2.042), (60, 2.000), (1_000, 1.962)] {
            assert!((t(freedom) - want).abs() < 2e-3, "{freedom}");
        }
    }

    #[test]
    fn a_flow_counts_once_however_long_it_is() {
        let mut paired = of(&[1.0, 2.0, 3.0]);
        let before = paired.interval();
        for _ in 0..1_000 {
            paired.add(3, 3.0);
        }
        assert_eq!((paired.flows(), paired.interval()), (3, before));
    }

    /// A random number from 0 to 1, from a generator that is good enough for a test.
    fn uniform(state: &mut u64) -> f64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1u64 << 53) as f64
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_truth() {
        for flows in [3, 10, 40] {
            let state = &mut 7;
            let mut draw = || (0..12).map(|_| uniform(state)).sum::<f64>() - 6.0 + 0.5;
            let holds = (0..2_000).filter(|_| {
                let drawn: Vec<f64> = (0..flows).map(|_| draw()).collect();
                let it = of(&drawn).interval().expect("of so many");
                (it.least..=it.most).contains(&0.5)
            });
            let share = holds.count() as f64 / 2_000.0;
            assert!((0.935..0.965).contains(&share), "{share} of {flows} flows");
        }
    }

    proptest! {
        #[test]
        fn the_interval_holds_its_mean_and_moves_with_what_it_is_of(
            differences in prop::collection::vec(-100.0..100.0f64, 2..60),
            shift in -50.0..50.0f64,
        ) {
            let interval = of(&differences).interval().expect("of so many");
            prop_assert!(interval.least <= interval.mean && interval.mean <= interval.most);
            let shifted: Vec<f64> = differences.iter().map(|it| it + shift).collect();
            let moved = of(&shifted).interval().expect("of so many");
            prop_assert!((moved.least - interval.least - shift).abs() < 1e-6);
            let turned: Vec<f64> = differences.iter().map(|it| -it).collect();
            let turned = of(&turned).interval().expect("of so many");
            prop_assert!((turned.least + interval.most).abs() < 1e-6);
            let reversed: Vec<f64> = differences.iter().rev().copied().collect();
            let reversed = of(&reversed).interval().expect("of so many");
            prop_assert!((reversed.least - interval.least).abs() < 1e-6);
        }
    }
}
