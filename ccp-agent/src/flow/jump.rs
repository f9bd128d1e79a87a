//! A flow jumps: once its path has shown to be one that is remembered, to a window by what flows
//! had there.
//!
//! The flow's part of Careful Resume (draft-ietf-tsvwg-careful-resume); what is remembered, and how
//! far a jump goes, is in `selector/src/antelope/memory/resume.rs`. The draft's phases:
//!
//! ```text
//! Reconnaissance   until half of the first window has come through, without a loss
//! Unvalidated      the window is the one jumped to, and paced, until so much has been acknowledged
//! Normal           its arm alone decides
//! ```
//!
//! An initial window above ten segments (`remuda memory --initial-cwnd`, `[iw]`) is a jump that the
//! kernel has made and paced. If more of it is lost than a jump may lose, the flow retreats: to
//! half of what has come through, as in the draft's Safe Retreat, whether its arm answers losses or
//! not.
//!
//! Differs from the draft:
//!   - half of the first window is enough: an order takes effect at the next ACK, and after the
//!     last ACK of that window no further ACK comes for most of a round trip;
//!   - a jump is a new beginning with a larger window, so that an arm need not know of it (BBR
//!     fills the pipe from there); losses in it are answered by the arm.

use super::{Context, Flow};
use crate::events::Event;
use crate::guard::Guard;
use remuda_algorithms::Decision;
use remuda_algorithms::units::Bytes;
use remuda_selector::antelope::memory::{Carried, Jumper, LOST_MAX, Memory};
use std::cmp::Ordering;
use std::time::Duration;

/// RFC 6928's initial window, in segments: a flow that begins with another one has been given it,
/// or is in mid-life.
const STANDARD_PKTS: u64 = 10;
/// A flow that has not sent its window after so many round trips has too little to send.
const ROUNDS_MAX: u32 = 10;
/// A shorter life tells what a path carries at least.
const LONG: Duration = Duration::from_secs(5);

/// Where a flow stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jump {
    phase: Phase,
    /// Since its beginning, or since it jumped.
    delivered: Bytes,
    lost: Bytes,
    /// It once had more to send than its window held.
    was_bound: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    Reconnaissance,
    Unvalidated {
        window: Bytes,
        until: Duration,
    },
    /// It began with a window above the standard one, of which nothing is known yet.
    Given {
        window: Bytes,
    },
    #[default]
    Normal,
}

impl Jump {
    /// Of a flow that begins with that window.
    pub fn of(cwnd: Bytes, mss: Bytes) -> Self {
        let phase = match cwnd.0.cmp(&(STANDARD_PKTS * mss.0)) {
            Ordering::Less => Phase::Normal,
            Ordering::Equal => Phase::Reconnaissance,
            Ordering::Greater => Phase::Given { window: cwnd },
        };
        Self { phase, ..Self::default() }
    }
}

impl Flow {
    /// After a report: jumps if it is time to, or says what came of that. `now_s` is of the
    /// memory's clock.
    pub fn jump_in_time(&mut self, memory: &mut Memory, now_s: u64, ctx: &mut Context<'_>) {
        let last = &self.last;
        self.jump.was_bound |= !last.app_limited && last.delivered > Bytes(0);
        self.jump.delivered += last.delivered;
        self.jump.lost += last.lost.to_bytes(self.path.mss);
        match self.jump.phase {
            Phase::Normal => {}
            Phase::Reconnaissance => self.reconnoitre(memory, now_s, ctx),
            Phase::Unvalidated { .. } => self.validate(memory),
            Phase::Given { window } => self.validate_initial(window, memory, now_s, ctx),
        }
    }

    /// A flow that was taken over in mid-life may have such a window too: nobody gave it that.
    fn validate_initial(
        &mut self,
        window: Bytes,
        memory: &Memory,
        now_s: u64,
        ctx: &mut Context<'_>,
    ) {
        let given = memory.initial_cwnd_pkts(self.remote(), now_s);
        let is_ours = window.0 <= u64::from(given) * self.path.mss.0;
        let known = self.jump.delivered + self.jump.lost;
        if is_ours && self.jump.lost.0 as f64 > LOST_MAX * window.0 as f64 {
            self.jump.phase = Phase::Normal;
            self.retreat(window, ctx);
        } else if !is_ours || known >= window {
            self.jump.phase = Phase::Normal;
        }
    }

    /// The draft's Safe Retreat, from a window that was too much.
    fn retreat(&mut self, from: Bytes, ctx: &mut Context<'_>) {
        let least = Bytes(STANDARD_PKTS * self.path.mss.0);
        let to = Bytes(self.jump.delivered.0 / 2).max(least);
        if to >= self.decision.cwnd {
            return; // its arm has gone as far
        }
        let retreated =
            Event::Retreated { from_bytes: from.0, to_bytes: to.0, lost_bytes: self.jump.lost.0 };
        ctx.recorder.record(Some(self.id), &retreated);
        let now = self.now();
        self.path.cwnd = to;
        self.path.ssthresh = Some(to);
        self.guard = Guard::new(to, now);
        self.decision = Decision { cwnd: to, rate: None };
        let first = self.controller.resume(&self.path, now);
        self.obey(first, now, ctx);
    }

    fn reconnoitre(&mut self, memory: &mut Memory, now_s: u64, ctx: &mut Context<'_>) {
        let half = Bytes(STANDARD_PKTS / 2 * self.path.mss.0);
        let is_new = self.path.ssthresh.is_none() && self.totals.lost_pkts == 0;
        if !self.controller.remembers() || !is_new || self.last.timed_out || self.fell_back {
            self.jump.phase = Phase::Normal;
            return;
        }
        let Some(srtt) = self.path.srtt.filter(|_| self.jump.delivered >= half) else { return };
        let (cwnd, mss, wants) = (self.path.cwnd, self.path.mss, self.path.wants);
        let jumper = Jumper { flow: self.id, cwnd, mss, srtt, wants };
        self.jump.phase = Phase::Normal;
        if let Some(window) = memory.jump(self.remote(), &jumper, now_s) {
            let until = self.now().0 + srtt * ROUNDS_MAX;
            let phase = Phase::Unvalidated { window, until };
            self.jump = Jump { phase, was_bound: self.jump.was_bound, ..Jump::default() };
            let jumped = Event::Jumped { from_bytes: cwnd.0, to_bytes: window.0 };
            ctx.recorder.record(Some(self.id), &jumped);
            self.begin_again_with(window, ctx);
        }
    }

    /// As one that is new, but for the round trips that it knows.
    fn begin_again_with(&mut self, window: Bytes, ctx: &mut Context<'_>) {
        let now = self.now();
        self.path = self.path.cold();
        self.path.cwnd = window;
        self.guard = Guard::new(window, now);
        self.decision = Decision { cwnd: window, rate: None };
        let first = self.controller.resume(&self.path, now);
        self.obey(first, now, ctx);
    }

    fn validate(&mut self, memory: &mut Memory) {
        let Phase::Unvalidated { window, until } = self.jump.phase else { return };
        let known = self.jump.delivered + self.jump.lost;
        let has_failed = self.jump.lost.0 as f64 > LOST_MAX * window.0 as f64;
        if known >= window || has_failed {
            let lost = self.jump.lost.0 as f64 / window.0.max(1) as f64;
            self.jump.phase = Phase::Normal;
            memory.landed(self.remote(), self.id, Some(lost));
        } else if self.now().0 > until {
            self.end_jump(memory);
        }
    }

    /// It has ended, or has too little to send, before it was known what came of its jump.
    pub(super) fn end_jump(&mut self, memory: &mut Memory) {
        if let Phase::Unvalidated { .. } = std::mem::replace(&mut self.jump.phase, Phase::Normal) {
            memory.landed(self.remote(), self.id, None);
        }
    }

    /// A decision as it is carried out while nobody knows what comes of a jump: it is not sent in
    /// one burst, but as Linux paces a slow start, at twice the window a round trip.
    pub(super) fn paced_jump(&self, decision: Decision) -> Decision {
        let srtt = self.path.srtt.filter(|srtt| *srtt > Duration::ZERO);
        match (self.jump.phase, decision.rate, srtt) {
            (Phase::Unvalidated { .. }, None, Some(srtt)) => {
                let rate = Bytes(decision.cwnd.0.saturating_mul(2)) / srtt;
                Decision { rate: Some(rate), ..decision }
            }
            _ => decision,
        }
    }

    /// What it has had of its path.
    pub(super) fn carried(&self) -> Option<Carried> {
        let rtt = self.path.rtt_min_long()?;
        let bdp = self.path.delivery_rate()? * rtt;
        let is_least = self.reported_at.0 < LONG || !self.jump.was_bound;
        Some(Carried { bdp, rtt, is_least })
    }
}

#[cfg(test)]
mod tests {
    use super::super::remembering::tests::{Rig, nothing};
    use super::*;
    use remuda_algorithms::Measurement;
    use remuda_algorithms::units::{Packets, Rate};
    use remuda_selector::antelope::memory::Network;

    const TO: &str = "198.51.100.7";
    const MSS: u64 = 1_448;

    /// A report of a rate that fills 200 segments in a round trip.
    fn says(delivered_pkts: u64, lost: u64) -> Measurement {
        let delivered = Bytes(delivered_pkts * MSS);
        Measurement {
            delivered,
            acked: delivered,
            lost: Packets(lost),
            delivery_rate: Rate::from_bytes_per_sec(200 * MSS * 10),
            cwnd: Bytes(10 * MSS),
            ..Measurement::QUIET
        }
    }

    /// What a flow leaves that had 200 segments a round trip.
    fn known() -> Memory {
        let mut rig = Rig::starting(1, TO, nothing(), 10);
        rig.says = says(100, 0);
        rig.report(1, "bbr");
        rig.end(2)
    }

    /// The second flow there: what it has after reports of these.
    fn after(cwnd_pkts: u64, reports: &[(u64, u64)]) -> Rig {
        let mut rig = Rig::starting(2, TO, known(), cwnd_pkts);
        for (delivered_pkts, lost) in reports {
            rig.says = says(*delivered_pkts, *lost);
            rig.report(1, "bbr");
        }
        rig
    }

    fn cwnd_pkts(rig: &Rig) -> u64 {
        rig.flow.decision.cwnd.0 / MSS
    }

    #[test]
    fn a_flow_jumps_once_half_of_its_first_window_has_come_through() {
        let early = after(10, &[(4, 0)]);
        assert!(cwnd_pkts(&early) < 20, "{}", cwnd_pkts(&early));
        assert_eq!(cwnd_pkts(&after(10, &[(4, 0), (1, 0)])), 100);
        for (cwnd_pkts_given, reports) in [(10, [(4, 1), (5, 0)]), (33, [(20, 0), (13, 0)])] {
            let rig = after(cwnd_pkts_given, &reports);
            assert!(cwnd_pkts(&rig) < 70, "{cwnd_pkts_given} {reports:?}: {}", cwnd_pkts(&rig));
        }
    }

    #[test]
    fn a_jump_is_paced_until_it_has_come_through() {
        let mut rig = after(10, &[(5, 0)]);
        let decision = Decision { cwnd: Bytes(100 * MSS), rate: None };
        let rate = Some(Rate::from_bytes_per_sec(2 * 100 * MSS * 10));
        assert_eq!(rig.flow.paced_jump(decision).rate, rate, "twice the window a round trip");
        let own = Decision { rate: Some(Rate::from_bytes_per_sec(1)), ..decision };
        assert_eq!(rig.flow.paced_jump(own), own, "its arm paces");
        rig.says = says(100, 0);
        rig.report(1, "bbr");
        assert_eq!(rig.flow.paced_jump(decision), decision);
    }

    #[test]
    fn an_initial_window_that_was_too_much_is_left_for_half_of_what_came_through() {
        let begun_with = |given_pkts: u32, arm: &'static str, reports: &[(u64, u64)]| {
            let mut memory = nothing();
            let network = Network::around(TO.parse().expect("an address"));
            memory.set_initial_cwnd(network, given_pkts).expect("a window");
            let mut rig = Rig::starting(1, TO, memory, 60);
            for (delivered_pkts, lost) in reports {
                rig.says = says(*delivered_pkts, *lost);
                rig.report(1, arm);
            }
            (cwnd_pkts(&rig), rig.heard("retreated"))
        };
        let (pkts, retreats) = begun_with(60, "bbr", &[(40, 4)]);
        assert!(retreats == 1 && pkts <= 20, "{pkts} segments, {retreats} retreats");
        assert_eq!(begun_with(60, "bbr", &[(30, 2), (28, 0), (20, 9)]).1, 0, "it came through");
        assert_eq!(begun_with(0, "bbr", &[(40, 4)]).1, 0, "nobody gave it this window");
    }

    #[test]
    fn what_comes_of_a_jump_decides_on_the_next() {
        let next = |delivered_pkts, lost, at_s| {
            let mut rig = after(10, &[(5, 0)]);
            rig.says = says(delivered_pkts, lost);
            rig.report(at_s, "bbr");
            rig.end(2).rows(2)[0].resumed_bytes / MSS
        };
        assert_eq!(next(95, 5, 1), 100, "it came through");
        assert_eq!(next(10, 6, 1), 50, "it has lost too much, whatever comes of the rest");
        assert_eq!(next(40, 0, 1), 100, "it ended before that was known");
        assert_eq!(next(40, 5, 4), 100, "it had too little to send");
    }

    #[test]
    fn what_a_flow_had_little_to_send_for_is_the_least_that_its_path_carries() {
        let carried = |app_limited, at_s| {
            let mut rig = Rig::starting(1, TO, nothing(), 10);
            rig.says = Measurement { app_limited, ..says(100, 0) };
            rig.report(at_s, "bbr");
            rig.flow.carried().expect("it has sent")
        };
        assert_eq!(carried(false, 5).bdp, Bytes(200 * MSS));
        let is_least = |app_limited, at_s| carried(app_limited, at_s).is_least;
        assert_eq!(
            [is_least(false, 4), is_least(false, 5), is_least(true, 5)],
            [true, false, true]
        );
    }
}
