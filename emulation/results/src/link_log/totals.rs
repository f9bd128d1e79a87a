//! Sums over a log.

use super::Delays;
use remuda_link::LogEntry;

/// Sums over a log, or over one flow of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTotals {
    /// Bytes that the link could have delivered; 0 for a flow.
    pub capacity_bytes: u64,
    pub arrived_packets: u64,
    pub arrived_bytes: u64,
    pub departed_packets: u64,
    pub departed_bytes: u64,
    pub dropped_packets: u64,
    pub dropped_bytes: u64,
    delays: Delays,
}

impl LogTotals {
    pub(super) fn count(&mut self, event: LogEntry) {
        match event {
            LogEntry::Opportunity { bytes, .. } => add(&mut self.capacity_bytes, bytes),
            LogEntry::Arrival { bytes, .. } => {
                self.arrived_packets += 1;
                add(&mut self.arrived_bytes, bytes);
            }
            LogEntry::Departure { bytes, delay, .. } => {
                self.departed_packets += 1;
                add(&mut self.departed_bytes, bytes);
                self.delays.count(delay.as_millis());
            }
            LogEntry::Drop { packets, bytes, .. } => {
                add(&mut self.dropped_packets, packets);
                add(&mut self.dropped_bytes, bytes);
            }
        }
    }

    /// A quantile of the queueing delays of the packets that left.
    pub fn delay_ms(&self, percent: u64) -> Option<u64> {
        self.delays.quantile_ms(percent)
    }

    /// Share of the arriving packets that were dropped.
    pub fn dropped_percent(&self) -> Option<f64> {
        let arrived = self.arrived_packets as f64;
        (arrived > 0.0).then(|| 100.0 * self.dropped_packets as f64 / arrived)
    }
}

/// Sums over one bin of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBin {
    /// Bytes that the link could have delivered.
    pub capacity_bytes: u64,
    pub departed_bytes: u64,
    pub departed_packets: u64,
    /// Sum of the queueing delays of the packets that left.
    pub delay_ms_sum: u64,
    pub delay_ms_max: u64,
    pub dropped_packets: u64,
}

impl LogBin {
    pub(super) fn count(&mut self, event: LogEntry) {
        match event {
            LogEntry::Opportunity { bytes, .. } => add(&mut self.capacity_bytes, bytes),
            LogEntry::Arrival { .. } => {}
            LogEntry::Departure { bytes, delay, .. } => {
                let delay_ms = delay.as_millis();
                self.departed_packets += 1;
                add(&mut self.departed_bytes, bytes);
                add(&mut self.delay_ms_sum, delay_ms);
                self.delay_ms_max = self.delay_ms_max.max(delay_ms);
            }
            LogEntry::Drop { packets, .. } => add(&mut self.dropped_packets, packets),
        }
    }
}

/// Saturates, because a log may contain any number.
fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}
