//! A sender without feedback: packets at a rate, evenly spaced or as a Poisson process.
//!
//! The gaps of a Poisson process are exponential. They are drawn by inversion, -ln(u) / rate, with
//! a logarithm that is the same on every machine.

use crate::packet::Packet;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_scenarios::FlowSpec;

#[derive(Debug)]
pub struct Unresponsive {
    /// The flow as the scenario describes it.
    pub spec: FlowSpec,
    /// The indices of the links it crosses.
    pub route: Box<[u16]>,
    /// When the flow started, in nanoseconds.
    pub start_ns: u64,
    /// When the flow was stopped.
    pub stop_ns: Option<u64>,
    pub sent_pkts: u32,
    pub arrived_pkts: u32,
    flow: u32,
    gap_ns: f64,
    rng: ChaCha8Rng,
}

impl Unresponsive {
    /// A sender that has not started. Its gaps are drawn from `seed`.
    pub fn new(flow: u32, spec: FlowSpec, route: Box<[u16]>, seed: u64) -> Self {
        let bits = f64::from(spec.mss_bytes + crate::packet::HEADER_BYTES) * 8.0;
        let rate = spec.app_rate_mbit_per_sec.unwrap_or(1.0) * 1e6;
        Self {
            start_ns: (spec.start_s * 1e9) as u64,
            stop_ns: None,
            sent_pkts: 0,
            arrived_pkts: 0,
            gap_ns: bits / rate * 1e9,
            rng: ChaCha8Rng::seed_from_u64(seed ^ u64::from(flow).rotate_left(32)),
            flow,
            spec,
            route,
        }
    }

    /// Payload that arrived, in bytes.
    pub fn delivered_bytes(&self) -> u64 {
        u64::from(self.arrived_pkts) * u64::from(self.spec.mss_bytes)
    }

    /// Whether the sender has sent all its bytes or was stopped.
    pub fn is_over(&self) -> bool {
        let all = self.spec.bytes.is_some_and(|bytes| {
            u64::from(self.sent_pkts) * u64::from(self.spec.mss_bytes) >= bytes
        });
        all || self.stop_ns.is_some()
    }

    /// Sends a packet. Returns it with the time of the next one.
    pub fn send(&mut self, now_ns: u64) -> (Packet, u64) {
        let bytes = self.spec.mss_bytes + crate::packet::HEADER_BYTES;
        let packet = Packet {
            kind: crate::packet::Kind::Unresponsive,
            ..Packet::data((self.flow, self.sent_pkts), bytes, self.spec.ecn, now_ns)
        };
        self.sent_pkts = self.sent_pkts.wrapping_add(1);
        let gap_ns = if self.spec.poisson {
            let uniform: f64 = self.rng.random();
            -libm::log(1.0 - uniform) * self.gap_ns
        } else {
            self.gap_ns
        };
        (packet, now_ns + (gap_ns.round() as u64).max(1))
    }
}
