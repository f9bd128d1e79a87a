//! Loss detection by time: RFC 8985 as in net/ipv4/tcp_recovery.c.
//!
//! A segment is lost when a segment sent later has been delivered, and a round trip plus the
//! reordering window has passed since the segment was sent. The window is zero if no reordering was
//! seen and a loss is clear: three segments were delivered out of order, or a recovery is in
//! progress. Otherwise it is a quarter of the minimum RTT. Each round trip with a DSACK adds a
//! quarter, up to the smoothed RTT; sixteen recoveries without a DSACK take these quarters away.

use crate::tcp::scoreboard::{Scoreboard, Segment};
use std::collections::VecDeque;

/// `tp->reordering`: RFC 5681's three duplicates.
const REORDERING: u32 = 3;

/// `TCP_RACK_RECOVERY_THRESH`: how many recoveries a widened window lasts.
const WIDENED_RECOVERIES: u32 = 16;
/// `reo_wnd_steps` at most, in quarters of the minimum RTT.
const STEPS_MAX: u32 = 0xff;

/// The state of RFC 8985 section 6.
#[derive(Clone, Debug, Default)]
pub struct Rack {
    /// Transmissions (segment and time) in order of time. A search removes those that are no longer
    /// in flight.
    sent: VecDeque<(u32, u64)>,
    /// `RACK.xmit_ts` and `RACK.end_seq`: the latest transmission known to be delivered.
    latest: (u64, u32),
    /// `RACK.rtt`.
    rtt_ns: u64,
    advanced: bool,
    /// The highest segment delivered (`RACK.fack`).
    fack: u32,
    /// Reordering has been seen.
    reordered: bool,
    /// A DSACK has arrived since the window was last widened.
    came_twice: bool,
    /// `reo_wnd_steps` beyond the first.
    widened_steps: u32,
    /// `reo_wnd_persist`, in recoveries.
    widened_for: u32,
    /// Segments delivered when the window was last widened.
    widened_at_pkts: u32,
}

impl Rack {
    /// A segment has been sent.
    pub fn sent(&mut self, seq: u32, now_ns: u64) {
        self.sent.push_back((seq, now_ns));
    }

    /// RFC 8985 section 6.2, steps 2 and 3, for `pkts` segments that were sent in order; `seq` is
    /// the last one.
    pub fn delivered(
        &mut self,
        pkts: u32,
        seq: u32,
        segment: &Segment,
        (now_ns, rtt_min_ns): (u64, u64),
    ) {
        let rtt_ns = now_ns - segment.sent_ns;
        if segment.was_resent() && rtt_ns < rtt_min_ns {
            return; // an ACK of the original
        }
        if seq + 1 - pkts < self.fack && !segment.was_resent() {
            self.reordered = true;
        }
        self.fack = self.fack.max(seq);
        self.advanced = true;
        if (segment.sent_ns, seq) > self.latest {
            self.latest = (segment.sent_ns, seq);
            self.rtt_ns = rtt_ns;
        }
    }

    /// A DSACK has come.
    pub fn came_twice(&mut self) {
        self.came_twice = true;
    }

    /// `tcp_rack_update_reo_wnd()`: widens the window at most once a round trip. `prior_pkts`
    /// counts the segments that had been delivered when the segment that this ACK delivers was
    /// sent; `delivered_pkts` counts those delivered now.
    #[inline]
    pub fn widen(&mut self, prior_pkts: Option<u32>, delivered_pkts: u32) {
        if !self.came_twice && self.widened_steps == 0 {
            return;
        }
        let Some(prior_pkts) = prior_pkts.filter(|pkts| *pkts > 0) else { return };
        if prior_pkts < self.widened_at_pkts {
            self.came_twice = false;
        }
        if std::mem::take(&mut self.came_twice) {
            self.widened_steps = (self.widened_steps + 1).min(STEPS_MAX - 1);
            self.widened_at_pkts = delivered_pkts;
            self.widened_for = WIDENED_RECOVERIES;
        } else if self.widened_for == 0 {
            self.widened_steps = 0;
        }
    }

    /// A recovery is over, and was not spurious.
    pub fn recovered(&mut self) {
        self.widened_for = self.widened_for.saturating_sub(1);
    }

    /// A recovery was undone, so the next detection checks all segments again.
    pub fn recheck(&mut self, board: &Scoreboard) {
        self.advanced = true;
        self.sent = board.under_way().collect();
        let by_time = |&(seq, sent_ns): &(u32, u64)| (sent_ns, seq);
        self.sent.make_contiguous().sort_unstable_by_key(by_time);
    }

    fn reordering_window_ns(&self, board: &Scoreboard, recovering: bool, limits: Limits) -> u64 {
        if !self.reordered && (recovering || board.sacked_pkts() >= REORDERING) {
            return 0;
        }
        (limits.rtt_min_ns / 4 * u64::from(1 + self.widened_steps)).min(limits.srtt_ns)
    }

    /// RFC 8985 section 6.2, step 5: marks lost segments in `board` and counts them in `lost`.
    /// Returns how long to wait, in nanoseconds, before a segment can be marked lost next.
    pub fn detect(
        &mut self,
        board: &mut Scoreboard,
        (recovering, limits): (bool, Limits),
        now_ns: u64,
        lost: &mut u32,
    ) -> Option<u64> {
        if !std::mem::take(&mut self.advanced) {
            self.forget(board);
            return None;
        }
        self.detect_at(board, (recovering, limits), now_ns, lost)
    }

    /// As [`Self::detect`], also when no segment was delivered: for the reordering timer.
    pub fn detect_at(
        &mut self,
        board: &mut Scoreboard,
        (recovering, limits): (bool, Limits),
        now_ns: u64,
        lost: &mut u32,
    ) -> Option<u64> {
        let window_ns = self.rtt_ns + self.reordering_window_ns(board, recovering, limits);
        let mut waiting = None;
        let mut place = 0;
        while let Some(&(seq, sent_ns)) = self.sent.get(place) {
            if !board.is_under_way(seq, sent_ns) {
                self.remove(place);
            } else if (sent_ns, seq) >= self.latest {
                break;
            } else if sent_ns + window_ns <= now_ns {
                *lost += u32::from(board.mark_lost(seq));
                self.remove(place);
            } else {
                waiting = Some(sent_ns + window_ns - now_ns);
                place += 1;
            }
        }
        waiting
    }

    /// `place` is nearly always the front, for which `pop_front` is faster.
    #[inline]
    fn remove(&mut self, place: usize) {
        if place == 0 {
            self.sent.pop_front();
        } else {
            self.sent.remove(place);
        }
    }

    fn forget(&mut self, board: &Scoreboard) {
        while let Some(&(seq, sent_ns)) = self.sent.front() {
            if board.is_under_way(seq, sent_ns) {
                break;
            }
            self.sent.pop_front();
        }
    }
}

/// Bounds of the reordering window.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub rtt_min_ns: u64,
    pub srtt_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Range, SACK_BLOCKS};

    const LIMITS: Limits = Limits { rtt_min_ns: 40, srtt_ns: 40 };

    #[test]
    fn what_a_recovery_had_marked_is_found_lost_again_after_it_was_undone() {
        let (mut rack, mut board, mut lost) = (Rack::default(), Scoreboard::default(), 0);
        for seq in 0..5 {
            rack.sent(seq, u64::from(seq));
            board.push(Segment::new(seq.into(), 0, 0, 0), false);
        }
        board.mark_all_lost();
        assert_eq!(rack.detect_at(&mut board, (true, LIMITS), 50, &mut lost), None);
        board.unmark_lost();
        rack.recheck(&board);
        let mut sacks = [Range::default(); SACK_BLOCKS];
        sacks[0] = Range { start: 4, end: 5 };
        board.sack(&sacks, |seq, segment| rack.delivered(1, seq, segment, (60, 40)));
        rack.detect(&mut board, (true, LIMITS), 60, &mut lost);
        assert_eq!((lost, board.first_to_resend()), (4, Some(0)));
    }
}
