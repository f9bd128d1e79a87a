//! BBR, version 1: sends at the rate of the bottleneck, and keeps two BDPs in flight at most.
//!
//! N. Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 2016, as in Linux
//! tcp_bbr.c. On each report:
//!
//! ```text
//! bw      = maximum delivery rate of 10 round trips        model.rs
//! min_rtt = minimum round trip of 10 s                     model.rs
//! rate    = pacing gain * bw * 0.99                        here; a gain is in its state's file
//! cwnd    = cwnd gain * bw * min_rtt + what ACKs bunch up  cwnd.rs
//!
//! STARTUP -> DRAIN -> PROBE_BW -> PROBE_RTT -> PROBE_BW    startup.rs, probe_bw.rs, probe_rtt.rs
//! ```
//!
//! Differs from Linux:
//!   - the model is updated by report, a sixteenth of a round trip, not by ACK, and what is in
//!     flight is the most of a report: phases end up to a report later;
//!   - no randomness: the first phase of the gain cycle follows from the bytes delivered;
//!   - takes over a known path without STARTUP: DRAIN or PROBE_BW, from the path's delivery rate
//!     and minimum RTT. Behind the queue of others, climb.rs then raises the rate to the flow's
//!     share; STARTUP follows if the flow is young and has less than its share. On a path that the
//!     arm before left empty, BBR begins with STARTUP, in which the rate need not grow for twenty
//!     round trips unless a queue stands;
//!   - PROBE_RTT also counts as reached after two round trips, should the datapath never report
//!     four segments in flight;
//!   - a restart from idle is a silence of a second, as a report does not tell;
//!   - no detector of policers (the kernel's long-term bandwidth, `lt_bw`).

pub mod climb;
pub mod cwnd;
pub mod model;
mod probe_bw;
pub mod probe_rtt;
pub mod startup;

use crate::arm::{Arm, ArmInfo, Decision, ProgramId, Queue, REPORTS_PER_ROUND_MANY, Readiness};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::round::Round;
use crate::units::{Bytes, Gain, Rate, Time};
use crate::window;
use climb::{Climb, Found};
use cwnd::Cwnd;
use model::Model;
use probe_bw::Cycle;
use probe_rtt::ProbeRtt;
use startup::FullPipe;
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "bbr",
    summary: "paces at the bottleneck's rate, two BDPs in flight at most (BBR v1)",
    program: ProgramId("bbr/report"),
    // So that a phase of the gain cycle, which lasts one minimum RTT, ends when it should.
    reports_per_round: REPORTS_PER_ROUND_MANY,
    paces: true,
    answers_losses: false,
    make: Some(|_| Box::new(Bbr::default())),
    queue: Some(Queue::Short),
    ..ArmInfo::DEFAULT
};

/// tcp_bbr.c `bbr_pacing_margin_percent`: 1 % below, so that a queue drains rather than grows.
pub const PACING_MARGIN: Gain = Gain(990);
/// tcp_bbr.c `bbr_init_pacing_rate_from_rtt`: the RTT to start with if there is no sample.
const RTT_UNKNOWN: Duration = Duration::from_millis(1);
/// tcp_bbr.c `bbr_bw_rtts`: the bandwidth filter's window, in rounds (eight phases and two).
const BW_ROUNDS: u64 = 10;
/// Nothing was in flight if there is no report for so long.
const IDLE: Duration = Duration::from_secs(1);

/// A report whose minimum round trip is so much of that of the path shows a queue.
const QUEUE_PERCENT: u32 = 125;

/// BBR, for one flow.
#[derive(Clone, Debug)]
pub struct Bbr {
    path: PathState,
    mode: Mode,
    model: Model,
    round: Round,
    pipe: FullPipe,
    climb: Climb,
    cwnd: Cwnd,
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

impl Arm for Bbr {
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
        if recovering.started {
            self.round.restart(m.in_flight - m.lost.to_bytes(self.path.mss));
        }
        self.update_model(m, round_started, now);
        self.climb(m, round_started, now);
        self.update_mode(m, round_started, now);
        self.update_min_rtt(m, idle, now);
        self.check_probe_rtt(m, round_started, now);
        self.set_rate();
        self.cwnd.update(m, recovering, round_started, self.target());
        if let Mode::ProbeRtt(_) = self.mode {
            self.cwnd.cut(self.cwnd.min());
        }
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

impl Default for Bbr {
    fn default() -> Self {
        Self::over(&window::no_path(), Time::ZERO)
    }
}

impl Bbr {
    fn over(path: &PathState, now: Time) -> Self {
        let path = window::sane(path);
        let model = Model::resume(&path, BW_ROUNDS, now);
        let known = model.bdp(Gain::ONE).is_some();
        let mut bbr = Self {
            mode: Mode::Startup,
            model,
            round: Round::default(),
            pipe: FullPipe::new(known),
            climb: Climb::resume(&path),
            cwnd: Cwnd::resume(&path, now),
            rate: Rate::default(),
            last_at: now,
            path,
        };
        if known && bbr.path.is_left_empty() {
            (bbr.pipe, bbr.climb) = (FullPipe::left_empty(), Climb::over());
        } else if known {
            bbr.mode = bbr.mode_of_known_path(now);
            bbr.cwnd.cut(bbr.target().1);
        }
        bbr.set_rate();
        if let Some(in_force) = bbr.path.rate {
            bbr.rate = bbr.rate.min(in_force).max(bbr.rate_min());
        }
        bbr
    }

    /// Taking over (docs/hand-off.md): DRAIN if more than a BDP is in flight, else PROBE_BW, at
    /// cruise.
    fn mode_of_known_path(&self, now: Time) -> Mode {
        if self.path.in_flight > self.inflight(Gain::ONE) {
            return Mode::Drain;
        }
        Mode::ProbeBw(Cycle::cruise(self.path.cwnd.0 / self.path.mss.0, now))
    }

    fn decision(&self) -> Decision {
        Decision { cwnd: self.cwnd.in_force(), rate: Some(self.rate) }
    }

    fn update_model(&mut self, m: &Measurement, round_started: bool, now: Time) {
        let probing_rtt = matches!(self.mode, Mode::ProbeRtt(_));
        self.model.update_bw(m, self.round.count(), probing_rtt);
        let since_last = now - self.last_at;
        self.model.update_aggregation(m, round_started, since_last, self.cwnd.in_force());
    }

    fn climb(&mut self, m: &Measurement, round_started: bool, now: Time) {
        self.climb.observe(m, self.path.mss);
        if !round_started || !matches!(self.mode, Mode::ProbeBw(_)) {
            return;
        }
        match self.climb.end_round(self.model.bw()) {
            Found::Nothing => {}
            Found::Queue(rtt) => self.model.find_min_rtt(rtt, now),
            Found::Room => {
                self.pipe = FullPipe::new(false);
                self.mode = Mode::Startup;
            }
            Found::Ended => self.mode = self.mode_after_drain(now),
        }
    }

    fn update_mode(&mut self, m: &Measurement, round_started: bool, now: Time) {
        if let Mode::ProbeBw(cycle) = &mut self.mode {
            let target = |gain| self.model.inflight(gain, self.rate, self.path.mss);
            let target = target(cycle.target_gain()) + cycle.bonus(self.path.mss);
            let mut seen = *m;
            if cycle.target_gain() > Gain::ONE {
                let mss = self.path.mss;
                seen.in_flight = Model::in_net_while_probing(m.in_flight, self.rate, mss);
            }
            cycle.update(&seen, target, self.model.min_rtt(), now);
        }
        let queue = self.model.min_rtt().map(|rtt| rtt.saturating_mul(QUEUE_PERCENT) / 100);
        if m.rtt.zip(queue).is_some_and(|(rtt, queue)| rtt.min >= queue) {
            self.pipe.expect_growth();
        }
        if round_started && !m.app_limited {
            self.pipe.update(self.model.bw());
        }
        if m.timed_out {
            self.pipe.forget_growth();
        }
        if self.mode == Mode::Startup && self.pipe.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && m.in_flight <= self.inflight(Gain::ONE) {
            self.mode = self.mode_after_drain(now);
        }
    }

    fn mode_after_drain(&self, now: Time) -> Mode {
        if !self.pipe.is_full() {
            return Mode::Startup;
        }
        Mode::ProbeBw(Cycle::start(self.model.delivered().0 / self.path.mss.0, now))
    }

    fn update_min_rtt(&mut self, m: &Measurement, idle: bool, now: Time) {
        let expired = self.model.update_min_rtt(m, now);
        if expired && !idle && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.mode = Mode::ProbeRtt(ProbeRtt::enter(self.round.count()));
            self.cwnd.save(true);
        }
    }

    fn check_probe_rtt(&mut self, m: &Measurement, round_started: bool, now: Time) {
        let Mode::ProbeRtt(probe) = &mut self.mode else {
            return;
        };
        let was_reached = probe.reached();
        let done = probe.update(m, self.cwnd.min(), (self.round.count(), round_started), now);
        if probe.reached() && !was_reached {
            self.round.restart(m.in_flight);
        }
        if done {
            self.model.refresh_min_rtt(self.round.count(), now);
            self.cwnd.restore();
            self.mode = self.mode_after_drain(now);
        }
    }

    fn gains(&self) -> (Gain, Gain) {
        match self.mode {
            Mode::Startup => (startup::HIGH_GAIN, startup::HIGH_GAIN),
            Mode::Drain => (startup::DRAIN_GAIN, startup::HIGH_GAIN),
            Mode::ProbeBw(cycle) => {
                (self.climb.gain().unwrap_or(cycle.gain()), probe_bw::CWND_GAIN)
            }
            Mode::ProbeRtt(_) => (Gain::ONE, Gain::ONE),
        }
    }

    /// tcp_bbr.c `bbr_set_pacing_rate`: until the pipe is full the rate does not fall.
    fn set_rate(&mut self) {
        let (gain, _) = self.gains();
        let rate = match self.model.bw() {
            bw if bw > Rate::default() => bw * gain * PACING_MARGIN,
            _ => (self.cwnd.in_force() / self.path.srtt.unwrap_or(RTT_UNKNOWN)) * gain,
        };
        if self.pipe.is_full() || rate > self.rate {
            self.rate = rate.max(self.rate_min());
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
        let bonus = match self.mode {
            Mode::ProbeBw(cycle) => cycle.bonus(self.path.mss),
            _ => Bytes(0),
        };
        let full = self.pipe.is_full();
        let bunched = if full { self.model.extra_acked() } else { Bytes(0) };
        (full, self.inflight(gain) + bunched + bonus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;
    use crate::script::{MSS, left_empty, path};
    use crate::units::Packets;

    const RATE: Rate = Rate::from_bytes_per_sec(3_000_000);
    const RTT: Duration = Duration::from_millis(40);
    const BDP: Bytes = Bytes(120_000);

    fn at_ms(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    /// The report of 10 ms at the rate of the bottleneck.
    fn steady(in_flight: Bytes) -> Measurement {
        Measurement {
            acked: RATE * Duration::from_millis(10),
            delivered: RATE * Duration::from_millis(10),
            rtt: Some(RttSamples::one(RTT)),
            send_rate: RATE,
            delivery_rate: RATE,
            in_flight,
            ..Measurement::QUIET
        }
    }

    fn known_path(cwnd_pkts: u64, in_flight: Bytes) -> PathState {
        let mut path = path(cwnd_pkts);
        path.observe(&steady(in_flight), at_ms(1));
        path
    }

    #[test]
    fn starts_at_2885_thousandths_of_a_window_a_round_trip() {
        let mut path = path(10);
        path.observe_rtt(RTT, RTT, RTT, 0);
        let first = Bbr::default().resume(&path, Time::ZERO);
        assert_eq!(first.cwnd, path.cwnd);
        assert_eq!(first.rate, Some((path.cwnd / RTT) * startup::HIGH_GAIN));
    }

    #[test]
    fn a_known_path_is_taken_over_without_startup() {
        for (in_flight, drains) in [(BDP, false), (BDP + BDP, true)] {
            let mut bbr = Bbr::default();
            let first = bbr.resume(&known_path(200, in_flight), at_ms(2));
            assert_eq!(bbr.mode == Mode::Drain, drains);
            assert_eq!(matches!(bbr.mode, Mode::ProbeBw(_)), !drains);
            assert!(first.rate <= Some(RATE));
        }
    }

    #[test]
    fn a_path_that_was_left_empty_is_taken_over_in_startup() {
        let (known, now) = left_empty(path(10), RTT, RATE);
        let mut bbr = Bbr::default();
        bbr.resume(&known, now);
        // A rate that does not grow for some round trips does not end it.
        let mut modes = Vec::new();
        for report in 1..=120 {
            bbr.on_measurement(&steady(BDP), now + RTT / 4 * report);
            modes.push(bbr.mode == Mode::Startup);
        }
        assert!(modes[..60].iter().all(|starts| *starts), "{modes:?}");
        assert!(modes[110..].iter().all(|starts| !starts), "{modes:?}");
    }

    #[test]
    fn a_window_above_two_bdps_is_cut_when_the_path_is_taken_over() {
        let first = Bbr::default().resume(&known_path(1_000, BDP), at_ms(2));
        assert!(first.cwnd <= Packets(200).to_bytes(MSS), "{first:?}");
    }

    /// A BBR that cruises from 2 ms on, fed until `until_ms` with what `in_flight` says.
    fn cruising(until_ms: u64, in_flight: fn(Decision) -> Bytes) -> (Bbr, Decision) {
        let mut bbr = Bbr::default();
        let mut decision = bbr.resume(&known_path(100, BDP), at_ms(2));
        for ms in (12..until_ms).step_by(10) {
            let m = Measurement {
                rtt: Some(RttSamples::one(RTT + Duration::from_millis(1))),
                ..steady(in_flight(decision))
            };
            decision = bbr.on_measurement(&m, at_ms(ms));
        }
        (bbr, decision)
    }

    #[test]
    fn the_window_of_probe_rtt_is_not_handed_off() {
        let (bbr, decision) = cruising(10_100, |decision| decision.cwnd.min(BDP));
        assert!(matches!(bbr.mode, Mode::ProbeRtt(_)));
        assert_eq!(decision.cwnd, Packets(4).to_bytes(MSS));
        let mut path = known_path(4, BDP);
        bbr.hand_off(&mut path);
        assert!(path.cwnd > BDP * Gain(900) && path.cwnd <= BDP * Gain(1_100), "{:?}", path.cwnd);
        assert!(path.ssthresh.is_some());
    }

    #[test]
    fn probe_rtt_ends_after_200_ms_with_the_window_of_before() {
        let (before, cwnd) = cruising(10_000, |decision| decision.cwnd.min(BDP));
        assert!(matches!(before.mode, Mode::ProbeBw(_)));
        let (after, restored) = cruising(10_350, |decision| decision.cwnd.min(BDP));
        assert!(matches!(after.mode, Mode::ProbeBw(_)));
        assert!(restored.cwnd >= cwnd.cwnd);
    }

    #[test]
    fn a_loss_during_probe_rtt_does_not_make_its_window_the_one_to_go_back_to() {
        let (mut bbr, _) = cruising(10_100, |decision| decision.cwnd.min(BDP));
        assert!(matches!(bbr.mode, Mode::ProbeRtt(_)));
        let four = Packets(4).to_bytes(MSS);
        let repairing = Measurement { in_recovery: true, ..steady(four) };
        bbr.on_measurement(&Measurement { lost: Packets(1), ..repairing }, at_ms(10_110));
        let mut decision = bbr.on_measurement(&repairing, at_ms(10_120));
        for ms in (10_130..10_350).step_by(10) {
            decision = bbr.on_measurement(&steady(decision.cwnd.min(BDP)), at_ms(ms));
        }
        assert!(matches!(bbr.mode, Mode::ProbeBw(_)));
        assert!(decision.cwnd >= BDP, "{decision:?}");
    }

    #[test]
    fn the_first_round_of_a_recovery_conserves_packets_and_its_end_restores_the_window() {
        let (mut bbr, before) = cruising(1_000, |_| BDP);
        let loss = Measurement { lost: Packets(3), in_recovery: true, ..steady(BDP) };
        let cut = bbr.on_measurement(&loss, at_ms(1_010)).cwnd;
        assert_eq!(cut, BDP - Packets(3).to_bytes(MSS));
        let repairing = Measurement { in_recovery: true, ..steady(BDP) };
        assert_eq!(bbr.on_measurement(&repairing, at_ms(1_020)).cwnd, cut);
        let after = bbr.on_measurement(&steady(BDP), at_ms(1_100)).cwnd;
        assert!(after >= before.cwnd * Gain(950), "{after:?}");
    }

    #[test]
    fn a_timeout_restarts_from_four_segments_and_then_restores_the_window() {
        let (mut bbr, before) = cruising(1_000, |_| BDP);
        let timeout = Measurement { timed_out: true, in_recovery: true, ..Measurement::QUIET };
        assert_eq!(bbr.on_measurement(&timeout, at_ms(1_010)).cwnd, Packets(4).to_bytes(MSS));
        let after = bbr.on_measurement(&steady(BDP), at_ms(1_400)).cwnd;
        assert!(after >= before.cwnd * Gain(950));
    }
}
