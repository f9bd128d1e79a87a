//! Verus: a delay is aimed at, step by step, and a learned profile says which window leads to it.
//!
//! Y. Zaki et al., "Adaptive Congestion Control for Unpredictable Cellular Networks", SIGCOMM 2015,
//! sections 4 and 5; its constants are those of the authors' code. In each epoch, with Dmax the
//! smoothed largest delay, Dmin the least ever and Dest the delay aimed at:
//!
//! ```text
//! Dmax / Dmin > 2     Dest -= 2 ms        else, if Dmax has grown   Dest -= 1 ms
//!                                         else                      Dest += 2 ms
//! W = the window whose delay is Dest                                profile.rs
//! loss                W *= 0.7; a segment more a round trip until repaired; the profile rests
//! slow start          until a loss, or a delay of 15 Dmin
//! ```
//!
//! Differs from the paper:
//!   - a report (a sixteenth of a round trip, by default no shorter than 2 ms) stands for the
//!     epochs of 5 ms that it lasts;
//!   - the window is set as such, not as segments for the next epoch (section 4.1's last step): the
//!     datapath's ACK clock sends them;
//!   - a delay's window is that of a round trip before its report;
//!   - a report doubles the window at most; beyond the BDP it grows by an eighth of what is
//!     acknowledged, at most, and no more is aimed at than 0.85 of the delay at which a buffer has
//!     overflowed in the last ten seconds (overflow.rs).

mod profile;

use crate::arm::{Arm, ArmInfo, Decision, ProgramId, Queue, REPORTS_PER_ROUND_MANY};
use crate::measurement::{CwndUse, Measurement};
use crate::overflow::{self, Overflow};
use crate::path::PathState;
use crate::recovery::{Recovery, congested, episode_rtt};
use crate::units::{Bytes, Time};
use crate::window;
use profile::Profile;
use std::collections::VecDeque;
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "verus",
    summary: "aims at a delay by a learned delay profile (Verus)",
    program: ProgramId("verus/report"),
    reports_per_round: REPORTS_PER_ROUND_MANY,
    make: Some(|_| Box::new(Verus::default())),
    queue: Some(Queue::Bounded),
    ..ArmInfo::DEFAULT
};

/// `DELTA1` and `DELTA2`, in seconds.
const DELTA1_S: f64 = 0.001;
const DELTA2_S: f64 = 0.002;
/// `EPOCH`: a step is for so long; a report of another length is as much of one, four at most.
const EPOCH: Duration = Duration::from_millis(5);
const EPOCHS_MAX: f64 = 4.0;
/// `VERUS_R`: the largest ratio of the delay to the least.
const RATIO_MAX: f64 = 2.0;
/// `VERUS_M_DECREASE`.
const DECREASE: f64 = 0.7;
/// Of the smoothed largest delay, kept from one epoch to the next.
const KEPT: f64 = 0.2;
/// Section 4.3: slow start ends at so many least delays.
const SLOW_START_RATIO: f64 = 15.0;
/// After slow start: `0.75 Dmin R`.
const FIRST_AIM: f64 = 0.75 * RATIO_MAX;
/// Windows remembered: two seconds of reports.
const HISTORY: usize = 256;

/// Verus, for one flow.
#[derive(Clone, Debug)]
pub struct Verus {
    path: PathState,
    profile: Profile,
    recovery: Recovery,
    phase: Phase,
    window: f64,
    aim_s: f64,
    largest_s: Option<f64>,
    overflow: Overflow,
    windows: VecDeque<(Time, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    Running,
    /// After a loss, until what was sent under the smaller window is acknowledged.
    Repairing {
        until: Time,
    },
}

impl Arm for Verus {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        *self = Self::over(path, now);
        self.decision()
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        let sent_under = self.window_at(m, now);
        let hit = m.timed_out || (congested(m) && !self.recovery.covers(m, now));
        if hit {
            self.lose(sent_under, m, now);
        }
        self.recovery.observe(m, now);
        if let Phase::Repairing { until } = self.phase
            && now >= until
            && !m.in_recovery
        {
            self.phase = Phase::Running;
        }
        if let Some(rtt) = m.rtt {
            let (mean_s, max_s) = (rtt.mean().as_secs_f64(), rtt.max.as_secs_f64());
            match self.phase {
                Phase::SlowStart => self.slow_start((sent_under, mean_s, max_s), m, now),
                Phase::Running => self.run((sent_under, mean_s, max_s), m, now),
                Phase::Repairing { .. } if !hit => self.repair(m),
                Phase::Repairing { .. } => {}
            }
        }
        self.window = self.window.clamp(2.0, self.most());
        if self.windows.len() == HISTORY {
            self.windows.pop_front();
        }
        self.windows.push_back((now, self.window));
        self.decision()
    }

    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.decision().cwnd;
        path.rate = None;
        path.ssthresh = path.bdp().or(path.ssthresh).or(self.path.ssthresh);
        path.recovery_until = self.recovery.until();
    }
}

impl Default for Verus {
    fn default() -> Self {
        Self::over(&window::no_path(), Time::ZERO)
    }
}

impl Verus {
    /// A known path is taken over without slow start: its BDP and its window are the first points.
    fn over(path: &PathState, now: Time) -> Self {
        let path = window::sane(path);
        let mss = path.mss.0 as f64;
        let window = path.cwnd.0 as f64 / mss;
        let mut profile = Profile::new();
        let known = path.bdp().zip(path.rtt_min_long()).zip(path.srtt);
        if let Some(((bdp, min), srtt)) = known {
            let bdp = bdp.0 as f64 / mss;
            profile.add(bdp, min.as_secs_f64());
            profile.add(2.0 * bdp, 2.0 * min.as_secs_f64());
            profile.add(window, srtt.max(min).as_secs_f64());
            profile.draw(now);
        }
        let min_s = path.rtt_min_long().unwrap_or_default().as_secs_f64();
        Self {
            phase: if known.is_some() { Phase::Running } else { Phase::SlowStart },
            profile,
            recovery: Recovery::resume(&path, now),
            window,
            aim_s: path.srtt.map_or(min_s, |srtt| srtt.as_secs_f64()).min(FIRST_AIM * min_s),
            largest_s: None,
            overflow: Overflow::resume(&path),
            windows: VecDeque::new(),
            path,
        }
    }

    fn decision(&self) -> Decision {
        let bytes = Bytes((self.window * self.path.mss.0 as f64) as u64);
        let floor = self.path.cwnd.min(bytes.max(self.path.cwnd_floor()));
        let cwnd = if self.windows.is_empty() { floor } else { bytes };
        Decision { cwnd: window::bound(&self.path, cwnd), rate: None }
    }

    fn most(&self) -> f64 {
        (window::CWND_MAX.0 / self.path.mss.0.max(1)).max(2) as f64
    }

    fn min_s(&self) -> f64 {
        self.path.rtt_min_long().unwrap_or_default().as_secs_f64()
    }

    /// The window under which what this report's RTTs are of was sent.
    fn window_at(&self, m: &Measurement, now: Time) -> f64 {
        let rtt = m.rtt.map_or(Duration::ZERO, |rtt| rtt.mean());
        let before = self.windows.iter().rev().find(|(at, _)| now - *at >= rtt);
        before.or(self.windows.front()).map_or(self.window, |(_, window)| *window)
    }

    fn limited(&self, m: &Measurement) -> bool {
        let cwnd = self.decision().cwnd;
        m.cwnd_use(cwnd, self.path.mss) >= CwndUse::Half
    }

    fn slow_start(
        &mut self,
        (sent_under, mean_s, max_s): (f64, f64, f64),
        m: &Measurement,
        now: Time,
    ) {
        self.profile.add(sent_under, mean_s);
        if max_s > SLOW_START_RATIO * self.min_s() {
            self.leave_slow_start(sent_under, now);
        } else if self.limited(m) {
            self.window += (m.delivered.0 as f64 / self.path.mss.0 as f64).min(self.window);
        }
    }

    fn leave_slow_start(&mut self, sent_under: f64, now: Time) {
        self.window = DECREASE * sent_under.min(self.window);
        self.aim_s = FIRST_AIM * self.min_s();
        self.profile.draw(now);
        self.phase = Phase::Repairing { until: now + self.path.srtt.unwrap_or_default() };
    }

    /// Section 4.1, for an epoch.
    fn run(&mut self, (sent_under, mean_s, max_s): (f64, f64, f64), m: &Measurement, now: Time) {
        self.profile.add(sent_under, mean_s);
        self.profile.draw(now);
        let min_s = self.min_s();
        let last = self.windows.back().map_or(now, |(at, _)| *at);
        let epochs = ((now - last).as_secs_f64() / EPOCH.as_secs_f64()).min(EPOCHS_MAX);
        let before = self.largest_s.unwrap_or(max_s);
        if before > RATIO_MAX * min_s {
            self.aim_s = (self.aim_s - epochs * DELTA2_S).max(min_s);
        } else if max_s - before > 0.000_1 {
            self.aim_s = (self.aim_s - epochs * DELTA1_S).max(min_s);
        } else if self.limited(m) {
            self.aim_s = (self.aim_s + epochs * DELTA2_S).min(RATIO_MAX * min_s);
        }
        if let Some(most) = self.overflow.aim_max(now) {
            self.aim_s = self.aim_s.min(most.as_secs_f64()).max(min_s);
        }
        self.largest_s = Some(KEPT * before + (1.0 - KEPT) * max_s);
        if let Some(window) = self.profile.window(self.aim_s) {
            let mss = self.path.mss.0 as f64;
            let bytes = |segments: f64| Bytes((segments * mss) as u64);
            let way = (bytes(self.window), bytes(window));
            let grown = overflow::approach(&self.path, way, m.delivered).0 as f64 / mss;
            self.window = grown.min(2.0 * self.window);
        }
    }

    fn lose(&mut self, sent_under: f64, m: &Measurement, now: Time) {
        self.recovery.enter(episode_rtt(&self.path, m), now);
        self.overflow.lose(&self.path, m, now);
        if self.phase == Phase::SlowStart {
            self.leave_slow_start(sent_under, now);
        } else {
            self.window = DECREASE * sent_under.min(self.window);
        }
        if m.timed_out {
            self.window = 2.0;
        }
        self.phase = Phase::Repairing { until: now + self.path.srtt.unwrap_or_default() };
    }

    /// A segment more a round trip, and the delay that goes with it.
    fn repair(&mut self, m: &Measurement) {
        if self.limited(m) {
            let acked = m.delivered.0 as f64 / self.path.mss.0 as f64;
            self.window += acked.min(self.window) / self.window;
        }
        if let Some(delay_s) = self.profile.delay_s(self.window) {
            self.aim_s = self.aim_s.min(delay_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;
    use crate::pcc::link::Link;
    use crate::script::{path, windows};

    #[test]
    fn fills_a_link_and_holds_the_delay_below_twice_the_least() {
        let mut link = Link::new(24, 40, 1_200_000);
        link.run(&mut Verus::default(), 30_000);
        assert!(link.filled(10_000) > 0.8, "{}", link.filled(10_000));
        assert!(link.queue_ms(10_000) < 45.0, "{}", link.queue_ms(10_000));
    }

    #[test]
    fn a_shallow_buffer_is_not_filled_again_and_again() {
        // One BDP: it ends at the twice the least delay that Verus aims at.
        let mut link = Link::new(24, 40, 120_000);
        link.run(&mut Verus::default(), 30_000);
        assert!(link.filled(10_000) > 0.8, "{}", link.filled(10_000));
        assert!(link.dropped(10_000) < 0.001, "{}", link.dropped(10_000));
    }

    #[test]
    fn a_loss_leaves_seven_tenths() {
        assert_eq!(windows(&mut Verus::default(), &path(100), "l"), "70");
    }

    #[test]
    fn a_known_path_is_taken_over_without_slow_start() {
        let mut known = path(100);
        let m = Measurement {
            delivery_rate: crate::units::Rate::from_bytes_per_sec(3_000_000),
            rtt: Some(RttSamples::one(Duration::from_millis(40))),
            ..Measurement::QUIET
        };
        known.observe(&m, Time::ZERO);
        let mut verus = Verus::default();
        verus.resume(&known, Time::ZERO);
        assert_eq!(verus.phase, Phase::Running);
    }
}
