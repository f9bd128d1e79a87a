//! What a policy remembers of round trips, in constant space, from reports that carry only
//! minimum, maximum, sum, sum of squares and count.
//!
//! The coefficient of variation is exact over all. Percentiles come from histograms whose bins are
//! an eighth of an octave wide, so a value is off by 6.25 % at most. The 95th percentile of round
//! trips has a second error: the samples of one report (a quarter of a round trip) are taken to lie
//! at its minimum, its maximum, and one standard deviation to both sides of its mean.

use remuda_algorithms::RttSamples;
use remuda_algorithms::units::Time;
use std::time::Duration;

/// Fast is what varies within half a round trip: at the quarter of a report there are few samples,
/// and in a whole one slow start can fill half a BDP of queue.
const WINDOWS_PER_ROUND: u64 = 2;
/// A half round trip with fewer samples has no standard deviation worth the name.
const WINDOW_SAMPLES_MIN: u64 = 4;
/// Bins an octave, as a power of two: eight.
const SUB_BITS: u32 = 3;
/// Up to 2^27 microseconds, 134 s: above the 120 s that RFC 9293 lets a segment live.
const OCTAVES: usize = 27;
const BINS: usize = OCTAVES << SUB_BITS;

/// Totals of round trips. They saturate, as a report may hold any number.
#[derive(Clone, Copy, Debug, Default)]
struct RttTotals {
    count: u64,
    sum_us: u128,
    sq_sum_us2: u128,
}

impl RttTotals {
    fn add(&mut self, rtt: &RttSamples) {
        self.count = self.count.saturating_add(rtt.count);
        self.sum_us = self.sum_us.saturating_add(rtt.sum_us.into());
        self.sq_sum_us2 = self.sq_sum_us2.saturating_add(rtt.sq_sum_us2.into());
    }

    fn mean_us(&self) -> f64 {
        self.sum_us as f64 / self.count.max(1) as f64
    }

    /// Sum of the squared distances from the mean; never below zero, and never a NaN.
    fn scatter_us2(&self) -> f64 {
        (self.sq_sum_us2 as f64 - self.sum_us as f64 * self.mean_us()).max(0.0)
    }

    fn std_us(&self) -> f64 {
        (self.scatter_us2() / self.count.max(1) as f64).sqrt()
    }
}

/// A sample of round trips.
#[derive(Clone, Debug)]
pub struct RttSample {
    all: RttTotals,
    min: Option<Duration>,
    max: Duration,
    /// The half round trip under way.
    window: RttTotals,
    window_start: Time,
    windows: u64,
    /// Round trips, by size.
    bins: [u32; BINS],
    /// Finished windows, by the standard deviation within each.
    std_bins: [u32; BINS],
}

impl RttSample {
    /// An empty sample, which starts now.
    pub fn new(now: Time) -> Self {
        Self {
            all: RttTotals::default(),
            min: None,
            max: Duration::ZERO,
            window: RttTotals::default(),
            window_start: now,
            windows: 0,
            bins: [0; BINS],
            std_bins: [0; BINS],
        }
    }

    /// Takes in the round trips of one report.
    pub fn add(&mut self, rtt: &RttSamples, now: Time) {
        self.all.add(rtt);
        self.min = Some(self.min.map_or(rtt.min, |min| min.min(rtt.min)));
        self.max = self.max.max(rtt.max);
        self.window.add(rtt);
        self.count_into_bins(rtt);
        let elapsed_us = (now - self.window_start).as_micros() as f64;
        if self.window.count > 0 && elapsed_us * WINDOWS_PER_ROUND as f64 >= self.window.mean_us() {
            self.end_window(now);
        }
    }

    fn end_window(&mut self, now: Time) {
        if self.window.count >= WINDOW_SAMPLES_MIN {
            let freedom = (self.window.count - 1) as f64;
            let std_us = (self.window.scatter_us2() / freedom).sqrt();
            count_at(&mut self.std_bins, std_us as u64, 1);
        }
        self.windows += 1;
        self.window = RttTotals::default();
        self.window_start = now;
    }

    fn count_into_bins(&mut self, rtt: &RttSamples) {
        let mut one = RttTotals::default();
        one.add(rtt);
        let (mean_us, std_us) = (one.mean_us(), one.std_us());
        let (min_us, max_us) = (micros(rtt.min), micros(rtt.max).max(micros(rtt.min)));
        count_at(&mut self.bins, min_us, rtt.count.min(1));
        count_at(&mut self.bins, max_us, rtt.count.saturating_sub(1).min(1));
        let rest = rtt.count.saturating_sub(2);
        count_at(&mut self.bins, ((mean_us - std_us) as u64).clamp(min_us, max_us), rest / 2);
        count_at(
            &mut self.bins,
            ((mean_us + std_us) as u64).clamp(min_us, max_us),
            rest - rest / 2,
        );
    }

    /// How many round trips were sampled.
    pub fn count(&self) -> u64 {
        self.all.count
    }

    /// Over how many round trips.
    pub fn rounds(&self) -> u64 {
        self.windows / WINDOWS_PER_ROUND
    }

    /// The smallest; `None` without a sample.
    pub fn min(&self) -> Option<Duration> {
        self.min
    }

    pub fn mean_us(&self) -> f64 {
        self.all.mean_us()
    }

    /// Standard deviation over mean, of all.
    pub fn cov(&self) -> f64 {
        self.all.std_us() / self.all.mean_us().max(1.0)
    }

    /// Standard deviation within half a round trip, in microseconds: the lower quartile of the half
    /// round trips. A radio varies in nearly all of them; slow start, a loss, or a host that
    /// hesitates varies in a few.
    pub fn std_within_us(&self) -> f64 {
        let windows: u64 = self.std_bins.iter().map(|&count| u64::from(count)).sum();
        from_top(&self.std_bins, windows - windows / 4) as f64
    }

    /// Maximum less minimum, over the minimum.
    pub fn range(&self) -> f64 {
        let min_us = micros(self.min.unwrap_or_default());
        micros(self.max).saturating_sub(min_us) as f64 / min_us.max(1) as f64
    }

    /// The 95th percentile, to 6.25 %: half of a bin.
    pub fn p95(&self) -> Duration {
        let total: u64 = self.bins.iter().map(|&count| u64::from(count)).sum();
        Duration::from_micros(from_top(&self.bins, total / 20))
    }
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn count_at(bins: &mut [u32; BINS], value_us: u64, count: u64) {
    let bin = &mut bins[bin(value_us)];
    *bin = bin.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
}

/// The middle of the bin that holds the round trip of rank `above`; the longest round trip has
/// rank 0. Returns 0 if there are not that many round trips.
fn from_top(bins: &[u32; BINS], mut above: u64) -> u64 {
    for (bin, &count) in bins.iter().enumerate().rev() {
        if u64::from(count) > above {
            return middle_us(bin);
        }
        above -= u64::from(count);
    }
    0
}

/// The octave, and within it the eighth, of a round trip.
fn bin(rtt_us: u64) -> usize {
    let floor = 1 << SUB_BITS;
    let value = rtt_us.max(floor);
    let octave = value.ilog2();
    let sub = (value >> (octave - SUB_BITS)) - floor;
    let index = (octave as usize) << SUB_BITS | sub as usize;
    index.min(BINS - 1)
}

/// The middle of a bin.
fn middle_us(bin: usize) -> u64 {
    let octave = (bin >> SUB_BITS) as u32;
    let sub = (bin & ((1 << SUB_BITS) - 1)) as u64;
    let width = (1u64 << octave) >> SUB_BITS;
    (1 << octave) + sub * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at_ms(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn of(rtts_us: &[u64]) -> RttSamples {
        let span = |us: Option<&u64>| Duration::from_micros(*us.expect("a sample"));
        RttSamples {
            last: span(rtts_us.last()),
            min: span(rtts_us.iter().min()),
            max: span(rtts_us.iter().max()),
            sum_us: rtts_us.iter().sum(),
            sq_sum_us2: rtts_us.iter().map(|us| us * us).sum(),
            count: rtts_us.len() as u64,
        }
    }

    #[test]
    fn variation_is_exact() {
        let mut sample = RttSample::new(at_ms(0));
        sample.add(&of(&[36_000, 44_000]), at_ms(50));
        sample.add(&of(&[56_000, 64_000]), at_ms(150));
        // Mean 50, deviations 14, 6, 6, 14: std sqrt(116) ms.
        assert!((sample.cov() - 116f64.sqrt() / 50.0).abs() < 1e-9);
        assert!((sample.range() - 28.0 / 36.0).abs() < 1e-9);
        assert_eq!((sample.count(), sample.rounds()), (4, 1));
    }

    #[test]
    fn windows_that_vary_count_only_if_most_do() {
        let sampled = |wild: u64| {
            let mut sample = RttSample::new(at_ms(0));
            for turn in 1..=20 {
                let off_us = if turn <= wild { 20_000 } else { 1_000 };
                let rtts_us = [40_000 - off_us, 40_000 + off_us, 40_000 - off_us, 40_000 + off_us];
                sample.add(&of(&rtts_us), at_ms(50 * turn));
            }
            sample.std_within_us()
        };
        assert!(sampled(10) < 1_300.0, "{}", sampled(10));
        assert!(sampled(18) > 20_000.0, "{}", sampled(18));
    }

    #[test]
    fn a_slow_ramp_varies_overall_but_not_within_a_round_trip() {
        let mut sample = RttSample::new(at_ms(0));
        let mut now_ms = 0;
        for ms in 40..200u64 {
            now_ms += ms;
            let rtt_us = ms * 1_000;
            sample.add(&of(&[rtt_us, rtt_us + 300, rtt_us + 600, rtt_us + 900]), at_ms(now_ms));
        }
        assert!(sample.cov() > 0.3 && sample.std_within_us() < 500.0, "{}", sample.std_within_us());
    }

    proptest! {
        #[test]
        fn the_95th_percentile_of_single_samples_is_off_by_half_a_bin(
            mut rtts_us in prop::collection::vec(100u64..10_000_000, 1..200),
        ) {
            let mut sample = RttSample::new(at_ms(0));
            for rtt_us in &rtts_us {
                sample.add(&of(&[*rtt_us]), at_ms(0));
            }
            rtts_us.sort_unstable();
            let exact = rtts_us[rtts_us.len() - 1 - rtts_us.len() / 20] as f64;
            let got = sample.p95().as_micros() as f64;
            prop_assert!((got - exact).abs() <= exact * 0.0625 + 1.0, "{got} for {exact}");
        }

        #[test]
        fn bogus_reports_neither_panic_nor_give_a_nan(
            reports in prop::collection::vec(any::<(u64, u64, u64, u64, u64, u64)>(), 0..20),
        ) {
            let mut sample = RttSample::new(at_ms(0));
            for (min, max, sum_us, sq_sum_us2, count, at) in reports {
                let (min, max) = (Duration::from_micros(min), Duration::from_micros(max));
                let rtt = RttSamples { last: min, min, max, sum_us, sq_sum_us2, count };
                sample.add(&rtt, Time(Duration::from_micros(at)));
            }
            let (cov, within) = (sample.cov(), sample.std_within_us());
            prop_assert!(cov.is_finite() && within.is_finite() && sample.range().is_finite());
            let _ = sample.p95();
        }
    }
}
