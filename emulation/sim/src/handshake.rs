//! The handshake of a flow that starts later than the scenario (RFC 9293 section 3.5).
//!
//! The receiver opens the connection, like a client that requests a file. Its SYN crosses the links
//! of the ACKs, and the sender's SYN-ACK crosses those of the data, with their queues. The ACK of
//! the SYN-ACK gives the sender its first round-trip sample. So a flow that joins a path in use has
//! the queueing delay in its first sample, and may never see the path without a queue.
//!
//! A lost packet is retransmitted after a second, and then after twice as long each time (RFC 6298,
//! sections 2.1 and 5.5).
//!
//! Differs from Linux: a retransmitted SYN gets no second answer, because the SYN-ACK has its own
//! timer; the initial window is the same after a retransmitted SYN-ACK; the client's ACK carries no
//! request; and neither end gives up.

use crate::packet::{Kind, Packet};
use crate::tcp::rtt::{RTO_INIT_NS, RTO_MAX_NS};

/// A handshake under way.
#[derive(Clone, Copy, Debug)]
pub struct Handshake {
    flow: u32,
    /// The packet to retransmit when the timer is due: the SYN, or the SYN-ACK once the SYN has
    /// arrived.
    pending: Kind,
    wait_ns: u64,
    due_ns: u64,
}

impl Handshake {
    /// Begins a handshake. Returns it with the SYN to send.
    pub fn begin(flow: u32, now_ns: u64) -> (Self, Packet) {
        let mut handshake = Self { flow, pending: Kind::Syn, wait_ns: RTO_INIT_NS, due_ns: 0 };
        let syn = handshake.send(now_ns);
        (handshake, syn)
    }

    fn send(&mut self, now_ns: u64) -> Packet {
        self.due_ns = now_ns + self.wait_ns;
        Packet::of_handshake(self.flow, self.pending, now_ns)
    }

    /// When the timer is due, in nanoseconds.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The SYN has arrived at the sender. Returns the SYN-ACK for the first SYN, `None` for others.
    pub fn asked(&mut self, now_ns: u64) -> Option<Packet> {
        if self.pending != Kind::Syn {
            return None;
        }
        (self.pending, self.wait_ns) = (Kind::SynAck, RTO_INIT_NS);
        Some(self.send(now_ns))
    }

    /// The timer fired. Returns the packet to retransmit, or `None` if the timer was set again
    /// since.
    pub fn again(&mut self, now_ns: u64) -> Option<Packet> {
        if self.due_ns != now_ns {
            return None;
        }
        self.wait_ns = (2 * self.wait_ns).min(RTO_MAX_NS);
        Some(self.send(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_is_lost_goes_again_after_a_second_and_then_twice_as_long() {
        let (mut handshake, syn) = Handshake::begin(3, 5 * MS);
        assert_eq!((syn.flow, syn.kind, handshake.due_ns()), (3, Kind::Syn, 1_005 * MS));
        assert!(handshake.again(900 * MS).is_none(), "an earlier timer is passed over");
        assert_eq!(handshake.again(1_005 * MS).map(|it| it.kind), Some(Kind::Syn));
        assert_eq!(handshake.due_ns(), 3_005 * MS);

        assert_eq!(handshake.asked(3_000 * MS).map(|it| it.kind), Some(Kind::SynAck));
        assert!(handshake.asked(3_010 * MS).is_none(), "the SYN that went again");
        assert!(handshake.again(3_005 * MS).is_none(), "nobody waits for an answer to it");
        assert_eq!(handshake.again(4_000 * MS).map(|it| it.kind), Some(Kind::SynAck));
        assert_eq!(handshake.due_ns(), 6_000 * MS);
    }
}
