//! The handshake of a flow that starts later than the scenario (RFC 9293 section 3.5).
//!
//! The receiver asks, as a client that wants a file: its SYN crosses the links of the ACKs, the
//! sender's SYN-ACK those of the data, with whatever queues there, and the ACK of that tells the
//! sender its first round trip. So who comes to a path in use has its queue in the first sample,
//! and may never see the path without one.
//!
//! What is lost goes again after a second, and then after twice as long each time (RFC 6298,
//! sections 2.1 and 5.5).
//!
//! Differs from Linux: a SYN that goes again is not answered anew, as the SYN-ACK has a timer of
//! its own; the initial window is the same after a SYN-ACK that went again; the client's ACK brings
//! no request, and nobody gives up.

use crate::packet::{Kind, Packet};
use crate::tcp::rtt::{RTO_INIT_NS, RTO_MAX_NS};

/// One that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Handshake {
    flow: u32,
    /// What goes again when its timer is due: the SYN, or the SYN-ACK once the sender was asked.
    pending: Kind,
    wait_ns: u64,
    due_ns: u64,
}

impl Handshake {
    /// It begins, and the SYN that is sent.
    pub fn begin(flow: u32, now_ns: u64) -> (Self, Packet) {
        let mut handshake = Self { flow, pending: Kind::Syn, wait_ns: RTO_INIT_NS, due_ns: 0 };
        let syn = handshake.send(now_ns);
        (handshake, syn)
    }

    fn send(&mut self, now_ns: u64) -> Packet {
        self.due_ns = now_ns + self.wait_ns;
        Packet::of_handshake(self.flow, self.pending, now_ns)
    }

    /// When its timer is due, in nanoseconds.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The SYN has come to the sender: its answer, but to the first alone.
    pub fn asked(&mut self, now_ns: u64) -> Option<Packet> {
        if self.pending != Kind::Syn {
            return None;
        }
        (self.pending, self.wait_ns) = (Kind::SynAck, RTO_INIT_NS);
        Some(self.send(now_ns))
    }

    /// Its timer rings: what goes again, if it is due.
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
