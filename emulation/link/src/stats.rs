//! What a link counts.

use crate::queue::DropReason;
use crate::time::Nanos;
use hdrhistogram::Histogram;

/// Delays are kept to three significant digits between 1 us and 1000 s.
const DELAY_NS_MIN: u64 = 1_000;
const DELAY_NS_MAX: u64 = 1_000_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Packets dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// By the loss model.
    pub loss: u64,
    /// Because the queue was full on arrival.
    pub queue_full: u64,
    /// From the head of a full drop-head queue.
    pub head_drop: u64,
    /// By CoDel.
    pub codel: u64,
}

impl DropCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.loss + self.queue_full + self.head_drop + self.codel
    }

    pub(crate) fn count(&mut self, reason: DropReason) {
        *match reason {
            DropReason::Loss => &mut self.loss,
            DropReason::QueueFull => &mut self.queue_full,
            DropReason::HeadDrop => &mut self.head_drop,
            DropReason::CoDel => &mut self.codel,
        } += 1;
    }
}

/// A distribution of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DelaySummary {
    /// How many packets.
    pub packets: u64,
    /// Their mean.
    pub mean_ms: f64,
    /// Half waited no longer.
    pub p50_ms: f64,
    /// 95 % waited no longer.
    pub p95_ms: f64,
    /// 99 % waited no longer.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// What a link has done since it started, or since its counters were reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkStats {
    /// Packets that came to the link.
    pub packets_in: u64,
    /// Their bytes, from the IP header on.
    pub bytes_in: u64,
    /// Packets delivered to the other end.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets dropped.
    pub dropped: DropCounts,
    /// Their bytes.
    pub bytes_dropped: u64,
    /// Packets CoDel marked "congestion experienced".
    pub ecn_marked: u64,
    /// Packets under way now: queued, being sent, or being delayed.
    pub packets_held: u64,
    /// Packets that wait in the queue now.
    pub queue_packets: u64,
    /// Their bytes, as the queue's limit counts them.
    pub queue_bytes: u64,
    /// The most packets that waited at a time.
    pub queue_packets_max: u64,
    /// The most bytes that waited at a time.
    pub queue_bytes_max: u64,
    /// From arrival at the queue to the end of transmission; loss and propagation not in it.
    pub queueing_delay: DelaySummary,
}

/// The counters behind [`LinkStats`].
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(crate) totals: LinkStats,
    delay_ns: Histogram<u64>,
    delay_ns_sum: u128,
    delay_ns_max: u64,
    marked_before: u64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            totals: LinkStats::default(),
            delay_ns: Histogram::new_with_bounds(DELAY_NS_MIN, DELAY_NS_MAX, SIGNIFICANT_DIGITS)
                .expect("the bounds are constants that a histogram takes"),
            delay_ns_sum: 0,
            delay_ns_max: 0,
            marked_before: 0,
        }
    }

    pub(crate) fn queue_is(&mut self, packets: u64, bytes: u64) {
        self.totals.queue_packets = packets;
        self.totals.queue_bytes = bytes;
        self.totals.queue_packets_max = self.totals.queue_packets_max.max(packets);
        self.totals.queue_bytes_max = self.totals.queue_bytes_max.max(bytes);
    }

    /// The queue counts its marks from the start; a reset subtracts those before it.
    pub(crate) fn marked_is(&mut self, marked: u64) {
        self.totals.ecn_marked = marked - self.marked_before;
    }

    pub(crate) fn waited(&mut self, delay: Nanos) {
        self.delay_ns.saturating_record(delay.0);
        self.delay_ns_sum += u128::from(delay.0);
        self.delay_ns_max = self.delay_ns_max.max(delay.0);
    }

    pub(crate) fn snapshot(&self) -> LinkStats {
        let quantile = |q| self.delay_ns.value_at_quantile(q).min(self.delay_ns_max) as f64 / 1e6;
        let packets = self.delay_ns.len();
        let mean_ns = if packets == 0 { 0.0 } else { self.delay_ns_sum as f64 / packets as f64 };
        let queueing_delay = DelaySummary {
            packets,
            mean_ms: mean_ns / 1e6,
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            max_ms: self.delay_ns_max as f64 / 1e6,
        };
        LinkStats { queueing_delay, ..self.totals.clone() }
    }

    /// Starts again at zero, but for what is under way and what waits.
    pub(crate) fn reset(&mut self) {
        let before = std::mem::take(&mut self.totals);
        self.marked_before += before.ecn_marked;
        self.queue_is(before.queue_packets, before.queue_bytes);
        self.delay_ns.reset();
        self.delay_ns_sum = 0;
        self.delay_ns_max = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_true_to_a_thousandth() {
        let mut counters = Counters::new();
        assert_eq!(counters.snapshot().queueing_delay, DelaySummary::default());
        for ms in 1..=100 {
            counters.waited(Nanos::from_millis(ms));
        }
        let delay = counters.snapshot().queueing_delay;
        assert_eq!((delay.packets, delay.mean_ms, delay.max_ms), (100, 50.5, 100.0));
        for (got, want) in [(delay.p50_ms, 50.0), (delay.p95_ms, 95.0), (delay.p99_ms, 99.0)] {
            assert!((got / want - 1.0).abs() < 2e-3, "{got} for {want}");
        }
        counters.reset();
        assert_eq!(counters.snapshot(), LinkStats::default());
    }
}
