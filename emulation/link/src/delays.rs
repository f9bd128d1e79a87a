//! Distributions of delays.

use crate::time::Nanos;
use hdrhistogram::Histogram;

/// The histogram keeps delays from 1 us to 1000 s, with three significant digits.
const DELAY_NS_MIN: u64 = 1_000;
const DELAY_NS_MAX: u64 = 1_000_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// A distribution of delays.
///
/// Quantiles are NaN without a histogram: see
/// [`Link::without_delay_histogram`](crate::Link::without_delay_histogram).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DelaySummary {
    pub packets: u64,
    pub mean_ms: f64,
    /// Half of the packets waited no longer.
    pub p50_ms: f64,
    /// 95 % of the packets waited no longer.
    pub p95_ms: f64,
    /// 99 % of the packets waited no longer.
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// How many different delays are gathered at once; a power of two.
const PLACES: usize = 8;

/// Packets with exactly the same delay, gathered before they go into the histogram.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    delay: Nanos,
    packets: u64,
}

/// Delays of packets, gathered.
#[derive(Clone, Debug)]
pub struct Delays {
    delay_ns: Option<Histogram<u64>>,
    /// Equal delays go into the histogram together: a steady queue has many of them.
    alike: [Alike; PLACES],
    delays: u64,
    delay_ns_sum: u128,
    delay_ns_max: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self::new()
    }
}

impl Delays {
    pub fn new() -> Self {
        Self {
            delay_ns: Some(histogram()),
            alike: [Alike::default(); PLACES],
            delays: 0,
            delay_ns_sum: 0,
            delay_ns_max: 0,
        }
    }

    pub(crate) fn keep_no_histogram(&mut self) {
        self.delay_ns = None;
    }

    /// Adds the delay of one packet.
    #[inline]
    pub fn add(&mut self, delay: Nanos) {
        // Fibonacci hashing: use the upper bits of the product.
        let place = (delay.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % PLACES;
        if delay != self.alike[place].delay {
            self.count(place);
            self.alike[place].delay = delay;
        }
        self.alike[place].packets += 1;
    }

    #[inline(never)]
    fn count(&mut self, place: usize) {
        let Alike { delay: Nanos(delay), packets } = std::mem::take(&mut self.alike[place]);
        if let Some(delay_ns) = &mut self.delay_ns {
            delay_ns
                .record_n(delay.min(DELAY_NS_MAX), packets)
                .expect("a histogram that grows takes any value up to half of what 64 bits hold");
        }
        self.delays += packets;
        self.delay_ns_sum += u128::from(delay) * u128::from(packets);
        if packets > 0 {
            self.delay_ns_max = self.delay_ns_max.max(delay);
        }
    }

    /// The distribution so far.
    pub fn summary(&self) -> DelaySummary {
        let mut all = self.clone();
        (0..PLACES).for_each(|place| all.count(place));
        let quantile = |q| match &all.delay_ns {
            Some(delay_ns) => delay_ns.value_at_quantile(q).min(all.delay_ns_max) as f64 / 1e6,
            None => f64::NAN,
        };
        let mean_ns = match all.delays {
            0 => 0.0,
            packets => all.delay_ns_sum as f64 / packets as f64,
        };
        DelaySummary {
            packets: all.delays,
            mean_ms: mean_ns / 1e6,
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            max_ms: all.delay_ns_max as f64 / 1e6,
        }
    }

    /// Begins again, without any delay.
    pub fn reset(&mut self) {
        if let Some(delay_ns) = &mut self.delay_ns {
            delay_ns.reset();
        }
        self.alike = [Alike::default(); PLACES];
        self.delays = 0;
        self.delay_ns_sum = 0;
        self.delay_ns_max = 0;
    }
}

/// The histogram grows with the longest delay: with short delays it takes only some kilobytes.
fn histogram() -> Histogram<u64> {
    let mut histogram =
        Histogram::new_with_bounds(DELAY_NS_MIN, 2 * DELAY_NS_MIN, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that a histogram takes");
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_true_to_a_thousandth() {
        let mut delays = Delays::new();
        assert_eq!(delays.summary(), DelaySummary::default());
        for ms in 1..=100 {
            delays.add(Nanos::from_millis(ms));
        }
        let delay = delays.summary();
        assert_eq!((delay.packets, delay.mean_ms, delay.max_ms), (100, 50.5, 100.0));
        for (got, want) in [(delay.p50_ms, 50.0), (delay.p95_ms, 95.0), (delay.p99_ms, 99.0)] {
            assert!((got / want - 1.0).abs() < 2e-3, "{got} for {want}");
        }
        delays.reset();
        assert_eq!(delays.summary(), DelaySummary::default());
    }

    #[test]
    fn a_histogram_that_grows_says_what_a_full_one_says() {
        let mut delays = Delays::new();
        let mut full =
            Histogram::<u64>::new_with_bounds(DELAY_NS_MIN, DELAY_NS_MAX, SIGNIFICANT_DIGITS)
                .unwrap();
        let each = (0..60).map(|power| 7 * (1u64 << power) / 5).chain([0, 1, u64::MAX]);
        for delay in each {
            delays.add(Nanos(delay));
            full.saturating_record(delay);
        }
        let delay = delays.summary();
        for (q, got) in [(0.5, delay.p50_ms), (0.95, delay.p95_ms), (0.99, delay.p99_ms)] {
            assert_eq!(full.value_at_quantile(q) as f64 / 1e6, got);
        }
    }

    #[test]
    fn without_a_histogram_mean_and_maximum_stay() {
        let mut delays = Delays::new();
        delays.keep_no_histogram();
        delays.add(Nanos::from_millis(2));
        delays.add(Nanos::from_millis(4));
        let delay = delays.summary();
        assert_eq!((delay.packets, delay.mean_ms, delay.max_ms), (2, 3.0, 4.0));
        assert!(delay.p50_ms.is_nan() && delay.p95_ms.is_nan() && delay.p99_ms.is_nan());
    }
}
