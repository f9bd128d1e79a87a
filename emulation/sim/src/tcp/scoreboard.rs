//! The segments that are not yet acknowledged, and for each whether it was delivered out of order
//! (RFC 2018), is lost, or was sent again.

use crate::packet::{Range, SACK_BLOCKS};
use std::collections::VecDeque;

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// A retransmission is under way.
const RESENT: u8 = 4;
/// The segment has been sent more than once, so its round trip is ambiguous (Karn's algorithm).
const EVER_RESENT: u8 = 8;
const APP_LIMITED: u8 = 16;

/// One segment, with the state that tcp_rate.c stores in it (`tx.*`).
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// When the segment was last sent.
    pub sent_ns: u64,
    /// `tx.first_tx_mstamp`: the send time of the segment that opened its flight.
    pub first_sent_ns: u64,
    /// `tx.delivered_mstamp`: when a segment was last delivered before this one was sent.
    pub delivered_ns: u64,
    /// `tx.delivered`: how many segments had been delivered when this one was sent.
    pub delivered_pkts: u32,
    flags: u8,
}

impl Segment {
    /// A segment that was sent once.
    pub fn new(sent_ns: u64, first_sent_ns: u64, delivered_ns: u64, delivered_pkts: u32) -> Self {
        Self { sent_ns, first_sent_ns, delivered_ns, delivered_pkts, flags: 0 }
    }

    /// Whether the segment has been sent more than once.
    pub fn was_resent(&self) -> bool {
        self.flags & EVER_RESENT != 0
    }

    /// Whether the segment was sent while the application limited the flow.
    pub fn is_app_limited(&self) -> bool {
        self.flags & APP_LIMITED != 0
    }

    fn is_under_way(&self) -> bool {
        self.flags & SACKED == 0 && self.flags & (LOST | RESENT) != LOST
    }
}

/// All segments from SND.UNA up to SND.NXT.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    una: u32,
    segments: VecDeque<Segment>,
    sacked_pkts: u32,
    lost_pkts: u32,
    resent_pkts: u32,
    /// No segment before this one waits to be sent again.
    resend_from: u32,
    /// How many segments are lost and wait to be sent again. At 0, `first_to_resend` need not
    /// search.
    waiting_pkts: u32,
    /// The SACK blocks of the last ACK. Segments within them are already marked, so `sack` skips
    /// them.
    seen: [Range; SACK_BLOCKS],
}

impl Scoreboard {
    /// `SND.UNA`: the first segment not acknowledged.
    pub fn una(&self) -> u32 {
        self.una
    }

    /// `SND.NXT`: the next new segment.
    pub fn next(&self) -> u32 {
        self.una + self.segments.len() as u32
    }

    /// `packets_out`.
    pub fn out_pkts(&self) -> u32 {
        self.segments.len() as u32
    }

    /// `sacked_out`.
    pub fn sacked_pkts(&self) -> u32 {
        self.sacked_pkts
    }

    /// `retrans_out`.
    pub fn resent_pkts(&self) -> u32 {
        self.resent_pkts
    }

    /// Marks no segment as lost any more (`tcp_undo_cwnd_reduction()`, `unmark_loss`).
    pub fn unmark_lost(&mut self) {
        if self.lost_pkts > 0 {
            self.segments.iter_mut().for_each(|segment| segment.flags &= !LOST);
        }
        self.lost_pkts = 0;
        self.waiting_pkts = 0;
    }

    /// `tcp_packets_in_flight()`.
    pub fn in_flight_pkts(&self) -> u32 {
        let out = self.segments.len() as u32 + self.resent_pkts;
        out.saturating_sub(self.sacked_pkts + self.lost_pkts)
    }

    fn get(&mut self, seq: u32) -> Option<&mut Segment> {
        self.segments.get_mut(seq.checked_sub(self.una)? as usize)
    }

    /// Whether the transmission of `seq` at `sent_ns` can still be in flight.
    pub fn is_under_way(&self, seq: u32, sent_ns: u64) -> bool {
        let index = seq.checked_sub(self.una).map(|index| index as usize);
        let segment = index.and_then(|index| self.segments.get(index));
        segment.is_some_and(|it| it.sent_ns == sent_ns && it.is_under_way())
    }

    /// The segments that can still be in flight, with the time when each was last sent, in ns.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, u64)> {
        let all = (self.una..).zip(&self.segments);
        all.filter(|(_, it)| it.is_under_way()).map(|(seq, it)| (seq, it.sent_ns))
    }

    /// When the first segment was last sent, in nanoseconds.
    pub fn first_sent_ns(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.sent_ns)
    }

    /// A new segment has been sent.
    pub fn push(&mut self, segment: Segment, app_limited: bool) {
        let flags = if app_limited { APP_LIMITED } else { 0 };
        self.segments.push_back(Segment { flags, ..segment });
    }

    /// A segment has been sent again.
    pub fn resend(&mut self, seq: u32, sent: Segment, app_limited: bool) {
        let is_first = self.resend_from == seq;
        if let Some(segment) = self.get(seq) {
            let was = segment.flags;
            let limited = if app_limited { APP_LIMITED } else { 0 };
            let flags = (was & !APP_LIMITED) | RESENT | EVER_RESENT | limited;
            *segment = Segment { flags, ..sent };
            self.resent_pkts += u32::from(was & RESENT == 0);
            self.waiting_pkts -= u32::from(was & (LOST | RESENT) == LOST);
            self.resend_from += u32::from(is_first);
        }
    }

    /// The first segment that is lost and waits to be sent again.
    pub fn first_to_resend(&mut self) -> Option<u32> {
        if self.waiting_pkts == 0 {
            return None;
        }
        self.resend_from = self.resend_from.max(self.una);
        while let Some(segment) = self.get(self.resend_from) {
            if segment.flags & (LOST | RESENT | SACKED) == LOST {
                return Some(self.resend_from);
            }
            self.resend_from += 1;
        }
        None
    }

    /// Marks a segment, or its retransmission, lost. Returns false if the segment was delivered or
    /// already waits to be sent again.
    pub fn mark_lost(&mut self, seq: u32) -> bool {
        let Some(segment) = self.get(seq) else { return false };
        let was = segment.flags;
        if was & SACKED != 0 || was & (LOST | RESENT) == LOST {
            return false;
        }
        segment.flags = (was | LOST) & !RESENT;
        self.lost_pkts += u32::from(was & LOST == 0);
        self.resent_pkts -= u32::from(was & RESENT != 0);
        self.waiting_pkts += 1;
        self.resend_from = self.resend_from.min(seq);
        true
    }

    /// Marks every segment lost that was not delivered (RFC 6298 section 5.4). Returns how many are
    /// newly lost.
    pub fn mark_all_lost(&mut self) -> u32 {
        let mut marked = 0;
        for segment in self.segments.iter_mut().filter(|s| s.flags & SACKED == 0) {
            marked += u32::from(segment.flags & (LOST | RESENT) != LOST);
            self.lost_pkts += u32::from(segment.flags & LOST == 0);
            segment.flags = (segment.flags | LOST) & !RESENT;
        }
        self.resent_pkts = 0;
        self.waiting_pkts += marked;
        self.resend_from = self.una;
        marked
    }

    /// Removes segments before `expected`. `delivered` gets the segments that were not delivered
    /// before, as (count, number of the last, send time of the first in ns, the last). One call
    /// covers consecutive segments that were never lost or sent again; each other segment gets a
    /// call of its own.
    pub fn acknowledge(
        &mut self,
        expected: u32,
        mut delivered: impl FnMut(u32, u32, u64, &Segment),
    ) {
        while self.una < expected {
            let Some(segment) = self.segments.pop_front() else { break };
            let (mut last, mut pkts) = (segment, 1);
            if segment.flags & !APP_LIMITED == 0 {
                while self.una + pkts < expected
                    && let Some(next) = self.segments.front().filter(|s| s.flags == segment.flags)
                {
                    last = *next;
                    pkts += 1;
                    self.segments.pop_front();
                }
            }
            self.una += pkts;
            if segment.flags & SACKED == 0 {
                delivered(pkts, self.una - 1, segment.sent_ns, &last);
            }
            if segment.flags & (SACKED | LOST | RESENT) != 0 {
                self.uncount(segment.flags);
            }
        }
    }

    /// Takes a removed segment with these flags out of the counts.
    #[inline(never)]
    fn uncount(&mut self, flags: u8) {
        self.sacked_pkts -= u32::from(flags & SACKED != 0);
        self.lost_pkts -= u32::from(flags & LOST != 0);
        self.resent_pkts -= u32::from(flags & RESENT != 0);
        self.waiting_pkts -= u32::from(flags & (LOST | RESENT) == LOST);
    }

    /// Marks the segments of SACK blocks delivered. `delivered` gets each segment that was not
    /// delivered before.
    pub fn sack(
        &mut self,
        blocks: &[Range; SACK_BLOCKS],
        mut delivered: impl FnMut(u32, &Segment),
    ) {
        for block in blocks.iter().filter(|block| !block.is_empty()) {
            let mut at = block.start.max(self.una);
            let end = block.end.min(self.next());
            while at < end {
                if let Some(seen) = self.seen.iter().find(|seen| seen.contains(at)) {
                    at = seen.end;
                    continue;
                }
                self.sack_one(at, &mut delivered);
                at += 1;
            }
        }
        self.seen = *blocks;
    }

    fn sack_one(&mut self, seq: u32, delivered: &mut impl FnMut(u32, &Segment)) {
        let Some(segment) = self.get(seq) else { return };
        let flags = segment.flags;
        if flags & SACKED != 0 {
            return;
        }
        segment.flags = (flags & !(LOST | RESENT)) | SACKED;
        let segment = *segment;
        self.sacked_pkts += 1;
        self.lost_pkts -= u32::from(flags & LOST != 0);
        self.resent_pkts -= u32::from(flags & RESENT != 0);
        self.waiting_pkts -= u32::from(flags & (LOST | RESENT) == LOST);
        delivered(seq, &segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(at: u64) -> Segment {
        Segment::new(at, 0, 0, 0)
    }

    fn board(pkts: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..pkts).for_each(|at| board.push(sent(at), false));
        board
    }

    fn range(start: u32, end: u32) -> [Range; SACK_BLOCKS] {
        [Range { start, end }, Range::default(), Range::default()]
    }

    #[test]
    fn what_is_in_flight_is_what_was_sent_less_what_left() {
        let mut board = board(10);
        let mut seen = Vec::new();
        board.sack(&range(3, 5), |seq, _| seen.push(seq));
        assert!(board.mark_lost(0) && board.mark_lost(1) && !board.mark_lost(3));
        assert_eq!((board.in_flight_pkts(), seen.as_slice()), (6, [3, 4].as_slice()));
        assert_eq!(board.first_to_resend(), Some(0));
        board.resend(0, sent(20), false);
        assert_eq!((board.in_flight_pkts(), board.first_to_resend()), (7, Some(1)));
        assert!(board.mark_lost(0), "the retransmission is lost too");
        assert_eq!((board.in_flight_pkts(), board.first_to_resend()), (6, Some(0)));
        board.acknowledge(5, |_, _, _, _| {});
        assert_eq!((board.in_flight_pkts(), board.out_pkts(), board.una()), (5, 5, 5));
        assert_eq!((board.sacked_pkts, board.lost_pkts), (0, 0));
    }

    proptest! {
        /// After any sequence of calls, the counts agree with the flags.
        #[test]
        fn counts_are_those_of_the_flags(
            steps in prop::collection::vec((0u8..7, 0u32..40), 1..200),
        ) {
            let mut board = board(5);
            for (at, (what, seq)) in (100u64..).zip(steps) {
                match what {
                    0 => board.push(sent(at), false),
                    1 => { board.mark_lost(seq); }
                    2 => if let Some(seq) = board.first_to_resend() {
                        board.resend(seq, sent(at), true);
                    },
                    3 => board.sack(&range(seq, seq + 3), |_, _| {}),
                    4 => {
                        let expected = (board.una() + seq % 4).min(board.next());
                        board.acknowledge(expected, |_, _, _, _| {});
                    }
                    5 => { if seq == 0 { board.mark_all_lost(); } }
                    _ => { if seq == 1 { board.unmark_lost(); } }
                }
                let count = |flag: u8| {
                    board.segments.iter().filter(|s| s.flags & flag != 0).count() as u32
                };
                prop_assert_eq!(board.sacked_pkts, count(SACKED));
                prop_assert_eq!(board.lost_pkts, count(LOST));
                prop_assert_eq!(board.resent_pkts, count(RESENT));
                let waits = |s: &&Segment| s.flags & (LOST | RESENT) == LOST;
                let waiting = board.segments.iter().filter(waits).count() as u32;
                prop_assert_eq!(board.waiting_pkts, waiting);
            }
        }
    }
}
