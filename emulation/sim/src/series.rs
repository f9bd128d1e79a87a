//! The time series: samples of every flow and link at intervals.

use crate::packet::Packet;
use crate::simulation::Flow;
use remuda_link::Link;
use remuda_scenarios::outcome::{FlowSample, LinkSample};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Series {
    interval_ns: Option<u64>,
    /// Ordered by time, then by flow.
    pub flows: Vec<FlowSample>,
    /// Ordered by time, then by link.
    pub links: Vec<LinkSample>,
}

impl Series {
    /// A time series with a sample every `sample_ms`; at 0, no samples are taken.
    pub fn new(sample_ms: f64) -> Self {
        let interval_ns = (sample_ms * 1e6) as u64;
        Self { interval_ns: (interval_ns > 0).then_some(interval_ns), ..Self::default() }
    }

    /// The interval between samples in nanoseconds; `None` without a time series.
    pub fn interval_ns(&self) -> Option<u64> {
        self.interval_ns
    }

    /// Takes a sample. Flows that have not started, or have ended, are left out.
    pub fn look(&mut self, now_ns: u64, flows: &[Flow], links: &[Link<Packet>]) {
        let t_s = now_ns as f64 / 1e9;
        for (flow, state) in (0..).zip(flows) {
            let Flow::Tcp(tcp) = state else { continue };
            if !tcp.has_started() || tcp.end_ns.is_some() {
                continue;
            }
            let sender = &tcp.sender;
            let ms = |ns: u64| ns as f64 / 1e6;
            self.flows.push(FlowSample {
                t_s,
                flow,
                arm: self.arm(&tcp.control.arm()),
                cwnd_pkts: sender.cwnd_pkts.into(),
                pacing_mbit_per_sec: sender.pacer.rate().map(|rate| rate as f64 * 8.0 / 1e6),
                srtt_ms: sender.rtt().smoothed_ns().map(ms),
                in_flight_pkts: sender.in_flight_pkts(),
                delivered_bytes: tcp.delivered_bytes(),
                retransmitted_pkts: sender.counts.resent_pkts,
            });
        }
        for (link, state) in (0..).zip(links) {
            let (queue_packets, queue_bytes) = state.queue();
            self.links.push(LinkSample { t_s, link, queue_packets, queue_bytes });
        }
    }

    /// Returns the last sample's string if it equals `name`, so that samples share one allocation.
    fn arm(&self, name: &Arc<str>) -> Arc<str> {
        let same = self.flows.last().map(|last| &last.arm).filter(|last| *last == name);
        Arc::clone(same.unwrap_or(name))
    }
}
