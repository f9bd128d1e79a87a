//! Quantiles and means of the values of a metric.

/// The least value that a `share` of the values does not exceed (nearest rank); `None` for an empty
/// slice.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// `None` for an empty slice.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean of the two middle values if their number is even; `None` for an empty slice.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(f64::midpoint(sorted[low], sorted[high]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_there() {
        let values = [4.0, 1.0, 3.0, 2.0];
        let of = |share| quantile(&values, share).unwrap();
        assert_eq!(
            [of(0.0), of(0.25), of(0.5), of(0.51), of(0.95), of(1.0)],
            [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]
        );
        assert_eq!(quantile(&[], 0.5), None);
    }
}
