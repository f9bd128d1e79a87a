//! Measures whether a switch has lowered power, and how long a flow has explored.
//!
//! Power is throughput over delay (Kleinrock, 1978). It is measured over some round trips before a
//! policy's switch, and over as many after the new arm has settled. If power has fallen by too
//! much, the agent switches back, and refuses the same switch for a minute.
//!
//! Power does not show what is lost: behind a policer an arm that ignores losses has as much
//! throughput as any other, and may send each packet four times. So the agent also switches back
//! if the new arm loses much, and the merit of what arrives and what is lost has halved.

use crate::guard::GuardConfig;
use remuda_algorithms::merit::{ln_change, ln_of_loss};
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{Measurement, PathState, Preference, Proposal, REFUSED_FOR};
use std::collections::VecDeque;
use std::time::Duration;

/// The shortest span over which power is measured.
const SPAN_MIN: Duration = Duration::from_millis(500);
/// Losses of so many round trips after a switch do not count, because the new arm may lose much
/// while it starts up.
const STARTS_UP_RTTS: u32 = 10;
/// Losses of the new arm are counted over so many round trips,
const LOSS_RTTS: u32 = 5;
/// and watched for so many after a switch, or for this time if that is longer.
const LOSS_WATCHED_RTTS: u32 = 50;
const LOSS_WATCHED: Duration = Duration::from_secs(10);
/// The most reports stored; further ones are added to the last.
const REPORTS_MAX: usize = 256;

/// An order to switch back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollBack {
    /// The arm before the switch.
    pub to: &'static str,
    /// What has become worse since the switch.
    pub cause: Cause,
}

/// What a switch made worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Power after the switch, in per cent of power before it.
    Power(u64),
    /// What was lost after the switch, in per cent of what was sent.
    Lost(u64),
}

/// The measurements of one flow.
#[derive(Clone, Debug)]
pub struct Trial {
    started: Time,
    reports: VecDeque<Sample>,
    running: Option<Running>,
    /// The last switch, as long as the losses after it are watched.
    losses: Option<Watched>,
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
    lost: Bytes,
    rtt_us: u64,
    rtts: u64,
    limited: bool,
}

/// A switch, and the flow before it; the losses after it are watched.
#[derive(Clone, Copy, Debug)]
struct Watched {
    from: &'static str,
    to: &'static str,
    since: Time,
    before: Flow,
}

/// What a flow sent and what it delivered, in bytes a second.
#[derive(Clone, Copy, Debug)]
struct Flow {
    sent: f64,
    delivered: f64,
}

impl Flow {
    /// The share of what was sent that was lost.
    fn lost(self) -> f64 {
        1.0 - self.delivered / self.sent
    }
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
            losses: None,
            banned: None,
            exploring: None,
            explored: Duration::ZERO,
        }
    }

    /// Whether a switch to this arm was undone less than [`REFUSED_FOR`] ago.
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
        let watched = |before| Watched { from, to, since: now, before };
        self.losses = self.seen_since(Time::ZERO).map(watched);
        if let Some(since) = self.exploring.take() {
            self.explored += now - since;
        }
        self.exploring = proposal.explores.then_some(now);
    }

    /// Takes in one report of a path with this round trip. Returns the order to switch back, once
    /// power after the switch is measured and too low, or too much is lost.
    pub fn observe(
        &mut self,
        m: &Measurement,
        (path, rtt): (&PathState, Duration),
        now: Time,
        config: &GuardConfig,
    ) -> Option<RollBack> {
        let span = (rtt * config.roll_back_rtts).max(SPAN_MIN);
        self.push(m, path.mss, now);
        while self.reports.front().is_some_and(|oldest| now - oldest.at > span) {
            self.reports.pop_front();
        }
        if let Some(back) = self.loses_too_much((rtt, path.wants), now, config) {
            self.running = None;
            return Some(back);
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
        (self.losses, self.banned) = (None, Some((running.to, now + REFUSED_FOR)));
        Some(RollBack { to: running.from, cause: Cause::Power(percent as u64) })
    }

    fn loses_too_much(
        &mut self,
        (rtt, wants): (Duration, Preference),
        now: Time,
        config: &GuardConfig,
    ) -> Option<RollBack> {
        let Watched { from, to, since, before } = self.losses?;
        let span = (rtt * LOSS_RTTS).max(SPAN_MIN);
        if config.roll_back_lost_percent == 0
            || now - since > (rtt * LOSS_WATCHED_RTTS).max(LOSS_WATCHED)
        {
            self.losses = None;
            return None;
        }
        if now - since < rtt * STARTS_UP_RTTS + span {
            return None;
        }
        let after = self.seen_since(Time(now.0.saturating_sub(span)))?;
        let least = config.roll_back_lost_percent as f64 / 100.0;
        let more = ln_change((after.delivered / before.delivered).ln(), 0.0, wants);
        let kept = ln_of_loss(after.lost()) - ln_of_loss(before.lost());
        if after.lost() <= least || more + kept >= 0.5f64.ln() {
            return None;
        }
        (self.losses, self.banned) = (None, Some((to, now + REFUSED_FOR)));
        Some(RollBack { to: from, cause: Cause::Lost((after.lost() * 100.0) as u64) })
    }

    fn push(&mut self, m: &Measurement, mss: Bytes, now: Time) {
        let (rtt_us, rtts) = m.rtt.map_or((0, 0), |rtt| (rtt.sum_us, rtt.count));
        let (delivered, lost) = (m.delivered, m.lost.to_bytes(mss));
        let sample = Sample { at: now, delivered, lost, rtt_us, rtts, limited: m.app_limited };
        let full = self.reports.len() >= REPORTS_MAX;
        match self.reports.back_mut() {
            Some(last) if full => {
                last.delivered += sample.delivered;
                last.lost += sample.lost;
                last.rtt_us = last.rtt_us.saturating_add(sample.rtt_us);
                last.rtts = last.rtts.saturating_add(sample.rtts);
                last.limited |= sample.limited;
                last.at = now;
            }
            _ => self.reports.push_back(sample),
        }
    }

    /// What the reports show from that time on; `None` without two reports and a delivery, or if
    /// the application limited the flow.
    fn seen_since(&self, at: Time) -> Option<Flow> {
        let mut reports = self.reports.iter().filter(|report| report.at >= at);
        let first = reports.next()?;
        let (mut delivered, mut lost, mut last) = (0.0, 0.0, first);
        let mut limited = first.limited;
        for report in reports {
            delivered += report.delivered.0 as f64;
            lost += report.lost.0 as f64;
            limited |= report.limited;
            last = report;
        }
        let span = (last.at - first.at).as_secs_f64();
        let is_known = span > 0.0 && delivered > 0.0 && !limited;
        is_known.then(|| Flow { sent: (delivered + lost) / span, delivered: delivered / span })
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

    const MSS: Bytes = Bytes(1_000);
    const RTT: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn path() -> PathState {
        PathState::new(MSS, Bytes(10_000))
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
            undone = trial.observe(&m, (&path(), RTT), at(ms), &config).or(undone);
        }
        assert_eq!(trial.failed("bbr", at(4_000)), undone.is_some());
        undone
    }

    #[test]
    fn a_switch_that_halves_the_power_is_undone() {
        assert_eq!(undone(30, 40, false), None);
        assert_eq!(undone(16, 40, false), None);
        assert_eq!(undone(14, 40, false), Some(RollBack { to: "cubic", cause: Cause::Power(46) }));
        assert_eq!(undone(30, 90, false), Some(RollBack { to: "cubic", cause: Cause::Power(44) }));
    }

    #[test]
    fn what_the_policy_watches_itself_is_undone_if_next_to_nothing_is_left() {
        let watched = Proposal { is_watched: true, ..to("bbr", false) };
        assert_eq!(undone_of(&watched, (14, 40, false)), None);
        assert_eq!(undone_of(&watched, (5, 40, false)), None);
        let undone = Some(RollBack { to: "cubic", cause: Cause::Power(13) });
        assert_eq!(undone_of(&watched, (4, 40, false)), undone);
    }

    /// The same for an arm that loses so much of what it sends, after one that lost so much.
    fn undone_of_losses(percents: [u64; 2], kbytes: u64) -> Option<(u64, RollBack)> {
        let config = GuardConfig::default();
        let mut trial = Trial::new(at(0));
        for ms in (10..12_000).step_by(10) {
            let is_after = ms > 2_000;
            if ms == 2_000 {
                trial.begin("cubic", &to("copa", false), at(ms));
            }
            let kbytes = if is_after { kbytes } else { 30 };
            let percent = percents[usize::from(is_after)];
            let m = Measurement {
                delivered: Bytes(kbytes * 1_000),
                lost: remuda_algorithms::units::Packets(kbytes * percent / (100 - percent)),
                rtt: Some(RttSamples::one(RTT)),
                ..Measurement::QUIET
            };
            if let Some(back) = trial.observe(&m, (&path(), RTT), at(ms), &config) {
                assert!(trial.failed("copa", at(ms)));
                return Some((ms, back));
            }
        }
        None
    }

    #[test]
    fn a_switch_after_which_much_is_lost_for_little_is_undone() {
        let (at_ms, back) = undone_of_losses([4, 75], 30).expect("an order");
        assert_eq!(back, RollBack { to: "cubic", cause: Cause::Lost(75) });
        assert!((2_900..3_000).contains(&at_ms), "{at_ms}");
        assert!(undone_of_losses([4, 75], 60).is_some(), "twice as much arrives, of eight times");
        assert_eq!(undone_of_losses([4, 30], 60), None, "twice as much arrives");
        assert_eq!(undone_of_losses([4, 20], 30), None, "not much is lost");
        assert_eq!(undone_of_losses([40, 45], 30), None, "the path loses much");
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
