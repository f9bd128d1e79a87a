//! The middle of several values, and how far they lie apart.

/// The middle one of several, and the outer ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least.
    pub low: f64,
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The greatest.
    pub high: f64,
}

impl Spread {
    /// Of values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let median = (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0;
        Some(Self { low: sorted[0], median, high: sorted[last] })
    }
}
