//! Pairs of runs: the whole policy and a variant, in the same environment with the same seed.
//!
//! A ratio is the variant's figure over that of the whole: the geometric mean over environments,
//! each with the geometric mean of its seeds. For figures that may be 0 the difference of the means
//! is used. Intervals are those of the matrix, bootstrapped over the pairs.

use crate::antelope::figures::Figures;
use remuda_matrix::{Drawn, Interval, bootstrap};

/// Each side counts with at least this share of the other side's figure: otherwise a run with
/// almost nothing would outweigh all others.
const RATIO_MIN: f64 = 0.01;

/// The whole and the variant of one environment, by seed.
pub type Pairs = Vec<(Figures, Figures)>;

/// The means of both sides.
pub fn means(pairs: &[[f64; 2]]) -> [f64; 2] {
    let of = |side: usize| pairs.iter().map(|pair| pair[side]).collect::<Vec<_>>();
    [0, 1].map(|side| crate::antelope::figures::mean(&of(side)).unwrap_or(0.0))
}

/// The logarithm of the variant's figure over that of the whole; `None` if both are 0.
pub fn ratio((whole, without): &(Figures, Figures), of: fn(&Figures) -> f64) -> Option<f64> {
    let ratio = of(without) / of(whole);
    (!ratio.is_nan()).then(|| libm::log(ratio.clamp(RATIO_MIN, 1.0 / RATIO_MIN)))
}

/// The mean over environments of the mean over seeds of the pairs' values, with its interval.
pub fn interval(
    pairs: &[Pairs],
    of: impl Fn(&(Figures, Figures)) -> Option<f64>,
    shown: fn(f64) -> f64,
) -> Interval {
    let values: Vec<Vec<Option<f64>>> =
        pairs.iter().map(|seeds| seeds.iter().map(&of).collect()).collect();
    let of_environment = |it: &Drawn| {
        let known = it.seeds.iter().filter_map(|seed| values[it.environment][*seed]);
        crate::antelope::figures::mean(&known.collect::<Vec<_>>())
    };
    let counts: Vec<usize> = values.iter().map(Vec::len).collect();
    let all = bootstrap(&counts, |sample| {
        let means: Vec<f64> = sample.iter().filter_map(of_environment).collect();
        vec![crate::antelope::figures::mean(&means).map(shown)]
    });
    all.into_iter().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_at_all_is_a_hundredth_and_of_two_of_them_nothing_is_said() {
        let of = |whole, without| {
            let figures =
                |goodput_mbit_per_sec| Figures { goodput_mbit_per_sec, ..Figures::default() };
            let pair = (figures(whole), figures(without));
            ratio(&pair, |it| it.goodput_mbit_per_sec).map(libm::exp)
        };
        let near = |got: Option<f64>, want: f64| (got.expect("a ratio") - want).abs() < 1e-9;
        assert!(near(of(5.0, 0.0), 0.01) && near(of(0.0, 5.0), 100.0) && near(of(5.0, 4.0), 0.8));
        assert_eq!(of(0.0, 0.0), None);
    }
}
