//! The guard checks every decision before it goes to the datapath, so that no policy, model or bug
//! can stall or flood a link. The datapath checks floor and ceilings again.
//!
//! Each clamp names its rule; the flow host records it as an event.

use crate::trial::Trial;
pub use crate::trial::{Cause, RollBack};
use remuda_algorithms::filter::Windowed;
use remuda_algorithms::path::{CWND_MIN, PathState, SETTLE_RTTS_OF_YOUNG};
use remuda_algorithms::units::{Bytes, Packets, Rate, Time};
use remuda_algorithms::{Decision, Measurement, Proposal, Readiness, native};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// A window that the flow had within this time counts as reached: BBR returns to it after
/// PROBE_RTT.
const HIGH_WATER_WINDOW: Duration = Duration::from_secs(10);
/// RFC 6928: a window may always grow by ten segments.
const STEP_ALWAYS: Packets = Packets(10);
/// The RTT assumed before the first sample: RFC 6298 section 2.1.
const RTT_UNKNOWN: Duration = Duration::from_secs(1);
/// The least cap after a switch on a path that the arm before has left empty, in per cent of the
/// delivery rate: that of slow start.
const SETTLE_PERCENT_OF_EMPTY: u64 = 200;
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardConfig {
    /// The largest window, in segments.
    pub cwnd_pkts_max: u64,
    /// The largest pacing rate, in Mbit/s.
    pub rate_mbit_per_sec_max: u64,
    /// How much of its window a flow may add in one RTT, in per cent. Slow start adds 100.
    pub step_up_percent_per_rtt: u64,
    /// For how many RTTs after a switch the rate stays capped; 3 at most if the flow has begun
    /// less than 30 RTTs before.
    pub settle_rtts: u32,
    /// The cap of the pacing rate in those RTTs, in per cent of the path's delivery rate. It is 200
    /// at least on a path that the arm before has left empty.
    pub settle_rate_percent: u64,
    /// The least time between two switches that a policy asks for, in milliseconds.
    pub dwell_ms_min: u64,
    /// The least time between two switches that a policy asks for, in RTTs.
    pub dwell_rtts_min: u32,
    /// The most switches in a minute that a policy may ask for.
    pub switches_per_minute_max: usize,
    /// If power (throughput over delay) falls by more than this many per cent after a policy's
    /// switch, the agent switches back; 0: never.
    pub roll_back_percent: u64,
    /// The same limit for a policy that watches the effect of its own switches. It is higher,
    /// because power may have fallen for every arm.
    pub roll_back_watched_percent: u64,
    /// The agent undoes a policy's switch if the flow then loses more than this many per cent of
    /// what it sends, and if the merit of its goodput and losses has halved; 0: never.
    pub roll_back_lost_percent: u64,
    /// RTTs over which power is measured, before a switch and again after the settling RTTs.
    pub roll_back_rtts: u32,
    /// The share of a flow's life, in per cent, that it may spend in arms picked for exploration.
    pub explore_percent_max: u64,
    pub hand_off: HandOff,
    /// Arms that no policy may pick, and no rule and no order may name.
    pub deny: Vec<String>,
}

/// How much of the path's state the next arm gets at a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HandOff {
    /// Everything known. The first rates and the first window are limited.
    #[default]
    Warm,
    /// Window, threshold and RTTs, as Linux' `setsockopt` leaves them. For comparison.
    Cold,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            cwnd_pkts_max: 100_000,
            rate_mbit_per_sec_max: 100_000,
            step_up_percent_per_rtt: 200,
            // A cold CUBIC→BBR switch costs some 190 retransmissions, one capped like this none.
            settle_rtts: 8,
            settle_rate_percent: 105,
            // Nimbus dwells 5 s; flapping each 2 s cost 1,311 retransmissions in 18 s.
            dwell_ms_min: 5_000,
            dwell_rtts_min: 20,
            switches_per_minute_max: 6,
            roll_back_percent: 50,
            roll_back_watched_percent: 85,
            roll_back_lost_percent: 25,
            roll_back_rtts: 10,
            explore_percent_max: 5,
            hand_off: HandOff::Warm,
            deny: Vec::new(),
        }
    }
}

impl GuardConfig {
    /// Checks each value; the message names key, value and allowed range.
    pub fn check(&self) -> Result<(), String> {
        for (key, value, least, most) in [
            ("cwnd_pkts_max", self.cwnd_pkts_max, 10, 1 << 20),
            ("rate_mbit_per_sec_max", self.rate_mbit_per_sec_max, 1, 1_000_000),
            ("step_up_percent_per_rtt", self.step_up_percent_per_rtt, 10, 10_000),
            ("settle_rate_percent", self.settle_rate_percent, 50, 300),
            ("roll_back_percent", self.roll_back_percent, 0, 99),
            ("roll_back_watched_percent", self.roll_back_watched_percent, 0, 99),
            ("roll_back_lost_percent", self.roll_back_lost_percent, 0, 99),
            ("roll_back_rtts", self.roll_back_rtts.into(), 1, 1_000),
            ("explore_percent_max", self.explore_percent_max, 0, 100),
        ] {
            if !(least..=most).contains(&value) {
                return Err(format!("guard.{key} = {value}: it must lie in {least}..={most}"));
            }
        }
        self.deny.iter().try_for_each(|name| deniable(name))
    }

    /// Whether no flow may have this arm.
    pub fn denies(&self, arm: &str) -> bool {
        self.deny.iter().any(|denied| denied == arm)
    }
}

/// Checks that a policy could pick an arm of this name.
fn deniable(name: &str) -> Result<(), String> {
    let arms = remuda_algorithms::arms();
    if native::kernel_name(name).is_some() || arms.iter().any(|arm| arm.name == name) {
        return Ok(());
    }
    let known = arms.iter().map(|arm| arm.name).collect::<Vec<_>>().join(", ");
    let rule = "a policy picks only built-in and native arms, and none has this name";
    Err(format!("guard.deny names {name:?}: {rule}\nfix: one of {known}, native:CCA of the kernel"))
}

/// The rule that changed a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The window was below two segments.
    CwndFloor,
    /// The window was above the ceiling.
    CwndCeiling,
    /// The window grew too fast.
    StepUp,
    /// The first decision after a switch would have raised the window.
    RaisedBySwitch,
    /// The rate was above the ceiling.
    RateCeiling,
    /// The rate was above the cap that holds after a switch.
    SettleRate,
}

/// The rules that can change one decision: all but [`Rule::RaisedBySwitch`].
const FIRED_MAX: usize = 5;

/// The rules that changed a decision, in their order. It takes no memory, as every report asks the
/// guard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fired([Option<Rule>; FIRED_MAX]);

impl Fired {
    pub fn one(rule: Rule) -> Self {
        let mut fired = Self::default();
        fired.push(rule);
        fired
    }

    fn push(&mut self, rule: Rule) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(rule);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// Whether a rule has lowered the window or the rate.
    pub fn lower(&self) -> bool {
        self.iter().any(|rule| rule != Rule::CwndFloor)
    }

    pub fn iter(&self) -> impl Iterator<Item = Rule> {
        self.0.iter().flatten().copied()
    }
}

/// The guard of one flow.
#[derive(Debug)]
pub struct Guard {
    high_water: Windowed<Bytes>,
    last_at: Time,
    /// When the last switch was; `None` before the first.
    switched_at: Option<Time>,
    /// For how many RTTs after that switch the rate stays capped.
    settle_rtts: u32,
    recent_switches: VecDeque<Time>,
    trial: Trial,
}

fn micros(now: Time) -> u64 {
    u64::try_from(now.0.as_micros()).unwrap_or(u64::MAX)
}

fn percent(bytes: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

fn rtt(path: &PathState) -> Duration {
    path.srtt.unwrap_or(RTT_UNKNOWN).max(Duration::from_micros(1))
}

impl Guard {
    pub fn new(cwnd: Bytes, now: Time) -> Self {
        let window = micros(Time(HIGH_WATER_WINDOW));
        Self {
            high_water: Windowed::max(window, micros(now), cwnd),
            last_at: now,
            switched_at: None,
            settle_rtts: 0,
            recent_switches: VecDeque::new(),
            trial: Trial::new(now),
        }
    }

    /// Limits a decision, and returns it with the rules that changed it.
    pub fn pass(
        &mut self,
        decision: Decision,
        path: &PathState,
        now: Time,
        config: &GuardConfig,
    ) -> (Decision, Fired) {
        let mut fired = Fired::default();
        let floor = CWND_MIN.to_bytes(path.mss);
        let ceiling = Packets(config.cwnd_pkts_max).to_bytes(path.mss);
        let step = self.step_limit(path, now, config);
        let mut cwnd = decision.cwnd;
        for (limit, rule) in [(ceiling, Rule::CwndCeiling), (step, Rule::StepUp)] {
            if cwnd > limit {
                cwnd = limit;
                fired.push(rule);
            }
        }
        if cwnd < floor {
            cwnd = floor;
            fired.push(Rule::CwndFloor);
        }
        let rate = decision.rate.map(|rate| self.cap_rate(rate, path, now, (config, &mut fired)));
        self.follow(cwnd, now);
        (Decision { cwnd, rate }, fired)
    }

    /// Notes a window that the datapath has set itself, without limiting it: the kernel's own
    /// algorithm chose it, or a spurious recovery was undone.
    pub fn follow(&mut self, cwnd: Bytes, now: Time) {
        self.high_water.update(micros(now), cwnd);
        self.last_at = now;
    }

    /// After a loss or an idle time, former larger windows no longer count as reached.
    pub fn forget_above(&mut self, cwnd: Bytes, now: Time) {
        self.high_water.reset(micros(now), cwnd);
    }

    fn step_limit(&self, path: &PathState, now: Time, config: &GuardConfig) -> Bytes {
        let elapsed_us = (now - self.last_at).as_micros();
        let step = u128::from(percent(self.high_water.get().0, config.step_up_percent_per_rtt));
        let step = step.saturating_mul(elapsed_us) / rtt(path).as_micros();
        let step = Bytes(u64::try_from(step).unwrap_or(u64::MAX));
        self.high_water.get() + step + STEP_ALWAYS.to_bytes(path.mss)
    }

    fn cap_rate(
        &self,
        rate: Rate,
        path: &PathState,
        now: Time,
        (config, fired): (&GuardConfig, &mut Fired),
    ) -> Rate {
        let ceiling = config.rate_mbit_per_sec_max.saturating_mul(1_000_000 / 8);
        let mut capped = rate.bytes_per_sec();
        if capped > ceiling {
            capped = ceiling;
            fired.push(Rule::RateCeiling);
        }
        let settling = self.switched_at.is_some_and(|at| now - at < rtt(path) * self.settle_rtts);
        if let (true, Some(delivered)) = (settling, path.delivery_rate()) {
            let of_delivered = if path.is_left_empty() {
                config.settle_rate_percent.max(SETTLE_PERCENT_OF_EMPTY)
            } else {
                config.settle_rate_percent
            };
            let cap = percent(delivered.bytes_per_sec(), of_delivered);
            if capped > cap {
                capped = cap;
                fired.push(Rule::SettleRate);
            }
        }
        Rate::from_bytes_per_sec(capped)
    }

    /// Whether a policy's switch may happen now; if not, the reason.
    pub fn may_switch(
        &self,
        proposal: &Proposal,
        path: &PathState,
        now: Time,
        config: &GuardConfig,
    ) -> Readiness {
        if config.denies(proposal.to) {
            return Readiness::Refuse("the arm is on the deny list");
        }
        if self.trial.failed(proposal.to, now) {
            return Readiness::Refuse("a switch to it was undone less than a minute ago");
        }
        if proposal.explores && self.trial.has_explored(config.explore_percent_max, now) {
            return Readiness::Refuse("the flow's time for exploration is used up");
        }
        let dwell = Duration::from_millis(config.dwell_ms_min)
            .max(path.srtt.unwrap_or_default() * config.dwell_rtts_min);
        if self.switched_at.is_some_and(|at| now - at < dwell) {
            return Readiness::Defer("the minimum dwell is not over");
        }
        let recent = self.recent_switches.iter().filter(|at| now - **at < MINUTE).count();
        if recent >= config.switches_per_minute_max {
            return Readiness::Defer("too many switches in the last minute");
        }
        Readiness::Ready
    }

    /// Starts the trial of a policy's switch from `from`.
    pub fn try_out(&mut self, from: &'static str, proposal: &Proposal, now: Time) {
        self.trial.begin(from, proposal, now);
    }

    /// Takes in one report. Returns the arm to go back to if the switch on trial has lowered power
    /// too much.
    pub fn judge(
        &mut self,
        m: &Measurement,
        path: &PathState,
        now: Time,
        config: &GuardConfig,
    ) -> Option<RollBack> {
        self.trial.observe(m, (path, rtt(path)), now, config)
    }

    /// Limits the first decision after a switch: it never raises the window. After a warm hand-off
    /// the rate is capped for some RTTs as well. The returned bool says whether the decision would
    /// have raised the window.
    pub fn switched(
        &mut self,
        first: Decision,
        path: &PathState,
        now: Time,
        config: &GuardConfig,
    ) -> (Decision, bool) {
        self.switched_at = Some(now);
        self.settle_rtts = match config.hand_off {
            HandOff::Cold => 0,
            HandOff::Warm if path.is_young() => config.settle_rtts.min(SETTLE_RTTS_OF_YOUNG),
            HandOff::Warm => config.settle_rtts,
        };
        self.recent_switches.retain(|at| now - *at < MINUTE);
        self.recent_switches.push_back(now);
        let raised = first.cwnd > path.cwnd;
        let cwnd = first.cwnd.min(path.cwnd);
        (Decision { cwnd, rate: first.rate }, raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use remuda_algorithms::{RttSamples, Why};

    const MSS: Bytes = Bytes(1_000);

    fn path(cwnd_pkts: u64) -> PathState {
        let mut path = PathState::new(MSS, Packets(cwnd_pkts).to_bytes(MSS));
        path.srtt = Some(Duration::from_millis(100));
        path
    }

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn asks(pkts: u64) -> Decision {
        Decision { cwnd: Packets(pkts).to_bytes(MSS), rate: None }
    }

    /// Applies windows at multiples of 50 ms and compares the windows granted, with the rules that
    /// fired.
    fn check(asked_pkts: &[u64], want: &str) {
        let mut guard = Guard::new(Packets(20).to_bytes(MSS), at(0));
        let config = GuardConfig { cwnd_pkts_max: 500, ..GuardConfig::default() };
        let got: Vec<String> = (1u64..)
            .zip(asked_pkts)
            .map(|(turn, pkts)| {
                let (granted, fired) = guard.pass(asks(*pkts), &path(20), at(50 * turn), &config);
                let rules: String = fired.iter().map(|rule| format!("{rule:?}!")).collect();
                format!("{}{rules}", granted.cwnd.0 / MSS.0)
            })
            .collect();
        assert_eq!(got.join(" "), want);
    }

    #[test]
    fn windows_stay_between_floor_and_ceiling() {
        check(&[0, 1, 2, 3], "2CwndFloor! 2CwndFloor! 2 3");
        check(&[40, 80, 160, 320, 640], "40 80 160 320 500CwndCeiling!");
    }

    #[test]
    fn slow_start_passes_and_a_leap_does_not() {
        check(&[30, 45, 60], "30 45 60");
        check(&[400], "50StepUp!");
    }

    #[test]
    fn a_window_that_stood_before_is_no_leap() {
        check(&[40, 4, 4, 40], "40 4 4 40");
    }

    #[test]
    fn a_window_that_the_datapath_restored_is_no_leap() {
        let config = GuardConfig::default();
        let mut guard = Guard::new(Packets(80).to_bytes(MSS), at(0));
        guard.forget_above(Packets(20).to_bytes(MSS), at(0));
        let fires =
            |guard: &mut Guard| !guard.pass(asks(80), &path(20), at(1), &config).1.is_empty();
        assert!(fires(&mut guard), "after a loss");
        guard.follow(Packets(80).to_bytes(MSS), at(1));
        assert!(!fires(&mut guard), "the datapath undid the recovery");
    }

    #[test]
    fn a_first_decision_does_not_raise_the_window_and_the_rate_settles() {
        let config = GuardConfig::default();
        let mut guard = Guard::new(Packets(20).to_bytes(MSS), at(0));
        let (first, raised) = guard.switched(asks(30), &path(20), at(10), &config);
        assert_eq!((first.cwnd, raised), (Packets(20).to_bytes(MSS), true));
        let mut known = path(20);
        let delivered = Rate::from_bytes_per_sec(1_000_000);
        let seen = remuda_algorithms::Measurement {
            delivery_rate: delivered,
            ..remuda_algorithms::Measurement::QUIET
        };
        known.observe(&seen, at(10));
        let fast = Decision { rate: Some(Rate::from_bytes_per_sec(3_000_000)), ..asks(20) };
        let (granted, fired) = guard.pass(fast, &known, at(20), &config);
        assert_eq!(granted.rate, Some(Rate::from_bytes_per_sec(1_050_000)));
        assert_eq!(fired.iter().collect::<Vec<_>>(), [Rule::SettleRate]);
        let (granted, fired) = guard.pass(fast, &known, at(2_000), &config);
        assert_eq!((granted.rate, fired.is_empty()), (fast.rate, true));
    }

    #[test]
    fn the_rate_of_a_young_flow_settles_for_three_round_trips() {
        let config = GuardConfig::default();
        let settled_at = |rounds: u64| {
            let mut known = path(20);
            let m = Measurement {
                delivered: MSS,
                delivery_rate: Rate::from_bytes_per_sec(1_000_000),
                ..Measurement::QUIET
            };
            (0..rounds).for_each(|round| known.observe(&m, at(round)));
            let mut guard = Guard::new(Packets(20).to_bytes(MSS), at(0));
            let fast = Decision { rate: Some(Rate::from_bytes_per_sec(3_000_000)), ..asks(20) };
            guard.switched(fast, &known, at(0), &config);
            (1..20).find(|rtts| guard.pass(fast, &known, at(rtts * 100), &config).0 == fast)
        };
        assert_eq!([1, 30, 31, 500].map(settled_at), [Some(3), Some(3), Some(8), Some(8)]);
    }

    #[test]
    fn where_the_arm_before_left_the_path_empty_the_rate_may_double() {
        let config = GuardConfig::default();
        let mut known = path(10);
        for turn in 1..=10 {
            let m = remuda_algorithms::Measurement {
                rtt: Some(RttSamples::one(Duration::from_millis(100))),
                delivered: Packets(9).to_bytes(MSS),
                lost: Packets(1),
                in_flight: Packets(9).to_bytes(MSS),
                delivery_rate: Rate::from_bytes_per_sec(100_000),
                ..remuda_algorithms::Measurement::QUIET
            };
            known.observe(&m, at(100 * turn));
        }
        let fast = Decision { rate: Some(Rate::from_bytes_per_sec(3_000_000)), ..asks(10) };
        for (answered_losses, want) in [(false, 105_000), (true, 200_000)] {
            known.answered_losses = answered_losses;
            let mut guard = Guard::new(Packets(10).to_bytes(MSS), at(0));
            guard.switched(asks(10), &known, at(1_000), &config);
            let (granted, _) = guard.pass(fast, &known, at(1_010), &config);
            assert_eq!(granted.rate, Some(Rate::from_bytes_per_sec(want)));
        }
    }

    #[test]
    fn policies_dwell_and_do_not_flap() {
        let config = GuardConfig { deny: vec!["bbr".into()], ..GuardConfig::default() };
        let mut guard = Guard::new(MSS, at(0));
        let to = |arm| Proposal::new(arm, Why::default());
        let ask = |guard: &Guard, ms| guard.may_switch(&to("reno"), &path(20), at(ms), &config);
        assert_eq!(ask(&guard, 0), Readiness::Ready);
        let denied = guard.may_switch(&to("bbr"), &path(20), at(0), &config);
        assert!(matches!(denied, Readiness::Refuse(_)));
        for turn in 0..6 {
            guard.switched(asks(20), &path(20), at(turn * 6_000), &config);
            assert!(matches!(ask(&guard, turn * 6_000 + 4_000), Readiness::Defer(_)));
        }
        let sixth = 5 * 6_000;
        assert_eq!(
            ask(&guard, sixth + 5_500),
            Readiness::Defer("too many switches in the last minute")
        );
        assert_eq!(ask(&guard, 60_001), Readiness::Ready);
    }

    proptest! {
        #[test]
        fn nothing_passes_beyond_the_bounds(
            asked in prop::collection::vec((any::<u64>(), any::<u64>(), 0u64..1_000), 1..50),
        ) {
            let config = GuardConfig::default();
            let mut guard = Guard::new(Packets(10).to_bytes(MSS), at(0));
            let mut now = 0;
            for (cwnd, rate, step) in asked {
                now += step;
                let decision =
                    Decision { cwnd: Bytes(cwnd), rate: Some(Rate::from_bytes_per_sec(rate)) };
                let (granted, _) = guard.pass(decision, &path(20), at(now), &config);
                prop_assert!(granted.cwnd >= CWND_MIN.to_bytes(MSS));
                prop_assert!(granted.cwnd <= Packets(config.cwnd_pkts_max).to_bytes(MSS));
                let ceiling = config.rate_mbit_per_sec_max * 125_000;
                prop_assert!(granted.rate.unwrap().bytes_per_sec() <= ceiling);
            }
        }
    }
}
