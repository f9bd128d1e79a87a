//! What flows have done.

use remuda_algorithms::units::Time;

/// What happened, for `remuda flows` and the event of the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub reports: u64,
    pub switches: u64,
    /// Payload acknowledged, in bytes.
    pub acked_bytes: u64,
    pub lost_pkts: u64,
    /// The sum and number of its round trips, in microseconds.
    pub rtt_us: u64,
    pub rtts: u64,
    /// When bytes were last acknowledged.
    pub acked_at: Time,
}

/// What flows of one arm have done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArmTotals {
    pub reports: u64,
    pub acked_bytes: u64,
    pub lost_pkts: u64,
    /// The sum and number of round trips, in microseconds.
    pub rtt_us: u64,
    pub rtts: u64,
}

impl ArmTotals {
    /// Adds what another flow, or a report, has counted.
    pub fn add(&mut self, other: &Self) {
        self.reports += other.reports;
        self.acked_bytes += other.acked_bytes;
        self.lost_pkts += other.lost_pkts;
        self.rtt_us = self.rtt_us.saturating_add(other.rtt_us);
        self.rtts += other.rtts;
    }
}
