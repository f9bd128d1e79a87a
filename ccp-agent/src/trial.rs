//! Measures whether a switch has lowered power, and how long a flow has explored.
//!
//! Power is throughput over delay (Kleinrock, 1978). It is measured over some round trips before a
//! policy's switch, and over as many after the new arm has settled. If power has fallen by too
//! much, the agent switches back, and refuses the same switch for a minute.

use crate::guard::GuardConfig;
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{Measurement, Proposal};
use std::collections::VecDeque;
use std::time::Duration;

/// An arm is refused for this long after a switch to it was undone.
const BAN: Duration = Duration::from_secs(60);
/// The shortest span over which power is measured.
const SPAN_MIN: Duration = Duration::from_millis(500);
/// The most reports stored; further ones are added to the last.
const REPORTS_MAX: usize = 256;

/// An order to switch back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollBack {
    /// The arm before the switch.
    pub to: &'static str,
    /// Power after the switch, in per cent of power before it.
    pub power_percent: u64,
}

/// The measurements of one flow.
#[derive(Clone, Debug)]
pub struct Trial {
    started: Time,
    reports: VecDeque<Sample>,
    running: Option<Running>,
    /// An arm whose switch was undone, and until when it is refused.
    banned: Option<(&'static str, Time)>,
    /// Since when an arm picked for exploration drives the flow; `None` if another does.
    exploring: Option<Time>,
    explored: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    delivered: Bytes,
    rtt_us: u64,
    rtts: u64,
    limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    from: &'static str,
    to: &'static str,
    since: Time,
    before: f64,
    is_watched: bool,
}

impl Trial {
    pub fn new(now: Time) -> Self {
        Self {
            started: now,
            reports: VecDeque::new(),
            running: None,
            banned: None,
            exploring: None,
            explored: Duration::ZERO,
        }
    }

    /// Whether a switch to this arm was undone less than [`BAN`] ago.
    pub fn failed(&self, arm: &str, now: Time) -> bool {
        self.banned.is_some_and(|(banned, until)| banned == arm && now < until)
    }

    /// Whether exploration has used up its share of the flow's life.
    pub fn has_explored(&self, percent_max: u64, now: Time) -> bool {
        let running = self.exploring.map_or(Duration::ZERO, |since| now - since);
        let explored = (self.explored + running).as_nanos() * 100;
        explored >= (now - self.started).as_nanos() * u128::from(percent_max)
    }

    /// Notes that a policy has switched from `from`.
    pub fn begin(&mut self, from: &'static str, proposal: &Proposal, now: Time) {
        let Proposal { to, is_watched, .. } = *proposal;
        let running = |before| Running { from, to, since: now, before, is_watched };
        self.running = self.power().map(running);
        if let Some(since) = self.exploring.take() {
            self.explored += now - since;
        }
        self.exploring = proposal.explores.then_some(now);
    }

    /// Takes in one report. Returns the order to switch back, once power after the switch is
    /// measured and too low.
    pub fn observe(
        &mut self,
        m: &Measurement,
        rtt: Duration,
        now: Time,
        config: &GuardConfig,
    ) -> Option<RollBack> {
        let span = (rtt * config.roll_back_rtts).max(SPAN_MIN);
        self.push(m, now);
        while self.reports.front().is_some_and(|oldest| now - oldest.at > span) {
            self.reports.pop_front();
        }
        let running = self.running?;
        if now - running.since < rtt * config.settle_rtts + span {
            return None;
        }
        self.running = None;
        let percent = self.power()? / running.before * 100.0;
        let fall_max = match running.is_watched {
            true => config.roll_back_watched_percent,
            false => config.roll_back_percent,
        };
        if percent.is_nan() || fall_max == 0 || percent >= 100.0 - fall_max as f64 {
            return None;
        }
        self.banned = Some((running.to, now + BAN));
        Some(RollBack { to: running.from, power_percent: percent as u64 })
    }

    fn push(&mut self, m: &Measurement, now: Time) {
        let (rtt_us, rtts) = m.rtt.map_or((0, 0), |rtt| (rtt.sum_us, rtt.count));
        let sample =
            Sample { at: now, delivered: m.delivered, rtt_us, rtts, limited: m.app_limited };
        let full = self.reports.len() >= REPORTS_MAX;
        match self.reports.back_mut() {
            Some(last) if full => {
                last.delivered += sample.delivered;
                last.rtt_us = last.rtt_us.saturating_add(sample.rtt_us);
                last.rtts = last.rtts.saturating_add(sample.rtts);
                last.limited |= sample.limited;
                last.at = now;
            }
            _ => self.reports.push_back(sample),
        }
    }

    /// Bytes a second divided by the mean RTT in microseconds; `None` without enough reports, or if
    /// the application limited the flow.
    fn power(&self) -> Option<f64> {
        let (first, last) = (self.reports.front()?, self.reports.back()?);
        let span = (last.at - first.at).as_secs_f64();
        let bytes: u64 = self.reports.iter().skip(1).map(|report| report.delivered.0).sum();
        let rtt_us: f64 = self.reports.iter().map(|report| report.rtt_us as f64).sum();
        let rtts: f64 = self.reports.iter().map(|report| report.rtts as f64).sum();
        let limited = self.reports.iter().any(|report| report.limited);
        let known = span > 0.0 && rtt_us > 0.0 && rtts > 0.0 && !limited;
        known.then(|| bytes as f64 / span / (rtt_us / rtts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::{RttSamples, Why};

    const RTT: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn to(arm: &'static str, explores: bool) -> Proposal {
        Proposal { explores, ..Proposal::new(arm, Why::default()) }
    }

    /// Runs one arm for two seconds and then another, which delivers `kbytes` with an RTT of
    /// `rtt_ms`.
    fn undone(kbytes: u64, rtt_ms: u64, app_limited: bool) -> Option<RollBack> {
        undone_of(&to("bbr", false), (kbytes, rtt_ms, app_limited))
    }

    fn undone_of(
        proposal: &Proposal,
        (kbytes, rtt_ms, app_limited): (u64, u64, bool),
    ) -> Option<RollBack> {
        let config = GuardConfig::default();
        let mut trial = Trial::new(at(0));
        let mut undone = None;
        for ms in (10..4_000).step_by(10) {
            let after = ms > 2_000;
            if ms == 2_000 {
                trial.begin("cubic", proposal, at(ms));
            }
            let rtt = if after { Duration::from_millis(rtt_ms) } else { RTT };
            let m = Measurement {
                delivered: Bytes(if after { kbytes * 1_000 } else { 30_000 }),
                rtt: Some(RttSamples::one(rtt)),
                app_limited: after && app_limited,
                ..Measurement::QUIET
            };
            undone = trial.observe(&m, RTT, at(ms), &config).or(undone);
        }
        assert_eq!(trial.failed("bbr", at(4_000)), undone.is_some());
        undone
    }

    #[test]
    fn a_switch_that_halves_the_power_is_undone() {
        assert_eq!(undone(30, 40, false), None);
        assert_eq!(undone(16, 40, false), None);
        assert_eq!(undone(14, 40, false), Some(RollBack { to: "cubic", power_percent: 46 }));
        assert_eq!(undone(30, 90, false), Some(RollBack { to: "cubic", power_percent: 44 }));
    }

    #[test]
    fn what_the_policy_watches_itself_is_undone_if_next_to_nothing_is_left() {
        let watched = Proposal { is_watched: true, ..to("bbr", false) };
        assert_eq!(undone_of(&watched, (14, 40, false)), None);
        assert_eq!(undone_of(&watched, (5, 40, false)), None);
        let undone = Some(RollBack { to: "cubic", power_percent: 13 });
        assert_eq!(undone_of(&watched, (4, 40, false)), undone);
    }

    #[test]
    fn an_application_that_sends_less_is_no_fault_of_the_arm() {
        assert_eq!(undone(3, 40, true), None);
    }

    #[test]
    fn exploration_has_its_share() {
        let mut trial = Trial::new(at(0));
        assert!(!trial.has_explored(5, at(10_000)));
        trial.begin("cubic", &to("bbr", true), at(10_000));
        assert!(!trial.has_explored(5, at(10_100)));
        assert!(trial.has_explored(5, at(11_000)));
        trial.begin("bbr", &to("cubic", false), at(11_000));
        assert!(trial.has_explored(5, at(19_000)));
        assert!(!trial.has_explored(5, at(21_000)));
    }
}
