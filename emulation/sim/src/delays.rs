//! How long a flow's packets took, in microseconds: all of them, without keeping each.

use hdrhistogram::Histogram;

/// Quantiles have two significant digits.
const DIGITS: u8 = 2;
/// Eleven days, a scenario's longest.
const US_MAX: u64 = 1_000_000_000_000;

/// Delays, counted. Their mean is exact.
#[derive(Clone, Debug)]
pub struct Delays {
    us: Histogram<u32>,
    sum_us: u64,
}

impl Delays {
    pub fn new() -> Self {
        let us = Histogram::new(DIGITS).expect("two digits are a number hdrhistogram takes");
        Self { us, sum_us: 0 }
    }

    /// One more; less than a microsecond is one.
    pub fn record(&mut self, us: u64) {
        let us = us.clamp(1, US_MAX);
        self.sum_us = self.sum_us.saturating_add(us);
        self.us.record(us).expect("the histogram resizes itself");
    }

    /// Their mean, in milliseconds; `None` if there are none.
    pub fn mean_ms(&self) -> Option<f64> {
        let some = !self.us.is_empty();
        some.then(|| self.sum_us as f64 / self.us.len() as f64 / 1e3)
    }

    /// The share of them that took no longer, in milliseconds; `None` if there are none.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let some = !self.us.is_empty();
        some.then(|| self.us.value_at_quantile(share) as f64 / 1e3)
    }
}
