//! What all window-based algorithms share: slow start, one reduction an episode, timeouts, the
//! floor, and no growth of a window that is not used. A [`Rule`] plugs in how a window grows in
//! congestion avoidance and what is left of it after a loss.
//!
//! RFC 5681, RFC 6582, RFC 9406 (slow start), RFC 7661 (unused windows).
//!
//! Differs from the RFCs:
//!   - a report carries many ACKs, on a short path those of many round trips; one report at most
//!     doubles the window in slow start;
//!   - the loss window after a timeout is two segments, not one: a datapath's floor;
//!   - the restart window after an idle time is the datapath's (Linux' `tcp_cwnd_restart()`); here
//!     the threshold follows it;
//!   - retransmission and PRR are the datapath's, and so is the detection of a spurious recovery
//!     (RFC 3522, RFC 3708, RFC 5682). The former window and threshold are restored here,
//!     as by `tcp_undo_cwnd_reduction()` and `tcp_reno_undo_cwnd()` in Linux. An arm that takes the
//!     flow over during the recovery restores nothing, because it never had the former window.

use crate::arm::{Arm, ArmInfo, Decision, REPORTS_PER_ROUND, REPORTS_PER_ROUND_MANY, Readiness};
use crate::hystart::HyStart;
use crate::loaded::Loaded;
use crate::measurement::{CwndUse, Measurement};
use crate::path::PathState;
use crate::recovery::{Recovery, congested, episode_rtt};
use crate::round::Round;
use crate::units::{Bytes, Gain, Packets, Time};
use std::time::Duration;

/// The ceiling of every window: what the 32 bits of the wire protocol's `Cwnd` register hold.
pub const CWND_MAX: Bytes = Bytes(u32::MAX as u64);
/// Taking over (docs/hand-off.md): the least window to take a flow over with, if it has as much.
const RESUME_MIN: Packets = Packets(4);
/// tcp_cubic.c `hystart_low_window`: trains of a smaller window say nothing.
const HYSTART_MIN: Packets = Packets(16);

/// Where round trips are shorter than reports, a report acknowledges many windows. Growth counts so
/// many of them at most: a report that claims more is broken.
const ROUNDS_MAX: Gain = Gain(64_000);

/// What makes one window-based algorithm differ from the next.
pub trait Rule {
    /// Congestion avoidance: the window after `acked` more bytes.
    fn grow(&mut self, path: &PathState, acked: Bytes, now: Time) -> Bytes;

    /// What is left of the window after a loss, a mark or a timeout.
    fn reduce(&mut self, path: &PathState) -> Bytes;

    /// A timeout: the window is back at its floor, and slow start follows.
    fn timed_out(&mut self) {}

    /// For `span`, the sender did not use its window.
    fn unused(&mut self, _span: Duration) {}
}

/// An arm whose window a [`Rule`] moves: what it says itself. The rest of [`Arm`] follows from its
/// window.
pub trait WindowArm: Sized + Send {
    /// See [`Arm::info`].
    const INFO: &'static ArmInfo;

    /// Starts a flow, or takes one over: nothing of a former flow is left.
    fn over(path: &PathState, now: Time) -> Self;

    fn window(&self) -> &Window;

    /// Takes in one report: moves the window.
    fn step(&mut self, m: &Measurement, now: Time);

    /// Why this is no moment to hand the flow over, beside slow start.
    fn busy(&self) -> Option<&'static str> {
        None
    }

    /// Adds to what the window has handed off.
    fn amend(&self, _path: &mut PathState) {}

    /// An arm that has no flow yet.
    fn new() -> Self {
        Self::over(&no_path(), Time::ZERO)
    }
}

/// [`ArmInfo::make`] of such an arm.
pub fn make<W: WindowArm + 'static>(_loaded: &Loaded) -> Box<dyn Arm> {
    Box::new(W::new())
}

impl<W: WindowArm> Arm for W {
    fn info(&self) -> &'static ArmInfo {
        W::INFO
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        *self = W::over(path, now);
        self.window().decision()
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.step(m, now);
        self.window().decision()
    }

    fn hand_off(&self, path: &mut PathState) {
        self.window().hand_off(path);
        self.amend(path);
    }

    fn can_hand_off(&self) -> Readiness {
        self.busy().map_or_else(|| self.window().can_hand_off(), Readiness::Defer)
    }

    fn reports_per_round(&self) -> u32 {
        self.window().reports_per_round()
    }
}

/// `cwnd` within the floor of the path and the ceiling of the wire.
pub fn bound(path: &PathState, cwnd: Bytes) -> Bytes {
    cwnd.min(CWND_MAX).max(path.cwnd_floor())
}

/// `a * num / den` without overflow; `den` of zero counts as one.
pub fn scale(a: Bytes, num: Bytes, den: Bytes) -> Bytes {
    let wide = u128::from(a.0) * u128::from(num.0) / u128::from(den.0.max(1));
    Bytes(u64::try_from(wide).unwrap_or(u64::MAX))
}

/// Three quarters of a window, as in Linux' `tcp_current_ssthresh()`.
fn three_quarters(cwnd: Bytes) -> Bytes {
    Bytes(cwnd.0 / 4 * 3)
}

/// The path as a controller may trust it: a segment has at least one byte.
pub fn sane(path: &PathState) -> PathState {
    let mut path = path.clone();
    path.mss = path.mss.max(Bytes(1));
    path.cwnd = bound(&path, path.cwnd);
    path
}

/// What a controller holds before it is given a flow: RFC 6928's window of ten segments, and the
/// segment size of Ethernet with TCP timestamps.
pub fn no_path() -> PathState {
    let mss = Bytes(1_448);
    PathState::new(mss, Packets(10).to_bytes(mss))
}

/// A congestion window and all that moves it, but for the rule.
#[derive(Clone, Debug)]
pub struct Window {
    /// The path as this window knows it; its `cwnd` and `ssthresh` are the ones in force.
    pub path: PathState,
    round: Round,
    /// `None` for an algorithm whose slow start ends with a loss.
    hystart: Option<HyStart>,
    recovery: Recovery,
    /// Slow start after a timeout, which the datapath repairs meanwhile.
    restarting: bool,
    /// Nothing was acknowledged since the last timeout.
    unanswered: bool,
    /// The last report ended a round trip.
    round_ended: bool,
    /// How much of what is acknowledged slow start adds.
    slow_start_gain: Gain,
    /// What the last reduction changed; `None` before the first, and once it has been undone.
    before_reduction: Option<Before>,
    last_at: Time,
}

/// A window that was reduced, as it was before.
#[derive(Clone, Copy, Debug)]
struct Before {
    cwnd: Bytes,
    /// `None`: no threshold was known.
    ssthresh: Option<Bytes>,
}

impl Window {
    /// Takes a path over (docs/hand-off.md): the window is what the path holds (what is
    /// in flight, or the delivery rate times the smoothed RTT) if it is smaller than the window in
    /// force, and slow start ends at the known BDP, never at infinity.
    pub fn resume(path: &PathState, now: Time) -> Self {
        let mut path = sane(path);
        path.rate = None;
        if let (Some(rate), Some(srtt)) = (path.delivery_rate(), path.srtt) {
            let holds = path.in_flight.max(rate * srtt).max(RESUME_MIN.to_bytes(path.mss));
            path.cwnd = bound(&path, path.cwnd.min(holds));
        }
        let bdp = path.bdp();
        let most = bdp.map(|bdp| bdp.max(path.cwnd));
        path.ssthresh = match (path.ssthresh, most) {
            (Some(ssthresh), Some(most)) => Some(ssthresh.min(most)),
            (ssthresh, most) => ssthresh.or(most),
        };
        let recovery = Recovery::resume(&path, now);
        Self {
            path,
            round: Round::default(),
            hystart: None,
            recovery,
            restarting: false,
            unanswered: false,
            round_ended: false,
            slow_start_gain: Gain::ONE,
            before_reduction: None,
            last_at: now,
        }
    }

    /// With a slow start that looks for the path's limit (hystart.rs).
    pub fn with_hystart(self) -> Self {
        Self { hystart: Some(HyStart::default()), ..self }
    }

    /// The window in force. The datapath derives the pacing rate from it.
    pub fn decision(&self) -> Decision {
        Decision { cwnd: self.path.cwnd, rate: None }
    }

    /// Slow start raises the window by what a report acknowledges: often, or it is a burst.
    pub fn reports_per_round(&self) -> u32 {
        if self.in_slow_start() { REPORTS_PER_ROUND_MANY } else { REPORTS_PER_ROUND }
    }

    /// Takes in one report.
    pub fn step(&mut self, rule: &mut impl Rule, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        if m.undone {
            self.undo(now);
        }
        if m.restarted {
            self.restart_after_idle(rule, m, now);
        }
        let covered = self.recovery.covers(m, now);
        let leaving = self.recovery.ends_with(m, now);
        if m.timed_out {
            self.time_out(rule, m, now);
        } else if congested(m) && !covered {
            self.restarting = false;
            // A loss is reported at once: what its report acknowledges came before it.
            if m.has_loss() && !leaving {
                self.use_ack(rule, m, now);
            }
            self.reduce(rule, now);
            self.path.cwnd = self.path.ssthresh.unwrap_or(self.path.cwnd);
            self.recovery.enter(episode_rtt(&self.path, m), now);
        } else if self.restarting || !(covered || leaving) {
            self.use_ack(rule, m, now);
        } else if leaving {
            // Its first ACK covers what was received out of order. Of a report's ACKs half, on
            // average, come after it.
            let after = Bytes(self.path.cwnd.0 / u64::from(2 * self.reports_per_round()));
            self.use_ack(rule, &Measurement { acked: m.acked.min(after), ..*m }, now);
        }
        if !m.timed_out && m.acked > Bytes(0) {
            self.unanswered = false;
        }
        self.recovery.observe(m, now);
        self.restarting = self.restarting && (m.timed_out || self.recovery.covers(m, now));
        self.end_slow_start(m);
        self.last_at = now;
        self.path.cwnd = bound(&self.path, self.path.cwnd);
        self.decision()
    }

    /// In slow start the window says nothing of the path yet.
    pub fn can_hand_off(&self) -> Readiness {
        if self.in_slow_start() {
            Readiness::Defer("the flow is in slow start")
        } else {
            Readiness::Ready
        }
    }

    /// Writes what a successor needs.
    pub fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.path.cwnd;
        path.rate = None;
        path.ssthresh = self.path.ssthresh.or(path.bdp().map(|bdp| bdp.max(self.path.cwnd)));
        path.recovery_until = self.recovery.until();
        path.w_max = self.path.w_max;
    }

    /// Whether the last report ended a round trip.
    pub fn round_ended(&self) -> bool {
        self.round_ended
    }

    /// Whether the window grows by what is acknowledged, and not by the rule.
    pub fn in_slow_start(&self) -> bool {
        self.path.ssthresh.is_none_or(|ssthresh| self.path.cwnd < ssthresh)
    }

    /// Slow start is over, at this window.
    pub fn leave_slow_start(&mut self, cwnd: Bytes) {
        self.path.cwnd = bound(&self.path, cwnd);
        self.path.ssthresh = Some(self.path.cwnd);
    }

    /// A smaller window, for a reason that is no loss: slow start is over, and does not return.
    pub fn shrink(&mut self, cwnd: Bytes) {
        let threshold = self.path.ssthresh.unwrap_or(CWND_MAX);
        self.leave_slow_start(cwnd.min(self.path.cwnd));
        self.path.ssthresh = Some(threshold.min(self.path.cwnd));
    }

    /// Slow start, from the window in force up to this one.
    pub fn slow_start_to(&mut self, ssthresh: Bytes) {
        self.path.ssthresh = Some(bound(&self.path, ssthresh));
    }

    /// Slow start adds so much of what is acknowledged; one, unless this says otherwise.
    pub fn set_slow_start_gain(&mut self, gain: Gain) {
        self.slow_start_gain = gain;
    }

    /// The threshold of a loss, and slow start towards it from the floor.
    pub fn restart(&mut self, rule: &mut impl Rule, now: Time) {
        self.reduce(rule, now);
        self.before_reduction = None;
        self.path.cwnd = self.path.cwnd_floor();
    }

    /// Linux' `tcp_is_cwnd_limited`: in slow start half the window is enough, as the window has
    /// just been raised and the sender follows.
    pub fn limited(&self, m: &Measurement) -> bool {
        let needed = if self.in_slow_start() { CwndUse::Half } else { CwndUse::Full };
        m.cwnd_use(self.path.cwnd, self.path.mss) >= needed
    }

    fn use_ack(&mut self, rule: &mut impl Rule, m: &Measurement, now: Time) {
        if self.limited(m) {
            self.grow(rule, m.acked, now);
        } else {
            rule.unused(now - self.last_at);
        }
    }

    fn grow(&mut self, rule: &mut impl Rule, acked: Bytes, now: Time) {
        let mut acked = acked.min(self.path.cwnd * ROUNDS_MAX);
        if self.in_slow_start() {
            acked = acked.min(self.path.cwnd);
            let step = Bytes(acked.0 / self.hystart.map_or(1, |hystart| hystart.divisor()));
            let step = step * self.slow_start_gain;
            let room = self.path.ssthresh.map_or(CWND_MAX, |ssthresh| ssthresh - self.path.cwnd);
            self.path.cwnd += step.min(room);
            acked = step - room;
        }
        if acked > Bytes(0) {
            self.path.cwnd = rule.grow(&self.path, acked, now).max(self.path.cwnd);
        }
    }

    /// Follows `tcp_cwnd_restart()`, which the datapath has carried out. The threshold becomes at
    /// least three quarters of the window before the idle time, so slow start leads back there.
    fn restart_after_idle(&mut self, rule: &mut impl Rule, m: &Measurement, now: Time) {
        rule.unused(now - self.last_at);
        let kept = three_quarters(self.path.cwnd);
        self.path.ssthresh = self.path.ssthresh.map(|ssthresh| ssthresh.max(kept));
        self.path.cwnd = bound(&self.path, self.path.cwnd.min(m.cwnd));
        self.before_reduction = None;
    }

    /// `tcp_undo_cwnd_reduction()`: the last reduction answered packets that were late, not lost. A
    /// window that has grown beyond the former one since stays.
    fn undo(&mut self, now: Time) {
        let Some(before) = self.before_reduction.take() else { return };
        self.path.cwnd = self.path.cwnd.max(before.cwnd);
        let now_in_force = self.path.ssthresh.unwrap_or_default();
        self.path.ssthresh = before.ssthresh.map(|former| former.max(now_in_force));
        self.recovery.cancel(now);
        self.restarting = false;
        self.unanswered = false;
    }

    /// RFC 5681 equation (4): a new threshold, never above the window and never below the floor.
    fn reduce(&mut self, rule: &mut impl Rule, now: Time) {
        let left = rule.reduce(&self.path).min(self.path.cwnd);
        // A window is counted in segments: what is beyond the last whole one is never sent.
        let left = left.to_packets(self.path.mss).to_bytes(self.path.mss);
        let kept = three_quarters(self.path.cwnd);
        let ssthresh = self.path.ssthresh.map(|ssthresh| ssthresh.max(kept));
        self.before_reduction = Some(Before { cwnd: self.path.cwnd, ssthresh });
        self.path.w_max = Some((self.path.cwnd, now));
        self.path.ssthresh = Some(bound(&self.path, left));
    }

    /// RFC 5681 section 3.1: the threshold is held if this timeout follows another without an ACK
    /// between them; Linux also holds it if the reduction for this loss has been made.
    fn time_out(&mut self, rule: &mut impl Rule, m: &Measurement, now: Time) {
        if !self.unanswered && !self.recovery.covers(m, now) {
            self.reduce(rule, now);
        }
        rule.timed_out();
        self.path.ssthresh = Some(self.path.ssthresh.unwrap_or(self.path.cwnd));
        self.path.cwnd = self.path.cwnd_floor();
        self.recovery.enter(episode_rtt(&self.path, m), now);
        self.restarting = true;
        self.unanswered = true;
    }

    /// HyStart applies to the first slow start only, whose threshold is not known.
    fn end_slow_start(&mut self, m: &Measurement) {
        let round_ended = self.round.observe(m, self.path.mss);
        self.round_ended = round_ended;
        let Some(hystart) = self.hystart.as_mut().filter(|_| self.path.ssthresh.is_none()) else {
            return;
        };
        let full = hystart.observe(m.rtt, round_ended);
        let large = self.path.cwnd >= HYSTART_MIN.to_bytes(self.path.mss);
        if full || (large && HyStart::train_is_long(m.ack_train, self.path.rtt_min())) {
            self.path.ssthresh = Some(self.path.cwnd);
        }
    }
}
