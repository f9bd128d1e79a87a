//! A trained network sets the window: once a round trip it maps what the sender measured to a
//! factor. Slow start, timeouts and paths that the training did not cover are CUBIC's.
//!
//! Of the family of S. Abbasloo et al., "Classic Meets Modern: a Pragmatic Learning-Based
//! Congestion Control for the Internet" (Orca), SIGCOMM 2020, which multiplies CUBIC's window, and
//! of X. Liao et al., "Towards Fair and Efficient Learning-based Congestion Control" (Astraea),
//! EuroSys 2024, whose flows train together and are rewarded for fair shares. The network is small:
//! a dense layer, a gated recurrent unit and a dense layer. `remuda train learned` trains it
//! (python/remuda/training/ppo.py), in environments that compute observations and actions by the
//! same code (observation.rs, action.rs). Its weights and their card are in algorithms/models.
//!
//! ```text
//! classic ── slow start is over ──▶ network ── an input outside its training ──▶ fallback
//!    ▲                                │  ▲                                           │
//!    └────────── a timeout ───────────┘  └── inputs inside for 10 steps ─────────────┘
//! ```
//!
//! Differs from both papers:
//!   - a step is the shortest round trip, not 20 or 30 ms, and ends without a report if none comes;
//!   - CUBIC is not the base of each action, but drives the flow in the stages `classic` and
//!     `fallback`. Each stage that begins is an event with its reason;
//!   - slow start also ends once half a bandwidth-delay product stands in a queue: on 0.8 Mbit/s
//!     and 30 ms HyStart++ ends slow start after 3.5 s, with 82 packets in flight;
//!   - each step also adds a segment: with equal factors, flows that share a bottleneck come to
//!     equal windows, as with additive increase;
//!   - every ten seconds the arm halves the window for two round trips. Flows that started behind
//!     the queue then see the shortest round trip of the path (probe.rs);
//!   - of a window that the sender did not use, the network may take but not add;
//!   - nothing is paced.

pub mod action;
pub mod observation;
pub mod own;
mod probe;
mod shipped;
mod weights;

use crate::arm::{Arm, ArmInfo, Decision, ProgramId, Queue, Readiness, Stage};
use crate::cubic::Cubic;
use crate::loaded::{Loaded, Slot};
use crate::measurement::{CwndUse, Measurement};
use crate::network::{Network, State, Validity};
use crate::path::PathState;
use crate::proposal::Why;
use crate::recovery::{Recovery, congested, episode_rtt};
use crate::units::{Bytes, Time};
use crate::window::{self, WindowArm};
use observation::Observer;
use probe::Probe;
use std::collections::VecDeque;
use std::time::Duration;
pub use weights::{Plan, Unfit};

/// The name of its weights among those loaded.
pub const WEIGHTS: &str = "learned";

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "learned",
    summary: "a small network sets the window; CUBIC where it is not trained",
    program: ProgramId("learned/report"),
    make: Some(|loaded| Box::new(Learned::new(&ARM, loaded.slot(WEIGHTS)))),
    queue: Some(Queue::Short),
    ..ArmInfo::DEFAULT
};

/// The shortest step: a datapath reports no more often, and a wake is a millisecond away.
const STEP_MIN: Duration = Duration::from_millis(10);
/// A longer round trip is no path's, and more than a `Duration` may hold.
const STEP_MAX: Duration = Duration::from_secs(3_600);
/// A step with no known round trip (RFC 6298's first timeout is 1 s; this is a tenth).
const STEP_UNKNOWN: Duration = Duration::from_millis(100);
/// A step that no report has ended ends after so many parts of eight of its length.
const OVERDUE_EIGHTHS: u32 = 12;
/// How many steps in a row must be inside the training before the network drives again.
const INSIDE_STEPS: u32 = 10;
/// A queue stands in a step if no round trip of the step is below this many times the shortest one.
/// Then the queue never held less than half a bandwidth-delay product during the step.
const STANDING_RTTS: f64 = 1.5;
/// Slow start ends after this many samples of a standing queue. The number is `N_RTT_SAMPLE` of RFC
/// 9406 section 4.3, by which HyStart++ judges a round.
const STANDING_SAMPLES: u64 = 8;
/// What is left of the window while the flow makes room.
const PROBE_SHARE: f64 = 0.5;
/// Stages that nobody asked for; older ones are dropped.
const STAGES_MAX: usize = 4;

/// Who drives the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    /// CUBIC, until its slow start is over.
    Classic,
    Network,
    /// CUBIC, until this many more steps in a row are inside the training.
    Fallback(u32),
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Network => "network",
            Self::Fallback(_) => "fallback",
        }
    }
}

/// An arm that follows a trained network, for one flow.
#[derive(Clone, Debug)]
pub struct Learned {
    info: &'static ArmInfo,
    weights: Slot<Network>,
    plan: Plan,
    /// The network that was last compared with the plan, and whether the plan can follow it.
    fitting: (u64, bool),
    state: State,
    observer: Observer,
    classic: Cubic,
    driver: Driver,
    stages: VecDeque<Stage>,
    path: PathState,
    recovery: Recovery,
    /// The window in force, in bytes; fractions of a segment add up.
    window_bytes: f64,
    /// What the reports of this step say.
    so_far: Measurement,
    used: CwndUse,
    step_start: Time,
    /// Samples in slow start since the last step without a standing queue.
    standing: u64,
    probe: Probe,
}

impl Arm for Learned {
    fn info(&self) -> &'static ArmInfo {
        self.info
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        *self = Self::over(self.info, self.weights.clone(), path, now);
        self.window_bytes = self.classic.window().path.cwnd.0 as f64;
        self.leave_slow_start();
        self.decision()
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        if m.timed_out || (congested(m) && !self.recovery.covers(m, now)) {
            self.recovery.enter(episode_rtt(&self.path, m), now);
        }
        self.recovery.observe(m, now);
        self.probe.observe(m.rtt, now);
        self.so_far = self.so_far.and(m);
        self.used = self.used.max(m.cwnd_use(self.cwnd(), self.path.mss));
        if self.driver == Driver::Network && m.timed_out {
            self.enter(Driver::Classic, Why::because("a retransmission timeout"), now);
        }
        if self.driver != Driver::Network {
            self.window_bytes = self.classic.on_measurement(m, now).cwnd.0 as f64;
            self.leave_slow_start();
        }
        if now - self.step_start >= self.step_len() {
            self.end_step(now);
        }
        self.decision()
    }

    fn hand_off(&self, path: &mut PathState) {
        if self.driver == Driver::Network {
            path.cwnd = self.cwnd();
            path.rate = None;
            path.ssthresh = path.bdp().or(path.ssthresh).or(self.path.ssthresh);
            path.recovery_until = self.recovery.until();
        } else {
            self.classic.hand_off(path);
        }
    }

    fn can_hand_off(&self) -> Readiness {
        match self.driver {
            Driver::Network => Readiness::Ready,
            Driver::Classic | Driver::Fallback(_) => self.classic.can_hand_off(),
        }
    }

    fn reports_per_round(&self) -> u32 {
        match self.driver {
            Driver::Network => self.info.reports_per_round,
            Driver::Classic | Driver::Fallback(_) => self.classic.reports_per_round(),
        }
    }

    fn wake_at(&self) -> Option<Time> {
        // Nothing is in flight: no report is missing.
        let waits = self.driver == Driver::Network && self.path.in_flight > Bytes(0);
        waits.then(|| self.step_start + self.step_len() / 8 * OVERDUE_EIGHTHS)
    }

    fn on_wake(&mut self, now: Time) -> Option<Decision> {
        let is_due = self.wake_at().is_some_and(|at| at <= now);
        is_due.then(|| {
            self.end_step(now);
            self.decision()
        })
    }

    fn stage(&mut self) -> Option<Stage> {
        self.stages.pop_front()
    }
}

impl Learned {
    /// An arm that has no flow yet. Without weights it follows those that come with the program.
    pub fn new(info: &'static ArmInfo, weights: Option<Slot<Network>>) -> Self {
        let weights = weights.unwrap_or_else(shipped::weights);
        Self::over(info, weights, &window::no_path(), Time::ZERO)
    }

    /// An arm of a user's own weights, which are loaded by the arm's name.
    pub fn of(info: &'static ArmInfo, loaded: &Loaded) -> Option<Self> {
        Some(Self::new(info, Some(loaded.slot(info.loads?)?)))
    }

    fn over(info: &'static ArmInfo, weights: Slot<Network>, path: &PathState, now: Time) -> Self {
        let path = window::sane(path);
        let network = weights.get();
        let plan = Plan::of(&network).expect("weights are checked before they are loaded");
        let mut observer = Observer::new(plan.features, plan.history);
        observer.restart(u32::try_from(path.mss.0).unwrap_or(u32::MAX));
        observer.know(path.rtt_min_long(), path.srtt, path.delivery_rate());
        Self {
            info,
            weights,
            state: State::new(&network),
            fitting: (network.id(), true),
            plan,
            observer,
            classic: Cubic::over(&path, now),
            driver: Driver::Classic,
            stages: VecDeque::new(),
            recovery: Recovery::resume(&path, now),
            window_bytes: path.cwnd.0 as f64,
            so_far: Measurement::QUIET,
            used: CwndUse::Little,
            step_start: now,
            standing: 0,
            probe: Probe::new(path.rtt_min_long(), now),
            path,
        }
    }

    fn cwnd(&self) -> Bytes {
        window::bound(&self.path, Bytes(self.window_bytes as u64))
    }

    fn decision(&self) -> Decision {
        let share = if self.probe.is_on() { PROBE_SHARE } else { 1.0 };
        let cwnd = window::bound(&self.path, Bytes((self.window_bytes * share) as u64));
        Decision { cwnd, rate: None }
    }

    fn step_len(&self) -> Duration {
        let round_s = self.observer.rtt_min_s().unwrap_or(STEP_UNKNOWN.as_secs_f64());
        let step_s = (round_s * self.plan.step_rtts).min(STEP_MAX.as_secs_f64());
        Duration::from_secs_f64(step_s).max(STEP_MIN)
    }

    /// CUBIC's slow start is over: from the window that it has found, the network goes on.
    fn leave_slow_start(&mut self) {
        if self.driver == Driver::Classic && self.classic.can_hand_off() == Readiness::Ready {
            self.take_over("slow start is over");
        }
    }

    /// Ends slow start if a queue has stood for enough samples. Called at the end of each step of
    /// slow start. HyStart++ alone would let the window grow for five more rounds after the queue
    /// begins to fill, and the queue makes each round longer.
    fn leave_standing_queue(&mut self, step: &Measurement) {
        let (Some(rtt), Some(shortest_s)) = (step.rtt, self.observer.rtt_min_s()) else {
            return;
        };
        let stands = rtt.min.as_secs_f64() >= STANDING_RTTS * shortest_s;
        self.standing = if stands { self.standing.saturating_add(rtt.count) } else { 0 };
        if self.standing >= STANDING_SAMPLES {
            self.take_over("slow start has filled a queue");
        }
    }

    /// From here on the network drives, and remembers nothing of steps before.
    fn take_over(&mut self, why: &'static str) {
        self.state.reset();
        self.standing = 0;
        self.driver = Driver::Network;
        self.note(Why::because(why));
    }

    fn enter(&mut self, driver: Driver, why: Why, now: Time) {
        if driver != Driver::Network {
            self.path.cwnd = self.cwnd();
            self.classic = Cubic::over(&self.path, now);
        }
        self.driver = driver;
        self.probe.stop();
        self.note(why);
    }

    fn note(&mut self, why: Why) {
        if self.stages.len() == STAGES_MAX {
            self.stages.pop_front();
        }
        self.stages.push_back(Stage { name: self.driver.name(), why });
    }

    /// A round trip is over: observes it, and lets the network act if it drives.
    fn end_step(&mut self, now: Time) {
        let m = std::mem::replace(&mut self.so_far, Measurement::QUIET);
        let used = std::mem::replace(&mut self.used, CwndUse::Little);
        let span = now - self.step_start;
        self.step_start = now;
        let window_bytes = self.window_bytes;
        self.observer.take(&m, m.delivered, span, |observer| {
            observer.bdp_bytes().filter(|bdp| *bdp > 0.0).map(|bdp| window_bytes / bdp)
        });
        if self.driver == Driver::Classic {
            self.leave_standing_queue(&m);
        }
        let is_idle = m.delivered == Bytes(0) && self.path.in_flight == Bytes(0);
        if self.driver == Driver::Classic || is_idle {
            return;
        }
        if self.driver == Driver::Network && self.makes_room(&m, used, now) {
            return;
        }
        let network = self.weights.get();
        if self.fitting.0 != network.id() {
            self.fitting = (network.id(), self.plan.fits(&network));
        }
        if !self.fitting.1 {
            let text =
                "the weights in force have other inputs or settings than at the flow's start";
            return self.fall_back(Why::because(text), now);
        }
        let mut output = [0.0];
        let validity = network.evaluate(self.observer.observation(), &mut self.state, &mut output);
        match (validity, self.driver) {
            (Validity::Inside, Driver::Network) => self.act(output[0], used),
            (Validity::Inside, Driver::Fallback(0)) => {
                let why = Why::because("the inputs are inside the training again");
                self.enter(Driver::Network, why, now);
            }
            (Validity::Inside, Driver::Fallback(left)) => {
                self.driver = Driver::Fallback(left - 1);
            }
            (Validity::Outside(_) | Validity::NotFinite, _) => {
                let why = self.reason(&network, validity);
                self.fall_back(why, now);
            }
            (Validity::Inside, Driver::Classic) => {}
        }
    }

    /// Whether the flow makes room after this step. The network does not act on a step in which the
    /// flow makes room, because no flow did so in the training.
    fn makes_room(&mut self, step: &Measurement, used: CwndUse, now: Time) -> bool {
        if let Some(rtt) = step.rtt.filter(|_| used == CwndUse::Full) {
            self.probe.begin(rtt.max.min(STEP_MAX), now);
        }
        self.probe.is_on()
    }

    /// The network cannot drive: CUBIC does, for some steps at least.
    fn fall_back(&mut self, why: Why, now: Time) {
        if self.driver == Driver::Network {
            self.enter(Driver::Fallback(INSIDE_STEPS), why, now);
        } else {
            self.driver = Driver::Fallback(INSIDE_STEPS);
        }
    }

    fn act(&mut self, action: f32, used: CwndUse) {
        let factor = action::factor(f64::from(action), self.plan.action_scale);
        let mss_bytes = self.path.mss.0 as f64;
        let wanted = self.window_bytes * factor + self.plan.added_pkts * mss_bytes;
        if wanted > self.window_bytes && used < CwndUse::Full {
            return;
        }
        let window_bytes = action::bound_window(wanted, mss_bytes, &self.observer);
        self.window_bytes = window_bytes.min(window::CWND_MAX.0 as f64);
    }

    /// Why the network does not drive.
    fn reason(&self, network: &Network, validity: Validity) -> Why {
        let Validity::Outside(index) = validity else {
            return Why::because("the network's output is no number");
        };
        let value = self.observer.observation()[index];
        let name = network.input_name(index);
        let (low, high) = network.input_range(index);
        let text = format!("{name} is {value}, and was {low} to {high} in training");
        Why { text, features: vec![("value", value.to_string())] }
    }
}

#[cfg(test)]
mod tests;
