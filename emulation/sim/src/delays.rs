//! The distribution of a flow's delays in microseconds, without keeping each delay.

use hdrhistogram::Histogram;

/// Two significant digits in quantiles.
const DIGITS: u8 = 2;
/// Eleven days, the longest duration of a scenario.
const US_MAX: u64 = 1_000_000_000_000;

/// A histogram of delays. The mean is exact.
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

    /// Adds a delay. A delay below a microsecond counts as one microsecond.
    pub fn record(&mut self, us: u64) {
        let us = us.clamp(1, US_MAX);
        self.sum_us = self.sum_us.saturating_add(us);
        self.us.record(us).expect("the histogram resizes itself");
    }

    /// The mean delay in milliseconds; `None` without delays.
    pub fn mean_ms(&self) -> Option<f64> {
        let some = !self.us.is_empty();
        some.then(|| self.sum_us as f64 / self.us.len() as f64 / 1e3)
    }

    /// The delay that a share of `share` of the packets did not exceed, in milliseconds; `None`
    /// without delays.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let some = !self.us.is_empty();
        some.then(|| self.us.value_at_quantile(share) as f64 / 1e3)
    }
}
