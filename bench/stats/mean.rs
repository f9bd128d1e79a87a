//! The mean of several values, and how sure it is.

/// Mean and 95 % interval of the mean (Student's t).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// Student's t for 95 %, by degrees of freedom from 1 on; the last also serves larger ones, for
/// which it is a little too wide.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

impl Mean {
    pub fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Self { mean, low: mean, high: mean };
        }
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let error = libm::sqrt(squares / (count - 1.0) / count);
        let half = STUDENT[(values.len() - 2).min(STUDENT.len() - 1)] * error;
        Self { mean, low: mean - half, high: mean + half }
    }

    /// With that many decimals; no interval where nothing varies.
    pub fn text(&self, decimals: usize) -> String {
        let Self { mean, low, high } = self;
        let (text, low) = (format!("{mean:.decimals$}"), format!("{low:.decimals$}"));
        let high = format!("{high:.decimals$}");
        if low == high { text } else { format!("{text} ({low} to {high})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_students_and_absent_where_nothing_varies() {
        let of = Mean::of(&[1.0, 2.0, 3.0]);
        assert_eq!(of.mean, 2.0);
        assert!((of.high - 2.0 - 4.303 / libm::sqrt(3.0)).abs() < 1e-9);
        assert_eq!(Mean::of(&[2.0; 5]).text(1), "2.0");
        assert_eq!(Mean::of(&[1.0, 3.0]).text(0), "2 (-11 to 15)");
    }
}
