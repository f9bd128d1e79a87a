//! BBR, version 3: version 1's model, with bounds that losses set and room left for others.
//!
//! N. Cardwell et al., draft-ietf-ccwg-bbr, as in tcp_bbr.c of google/bbr. What is new over version
//! 1 (bbr/):
//!
//! ```text
//! STARTUP    2.77; ends also when a round trip loses more than 2 %, in six segments at least
//! PROBE_BW   DOWN 0.91 until the queue is gone and headroom is free; CRUISE 1; after 2 to 3 s, or
//!            63 rounds: REFILL 1 for a round, UP 1.25 until losses or no more comes  probe_bw.rs
//! bounds     what a flight may hold at all; bandwidth and inflight for now            bounds.rs
//! PROBE_RTT  every 5 s, with half a BDP in flight
//! ```
//!
//! The window, its recovery, the bandwidth filter (of two cycles here) and ACK aggregation are
//! version 1's.
//!
//! Differs from the draft:
//!   - what was in flight when a lost segment was sent, and what a round trip lost, are known by
//!     round trip, not by packet (bounds.rs);
//!   - the model is updated by report, a sixteenth of a round trip, not by ACK;
//!   - no response to ECN, as in the draft, and none of tcp_bbr.c's for data centres;
//!   - no randomness: when the next probe is due follows from the bytes delivered;
//!   - takes over a known path without STARTUP: DRAIN, or PROBE_BW at cruise; behind the queue of
//!     others, and on a path that loses packets, bbr/climb.rs then raises the rate to the flow's
//!     share.

mod bounds;
mod probe_bw;

use crate::arm::{Arm, ArmInfo, Decision, ProgramId, Queue, REPORTS_PER_ROUND_MANY, Readiness};
use crate::bbr::PACING_MARGIN;
use crate::bbr::climb::{Climb, Found};
use crate::bbr::cwnd::Cwnd;
use crate::bbr::model::Model;
use crate::bbr::probe_rtt::ProbeRtt;
use crate::bbr::startup::FullPipe;
use crate::measurement::{CwndUse, Measurement};
use crate::path::PathState;
use crate::round::Round;
use crate::units::{Bytes, Gain, Packets, Rate, Time};
use crate::window;
use bounds::Bounds;
use probe_bw::{CWND_GAIN, Cycle, Phase};
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "bbr3",
    summary: "BBR that answers losses and leaves room for others (BBR v3)",
    program: ProgramId("bbr3/report"),
    reports_per_round: REPORTS_PER_ROUND_MANY,
    paces: true,
    make: Some(|_| Box::new(Bbr3::default())),
    queue: Some(Queue::Short),
    ..ArmInfo::DEFAULT
};

/// Section 5.6.1 `StartupPacingGain`: 4 ln 2.
const STARTUP_GAIN: Gain = Gain(2_773);
/// `DrainPacingGain`.
const DRAIN_GAIN: Gain = Gain(347);
/// `MaxBwFilterLen`: this cycle and the one before.
const BW_CYCLES: u64 = 1;
/// `MinRTTFilterLen` and `ProbeRTTInterval`.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// `ProbeRTTCwndGain`.
const PROBE_RTT_GAIN: Gain = Gain(500);
/// The RTT to start with if there is no sample.
const RTT_UNKNOWN: Duration = Duration::from_millis(1);
/// Nothing was in flight if there is no report for so long.
const IDLE: Duration = Duration::from_secs(1);

/// BBR version 3, for one flow.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    path: PathState,
    mode: Mode,
    model: Model,
    min_rtt: Option<MinRtt>,
    round: Round,
    pipe: FullPipe,
    climb: Climb,
    cwnd: Cwnd,
    bounds: Bounds,
    /// Counts PROBE_BW's cycles, for the bandwidth filter.
    cycles: u64,
    rate: Rate,
    last_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw(Cycle),
    ProbeRtt(ProbeRtt),
}

/// Section 5.5.7 `BBRUpdateMinRTT`: the minimum of ten seconds, and that of five which decides
/// about PROBE_RTT.
#[derive(Clone, Copy, Debug)]
struct MinRtt {
    long: (Duration, Time),
    short: (Duration, Time),
}

impl Arm for Bbr3 {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        *self = Self::over(path, now);
        self.decision()
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        let idle = now - self.last_at > IDLE;
        let first_rtt = self.path.srtt.is_none() && m.rtt.is_some();
        self.path.observe(m, now);
        if first_rtt {
            self.rate = Rate::default();
        }
        let round_started = self.round.observe(m, self.path.mss) || m.timed_out;
        let probing_rtt = matches!(self.mode, Mode::ProbeRtt(_));
        let recovering = self.cwnd.observe_loss(m, &self.path, (probing_rtt, now));
        self.bounds.observe(m, now);
        self.model.update_bw(m, self.cycles, probing_rtt);
        self.model.update_aggregation(m, round_started, now - self.last_at, self.cwnd.in_force());
        self.climb(m, round_started, now);
        self.update_mode(m, round_started, now);
        self.update_min_rtt(m, idle, now);
        self.check_probe_rtt(m, round_started, now);
        if round_started {
            let seen = (self.model.bw(), self.cwnd.in_force());
            self.bounds.end_round(self.is_probing(), seen);
        }
        self.set_rate();
        self.cwnd.update(m, recovering, round_started, self.target());
        self.cwnd.cut(self.cwnd_bound());
        self.last_at = now;
        self.decision()
    }

    fn can_hand_off(&self) -> Readiness {
        match self.mode {
            Mode::Startup | Mode::Drain => {
                Readiness::Defer("BBR is still filling the pipe, or draining what that has queued")
            }
            Mode::ProbeRtt(_) => Readiness::Defer("BBR probes for the minimum RTT"),
            Mode::ProbeBw(_) => Readiness::Ready,
        }
    }

    /// The window of PROBE_RTT is not handed off, and neither is an infinite threshold.
    fn hand_off(&self, path: &mut PathState) {
        let bdp = self.model.bdp(Gain::ONE);
        path.cwnd = match self.mode {
            Mode::ProbeRtt(_) => self.cwnd.saved(bdp),
            _ => self.cwnd.in_force(),
        };
        path.rate = Some(self.rate);
        path.ssthresh = bdp.or(self.path.ssthresh).or(self.cwnd.after_loss());
        path.recovery_until = self.cwnd.recovery_until();
    }
}

impl Default for Bbr3 {
    fn default() -> Self {
        Self::over(&window::no_path(), Time::ZERO)
    }
}

impl Bbr3 {
    fn over(path: &PathState, now: Time) -> Self {
        let path = window::sane(path);
        let model = Model::resume(&path, BW_CYCLES, now);
        let bdp = model.bdp(Gain::ONE);
        let mut bbr = Self {
            mode: Mode::Startup,
            min_rtt: model.min_rtt().map(|rtt| MinRtt { long: (rtt, now), short: (rtt, now) }),
            model,
            round: Round::default(),
            pipe: FullPipe::new(bdp.is_some()),
            climb: Climb::resume(&path),
            cwnd: Cwnd::resume(&path, now),
            bounds: Bounds::new(path.mss, None),
            cycles: 0,
            rate: Rate::default(),
            last_at: now,
            path,
        };
        if bdp.is_some() {
            bbr.mode = bbr.mode_of_known_path(now);
            let (_, target) = bbr.target();
            bbr.cwnd.cut(target);
        }
        bbr.set_rate();
        if let Some(in_force) = bbr.path.rate {
            bbr.rate = bbr.rate.min(in_force).max(bbr.rate_min());
        }
        bbr
    }

    /// Taking over (docs/hand-off.md): DRAIN if more than a BDP is in flight, else cruise.
    fn mode_of_known_path(&self, now: Time) -> Mode {
        if self.path.in_flight > self.inflight(Gain::ONE) {
            return Mode::Drain;
        }
        let rtt = self.model.min_rtt().unwrap_or(RTT_UNKNOWN);
        Mode::ProbeBw(Cycle::cruise(self.path.cwnd.0 / self.path.mss.0, now, rtt))
    }

    fn decision(&self) -> Decision {
        Decision { cwnd: self.cwnd.in_force(), rate: Some(self.rate) }
    }

    fn is_probing(&self) -> bool {
        match self.mode {
            Mode::Startup => true,
            Mode::ProbeBw(cycle) => cycle.is_probing() || self.climb.gain().is_some(),
            _ => false,
        }
    }

    fn climb(&mut self, m: &Measurement, round_started: bool, now: Time) {
        self.climb.observe(m, self.path.mss);
        if !round_started || !matches!(self.mode, Mode::ProbeBw(_)) {
            return;
        }
        match self.climb.end_round(self.model.bw()) {
            Found::Nothing => {}
            Found::Queue(rtt) => {
                self.bounds.refill();
                self.set_min_rtt(rtt, now);
            }
            Found::Room => {
                self.pipe = FullPipe::new(false);
                self.mode = Mode::Startup;
            }
            Found::Ended => self.mode = Mode::ProbeBw(self.down(now)),
        }
    }

    fn set_min_rtt(&mut self, rtt: Duration, now: Time) {
        let seen = (rtt, now);
        self.min_rtt = Some(MinRtt { long: seen, short: seen });
        self.model.set_min_rtt(rtt);
    }

    fn update_mode(&mut self, m: &Measurement, round_started: bool, now: Time) {
        if round_started && !m.app_limited {
            self.pipe.update(self.model.bw());
        }
        if m.timed_out {
            self.pipe.forget_growth();
        }
        if self.mode == Mode::Startup && round_started && self.bounds.startup_is_over() {
            self.pipe = FullPipe::new(true);
            self.bounds.end_startup(self.inflight(Gain::ONE));
        }
        if self.mode == Mode::Startup && self.pipe.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && m.in_flight <= self.inflight(Gain::ONE) {
            self.mode = self.mode_after_drain(now);
        }
        if let Mode::ProbeBw(mut cycle) = self.mode
            && self.climb.gain().is_none()
        {
            self.adapt_longterm(&mut cycle, m, round_started, now);
            self.update_cycle(&mut cycle, m, round_started, now);
            self.mode = Mode::ProbeBw(cycle);
        }
    }

    fn mode_after_drain(&mut self, now: Time) -> Mode {
        if !self.pipe.is_full() {
            return Mode::Startup;
        }
        Mode::ProbeBw(self.down(now))
    }

    fn down(&mut self, now: Time) -> Cycle {
        self.round.restart(self.path.in_flight);
        Cycle::down(self.model.delivered().0 / self.path.mss.0, now, self.round.count())
    }

    /// Section 5.5.10.3 `BBRAdaptLongTermModel`.
    fn adapt_longterm(
        &mut self,
        cycle: &mut Cycle,
        m: &Measurement,
        round_started: bool,
        now: Time,
    ) {
        if cycle.stopping && round_started {
            cycle.stopping = false;
            if !m.app_limited {
                self.cycles = self.cycles.saturating_add(1);
            }
        }
        if cycle.phase == Phase::Up && self.bounds.lost_too_much() {
            let target = self.inflight(Gain::ONE).min(self.cwnd.in_force());
            if !m.app_limited {
                self.bounds.too_high(target);
            }
            *cycle = self.down(now);
            return;
        }
        if cycle.is_probing() && !self.bounds.lost_too_much() {
            if round_started {
                self.bounds.held();
            }
            let limited = m.cwnd_use(self.cwnd.in_force(), self.path.mss) == CwndUse::Full;
            if cycle.phase == Phase::Up && limited {
                if round_started {
                    self.bounds.raise_slope(self.cwnd.in_force());
                }
                self.bounds.probe_up(m.delivered, self.cwnd.in_force());
            }
        }
    }

    /// Section 5.3.3.6 `BBRUpdateProbeBWCyclePhase`.
    fn update_cycle(&mut self, cycle: &mut Cycle, m: &Measurement, round_started: bool, now: Time) {
        let round = self.round.count();
        let bdp = self.inflight(Gain::ONE);
        let due = cycle.is_due(bdp, self.path.mss, (now, round));
        match cycle.phase {
            Phase::Down | Phase::Cruise if due => {
                self.bounds.refill();
                cycle.enter(Phase::Refill, now, round);
                self.round.restart(m.in_flight);
            }
            Phase::Down => {
                let free = self.bounds.with_headroom().is_none_or(|most| m.in_flight <= most);
                if free && m.in_flight <= bdp {
                    cycle.enter(Phase::Cruise, now, round);
                }
            }
            Phase::Cruise => {}
            Phase::Refill if round_started => {
                cycle.enter(Phase::Up, now, round);
                self.bounds.raise_slope(self.cwnd.in_force());
                self.pipe = FullPipe::new(false);
            }
            Phase::Refill => {}
            Phase::Up => {
                let long = now - cycle.since.0 > self.model.min_rtt().unwrap_or_default();
                let bound = self.bounds.longterm().is_some_and(|most| m.in_flight >= most);
                let queued = m.in_flight >= self.inflight(cycle.gain());
                if self.pipe.is_full() || (long && queued && !bound) {
                    self.pipe = FullPipe::new(true);
                    *cycle = self.down(now);
                }
            }
        }
    }

    fn update_min_rtt(&mut self, m: &Measurement, idle: bool, now: Time) {
        let Some(rtt) = m.rtt else { return };
        let seen = (rtt.min, now);
        let min_rtt = self.min_rtt.get_or_insert(MinRtt { long: seen, short: seen });
        let expired = now - min_rtt.short.1 > PROBE_RTT_INTERVAL;
        if expired || rtt.min < min_rtt.short.0 {
            min_rtt.short = seen;
        }
        if now - min_rtt.long.1 > MIN_RTT_WINDOW || min_rtt.short.0 < min_rtt.long.0 {
            min_rtt.long = min_rtt.short;
        }
        self.model.set_min_rtt(min_rtt.long.0);
        if expired && !idle && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.mode = Mode::ProbeRtt(ProbeRtt::enter(self.round.count()));
            self.cwnd.save(true);
        }
    }

    fn check_probe_rtt(&mut self, m: &Measurement, round_started: bool, now: Time) {
        let half = self.probe_rtt_cwnd();
        let Mode::ProbeRtt(probe) = &mut self.mode else { return };
        let was_reached = probe.reached();
        let done = probe.update(m, half, (self.round.count(), round_started), now);
        if probe.reached() && !was_reached {
            self.round.restart(m.in_flight);
        }
        if done {
            if let Some(min_rtt) = &mut self.min_rtt {
                min_rtt.short.1 = now;
            }
            self.bounds.refill();
            self.cwnd.restore();
            let rtt = self.model.min_rtt().unwrap_or(RTT_UNKNOWN);
            self.mode = match self.pipe.is_full() {
                true => {
                    let mut cycle = self.down(now);
                    cycle.stopping = false;
                    cycle.enter(Phase::Cruise, now + rtt, self.round.count());
                    Mode::ProbeBw(cycle)
                }
                false => Mode::Startup,
            };
        }
    }

    fn probe_rtt_cwnd(&self) -> Bytes {
        let half = self.model.bdp(PROBE_RTT_GAIN).unwrap_or_default();
        half.max(self.cwnd.min())
    }

    fn gains(&self) -> (Gain, Gain) {
        match self.mode {
            Mode::Startup => (STARTUP_GAIN, CWND_GAIN),
            Mode::Drain => (DRAIN_GAIN, CWND_GAIN),
            Mode::ProbeBw(cycle) => match self.climb.gain() {
                Some(gain) => (gain, CWND_GAIN),
                None => (cycle.gain(), cycle.cwnd_gain()),
            },
            Mode::ProbeRtt(_) => (Gain::ONE, PROBE_RTT_GAIN),
        }
    }

    /// Until the pipe is full the rate does not fall.
    fn set_rate(&mut self) {
        let (gain, _) = self.gains();
        let bw = self.bounds.bw(self.model.bw());
        let rate = match bw {
            bw if bw > Rate::default() => bw * gain * PACING_MARGIN,
            _ => (self.cwnd.in_force() / self.path.srtt.unwrap_or(RTT_UNKNOWN)) * gain,
        };
        if self.mode != Mode::Startup || rate > self.rate {
            self.rate = rate;
        }
        self.rate = self.rate.max(self.rate_min());
    }

    /// The least window, once a round trip: a glitch of the datapath may not stop the flow.
    fn rate_min(&self) -> Rate {
        let rtt = self.model.min_rtt().unwrap_or(RTT_UNKNOWN);
        let once_a_second = self.cwnd.min() / Duration::from_secs(1);
        (self.cwnd.min() / rtt.max(RTT_UNKNOWN)).max(once_a_second)
    }

    fn inflight(&self, gain: Gain) -> Bytes {
        self.model.inflight(gain, self.rate, self.path.mss)
    }

    /// Whether the window is to be cut to the target, and the target.
    fn target(&self) -> (bool, Bytes) {
        let (_, gain) = self.gains();
        let full = self.mode != Mode::Startup;
        let bunched = if full { self.model.extra_acked() } else { Bytes(0) };
        let bonus = match self.mode {
            Mode::ProbeBw(Cycle { phase: Phase::Up, .. }) => Packets(2).to_bytes(self.path.mss),
            _ => Bytes(0),
        };
        (full, self.inflight(gain) + bunched + bonus)
    }

    /// Section 5.6.4.7 `BBRBoundCwndForModel`, and PROBE_RTT.
    fn cwnd_bound(&self) -> Bytes {
        match self.mode {
            Mode::Startup | Mode::Drain => Bytes(u64::MAX),
            Mode::ProbeBw(_) if self.climb.gain().is_some() => Bytes(u64::MAX),
            Mode::ProbeBw(cycle) => self.bounds.cwnd(cycle.phase == Phase::Cruise),
            Mode::ProbeRtt(_) => self.bounds.cwnd(true).min(self.probe_rtt_cwnd()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;
    use crate::script::path;

    const RATE: Rate = Rate::from_bytes_per_sec(3_000_000);
    const RTT: Duration = Duration::from_millis(40);
    const BDP: Bytes = Bytes(120_000);

    fn at_ms(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    /// The report of 10 ms at the rate of the bottleneck, with a millisecond of queue.
    fn steady(in_flight: Bytes) -> Measurement {
        Measurement {
            acked: RATE * Duration::from_millis(10),
            delivered: RATE * Duration::from_millis(10),
            rtt: Some(RttSamples::one(RTT + Duration::from_millis(1))),
            send_rate: RATE,
            delivery_rate: RATE,
            in_flight,
            ..Measurement::QUIET
        }
    }

    fn known_path(in_flight: Bytes) -> PathState {
        let mut path = path(100);
        let first = Measurement { rtt: Some(RttSamples::one(RTT)), ..steady(in_flight) };
        path.observe(&first, at_ms(1));
        path
    }

    /// Runs a BBR that took over at 2 ms; the phases it was in, with when they began.
    fn phases(until_ms: u64, lost: impl Fn(u64, &Bbr3) -> u64) -> (Bbr3, Vec<(u64, String)>) {
        let mut bbr = Bbr3::default();
        let mut decision = bbr.resume(&known_path(BDP), at_ms(2));
        let mut seen: Vec<(u64, String)> = Vec::new();
        for ms in (12..until_ms).step_by(10) {
            let in_flight = decision.cwnd.min(BDP + BDP);
            let lost = Packets(lost(ms, &bbr));
            let m = Measurement { lost, in_recovery: lost > Packets(0), ..steady(in_flight) };
            decision = bbr.on_measurement(&m, at_ms(ms));
            let name = match bbr.mode {
                Mode::ProbeBw(cycle) => format!("{:?}", cycle.phase),
                Mode::ProbeRtt(_) => "ProbeRtt".into(),
                other => format!("{other:?}"),
            };
            if seen.last().is_none_or(|(_, last)| *last != name) {
                seen.push((ms, name));
            }
        }
        (bbr, seen)
    }

    #[test]
    fn a_known_path_is_taken_over_at_cruise_or_draining() {
        for (in_flight, drains) in [(BDP, false), (BDP + BDP, true)] {
            let mut bbr = Bbr3::default();
            let first = bbr.resume(&known_path(in_flight), at_ms(2));
            assert_eq!(bbr.mode == Mode::Drain, drains);
            assert!(first.rate <= Some(RATE));
        }
    }

    #[test]
    fn a_cycle_goes_through_refill_up_and_down() {
        let (_, seen) = phases(3_000, |_, _| 0);
        let names: Vec<&str> = seen.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names[..4], ["Cruise", "Refill", "Up", "Down"], "{seen:?}");
    }

    #[test]
    fn losses_of_a_probe_end_it_and_bound_what_is_in_flight() {
        let up = |bbr: &Bbr3| matches!(bbr.mode, Mode::ProbeBw(c) if c.phase == Phase::Up);
        let (bbr, seen) = phases(600, |_, bbr| if up(bbr) { 8 } else { 0 });
        assert!(bbr.bounds.longterm().is_some(), "{seen:?}");
    }

    #[test]
    fn half_a_bdp_is_in_flight_in_probe_rtt_every_five_seconds() {
        let (bbr, seen) = phases(5_100, |_, _| 0);
        assert!(matches!(bbr.mode, Mode::ProbeRtt(_)), "{seen:?}");
        let half = bbr.model.bdp(PROBE_RTT_GAIN).expect("a BDP");
        assert!(bbr.decision().cwnd <= half);
        let mut path = known_path(BDP);
        bbr.hand_off(&mut path);
        assert!(path.cwnd > BDP * Gain(900), "{:?}", path.cwnd);
    }

    #[test]
    fn startup_ends_when_a_round_trip_loses_too_much() {
        let mut bbr = Bbr3::default();
        bbr.resume(&path(10), at_ms(0));
        for ms in (10..200).step_by(10) {
            let m = Measurement { lost: Packets(3), in_recovery: true, ..steady(BDP) };
            bbr.on_measurement(&m, at_ms(ms));
        }
        assert_ne!(bbr.mode, Mode::Startup);
        assert!(bbr.bounds.longterm().is_some());
    }
}
