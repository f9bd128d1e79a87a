//! The receiver of a flow: it keeps what has arrived and decides when to send ACKs.
//!
//! ACKs follow Linux (net/ipv4/tcp_input.c `__tcp_ack_snd_check`). An ACK is sent at once for every
//! second segment, for a segment that fills a hole, for the first segments of a connection, and for
//! a segment that raises the receive window (receive_window.rs); otherwise after 40 ms (RFC 1122
//! section 4.2.3.2). While a segment is missing, the first three duplicate ACKs are sent at once.
//! Later ones are combined: one each millisecond, or each twentieth of the round trip if that is
//! shorter (`tcp_comp_sack_delay_ns`). SACK blocks have the order of RFC 2018 section 4.
//!
//! A segment that arrives twice is reported in the first block (RFC 2883). RFC 7323 section 4.3
//! chooses the segment whose timestamp an ACK echoes.
//!
//! Differs from Linux: the receive window never limits the sender.

use crate::packet::{Packet, Range, SACK_BLOCKS};
use crate::tcp::receive_window::ReceiveWindow;
use std::collections::VecDeque;

/// `TCP_ATO_MIN`.
const DELAYED_ACK_NS: u64 = 40_000_000;
/// `TCP_MAX_QUICKACKS`.
const QUICK_ACKS: u32 = 16;
/// `net.ipv4.tcp_comp_sack_delay_ns`.
const COMPRESSED_ACK_NS: u64 = 1_000_000;
/// In `__tcp_ack_snd_check`: a twentieth of the round trip.
const COMPRESSED_ACK_RTT_DIVISOR: u64 = 20;
/// `TCP_FASTRETRANS_THRESH`.
const DUPLICATES_AT_ONCE: u32 = 3;

/// How to answer a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Now,
    /// Send an ACK at this time (ns), unless another ACK is sent before.
    At(u64),
    /// An ACK is already due at that time or earlier, and it answers this segment too.
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Receiver {
    expected: u32,
    /// Ranges that have arrived out of order, beyond `expected`, ascending.
    beyond: VecDeque<Range>,
    /// The SACK blocks that changed last, the latest first.
    blocks: [Range; SACK_BLOCKS],
    ce_pkts: u32,
    /// Segments that arrived in order since the last ACK.
    unacked: u32,
    duplicates: u32,
    quick: u32,
    /// When the waiting ACK is due.
    due_ns: Option<u64>,
    compressed_ack_ns: u64,
    every: u32,
    window: ReceiveWindow,
    rtt_ns: u64,
    /// The segment that arrived twice, for the next ACK; empty if none did.
    twice: Range,
    /// `TS.Recent`: the timestamp to echo, in microseconds modulo 2^32.
    echo_us: u32,
    /// `Last.ACK.sent`: the value of `expected` in the last ACK.
    answered: u32,
}

impl Receiver {
    /// `rtt_ns` is the round trip of the idle path. With `delayed`, every second segment gets an
    /// ACK, otherwise every segment.
    pub fn new(rtt_ns: u64, delayed: bool, mss_bytes: u32) -> Self {
        Self {
            expected: 0,
            beyond: VecDeque::new(),
            blocks: [Range::default(); SACK_BLOCKS],
            ce_pkts: 0,
            unacked: 0,
            duplicates: 0,
            quick: QUICK_ACKS,
            due_ns: None,
            compressed_ack_ns: COMPRESSED_ACK_NS.min(rtt_ns / COMPRESSED_ACK_RTT_DIVISOR),
            every: if delayed { 2 } else { 1 },
            window: ReceiveWindow::new(mss_bytes),
            rtt_ns,
            twice: Range::default(),
            echo_us: 0,
            answered: 0,
        }
    }

    /// How many segments have arrived in order, which is the number of the next one.
    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// When an ACK is due, in nanoseconds.
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Handles a segment. `rtt_ns` returns the round trip measured by timestamps; `None` before the
    /// first sample.
    pub fn receive(
        &mut self,
        packet: &Packet,
        now_ns: u64,
        rtt_ns: impl FnOnce() -> Option<u64>,
    ) -> Reply {
        let seq = packet.seq;
        self.ce_pkts += u32::from(packet.ce);
        let is_later = (packet.sent_us.wrapping_sub(self.echo_us) as i32) >= 0;
        if seq <= self.answered && (is_later || self.answered == 0) {
            self.echo_us = packet.sent_us;
        }
        if seq >= self.expected && self.window.rises() {
            self.quick |= 1;
        }
        let reply = self.take(seq, now_ns);
        if self.window.is_due(now_ns) {
            let rtt_ns = rtt_ns().unwrap_or(self.rtt_ns);
            self.window.tune(self.expected, rtt_ns, now_ns);
        }
        reply
    }

    fn take(&mut self, seq: u32, now_ns: u64) -> Reply {
        if seq == self.expected {
            self.advance(now_ns)
        } else if seq > self.expected {
            self.keep(seq);
            self.reply_to_gap(now_ns)
        } else {
            self.twice = Range { start: seq, end: seq + 1 };
            Reply::Now
        }
    }

    /// Makes the ACK that is sent now.
    pub fn ack(&mut self, flow: u32) -> Packet {
        self.unacked = 0;
        self.due_ns = None;
        self.quick = self.quick.saturating_sub(1);
        self.answered = self.expected;
        let twice = std::mem::take(&mut self.twice);
        let [first, second, _] = self.blocks;
        let blocks = if twice.is_empty() { self.blocks } else { [twice, first, second] };
        let ack = Packet::ack(flow, self.expected, blocks, self.ce_pkts);
        Packet { sent_us: self.echo_us, ..ack }
    }

    fn advance(&mut self, now_ns: u64) -> Reply {
        self.expected += 1;
        self.unacked += 1;
        if self.beyond.is_empty() {
            return self.reply_in_order(now_ns);
        }
        while let Some(next) = self.beyond.front().filter(|range| range.start <= self.expected) {
            self.expected = self.expected.max(next.end);
            self.beyond.pop_front();
        }
        self.duplicates = 0;
        self.forget_blocks(Range { start: 0, end: self.expected });
        if self.beyond.is_empty() || self.unacked >= 2 {
            return Reply::Now;
        }
        self.reply_to_gap(now_ns)
    }

    fn reply_in_order(&mut self, now_ns: u64) -> Reply {
        if self.unacked >= self.every || self.quick > 0 {
            return Reply::Now;
        }
        self.wait(now_ns + DELAYED_ACK_NS)
    }

    fn reply_to_gap(&mut self, now_ns: u64) -> Reply {
        if self.quick > 0 {
            return Reply::Now;
        }
        if self.duplicates < DUPLICATES_AT_ONCE {
            self.duplicates += 1;
            return Reply::Now;
        }
        self.wait(now_ns + self.compressed_ack_ns)
    }

    fn wait(&mut self, at_ns: u64) -> Reply {
        if self.due_ns.is_some_and(|due_ns| due_ns <= at_ns) {
            return Reply::Nothing;
        }
        self.due_ns = Some(at_ns);
        Reply::At(at_ns)
    }

    /// Keeps a segment that arrived out of order, and puts its block first.
    fn keep(&mut self, seq: u32) {
        let place = match self.beyond.back() {
            Some(last) if seq <= last.end => self.beyond.partition_point(|r| r.end < seq),
            _ => self.beyond.len(),
        };
        let new = Range { start: seq, end: seq + 1 };
        if self.beyond.get(place).is_some_and(|range| range.contains(seq)) {
            self.twice = new;
        }
        let mut merged = new;
        match self.beyond.get_mut(place) {
            Some(range) if range.start <= new.end => {
                range.start = range.start.min(new.start);
                range.end = range.end.max(new.end);
                merged = *range;
                let next = self.beyond.get(place + 1).copied();
                if let Some(next) = next.filter(|next| next.start == merged.end) {
                    merged.end = next.end;
                    self.beyond.remove(place + 1);
                    self.beyond[place] = merged;
                }
            }
            _ => self.beyond.insert(place, new),
        }
        self.forget_blocks(merged);
        self.blocks = [merged, self.blocks[0], self.blocks[1]];
    }

    /// Removes SACK blocks within `covered`, because another block or the cumulative ACK reports
    /// them.
    fn forget_blocks(&mut self, covered: Range) {
        let mut kept = [Range::default(); SACK_BLOCKS];
        let left = self.blocks.iter().filter(|block| {
            !block.is_empty() && (block.start < covered.start || covered.end < block.end)
        });
        for (slot, block) in kept.iter_mut().zip(left) {
            *slot = *block;
        }
        self.blocks = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(packet: &Packet) -> Vec<(u32, u32)> {
        let some = packet.sacks.iter().filter(|range| !range.is_empty());
        some.map(|range| (range.start, range.end)).collect()
    }

    /// The first receive window, in segments.
    const FIRST_WINDOW: u32 = 65_535 / 1448;

    fn receive(receiver: &mut Receiver, seq: u32, now_ns: u64) -> Reply {
        receiver.receive(&Packet::data((0, seq), 1_500, false, now_ns), now_ns, || None)
    }

    fn started() -> Receiver {
        let mut receiver = Receiver::new(40_000_000, true, 1448);
        for seq in 0..QUICK_ACKS {
            assert_eq!(receive(&mut receiver, seq, 0), Reply::Now);
            receiver.ack(0);
        }
        receiver
    }

    #[test]
    fn every_second_segment_has_an_ack_and_the_last_one_waits() {
        let mut receiver = started();
        assert_eq!(receive(&mut receiver, 16, 5), Reply::At(5 + DELAYED_ACK_NS));
        assert_eq!(receive(&mut receiver, 17, 6), Reply::Now);
        assert_eq!(receiver.ack(0).seq, 18);
    }

    #[test]
    fn a_segment_that_raises_the_window_has_an_ack_of_its_own() {
        let mut receiver = started();
        let alone = |receiver: &mut Receiver, segments: std::ops::Range<u32>, now_ns| {
            let mut alone = 0;
            for seq in segments {
                let reply = receive(receiver, seq, now_ns);
                alone += u32::from(reply == Reply::Now && receiver.unacked == 1);
                if reply == Reply::Now {
                    receiver.ack(0);
                }
            }
            alone
        };
        // Segment 16 ends a round trip of 16 segments, more than the initial 10, so the window
        // grows. Its own ACK waits, and the ACK of the next segment, which raises the window,
        // answers both.
        let room = 2 * 16 + 4 * 16 * 6 / 10;
        let raises = (room - FIRST_WINDOW).div_ceil(2);
        assert_eq!(alone(&mut receiver, 16..116, 40_000_000), raises - 1);
        assert_eq!(alone(&mut receiver, 116..132, 79_999_999), 0);
    }

    #[test]
    fn a_segment_that_comes_twice_is_reported_once_in_the_first_block() {
        let mut receiver = started();
        assert_eq!(receive(&mut receiver, 3, 0), Reply::Now);
        let ack = receiver.ack(0);
        assert_eq!(blocks(&ack), [(3, 4)]);
        assert_eq!(ack.came_twice(), Some(Range { start: 3, end: 4 }));
        for seq in [18, 19, 18] {
            assert_eq!(receive(&mut receiver, seq, 0), Reply::Now);
        }
        let ack = receiver.ack(0);
        assert_eq!(blocks(&ack), [(18, 19), (18, 20)]);
        assert_eq!(ack.came_twice(), Some(Range { start: 18, end: 19 }));
        assert_eq!(receiver.ack(0).came_twice(), None);
    }

    #[test]
    fn an_ack_echoes_the_first_segment_that_it_answers_or_the_one_that_fills_the_hole() {
        let mut receiver = Receiver::new(40_000_000, true, 1448);
        let mut echo_us = |seq, sent_us: u64| {
            let packet = Packet::data((0, seq), 1_500, false, sent_us * 1_000);
            receiver.receive(&packet, 90_000_000, || None);
            if seq == 1 { None } else { Some(receiver.ack(0).sent_us) }
        };
        assert_eq!(echo_us(0, 10), Some(10));
        assert_eq!((echo_us(1, 11), echo_us(2, 12)), (None, Some(11)));
        assert_eq!(echo_us(4, 14), Some(11), "RFC 7323: segment 3 is missing");
        assert_eq!(echo_us(3, 13), Some(13), "the original, late");
        assert_eq!(echo_us(3, 99), Some(99), "a retransmission");
    }

    #[test]
    fn sack_blocks_show_the_latest_first_and_merge() {
        let mut receiver = started();
        for seq in [18, 20, 22] {
            assert_eq!(receive(&mut receiver, seq, 0), Reply::Now);
            receiver.ack(0);
        }
        assert_eq!(blocks(&receiver.ack(0)), [(22, 23), (20, 21), (18, 19)]);
        assert_eq!(receive(&mut receiver, 19, 0), Reply::At(COMPRESSED_ACK_NS));
        assert_eq!(blocks(&receiver.ack(0)), [(18, 21), (22, 23)]);
        assert_eq!(
            receive(&mut receiver, 16, 0),
            Reply::Now,
            "RFC 5681: the segment fills a part of the gap"
        );
        receive(&mut receiver, 17, 0);
        let ack = receiver.ack(0);
        assert_eq!((ack.seq, blocks(&ack)), (21, vec![(22, 23)]));
        assert_eq!(receive(&mut receiver, 21, 0), Reply::Now);
        assert_eq!(blocks(&receiver.ack(0)), []);
    }
}
