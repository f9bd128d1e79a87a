//! Means, medians, spreads and percentiles, the number of rounds of a measurement, the origin of
//! figures, and their targets.

pub mod document;
mod mean;
mod origin;
mod rounds;
pub mod target;

pub use mean::Mean;
pub use origin::Origin;
pub use rounds::RoundsOf;

use std::fmt;

/// The median, the least and the greatest of several values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub low: f64,
    /// The mean of the middle two values if their number is even.
    pub median: f64,
    pub high: f64,
}

impl Spread {
    /// The spread of at least one value.
    ///
    /// # Panics
    ///
    /// If there is no value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        Self::of_any(values).expect("one value at least")
    }

    /// The spread of the values; `None` if there are none.
    pub fn of_any(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sorted = sorted(values);
        let last = sorted.len().checked_sub(1)?;
        let median = (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0;
        Some(Self { low: sorted[0], median, high: sorted[last] })
    }
}

impl fmt::Display for Spread {
    /// With the given precision: `{:.2}` gives `1.00 (0.93..1.05)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        let Self { low, median, high } = self;
        write!(f, "{median:.digits$} ({low:.digits$}..{high:.digits$})")
    }
}

pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The least value that `percent` of all values do not exceed (nearest rank).
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Spread { low: 1.0, median: 2.5, high: 4.0 });
        assert_eq!(format!("{spread:.1}"), "2.5 (1.0..4.0)");
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        for (percent, want) in [(0.0, 1.0), (50.0, 50.0), (99.0, 99.0), (100.0, 100.0)] {
            assert_eq!(percentile(&hundred, percent), want);
        }
        assert_eq!(percentile(&[7.0], 50.0), 7.0);
    }
}
