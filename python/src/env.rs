//! One flow that an outside program drives, step by step.
//!
//! As in Aurora (Jay et al., ICML 2019) an action multiplies the sending rate, and an observation
//! has ratios of the last steps, which need no scaling.
//!
//! Differs from Aurora: the link is the simulator's, with packets, a real queue and TCP's recovery,
//! instead of a fluid model; rates and delays in the reward are relative to the link, so that a
//! fast link gives no more than a slow one; and the seed decides every draw.

use crate::config::{Config, Control};
use crate::error::{Error, hold_length};
use crate::observe::{Observer, Seen};
use crate::path::{Course, Truth};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use remuda_algorithms::Decision;
use remuda_algorithms::units::{Bytes, Rate};
use remuda_scenarios::Nanos;
use remuda_sim::Simulation;
use std::sync::Arc;
use std::time::Duration;

/// The window leaves room for the queue that a rate causes, so that only the rate limits the flow.
const CWND_GAIN: f64 = 2.0;
/// RFC 6928's initial window. A rate that needs a smaller window is sent in one burst.
const CWND_PKTS_MIN: f64 = 10.0;
/// The highest rate, as a multiple of the highest delivery rate so far, as in slow start. Higher
/// rates would only lose packets, which cost time to simulate.
const RATE_GAIN_MAX: f64 = 2.0;
/// The same for a window: twice the path and the deepest queue that is drawn.
const WINDOW_GAIN_MAX: f64 = 10.0;
/// RFC 5681 section 3.1: with fewer segments every acknowledgement is delayed.
const PKTS_MIN: f64 = 2.0;
/// Queueing above this, in base round trips, costs no more reward.
const DELAY_MAX: f64 = 10.0;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub reward: f64,
    /// The flow has delivered all its data.
    pub terminated: bool,
    /// The episode has reached its longest duration.
    pub truncated: bool,
}

impl Step {
    /// Whether the episode is over.
    pub fn is_over(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// The names of [`Metrics`], with units.
pub const METRICS: [&str; 8] = [
    "time_s",
    "throughput_mbit_per_sec",
    "rtt_ms",
    "loss_rate",
    "rate_mbit_per_sec",
    "cwnd_pkts",
    "bandwidth_mbit_per_sec",
    "base_rtt_ms",
];

/// Figures of the last step, in the order of [`METRICS`]. The throughput is that of payload. A
/// round trip is 0 until one has been measured, and a rate is 0 without pacing.
pub type Metrics = [f64; METRICS.len()];

struct Episode {
    simulation: Simulation,
    /// The rate in bytes per second, or the window in bytes, that actions change.
    in_force: f64,
    decision: Decision,
    steps: u32,
    /// The payload that has arrived.
    delivered: Bytes,
    seen: Seen,
    is_over: bool,
}

/// One flow that an outside program drives.
///
/// In a step, the action changes the rate or window, the simulation runs for the length of a step,
/// and the measurements become an observation. An action `a` from -1 to 1 multiplies the rate (or
/// window) by `1 + scale * a` if it is positive, and by `1 / (1 - scale * a)` if not: an action and
/// its negative cancel out. The minimum is two segments in a round trip. The maximum is twice the
/// highest delivery rate so far, or a window of ten bandwidth-delay products.
///
/// The reward of a step is
///
/// `throughput * share - delay * min(10, (rtt - base_rtt) / base_rtt) - loss * loss_rate`
///
/// with the weights of [`crate::Weights`], where `share` is the delivered bytes over what the
/// bottleneck could send, and `rtt` is the mean round trip. Unlike an observation, the reward uses
/// the true path.
///
/// Memory: that of the simulation, and `history` times 32 bytes.
pub struct Env {
    config: Arc<Config>,
    course: Course,
    rng: ChaCha8Rng,
    /// The random state from which the episode was drawn.
    drawn_from: ChaCha8Rng,
    /// The actions of the episode so far.
    actions: Vec<f32>,
    observer: Observer,
    episode: Option<Episode>,
    /// The packets of previous episodes.
    packets_before: u64,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("course", &self.course).finish_non_exhaustive()
    }
}

impl Env {
    /// An environment whose episodes are drawn from seed 0, until [`Self::reset`] gets another
    /// seed.
    pub fn new(config: Config) -> Result<Self, Error> {
        Self::sharing(Arc::new(config))
    }

    pub(crate) fn sharing(config: Arc<Config>) -> Result<Self, Error> {
        config.validate()?;
        let course = Course::new(&config)?;
        let observer = Observer::new(config.history);
        // Reports what the engine refuses now, instead of at the first step.
        Simulation::new(&course.scenario)?;
        let rng = ChaCha8Rng::seed_from_u64(0);
        let (drawn_from, actions) = (rng.clone(), Vec::new());
        let (episode, packets_before) = (None, 0);
        Ok(Self { config, course, rng, drawn_from, actions, observer, episode, packets_before })
    }

    /// How many numbers an observation has.
    pub fn observation_len(&self) -> usize {
        self.observer.observation().len()
    }

    /// Starts an episode, drawn from `seed`, or from the random state after the last episode.
    pub fn reset(&mut self, seed: Option<u64>, observation: &mut [f32]) -> Result<(), Error> {
        hold_length("observation", observation.len(), self.observation_len())?;
        if let Some(seed) = seed {
            self.rng = ChaCha8Rng::seed_from_u64(seed);
        }
        self.drawn_from.clone_from(&self.rng);
        self.actions.clear();
        self.course.draw(&self.config, &mut self.rng);
        self.observer.restart(self.course.mss_bytes);
        let mut episode = Episode {
            simulation: Simulation::new(&self.course.scenario)?,
            in_force: match self.config.control {
                Control::Rate => self.course.start_bytes_per_sec,
                Control::Window => self.course.start_bytes_per_sec * self.course.base_rtt_s(),
            },
            decision: Decision { cwnd: Bytes(0), rate: None },
            steps: 0,
            delivered: Bytes(0),
            seen: Seen::default(),
            is_over: false,
        };
        episode.decide(&self.course, self.config.control);
        episode.simulation.run_until(self.course.start);
        for _ in 0..self.course.warm_up_steps {
            episode.advance(&self.course, self.config.control, &mut self.observer);
        }
        self.packets_before = self.packets_sent();
        self.episode = Some(episode);
        observation.copy_from_slice(self.observer.observation());
        Ok(())
    }

    /// Executes one step. An action outside of -1 to 1 counts as the nearest of these.
    pub fn step(&mut self, action: f32, observation: &mut [f32]) -> Result<Step, Error> {
        hold_length("observation", observation.len(), self.observation_len())?;
        if !action.is_finite() {
            return Err(Error::Action { action });
        }
        let (course, config, observer) = (&self.course, &*self.config, &mut self.observer);
        let episode = self.episode.as_mut().filter(|it| !it.is_over).ok_or(Error::Over)?;
        episode.in_force *= factor(f64::from(action).clamp(-1.0, 1.0), config.action_scale);
        episode.bound(course, config.control, observer);
        episode.decide(course, config.control);
        episode.advance(course, config.control, observer);
        episode.steps += 1;
        self.actions.push(action);
        let terminated = course.bytes.is_some_and(|bytes| episode.delivered >= Bytes(bytes));
        let is_long = config.episode_steps.is_some_and(|steps| episode.steps >= steps);
        let next = episode.simulation.now() + course.step;
        let truncated = !terminated && (is_long || next > course.end);
        episode.is_over = terminated || truncated;
        observation.copy_from_slice(observer.observation());
        let reward = reward(&episode.seen, &course.truth, config);
        Ok(Step { reward, terminated, truncated })
    }

    /// The last observation again.
    pub fn observation(&self) -> &[f32] {
        self.observer.observation()
    }

    /// The true properties of this episode's path.
    pub fn truth(&self) -> &Truth {
        &self.course.truth
    }

    /// The figures of the last step.
    pub fn metrics(&self) -> Metrics {
        let Some(episode) = &self.episode else { return [0.0; METRICS.len()] };
        let mbit = |bytes_per_sec: f64| bytes_per_sec * 8.0 / 1e6;
        let rate = episode.decision.rate.unwrap_or_default();
        [
            episode.simulation.now().as_millis_f64() / 1e3,
            mbit(episode.seen.bytes_per_sec),
            episode.seen.rtt_s.unwrap_or(0.0) * 1e3,
            episode.seen.loss_rate,
            mbit(rate.bytes_per_sec() as f64),
            episode.decision.cwnd.0 as f64 / f64::from(self.course.mss_bytes),
            self.course.truth.bandwidth_mbit_per_sec,
            self.course.truth.base_rtt.as_millis_f64(),
        ]
    }

    /// The random state from which the episode was drawn, the packets of those before it, and its
    /// actions so far; without an episode, the random state of the first, and no actions.
    pub(crate) fn course_so_far(&self) -> (ChaCha8Rng, u64, Option<Vec<f32>>) {
        match &self.episode {
            Some(_) => (self.drawn_from.clone(), self.packets_before, Some(self.actions.clone())),
            None => (self.rng.clone(), self.packets_before, None),
        }
    }

    /// Ends the episode; the next is drawn from this random state.
    pub(crate) fn start_over(&mut self, rng: ChaCha8Rng, packets_before: u64) {
        (self.rng, self.packets_before, self.episode) = (rng, packets_before, None);
    }

    /// Data packets that all flows of all episodes have sent.
    pub fn packets_sent(&self) -> u64 {
        let running = self.episode.as_ref().map_or(0, |it| it.simulation.packets_sent());
        self.packets_before + running
    }
}

/// The factor by which an action multiplies.
fn factor(action: f64, scale: f64) -> f64 {
    if action >= 0.0 { 1.0 + scale * action } else { 1.0 / (1.0 - scale * action) }
}

fn reward(seen: &Seen, truth: &Truth, config: &Config) -> f64 {
    let base_rtt_s = seconds(truth.base_rtt);
    let share = seen.bytes_per_sec / truth.payload_bytes_per_sec;
    let waited_s = seen.rtt_s.map_or(0.0, |rtt_s| (rtt_s - base_rtt_s).max(0.0));
    let delay = if base_rtt_s > 0.0 { (waited_s / base_rtt_s).min(DELAY_MAX) } else { 0.0 };
    let weights = &config.weights;
    weights.throughput * share - weights.delay * delay - weights.loss * seen.loss_rate
}

fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

impl Episode {
    /// Limits the rate or window to what the path can carry, as far as that is known.
    fn bound(&mut self, course: &Course, control: Control, observer: &Observer) {
        let mss_bytes = f64::from(course.mss_bytes);
        let rtt_s = observer.rtt_min_s().unwrap_or(course.base_rtt_s());
        let (low, high) = match control {
            Control::Rate => {
                let low = PKTS_MIN * mss_bytes / rtt_s.max(1e-6);
                (low, observer.delivery_max().map(|rate| rate * RATE_GAIN_MAX))
            }
            Control::Window => {
                let low = PKTS_MIN * mss_bytes;
                (low, observer.bdp_bytes().map(|bdp| bdp * WINDOW_GAIN_MAX))
            }
        };
        // Before the first delivery no upper limit is known.
        let high = high.unwrap_or(f64::INFINITY).max(CWND_PKTS_MIN * low);
        self.in_force = self.in_force.clamp(low, high);
    }

    /// Applies the current rate or window to the flow.
    fn decide(&mut self, course: &Course, control: Control) {
        self.decision = match control {
            Control::Rate => {
                let srtt = self.simulation.srtt(course.flow);
                let rtt_s = srtt.map_or(course.base_rtt_s(), seconds);
                let least = CWND_PKTS_MIN * f64::from(course.mss_bytes);
                let cwnd = (CWND_GAIN * self.in_force * rtt_s).max(least);
                let rate = Some(Rate::from_bytes_per_sec(self.in_force as u64));
                Decision { cwnd: Bytes(cwnd as u64), rate }
            }
            Control::Window => Decision { cwnd: Bytes(self.in_force as u64), rate: None },
        };
        self.simulation.decide(course.flow, self.decision);
    }

    /// Simulates one step, and observes it.
    fn advance(&mut self, course: &Course, control: Control, observer: &mut Observer) {
        self.simulation.run_until(self.simulation.now() + course.step);
        let m = self.simulation.take_measurement(course.flow);
        let before = self.delivered;
        self.delivered = self.simulation.delivered(course.flow);
        let (span, arrived) = (Duration::from(course.step), self.delivered - before);
        let in_force = self.in_force;
        self.seen = observer.take(&m, arrived, span, |observer| {
            let carries = match control {
                Control::Rate => observer.delivery_max(),
                Control::Window => observer.bdp_bytes(),
            };
            carries.filter(|it| *it > 0.0).map(|carries| in_force / carries)
        });
    }
}

#[cfg(test)]
mod tests;
