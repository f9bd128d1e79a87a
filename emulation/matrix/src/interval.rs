//! A middle of many environments, and where it would lie had others been drawn: a 95 % interval by
//! bootstrap (Efron, 1979), a thousand draws from a fixed seed.
//!
//! A draw takes as many environments with replacement, and of each as many of its seeds with
//! replacement; an environment counts with the median of its seeds. With fewer than six
//! environments they are not drawn, only their seeds: the interval is of these environments. With
//! fewer than six seeds as well there is none: so few values say nothing of others.

use crate::metrics::{mean, median, quantile};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

const DRAWS: usize = 1_000;
const SEED: u64 = 1;
/// The least and the largest of fewer values hold their median less than 95 % of the time.
const ENOUGH: usize = 6;

/// A middle and its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The median, or the mean.
    pub middle: f64,
    /// 2.5 % of the draws lie below, 2.5 % above; `None` of too few values.
    pub bounds: Option<[f64; 2]>,
}

/// By environment, the values of its seeds: the median of the environments.
pub fn median_of(values: &[Vec<f64>]) -> Interval {
    interval(values, median)
}

/// By environment, the values of its seeds: the mean of the environments.
pub fn mean_of(values: &[Vec<f64>]) -> Interval {
    interval(values, mean)
}

fn interval(values: &[Vec<f64>], of: impl Fn(&[f64]) -> Option<f64>) -> Interval {
    let values: Vec<&[f64]> =
        values.iter().map(Vec::as_slice).filter(|it| !it.is_empty()).collect();
    let medians: Vec<f64> = values.iter().filter_map(|seeds| median(seeds)).collect();
    let Some(middle) = of(&medians) else { return Interval::default() };
    let many = values.len() >= ENOUGH;
    if !many && values.iter().any(|seeds| seeds.len() < ENOUGH) {
        return Interval { middle, bounds: None };
    }
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut below = |count: usize| (rng.next_u64() % count as u64) as usize;
    let mut seeds_drawn = Vec::new();
    let draws: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let drawn: Vec<f64> = (0..values.len())
                .filter_map(|place| {
                    let seeds = values[if many { below(values.len()) } else { place }];
                    if let [only] = seeds {
                        return Some(*only);
                    }
                    seeds_drawn.clear();
                    seeds_drawn.extend(seeds.iter().map(|_| seeds[below(seeds.len())]));
                    median(&seeds_drawn)
                })
                .collect();
            of(&drawn)
        })
        .collect();
    let bounds = quantile(&draws, 0.025).zip(quantile(&draws, 0.975));
    Interval { middle, bounds: bounds.map(|(low, high)| [low, high]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(count: u32) -> Vec<Vec<f64>> {
        (0..count).map(|n| vec![f64::from(n % 10)]).collect()
    }

    #[test]
    fn an_interval_holds_its_middle_and_narrows_with_more_environments() {
        let [few, many] = [10, 1000].map(|count| median_of(&ones(count)));
        let width = |it: Interval| {
            let [low, high] = it.bounds.expect("there are enough");
            assert!(low <= it.middle && it.middle <= high, "{it:?}");
            high - low
        };
        assert!(width(many) < width(few), "{few:?} {many:?}");
        assert_eq!(median_of(&[]), Interval::default());
        assert_eq!(mean_of(&ones(4)), Interval { middle: 1.5, bounds: None });
    }

    #[test]
    fn seeds_spread_where_environments_are_few() {
        let seeds = |spread: f64| vec![(0..10).map(|n| f64::from(n) * spread).collect::<Vec<_>>()];
        let [still, spread] = [0.0, 1.0].map(|spread| median_of(&seeds(spread)));
        assert_eq!(still.bounds, Some([0.0, 0.0]));
        let [low, high] = spread.bounds.expect("ten seeds are enough");
        assert!(low < 4.5 && high > 4.5, "{spread:?}");
        assert_eq!(median_of(&[vec![1.0, 2.0, 3.0]]).bounds, None);
    }
}
