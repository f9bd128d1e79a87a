//! The counters of a link.

use crate::delays::{DelaySummary, Delays};
use crate::queue::DropReason;
use crate::time::Nanos;

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

/// The counters behind [`LinkStats`].
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(crate) totals: LinkStats,
    delays: Delays,
    marked_before: u64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self { totals: LinkStats::default(), delays: Delays::new(), marked_before: 0 }
    }

    pub(crate) fn keep_no_histogram(&mut self) {
        self.delays.keep_no_histogram();
    }

    /// Updates the maxima. Must be called whenever the queue has grown.
    #[inline]
    pub(crate) fn queue_is(&mut self, packets: u64, bytes: u64) {
        self.totals.queue_packets_max = self.totals.queue_packets_max.max(packets);
        self.totals.queue_bytes_max = self.totals.queue_bytes_max.max(bytes);
    }

    #[inline]
    pub(crate) fn waited(&mut self, delay: Nanos) {
        self.delays.add(delay);
    }

    pub(crate) fn snapshot(&self, level: Level) -> LinkStats {
        LinkStats {
            ecn_marked: level.marked - self.marked_before,
            packets_held: level.packets_held,
            queue_packets: level.queue_packets,
            queue_bytes: level.queue_bytes,
            queueing_delay: self.delays.summary(),
            ..self.totals.clone()
        }
    }

    /// Sets the counters to zero. The maxima begin at what waits now.
    pub(crate) fn reset(&mut self, level: Level) {
        self.totals = LinkStats::default();
        self.marked_before = level.marked;
        self.queue_is(level.queue_packets, level.queue_bytes);
        self.delays.reset();
    }
}
