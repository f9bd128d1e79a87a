//! How large a window the next flow to a destination begins with, by what flows had there.
//!
//! A destination's bandwidth-delay product is remembered, and a flow there begins with half of it:
//! the jump of Careful Resume (draft-ietf-tsvwg-careful-resume), a form of what RFC 9040 calls
//! temporal sharing. Zhou et al., Antelope, remember the arm alone.
//!
//! Differs from the draft:
//!   - what is remembered is the largest delivery rate times the smallest round trip, not the
//!     window: windows hold queues;
//!   - the first flight itself is the jump, as the window is set when the connection is
//!     established: the handshake has confirmed the path, though not its capacity;
//!   - flows that jump at the same time share the jump, as they share the path;
//!   - half is for who has no preference: one that wants throughput alone begins with all of it,
//!     and one that wants short delays with the standard window, as a jump may queue;
//!   - if more than [`LOST_MAX`] of a jump is lost, the next is half as large, and it comes back by
//!     a quarter with each that is not. The flow itself answers losses as its arm does.

use remuda_algorithms::Preference;

/// The draft's half.
const SHARE_MAX: f64 = 0.5;
/// It becomes no less: of most paths it is the standard window by then.
const SHARE_MIN: f64 = 1.0 / 64.0;
/// A jump that came through lets the next be larger by this factor.
const REGAIN: f64 = 1.25;
/// So much of a jump may be lost. A queue that others fill loses one or two segments of a hundred,
/// whoever sends; a jump that is too large loses more.
pub(super) const LOST_MAX: f64 = 0.05;
/// Weight of the news that a path carries less.
const LESS: f64 = 0.5;
/// RFC 6928's window, in segments: one that is not larger is no jump.
pub const STANDARD_CWND_PKTS: u32 = 10;
/// Who has not sent its window for so long, in seconds, has nothing to send.
const JUMPS_FOR_S: u64 = 5;
/// The largest product, in segments: that of 100 Gbit/s and 100 ms.
pub(super) const BDP_PKTS_MAX: f64 = 1e6;

/// What a flow has had of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// Its largest delivery rate times its smallest round trip, in segments.
    pub bdp_pkts: f64,
    /// It was too short to find out more: the path carries so much at least.
    pub is_least: bool,
}

/// What flows to a destination have had, and what came of their jumps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resume {
    /// Bandwidth-delay product, in segments; 0: not known.
    pub bdp_pkts: f64,
    /// The share of it that the next flow begins with.
    pub share: f64,
    /// When flows began whose jump has neither come through nor failed, in seconds.
    unvalidated: Vec<u64>,
}

impl Default for Resume {
    fn default() -> Self {
        Self { bdp_pkts: 0.0, share: SHARE_MAX, unvalidated: Vec::new() }
    }
}

impl Resume {
    /// One of a file: `None` if it is none.
    pub fn kept(bdp_pkts: f64, share: f64) -> Option<Self> {
        let fits = (0.0..=BDP_PKTS_MAX).contains(&bdp_pkts);
        let fits = fits && (SHARE_MIN..=SHARE_MAX).contains(&share);
        fits.then_some(Self { bdp_pkts, share, unvalidated: Vec::new() })
    }

    /// Takes note of what a flow had.
    pub fn note(&mut self, Carried { bdp_pkts, is_least }: Carried) {
        let bdp_pkts = bdp_pkts.clamp(0.0, BDP_PKTS_MAX);
        if bdp_pkts > self.bdp_pkts {
            self.bdp_pkts = bdp_pkts;
        } else if !is_least {
            self.bdp_pkts += LESS * (bdp_pkts - self.bdp_pkts);
        }
    }

    /// A flow jumps at that moment, in seconds: what it has of that window beside those that do so
    /// at the same time, by what it wants; up to `most`.
    pub fn jump(&mut self, (cwnd_pkts, most): (u32, u32), wants: Preference, now_s: u64) -> u32 {
        self.unvalidated.retain(|at_s| now_s.saturating_sub(*at_s) < JUMPS_FOR_S);
        let factor = (1.0 + wants.throughput - wants.delay).clamp(0.0, 1.0 / SHARE_MAX);
        let wanted = (f64::from(cwnd_pkts) * factor).min(most.into());
        let has_pkts = (wanted / (self.unvalidated.len() + 1) as f64) as u32;
        if has_pkts > STANDARD_CWND_PKTS {
            self.unvalidated.push(now_s);
        }
        has_pkts.max(STANDARD_CWND_PKTS)
    }

    /// A jump is over: the share of it that was lost, if the flow has lasted so long.
    pub fn landed(&mut self, lost: Option<f64>) {
        if !self.unvalidated.is_empty() {
            self.unvalidated.remove(0);
        }
        self.share = match lost {
            Some(lost) if lost > LOST_MAX => (self.share / 2.0).max(SHARE_MIN),
            Some(_) => (self.share * REGAIN).min(SHARE_MAX),
            None => self.share,
        };
    }

    /// The window of the next flow, in segments, up to `most`; `None`: the datapath's own.
    pub fn cwnd_pkts(&self, most: u32) -> Option<u32> {
        let pkts = (self.bdp_pkts * self.share).min(most.into()) as u32;
        (pkts > STANDARD_CWND_PKTS).then_some(pkts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEFAULT: Preference = Preference::DEFAULT;

    fn of(bdp_pkts: f64) -> Resume {
        let mut resume = Resume::default();
        resume.note(Carried { bdp_pkts, is_least: false });
        resume
    }

    #[test]
    fn the_next_flow_begins_with_half_up_to_a_bound() {
        for (bdp_pkts, want) in [
            (0.0, None),
            (20.0, None),
            (23.0, Some(11)),
            (100.0, Some(50)),
            (1e9, Some(1_000)),
            (f64::INFINITY, Some(1_000)),
        ] {
            assert_eq!(of(bdp_pkts).cwnd_pkts(1_000), want, "{bdp_pkts}");
        }
        assert_eq!((of(100.0).cwnd_pkts(30), of(100.0).cwnd_pkts(0)), (Some(30), None));
    }

    #[test]
    fn a_short_flow_says_no_less_and_a_long_one_does() {
        let mut resume = of(100.0);
        resume.note(Carried { bdp_pkts: 40.0, is_least: true });
        assert_eq!(resume.bdp_pkts, 100.0);
        resume.note(Carried { bdp_pkts: 40.0, is_least: false });
        assert_eq!(resume.bdp_pkts, 70.0);
        resume.note(Carried { bdp_pkts: 300.0, is_least: true });
        assert_eq!(resume.bdp_pkts, 300.0);
    }

    #[test]
    fn a_jump_that_was_too_large_is_halved_and_comes_back() {
        let mut resume = of(1_000.0);
        let mut after = |lost| {
            resume.landed(lost);
            resume.cwnd_pkts(1_000)
        };
        assert_eq!(after(Some(0.06)), Some(250));
        assert_eq!(after(Some(0.05)), Some(312));
        assert_eq!(after(None), Some(312));
        assert_eq!(after(Some(0.0)), Some(390));
        assert_eq!([(); 3].map(|()| after(Some(0.0))), [Some(488), Some(500), Some(500)]);
        assert_eq!([(); 6].map(|()| after(Some(1.0)))[5], Some(15), "no less than a 64th");
    }

    #[test]
    fn who_jumps_at_the_same_time_shares_it() {
        let mut resume = of(200.0);
        let jump = |resume: &mut Resume, now_s| resume.jump((100, 1_000), DEFAULT, now_s);
        assert_eq!([7, 7, 8].map(|now_s| jump(&mut resume, now_s)), [100, 50, 33]);
        resume.landed(None);
        resume.landed(Some(0.0));
        assert_eq!(jump(&mut resume, 8), 50);
        assert_eq!(jump(&mut resume, 13), 100, "the others have nothing to send");
        [(); 5].map(|()| resume.landed(None));
        assert_eq!(jump(&mut resume, 13), 100);
        let many: Vec<u32> = (0..1_000).map(|_| jump(&mut resume, 13)).collect();
        assert_eq!((many[0], many[998], resume.unvalidated.len()), (50, 10, 9));
    }

    #[test]
    fn who_wants_throughput_jumps_all_the_way_and_who_wants_short_delays_does_not() {
        let jump = |throughput, delay, most| {
            of(200.0).jump((100, most), Preference { throughput, delay }, 7)
        };
        let all = [(1.0, 0.0), (1.0, 0.5), (1.0, 1.0), (0.5, 1.0), (0.0, 1.0)];
        assert_eq!(all.map(|(zeta, theta)| jump(zeta, theta, 1_000)), [200, 150, 100, 50, 10]);
        assert_eq!(jump(1.0, 0.0, 120), 120);
    }

    proptest! {
        #[test]
        fn whatever_is_told_it_stays_in_its_bounds(
            told in prop::collection::vec((-1e12..1e12f64, any::<bool>(), 0.0..1.0f64), 0..50),
            most in 0..=1_000u32,
        ) {
            let mut resume = Resume::default();
            for (bdp_pkts, is_least, lost) in told {
                resume.note(Carried { bdp_pkts, is_least });
                resume.landed((lost > 0.1).then_some(lost));
                prop_assert!(Resume::kept(resume.bdp_pkts, resume.share).is_some(), "{resume:?}");
                let pkts = resume.cwnd_pkts(most);
                prop_assert!(pkts.is_none_or(|pkts| (11..=most.max(11)).contains(&pkts)));
            }
        }
    }
}
