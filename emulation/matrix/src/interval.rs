//! The median of many environments, with a 95 % bootstrap interval (Efron, 1979) of a thousand
//! draws from a fixed seed.
//!
//! A draw takes as many environments as there are, with replacement, and from each as many seeds as
//! it has, with replacement. All drivers are compared on the same draw: drivers share the trace of
//! a seed, so a lucky draw is lucky for all of them. The value of the whole sample is computed by
//! the same function as that of a draw, so a figure that is never below 0 has no interval that
//! reaches below 0.
//!
//! With fewer than six environments only seeds are drawn, and the interval holds for these
//! environments alone. If any environment also has fewer than six seeds, there is no interval: so
//! few values say nothing about other seeds.

use crate::metrics::{median, quantile};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

const DRAWS: usize = 1_000;
const SEED: u64 = 1;
/// With fewer values, the probability that the range from the least to the largest contains the
/// median is below 95 %.
pub const ENOUGH: usize = 6;

/// A value of the whole sample and its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// A median or a mean, whichever the figure is.
    pub middle: f64,
    /// The 2.5 % and 97.5 % quantiles of the draws; `None` for too few values.
    pub bounds: Option<[f64; 2]>,
}

/// One environment of a sample, with the seeds that count.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub environment: usize,
    /// Indices into the environment's seeds.
    pub seeds: Vec<usize>,
}

impl Drawn {
    /// The median of the seeds that have a value.
    pub(crate) fn median(&self, of_seeds: &[Option<f64>]) -> Option<f64> {
        match &self.seeds[..] {
            [only] => of_seeds[*only],
            seeds => median(&seeds.iter().filter_map(|it| of_seeds[*it]).collect::<Vec<_>>()),
        }
    }
}

/// The whole sample. `seeds` has the number of seeds of each environment.
pub(crate) fn every(seeds: &[usize]) -> Vec<Drawn> {
    let all = seeds.iter().enumerate();
    all.map(|(environment, count)| Drawn { environment, seeds: (0..*count).collect() }).collect()
}

/// The value and the interval of each figure that `of` computes from a sample. `seeds` has the
/// number of seeds of each environment, at least one.
pub fn bootstrap(seeds: &[usize], of: impl Fn(&[Drawn]) -> Vec<Option<f64>>) -> Vec<Interval> {
    let middles = of(&every(seeds));
    let many = seeds.len() >= ENOUGH;
    let is_unsure = !many && seeds.iter().any(|count| *count < ENOUGH);
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut below = |count: usize| (rng.next_u64() % count as u64) as usize;
    let mut draw = |place: usize| {
        let environment = if many { below(seeds.len()) } else { place };
        let drawn = match seeds[environment] {
            1 => vec![0],
            count => (0..count).map(|_| below(count)).collect(),
        };
        Drawn { environment, seeds: drawn }
    };
    let mut draws: Vec<Vec<f64>> = vec![Vec::new(); middles.len()];
    for _ in 0..if is_unsure { 0 } else { DRAWS } {
        let sample: Vec<Drawn> = (0..seeds.len()).map(&mut draw).collect();
        for (all, value) in draws.iter_mut().zip(of(&sample)) {
            all.extend(value);
        }
    }
    let interval = |(middle, draws): (Option<f64>, Vec<f64>)| {
        let bounds = quantile(&draws, 0.025).zip(quantile(&draws, 0.975));
        let both = |middle| Interval { middle, bounds: bounds.map(|(low, high)| [low, high]) };
        middle.map(both).unwrap_or_default()
    };
    middles.into_iter().zip(draws).map(interval).collect()
}

/// The median over environments of the median over seeds. `values` has a list of seeds' values for
/// each environment.
pub fn median_of(values: &[Vec<f64>]) -> Interval {
    let known = values.iter().filter(|seeds| !seeds.is_empty());
    let known: Vec<Vec<Option<f64>>> =
        known.map(|seeds| seeds.iter().copied().map(Some).collect()).collect();
    let counts: Vec<usize> = known.iter().map(Vec::len).collect();
    let of = |sample: &[Drawn]| {
        let middles = sample.iter().filter_map(|it| it.median(&known[it.environment]));
        vec![median(&middles.collect::<Vec<_>>())]
    };
    bootstrap(&counts, of).pop().unwrap_or_default()
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
        assert_eq!(median_of(&ones(4)), Interval { middle: 1.5, bounds: None });
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
