//! DCTCP: cuts the window in proportion to how much of it was marked.
//!
//! RFC 8257 section 3; as in Linux tcp_dctcp.c. With M the share of a window's segments that was
//! marked, once a round trip:
//!
//! ```text
//! alpha = (1 - g) alpha + g M
//! a mark leaves (1 - alpha / 2) W, once a window; a loss leaves W / 2
//! ```
//!
//! Needs ECN: a path without it is refused. The bottleneck should mark above a low threshold, and
//! the receiver should echo each mark on its own (RFC 8257 section 3.2). A receiver that does not
//! run DCTCP repeats a mark until it is answered (RFC 3168), so that alpha is then too large: the
//! flow is fair to Reno, and no better.
//!
//! Differs from RFC 8257: growth and slow start are Reno's (window.rs); M counts segments, as Linux
//! does, not bytes.

use crate::arm::{ArmInfo, ProgramId, Queue};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::reno::Additive;
use crate::units::{Bytes, Packets, Time};
use crate::window::{self, Rule, Window, WindowArm};

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "dctcp",
    summary: "a cut in proportion to the marks (DCTCP, RFC 8257); needs ECN",
    program: ProgramId("dctcp/report"),
    needs_ecn: true,
    make: Some(window::make::<Dctcp>),
    queue: Some(Queue::Full),
    ..ArmInfo::DEFAULT
};

/// RFC 8257 section 4.2: g, 1/16.
const G_DIVISOR: u64 = 16;
/// RFC 8257 section 3.3 step 7: a cut of alpha / 2.
const CUT_DIVISOR: u64 = 2;
/// alpha in parts of a million, so that a sixteenth of a rare mark is not lost to rounding.
const ONE: u64 = 1_000_000;
/// RFC 8257 section 3.3: alpha starts at 1, so that the first mark halves.
const ALPHA_FIRST: u64 = ONE;

/// DCTCP, for one flow.
#[derive(Clone, Debug)]
pub struct Dctcp {
    window: Window,
    rule: Proportional,
    /// Segments of this round: delivered, and of them marked.
    delivered: Packets,
    marked: Packets,
}

#[derive(Clone, Copy, Debug)]
struct Proportional {
    /// The share of marks, in millionths.
    alpha: u64,
    /// What is answered is a loss or a timeout, not a mark.
    is_loss: bool,
    additive: Additive,
}

impl WindowArm for Dctcp {
    const INFO: &'static ArmInfo = &ARM;

    fn over(path: &PathState, now: Time) -> Self {
        let additive = Additive::default();
        Self {
            window: Window::resume(path, now),
            rule: Proportional { alpha: ALPHA_FIRST, is_loss: false, additive },
            delivered: Packets(0),
            marked: Packets(0),
        }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn step(&mut self, m: &Measurement, now: Time) {
        self.delivered += m.delivered.to_packets(self.window.path.mss);
        self.marked += m.ecn_marked;
        self.rule.is_loss = m.has_loss() || m.timed_out;
        self.window.step(&mut self.rule, m, now);
        if self.window.round_ended() {
            self.end_round();
        }
    }
}

impl Rule for Proportional {
    fn grow(&mut self, path: &PathState, acked: Bytes, now: Time) -> Bytes {
        self.additive.grow(path, acked, now)
    }

    fn reduce(&mut self, path: &PathState) -> Bytes {
        let half = self.additive.reduce(path);
        if self.is_loss {
            return half;
        }
        path.cwnd - window::scale(path.cwnd, Bytes(self.alpha), Bytes(CUT_DIVISOR * ONE))
    }
}

impl Dctcp {
    /// RFC 8257 section 3.3, steps 4 to 6.
    fn end_round(&mut self) {
        let delivered = std::mem::take(&mut self.delivered).0.max(1);
        let marked = std::mem::take(&mut self.marked).0.min(delivered);
        let share = window::scale(Bytes(ONE), Bytes(marked), Bytes(delivered)).0;
        let left = self.rule.alpha - self.rule.alpha / G_DIVISOR;
        self.rule.alpha = (left + share / G_DIVISOR).min(ONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::{Arm, Readiness};
    use crate::measurement::RttSamples;
    use crate::script::{MSS, RTT, path, windows};

    /// Rounds of a window of 100 segments, of which so many are marked: alpha in millionths after.
    fn alpha_after(marked: &[u64]) -> u64 {
        let mut dctcp = Dctcp::new();
        let mut known = path(100);
        (known.ecn, known.ssthresh) = (true, Some(known.cwnd));
        let mut cwnd = dctcp.resume(&known, Time::ZERO).cwnd;
        for (at, marked) in (1u32..).zip(marked) {
            let m = Measurement {
                acked: cwnd,
                delivered: Packets(100).to_bytes(MSS),
                in_flight: Bytes(0),
                ecn_marked: Packets(*marked),
                rtt: Some(RttSamples::one(RTT)),
                cwnd,
                ..Measurement::QUIET
            };
            cwnd = dctcp.on_measurement(&m, Time(RTT * at)).cwnd;
        }
        dctcp.rule.alpha
    }

    #[test]
    fn alpha_follows_the_share_of_marks_by_a_sixteenth_a_round() {
        assert_eq!(alpha_after(&[0]), 937_500);
        assert_eq!(alpha_after(&[100]), 1_000_000);
        assert_eq!(alpha_after(&[50]), 937_500 + 31_250);
        let settled = alpha_after(&[25; 200]);
        assert!((249_000..=251_000).contains(&settled), "{settled}");
    }

    #[test]
    fn a_mark_cuts_by_half_of_alpha_and_a_loss_by_half() {
        let mut rule = Dctcp::new().rule;
        rule.alpha = ONE / 4;
        let path = path(80);
        assert_eq!(rule.reduce(&path).to_packets(MSS), Packets(70));
        rule.is_loss = true;
        assert_eq!(rule.reduce(&path).to_packets(MSS), Packets(40));
        assert_eq!(windows(&mut Dctcp::new(), &path, "l"), "40");
    }

    #[test]
    fn a_path_without_ecn_or_counts_of_marks_is_refused() {
        let mut path = path(10);
        assert!(matches!(Dctcp::new().can_resume(&path), Readiness::Refuse(_)));
        path.ecn = true;
        assert_eq!(Dctcp::new().can_resume(&path), Readiness::Ready);
        path.datapath.marks = false;
        assert!(matches!(Dctcp::new().can_resume(&path), Readiness::Refuse(_)));
    }
}
