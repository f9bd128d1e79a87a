//! A flow that an outside caller drives step by step, such as a training environment.

use crate::tcp::sender::{AckSample, Sender, State};
use remuda_algorithms::CwndUse;
use remuda_algorithms::units::{Bytes, Packets, Rate};
use remuda_algorithms::{Decision, Measurement, RttSamples};
use std::time::Duration;

/// The measurements since the last call of `take`.
#[derive(Clone, Copy, Debug)]
pub struct External {
    so_far: Measurement,
    lost_pkts: u64,
}

impl Default for External {
    fn default() -> Self {
        Self { so_far: Measurement::QUIET, lost_pkts: 0 }
    }
}

impl External {
    pub fn on_ack(&mut self, sender: &mut Sender, sample: &AckSample) {
        self.so_far.timed_out |= sender.take_timed_out();
        self.note(sender, sample);
    }

    /// Notes an ACK, but leaves the sender's flag of a timeout for the arm that drives it.
    pub fn note(&mut self, sender: &Sender, sample: &AckSample) {
        let mss = u64::from(sender.mss_bytes);
        let m = &mut self.so_far;
        m.acked += Bytes(u64::from(sample.acked_pkts) * mss);
        m.delivered += Bytes(u64::from(sample.delivered_pkts) * mss);
        m.ecn_marked += Packets(sample.ce_pkts.into());
        m.undone |= sample.undone;
        m.in_flight = m.in_flight.max(Bytes(u64::from(sender.in_flight_pkts()) * mss));
        if let Some(rtt_ns) = sample.rtt_ns {
            add_rtt(&mut m.rtt, Duration::from_nanos(rtt_ns));
        }
        if let Some(rate) = sample.rate {
            let bytes_ns = u64::from(rate.delivered_pkts) * mss * 1_000_000_000;
            let over = |ns: u64| Rate::from_bytes_per_sec(bytes_ns.checked_div(ns).unwrap_or(0));
            let (sent, delivered) = (over(rate.send_ns), over(rate.ack_ns));
            m.send_rate = m.send_rate.max(sent);
            m.delivery_rate = m.delivery_rate.max(sent.min(delivered));
            m.app_limited |= rate.is_app_limited;
        }
        if sender.is_cwnd_limited() {
            m.cwnd_use = Some(CwndUse::Full);
        }
    }

    /// Returns the measurements since the last call.
    pub fn take(&mut self, sender: &Sender) -> Measurement {
        let taken = std::mem::replace(&mut self.so_far, Measurement::QUIET);
        let lost = sender.counts.lost_pkts;
        let lost = Packets(lost - std::mem::replace(&mut self.lost_pkts, lost));
        Measurement {
            lost,
            in_recovery: sender.state() >= State::Recovery,
            cwnd: Bytes(u64::from(sender.cwnd_pkts) * u64::from(sender.mss_bytes)),
            ..taken
        }
    }
}

/// Applies a decision. The window has a floor of two segments, as in every datapath.
pub fn obey(sender: &mut Sender, decision: Decision) {
    let pkts = decision.cwnd.0 / u64::from(sender.mss_bytes);
    sender.cwnd_pkts = u32::try_from(pkts).unwrap_or(u32::MAX).max(2);
    sender.pacer.set_rate(decision.rate.map(|rate| rate.bytes_per_sec()));
}

fn add_rtt(so_far: &mut Option<RttSamples>, rtt: Duration) {
    let one = RttSamples::one(rtt);
    *so_far = Some(so_far.map_or(one, |all| RttSamples {
        last: rtt,
        min: all.min.min(rtt),
        max: all.max.max(rtt),
        sum_us: all.sum_us + one.sum_us,
        sq_sum_us2: all.sq_sum_us2.saturating_add(one.sq_sum_us2),
        count: all.count + 1,
    }));
}
