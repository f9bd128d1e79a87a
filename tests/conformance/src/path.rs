//! A sender on a path with one bottleneck, just complex enough to show the effect of a window.
//!
//! Packets queue in front of a link of a fixed rate; packets beyond the buffer are lost. The sender
//! learns of a loss when a later packet is acknowledged, and sends nothing again: only the window
//! is under test. Time is a parameter.
//!
//! The peer datapath on the `libccp` crate compiles its own copy of this file, because a process
//! that links that crate should link little else.

use std::collections::VecDeque;

const MICROS_PER_SEC: u64 = 1_000_000;
const RTO_US: u64 = 300_000;
/// RFC 5681: below two segments ACKs are delayed.
const CWND_MIN_PKTS: u64 = 2;

/// A bottleneck link, the round trip of its path and its buffer.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Rate of the bottleneck, in bytes per second.
    pub rate: u64,
    /// Round trip without a queue.
    pub rtt_us: u64,
    /// Size of the buffer, in packets.
    pub buffer_pkts: u64,
    /// Payload of a packet.
    pub mss_bytes: u64,
}

struct Packet {
    sent_us: u64,
    /// When its ACK comes; `None` if the packet is lost.
    acked_us: Option<u64>,
    delivered: u64,
    delivered_us: u64,
}

/// One ACK, or a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Packets acknowledged: 1, or 0 for a timeout.
    pub acked_pkts: u64,
    /// Packets that the sender now knows to be lost.
    pub lost_pkts: u64,
    pub in_flight_pkts: u64,
    /// Round trip of the packet; 0 for a timeout.
    pub rtt_us: u64,
    /// Bytes per second delivered over the packet's round trip; 0 for a timeout.
    pub delivery_rate: u64,
    /// Whether this is a timeout, not an ACK.
    pub timed_out: bool,
}

/// A flow on a [`Link`].
pub struct Path {
    link: Link,
    flight: VecDeque<Packet>,
    /// When the link will have sent all packets in the queue.
    idle_us: u64,
    /// When pacing allows the next packet.
    next_us: u64,
    delivered: u64,
    delivered_us: u64,
    pub lost_pkts: u64,
}

impl Path {
    /// A flow that has sent nothing.
    pub fn new(link: Link) -> Self {
        Self {
            link,
            flight: VecDeque::new(),
            idle_us: 0,
            next_us: 0,
            delivered: 0,
            delivered_us: 0,
            lost_pkts: 0,
        }
    }

    pub fn acked_bytes(&self) -> u64 {
        self.delivered
    }

    /// Sends the packets that the window and the rate allow. `rate` is in bytes per second; 0 means
    /// no pacing.
    pub fn send(&mut self, now_us: u64, cwnd_bytes: u64, rate: u64) {
        let mss = self.link.mss_bytes;
        let window = (cwnd_bytes / mss).max(CWND_MIN_PKTS);
        if self.flight.is_empty() {
            self.delivered_us = now_us;
        }
        while (self.flight.len() as u64) < window && (rate == 0 || self.next_us <= now_us) {
            if let Some(pause_us) = (mss * MICROS_PER_SEC).checked_div(rate) {
                // A late call of this function must not lower the rate.
                self.next_us = self.next_us.max(now_us.saturating_sub(self.link.rtt_us)) + pause_us;
            }
            let service_us = mss * MICROS_PER_SEC / self.link.rate;
            let waiting = self.idle_us.saturating_sub(now_us) / service_us.max(1);
            let acked_us = (waiting < self.link.buffer_pkts).then(|| {
                self.idle_us = self.idle_us.max(now_us) + service_us;
                self.idle_us + self.link.rtt_us
            });
            let (delivered, delivered_us) = (self.delivered, self.delivered_us);
            self.flight.push_back(Packet { sent_us: now_us, acked_us, delivered, delivered_us });
        }
    }

    /// The next ACK that has arrived until `now_us`.
    pub fn next_ack(&mut self, now_us: u64) -> Option<Ack> {
        let Some(at) = self.flight.iter().position(|packet| packet.acked_us.is_some()) else {
            return self.timeout(now_us);
        };
        let at_us = self.flight[at].acked_us.filter(|acked_us| *acked_us <= now_us)?;
        self.lost_pkts += at as u64;
        let packet = self.flight.drain(..=at).next_back()?;
        self.delivered += self.link.mss_bytes;
        self.delivered_us = at_us;
        let over_us = (at_us - packet.delivered_us).max(1);
        Some(Ack {
            acked_pkts: 1,
            lost_pkts: at as u64,
            in_flight_pkts: self.flight.len() as u64,
            rtt_us: at_us - packet.sent_us,
            delivery_rate: (self.delivered - packet.delivered) * MICROS_PER_SEC / over_us,
            timed_out: false,
        })
    }

    fn timeout(&mut self, now_us: u64) -> Option<Ack> {
        let last = self.flight.back()?;
        if now_us < last.sent_us + RTO_US {
            return None;
        }
        let lost_pkts = self.flight.len() as u64;
        self.flight.clear();
        self.lost_pkts += lost_pkts;
        Some(Ack { lost_pkts, timed_out: true, ..Ack::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link { rate: 1_448_000, rtt_us: 20_000, buffer_pkts: 20, mss_bytes: 1_448 };

    /// Runs a window and a rate until `until_us`: bytes acknowledged, losses, largest round trip.
    fn run(cwnd_pkts: u64, rate: u64, until_us: u64) -> (u64, u64, u64) {
        let mut path = Path::new(LINK);
        let mut rtt_us_max = 0;
        for now_us in (0..until_us).step_by(100) {
            while let Some(ack) = path.next_ack(now_us) {
                rtt_us_max = rtt_us_max.max(ack.rtt_us);
            }
            path.send(now_us, cwnd_pkts * LINK.mss_bytes, rate);
        }
        (path.acked_bytes(), path.lost_pkts, rtt_us_max)
    }

    #[test]
    fn a_window_below_the_path_has_its_rate_and_one_above_has_the_links() {
        let (bytes, lost, rtt_us) = run(10, 0, 1_000_000);
        let want = 1_000_000 / 21_000 * 10 * 1_448;
        assert!(lost == 0 && bytes.abs_diff(want) < want / 10, "{bytes} of {want}");
        assert!(rtt_us < 32_000, "{rtt_us}");
        // The whole window is sent at once; only packets beyond the buffer are lost, and none
        // later.
        let (bytes, lost, rtt_us) = run(35, 0, 1_000_000);
        assert!(lost < 35 - LINK.buffer_pkts + 2, "{lost}");
        assert!(bytes > 1_448_000 * 95 / 100, "{bytes}");
        assert!(rtt_us > 30_000, "{rtt_us}");
    }

    #[test]
    fn a_window_above_path_and_buffer_loses_and_a_rate_holds_it_back() {
        let (_, lost, _) = run(80, 0, 1_000_000);
        assert!(lost > 20, "{lost}");
        let (bytes, lost, _) = run(80, 724_000, 1_000_000);
        assert!(lost == 0 && bytes < 760_000 && bytes > 650_000, "{bytes}, {lost}");
    }

    #[test]
    fn a_flight_that_is_lost_whole_is_a_timeout() {
        let mut path = Path::new(Link { buffer_pkts: 0, ..LINK });
        path.send(0, 10 * LINK.mss_bytes, 0);
        assert_eq!(path.next_ack(100_000), None);
        let ack = path.next_ack(RTO_US).expect("it times out");
        assert!(ack.timed_out && ack.lost_pkts == 10, "{ack:?}");
    }
}
