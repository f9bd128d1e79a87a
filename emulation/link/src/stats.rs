//! The counters of a link.

use crate::queue::DropReason;
use crate::time::Nanos;
use hdrhistogram::Histogram;

/// The histogram keeps delays from 1 us to 1000 s, with three significant digits.
const DELAY_NS_MIN: u64 = 1_000;
const DELAY_NS_MAX: u64 = 1_000_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Packets dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// Packets lost by the loss model.
    pub loss: u64,
    pub policer: u64,
    /// Packets that arrived at a full queue.
    pub queue_full: u64,
    /// Packets dropped from the head of a full drop-head queue, or of the longest flow of a full
    /// FQ-CoDel.
    pub head_drop: u64,
    /// Packets dropped by CoDel or by FQ-CoDel's CoDel.
    pub codel: u64,
    pub pie: u64,
    pub red: u64,
}

impl DropCounts {
    pub fn total(&self) -> u64 {
        let before_queue = self.loss + self.policer;
        before_queue + self.queue_full + self.head_drop + self.codel + self.pie + self.red
    }

    pub(crate) fn count(&mut self, reason: DropReason) {
        *match reason {
            DropReason::Loss => &mut self.loss,
            DropReason::Policer => &mut self.policer,
            DropReason::QueueFull => &mut self.queue_full,
            DropReason::HeadDrop => &mut self.head_drop,
            DropReason::CoDel => &mut self.codel,
            DropReason::Pie => &mut self.pie,
            DropReason::Red => &mut self.red,
        } += 1;
    }
}

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

/// What a link has done since it started, or since the last reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkStats {
    /// Packets that came to the link.
    pub packets_in: u64,
    /// Their bytes, from the IP header on.
    pub bytes_in: u64,
    /// Packets delivered to the other end.
    pub packets_out: u64,
    pub bytes_out: u64,
    pub dropped: DropCounts,
    pub bytes_dropped: u64,
    /// Packets the queue marked "congestion experienced".
    pub ecn_marked: u64,
    /// Packets in the link now: queued, in transmission, travelling, or held for aggregation.
    pub packets_held: u64,
    /// Packets that wait in the queue now.
    pub queue_packets: u64,
    /// Bytes of these packets, as the queue's limit counts them.
    pub queue_bytes: u64,
    /// The most packets that waited at once.
    pub queue_packets_max: u64,
    /// The most bytes that waited at once.
    pub queue_bytes_max: u64,
    /// From arrival at the queue to the end of transmission, without propagation. Lost packets are
    /// not in it.
    pub queueing_delay: DelaySummary,
}

/// How full a link is now, and how many packets its queue has marked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    pub(crate) packets_held: u64,
    pub(crate) queue_packets: u64,
    pub(crate) queue_bytes: u64,
    pub(crate) marked: u64,
}

/// How many different delays are gathered at once; a power of two.
const PLACES: usize = 8;

/// Packets with exactly the same delay, gathered before they go into the histogram.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    delay: Nanos,
    packets: u64,
}

/// The counters behind [`LinkStats`].
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(crate) totals: LinkStats,
    delay_ns: Option<Histogram<u64>>,
    /// Equal delays go into the histogram together: a steady queue has many of them.
    alike: [Alike; PLACES],
    delays: u64,
    delay_ns_sum: u128,
    delay_ns_max: u64,
    marked_before: u64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            totals: LinkStats::default(),
            delay_ns: Some(histogram()),
            alike: [Alike::default(); PLACES],
            delays: 0,
            delay_ns_sum: 0,
            delay_ns_max: 0,
            marked_before: 0,
        }
    }

    pub(crate) fn keep_no_histogram(&mut self) {
        self.delay_ns = None;
    }

    /// Updates the maxima. Must be called whenever the queue has grown.
    #[inline]
    pub(crate) fn queue_is(&mut self, packets: u64, bytes: u64) {
        self.totals.queue_packets_max = self.totals.queue_packets_max.max(packets);
        self.totals.queue_bytes_max = self.totals.queue_bytes_max.max(bytes);
    }

    #[inline]
    pub(crate) fn waited(&mut self, delay: Nanos) {
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

    pub(crate) fn snapshot(&self, level: Level) -> LinkStats {
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
        LinkStats {
            ecn_marked: level.marked - all.marked_before,
            packets_held: level.packets_held,
            queue_packets: level.queue_packets,
            queue_bytes: level.queue_bytes,
            queueing_delay: DelaySummary {
                packets: all.delays,
                mean_ms: mean_ns / 1e6,
                p50_ms: quantile(0.5),
                p95_ms: quantile(0.95),
                p99_ms: quantile(0.99),
                max_ms: all.delay_ns_max as f64 / 1e6,
            },
            ..all.totals
        }
    }

    /// Sets the counters to zero. The maxima begin at what waits now.
    pub(crate) fn reset(&mut self, level: Level) {
        self.totals = LinkStats::default();
        self.marked_before = level.marked;
        self.queue_is(level.queue_packets, level.queue_bytes);
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
        let mut counters = Counters::new();
        let summary = |counters: &Counters| counters.snapshot(Level::default()).queueing_delay;
        assert_eq!(summary(&counters), DelaySummary::default());
        for ms in 1..=100 {
            counters.waited(Nanos::from_millis(ms));
        }
        let delay = summary(&counters);
        assert_eq!((delay.packets, delay.mean_ms, delay.max_ms), (100, 50.5, 100.0));
        for (got, want) in [(delay.p50_ms, 50.0), (delay.p95_ms, 95.0), (delay.p99_ms, 99.0)] {
            assert!((got / want - 1.0).abs() < 2e-3, "{got} for {want}");
        }
        counters.reset(Level::default());
        assert_eq!(counters.snapshot(Level::default()), LinkStats::default());
    }

    #[test]
    fn a_histogram_that_grows_says_what_a_full_one_says() {
        let mut counters = Counters::new();
        let mut full =
            Histogram::<u64>::new_with_bounds(DELAY_NS_MIN, DELAY_NS_MAX, SIGNIFICANT_DIGITS)
                .unwrap();
        let delays = (0..60).map(|power| 7 * (1u64 << power) / 5).chain([0, 1, u64::MAX]);
        for delay in delays {
            counters.waited(Nanos(delay));
            full.saturating_record(delay);
        }
        let delay = counters.snapshot(Level::default()).queueing_delay;
        for (q, got) in [(0.5, delay.p50_ms), (0.95, delay.p95_ms), (0.99, delay.p99_ms)] {
            assert_eq!(full.value_at_quantile(q) as f64 / 1e6, got);
        }
    }

    #[test]
    fn without_a_histogram_mean_and_maximum_stay() {
        let mut counters = Counters::new();
        counters.keep_no_histogram();
        counters.waited(Nanos::from_millis(2));
        counters.waited(Nanos::from_millis(4));
        let delay = counters.snapshot(Level::default()).queueing_delay;
        assert_eq!((delay.packets, delay.mean_ms, delay.max_ms), (2, 3.0, 4.0));
        assert!(delay.p50_ms.is_nan() && delay.p95_ms.is_nan() && delay.p99_ms.is_nan());
    }
}
