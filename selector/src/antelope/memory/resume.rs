//! How far a new flow jumps, by what flows to the same destination had.
//!
//! Careful Resume (draft-ietf-tsvwg-careful-resume), a form of what RFC 9040 calls temporal
//! sharing; Zhou et al., Antelope, remember the arm alone. A destination's bandwidth-delay product
//! is remembered. A flow begins as any other; when its path has shown to be the one remembered, its
//! window becomes half of that product. The flow's part is
//! `ccp-agent/src/flow/jump.rs`.
//!
//! Differs from the draft:
//!   - what is remembered is the largest delivery rate times the smallest round trip, not the
//!     window: windows hold queues;
//!   - flows that jump at the same time have together what one has alone, as they share the path;
//!   - half is for a flow without a preference: one that wants throughput alone jumps all the way,
//!     and one that wants short delays does not, as a jump may queue;
//!   - if more than [`LOST_MAX`] of a jump is lost, the next is half as far, and comes back by a
//!     quarter with each that came through. The flow itself answers losses as its arm does.

use remuda_algorithms::Preference;
use remuda_algorithms::units::Bytes;
use std::time::Duration;

const SHARE_MAX: f64 = 0.5;
/// It becomes no less: of most paths it is the standard window by then.
const SHARE_MIN: f64 = 1.0 / 64.0;
/// A jump that came through lets the next be longer by this factor.
const REGAIN: f64 = 1.25;
/// So much of a jump may be lost. A queue that others fill loses one or two segments of a hundred,
/// whatever arm sends; a jump that is too far loses more.
pub const LOST_MAX: f64 = 0.05;
/// Weight of the news that a path carries less.
const LESS: f64 = 0.5;
/// A jump that has not come through after so long, in seconds, is no longer counted.
const JUMPS_FOR_S: u64 = 10;
/// The draft's bounds of a round trip that is of the same path, to the one remembered.
const SAME_PATH: std::ops::RangeInclusive<f64> = 0.5..=10.0;
/// The largest product: that of 100 Gbit/s and 100 ms, in bytes.
const BDP_BYTES_MAX: f64 = 1.25e9;
/// The longest smallest round trip, in microseconds.
const RTT_US_MAX: u64 = 60_000_000;

/// What a flow has had of its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// Its largest delivery rate times [`Self::rtt`].
    pub bdp: Bytes,
    /// Its smallest round trip.
    pub rtt: Duration,
    /// It was too short, or had too little to send, to find out more: the path carries so much at
    /// least.
    pub is_least: bool,
}

/// A flow that might jump.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jumper {
    pub flow: u32,
    /// The window that it has, which a jump must exceed.
    pub cwnd: Bytes,
    /// The size of its segments.
    pub mss: Bytes,
    /// Its round trip, smoothed.
    pub srtt: Duration,
    pub wants: Preference,
}

/// A jump whose end is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unvalidated {
    flow: u32,
    window: Bytes,
    at_s: u64,
}

/// What flows to a destination have had, and what came of their jumps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resume {
    /// Bandwidth-delay product, in bytes; 0: not known.
    pub bdp_bytes: f64,
    /// The smallest round trip.
    pub rtt_us: u64,
    /// Until when the product is believed, in seconds, as nothing has confirmed it since.
    pub until_s: u64,
    /// The share of it that the next flow jumps to.
    pub share: f64,
    /// Jumps that have neither come through nor failed.
    pub unvalidated: Vec<Unvalidated>,
}

impl Default for Resume {
    fn default() -> Self {
        Self { bdp_bytes: 0.0, rtt_us: 0, until_s: 0, share: SHARE_MAX, unvalidated: Vec::new() }
    }
}

impl Resume {
    /// Whether all of it lies in its bounds: what a file has may not.
    pub fn is_valid(&self) -> bool {
        (0.0..=BDP_BYTES_MAX).contains(&self.bdp_bytes)
            && self.rtt_us <= RTT_US_MAX
            && (SHARE_MIN..=SHARE_MAX).contains(&self.share)
    }

    /// Takes note of what a flow had, to be believed until then. What is no longer believed does
    /// not count: of short flows none might ever have as much again.
    pub fn note(&mut self, carried: Carried, until_s: u64, now_s: u64) {
        let Carried { bdp, rtt, is_least } = carried;
        if self.until_s < now_s {
            self.bdp_bytes = 0.0;
        }
        let bdp_bytes = (bdp.0 as f64).min(BDP_BYTES_MAX);
        if bdp_bytes >= self.bdp_bytes {
            self.bdp_bytes = bdp_bytes;
        } else if is_least {
            return;
        } else {
            self.bdp_bytes += LESS * (bdp_bytes - self.bdp_bytes);
        }
        self.rtt_us = u64::try_from(rtt.as_micros()).unwrap_or(RTT_US_MAX).min(RTT_US_MAX);
        self.until_s = until_s;
    }

    /// How far the next flow jumps that is alone and has no preference.
    pub fn reach(&self, now_s: u64) -> Bytes {
        let is_old = self.until_s < now_s;
        Bytes(if is_old { 0 } else { (self.bdp_bytes * self.share) as u64 })
    }

    /// The window that a flow jumps to, `pkts_max` segments at most: none if it has as much, if
    /// others jump, or if its path is another one.
    pub fn jump(&mut self, jumper: &Jumper, pkts_max: u32, now_s: u64) -> Option<Bytes> {
        self.unvalidated.retain(|it| now_s.saturating_sub(it.at_s) < JUMPS_FOR_S);
        let ratio = jumper.srtt.as_micros() as f64 / self.rtt_us.max(1) as f64;
        if !SAME_PATH.contains(&ratio) {
            return None;
        }
        let wants = 1.0 + jumper.wants.throughput - jumper.wants.delay;
        let factor = wants.clamp(0.0, 1.0 / SHARE_MAX);
        let wanted = Bytes((self.reach(now_s).0 as f64 * factor) as u64);
        let taken: u64 = self.unvalidated.iter().map(|it| it.window.0).sum();
        let most = Bytes(u64::from(pkts_max) * jumper.mss.0);
        let window = Bytes(wanted.0.saturating_sub(taken)).min(most);
        (window > jumper.cwnd).then(|| {
            self.unvalidated.push(Unvalidated { flow: jumper.flow, window, at_s: now_s });
            window
        })
    }

    /// What came of a flow's jump: the share of it that was lost; `None` if it has ended, or had
    /// too little to send, before that was known.
    pub fn landed(&mut self, flow: u32, lost: Option<f64>) {
        self.unvalidated.retain(|it| it.flow != flow);
        self.share = match lost {
            Some(lost) if lost > LOST_MAX => (self.share / 2.0).max(SHARE_MIN),
            Some(_) => (self.share * REGAIN).min(SHARE_MAX),
            None => self.share,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS_100: Duration = Duration::from_millis(100);
    const MOST: u32 = 1_000;
    /// An hour from 7 s on.
    const UNTIL_S: u64 = 3_607;

    fn carried(bdp: u64) -> Carried {
        Carried { bdp: Bytes(bdp), rtt: MS_100, is_least: false }
    }

    fn of(bdp: u64) -> Resume {
        let mut resume = Resume::default();
        resume.note(carried(bdp), UNTIL_S, 7);
        resume
    }

    fn jumper(flow: u32) -> Jumper {
        let (cwnd, mss) = (Bytes(10_000), Bytes(1_000));
        Jumper { flow, cwnd, mss, srtt: MS_100, wants: Preference::DEFAULT }
    }

    #[test]
    fn a_flow_jumps_to_half_up_to_a_bound_and_not_back() {
        for (bdp, want) in [
            (0, None),
            (20_000, None),
            (22_000, Some(11_000)),
            (200_000, Some(100_000)),
            (u64::MAX, Some(1_000_000)),
        ] {
            assert_eq!(of(bdp).jump(&jumper(1), MOST, 7), want.map(Bytes), "{bdp}");
        }
        let most = |pkts_max| of(200_000).jump(&jumper(1), pkts_max, 7);
        assert_eq!((most(30), most(0)), (Some(Bytes(30_000)), None));
    }

    #[test]
    fn not_on_another_path_and_not_by_what_is_old() {
        for (ms, jumps) in [(49, false), (50, true), (1_000, true), (1_001, false)] {
            let jumper = Jumper { srtt: Duration::from_millis(ms), ..jumper(1) };
            assert_eq!(of(200_000).jump(&jumper, MOST, 7).is_some(), jumps, "{ms} ms");
        }
        let mut resume = of(200_000);
        let short = Carried { is_least: true, ..carried(1_000) };
        resume.note(short, 7_200, 3_600);
        assert!(resume.clone().jump(&jumper(1), MOST, 3_607).is_some());
        assert!(resume.jump(&jumper(1), MOST, 3_608).is_none(), "a short flow confirms nothing");
        resume.note(Carried { bdp: Bytes(80_000), ..short }, 7_208, 3_608);
        let jumped = resume.jump(&jumper(1), MOST, 3_608);
        assert_eq!(jumped, Some(Bytes(40_000)), "but it says more than what is old");
    }

    #[test]
    fn a_short_flow_says_no_less_and_a_long_one_does() {
        let mut resume = of(100_000);
        resume.note(Carried { is_least: true, ..carried(40_000) }, UNTIL_S, 7);
        assert_eq!(resume.bdp_bytes, 100_000.0);
        resume.note(carried(40_000), UNTIL_S, 7);
        assert_eq!(resume.bdp_bytes, 70_000.0);
        resume.note(Carried { is_least: true, ..carried(300_000) }, UNTIL_S, 7);
        assert_eq!(resume.bdp_bytes, 300_000.0);
    }

    #[test]
    fn a_jump_that_was_too_far_is_halved_and_comes_back() {
        let mut resume = of(1_000_000);
        let mut after = |lost| {
            resume.landed(1, lost);
            resume.reach(7).0
        };
        assert_eq!(after(Some(0.06)), 250_000);
        assert_eq!(after(Some(0.05)), 312_500);
        assert_eq!(after(None), 312_500);
        assert_eq!(after(Some(0.0)), 390_625);
        assert_eq!([(); 3].map(|()| after(Some(0.0))), [488_281, 500_000, 500_000]);
        assert_eq!([(); 6].map(|()| after(Some(1.0)))[5], 15_625, "no less than a 64th");
    }

    #[test]
    fn flows_that_jump_at_once_have_together_what_one_has() {
        let mut resume = of(200_000);
        let bound = |flow| Jumper { mss: Bytes(60), cwnd: Bytes(600), ..jumper(flow) };
        let mut jump = |flow, now_s| resume.jump(&bound(flow), MOST, now_s).map(|it| it.0);
        assert_eq!([1, 2, 3].map(|flow| jump(flow, 7)), [Some(60_000), Some(40_000), None]);
        assert_eq!(jump(4, 17), Some(60_000), "the others have nothing to send");
        resume.landed(1, Some(0.0));
        resume.landed(5, None);
        assert_eq!(resume.jump(&bound(6), MOST, 17), Some(Bytes(40_000)), "4 still jumps");
        resume.landed(4, None);
        assert_eq!(resume.jump(&bound(7), MOST, 17), Some(Bytes(60_000)));
    }

    #[test]
    fn who_wants_throughput_jumps_all_the_way_and_who_wants_short_delays_does_not() {
        let jump = |throughput, delay| {
            let wants = Preference { throughput, delay };
            of(200_000).jump(&Jumper { wants, ..jumper(1) }, MOST, 7).map_or(0, |it| it.0)
        };
        let all = [(1.0, 0.0), (1.0, 0.5), (1.0, 1.0), (0.5, 1.0), (0.0, 1.0)];
        let want = [200_000, 150_000, 100_000, 50_000, 0];
        assert_eq!(all.map(|(zeta, theta)| jump(zeta, theta)), want);
    }

    proptest! {
        #[test]
        fn whatever_is_told_it_stays_in_its_bounds(
            told in prop::collection::vec((any::<u64>(), any::<bool>(), 0.0..0.2f64), 0..50),
            pkts_max in 0..=1_000u32,
        ) {
            let mut resume = Resume::default();
            for (flow, (bdp, is_least, lost)) in (0..).zip(told) {
                resume.note(Carried { is_least, ..carried(bdp) }, UNTIL_S, 7);
                let jumped = resume.jump(&jumper(flow), pkts_max, 7);
                let most = Bytes(u64::from(pkts_max) * 1_000);
                prop_assert!(jumped.is_none_or(|it| it > Bytes(10_000) && it <= most));
                resume.landed(flow, (lost < 0.1).then_some(lost));
                prop_assert!(resume.is_valid(), "{resume:?}");
            }
        }
    }
}
