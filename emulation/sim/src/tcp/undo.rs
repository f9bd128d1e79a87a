//! Detects spurious recoveries: nothing was lost, the segments were only late.
//!
//! A recovery is spurious by one of two signs, as in `tcp_may_undo()` (net/ipv4/tcp_input.c): an
//! ACK echoes a timestamp older than the first retransmission (RFC 3522, Eifel), or a DSACK (RFC
//! 2883, RFC 3708) has arrived for every segment that was sent again.
//!
//! Differs from Linux: timestamps count microseconds, not milliseconds; no F-RTO (RFC 5682).

use crate::packet::is_older;

/// The state that is needed to undo the current recovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undo {
    /// `undo_marker`: `SND.UNA` when the recovery began; `None` when nothing can be undone.
    marker: Option<u32>,
    /// `undo_retrans`: retransmissions that no DSACK has answered; `None` before the first one.
    unanswered_pkts: Option<u32>,
    /// `retrans_stamp`: when the first retransmission was sent, in microseconds modulo 2^32.
    first_resent_us: Option<u32>,
    /// `prior_ssthresh`, in segments.
    ssthresh_pkts: u32,
}

impl Undo {
    /// `tcp_init_undo()`. `ssthresh_pkts` is the threshold to restore.
    pub fn begin(&mut self, una: u32, resent_pkts: u32, ssthresh_pkts: u32) {
        *self = Self {
            marker: Some(una),
            unanswered_pkts: (resent_pkts > 0).then_some(resent_pkts),
            first_resent_us: None,
            ssthresh_pkts,
        };
    }

    /// From now on, the current recovery cannot be undone.
    pub fn forget(&mut self) {
        self.marker = None;
    }

    /// A segment is sent again to repair a loss.
    pub fn resent(&mut self, now_us: u32) {
        self.first_resent_us.get_or_insert(now_us);
        self.unanswered_pkts = Some(self.unanswered_pkts.unwrap_or(0) + 1);
    }

    /// `tcp_check_dsack()`: a DSACK reports that segment `seq` arrived twice.
    pub fn came_twice(&mut self, seq: u32) {
        if self.marker.is_some_and(|marker| seq >= marker) {
            self.unanswered_pkts = self.unanswered_pkts.map(|pkts| pkts.saturating_sub(1));
        }
    }

    /// `tcp_packet_delayed()`: whether the ACK answers a segment that was sent before any
    /// retransmission.
    pub fn original_arrived(&self, echo_us: u32) -> bool {
        let is_earlier = |first_us| is_older(echo_us, first_us);
        self.marker.is_some() && self.first_resent_us.is_some_and(is_earlier)
    }

    /// Whether a DSACK has arrived for every retransmission.
    pub fn all_came_twice(&self) -> bool {
        self.marker.is_some() && self.unanswered_pkts == Some(0)
    }

    /// Ends the state and returns the threshold to restore, in segments.
    pub fn take(&mut self) -> u32 {
        self.marker = None;
        self.ssthresh_pkts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Undo {
        let mut undo = Undo::default();
        undo.begin(10, 0, 99);
        undo
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_is_a_sign_also_when_the_clock_wraps() {
        let mut undo = begun();
        assert!(!undo.original_arrived(0), "nothing was sent again yet");
        undo.resent(5);
        undo.resent(9);
        assert!(undo.original_arrived(4) && undo.original_arrived(u32::MAX));
        assert!(!undo.original_arrived(5));
        assert_eq!(undo.take(), 99);
        assert!(!undo.original_arrived(4));
    }

    #[test]
    fn every_retransmission_must_have_come_twice() {
        let mut undo = begun();
        assert!(!undo.all_came_twice(), "nothing was sent again yet");
        undo.resent(5);
        undo.resent(6);
        undo.came_twice(9);
        undo.came_twice(10);
        assert!(!undo.all_came_twice(), "segment 9 is of before the recovery");
        undo.came_twice(11);
        assert!(undo.all_came_twice());
        undo.forget();
        assert!(!undo.all_came_twice());
    }
}
