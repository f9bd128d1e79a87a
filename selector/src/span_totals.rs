//! Totals of a span of time: what was delivered, lost and measured in it.

use remuda_algorithms::units::{Bytes, Packets};
use remuda_algorithms::{Measurement, Seen};
use std::time::Duration;

/// The segment size to assume where a datapath reports none.
pub const MSS_UNKNOWN: Bytes = Bytes(1448);

/// Totals of a span that grows with each report.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanTotals {
    span: Duration,
    delivered_bytes: f64,
    lost_bytes: f64,
    rtt_sum_us: f64,
    rtts: f64,
}

impl SpanTotals {
    /// Takes in a report that covers a time of that length.
    pub fn add(&mut self, m: &Measurement, span: Duration) {
        let mss = if m.mss > Bytes(0) { m.mss } else { MSS_UNKNOWN };
        self.span = self.span.saturating_add(span);
        self.delivered_bytes += m.delivered.0 as f64;
        self.lost_bytes += Packets(m.lost.0).to_bytes(mss).0 as f64;
        if let Some(rtt) = m.rtt {
            self.rtt_sum_us += rtt.sum_us as f64;
            self.rtts += rtt.count as f64;
        }
    }

    pub fn span(&self) -> Duration {
        self.span
    }

    /// What was seen; `None` if the span has no length or no round trip was sampled.
    pub fn seen(&self) -> Option<Seen> {
        let span_s = self.span.as_secs_f64();
        let mbit_per_sec = |bytes: f64| bytes * 8.0 / 1e6 / span_s;
        (span_s > 0.0 && self.rtts > 0.0).then(|| Seen {
            span_s,
            throughput_mbit_per_sec: mbit_per_sec(self.delivered_bytes),
            lost_mbit_per_sec: mbit_per_sec(self.lost_bytes),
            rtt_mean_ms: self.rtt_sum_us / self.rtts / 1e3,
        })
    }
}
