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
use crate::path::{Course, Driven, Helm, Truth};
use crate::pilot::Pilot;
use crate::reward::{Shared, reward};
use crate::sharing::Sharing;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use remuda_algorithms::Decision;
use remuda_algorithms::learned::observation::Seen;
use remuda_algorithms::units::{Bytes, Rate};
use remuda_scenarios::Nanos;
use remuda_sim::Simulation;
use std::sync::Arc;
use std::time::Duration;

/// What an oracle keeps under way beyond what the link carries in a round trip: a packet that is
/// being sent, and one for a delayed ACK.
const ORACLE_PKTS: f64 = 3.0;

/// The result of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
pub const METRICS: [&str; 13] = [
    "time_s",
    "throughput_mbit_per_sec",
    "rtt_ms",
    "loss_rate",
    "rate_mbit_per_sec",
    "cwnd_pkts",
    "bandwidth_mbit_per_sec",
    "base_rtt_ms",
    "capacity_mbit_per_sec",
    "equal_share",
    "harm",
    "active",
    "starts",
];
/// How many of the last of these are flags: 1 or 0.
pub const FLAGS: usize = 2;

/// Figures of the last step, in the order of [`METRICS`]. The throughput is that of payload. A
/// round trip is 0 until one has been measured, and a rate is 0 without pacing.
pub type Metrics = [f64; METRICS.len()];

/// Where a driven flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    /// It sends at its first rate or window, for so many more steps.
    WarmingUp(u32),
    Running,
    Over,
}

/// One driven flow of an episode.
#[derive(Clone, Copy, Debug)]
struct Flow {
    phase: Phase,
    decision: Decision,
    /// The arm in charge, with a choice of arms.
    arm: usize,
    /// The payload that has arrived.
    delivered: Bytes,
    seen: Seen,
    shared: Shared,
    /// The last step counted for it.
    is_active: bool,
    /// Its present observation is the first of its episode.
    starts: bool,
}

struct Episode {
    simulation: Simulation,
    flows: Vec<Flow>,
    steps: u32,
    is_over: bool,
}

/// Flows that an outside program drives: one, or several on the same path.
///
/// In a step, each action changes a flow's rate or window, the simulation runs for the length of a
/// step, and the measurements become observations. An action `a` from -1 to 1 multiplies the rate
/// (or window) by `1 + scale * a` if it is positive, and by `1 / (1 - scale * a)` if not: an action
/// and its negative cancel out. The minimum is two segments in a round trip. The maximum is twice
/// the highest delivery rate so far, or a window of ten bandwidth-delay products. With
/// [`Control::Arm`] an action is the place of the arm that shall drive the flow.
///
/// The linear reward of a step is
///
/// `throughput * share - delay * min(10, (rtt - base_rtt) / base_rtt) - loss * loss_rate`
///
/// with the weights of [`crate::Weights`], where `share` is the delivered bytes over what the
/// bottleneck could send, and `rtt` is the mean round trip. Unlike an observation, the reward uses
/// the true path. The other reward is the logarithm of the merit of the step
/// (`remuda_algorithms::merit`): goodput over an equal share of what the link could carry in that
/// step, delay over `base_rtt`, loss, and what the neighbours lack of an equal share.
///
/// Memory: that of the simulation, and `history` times 32 bytes for each flow.
pub struct Env {
    config: Arc<Config>,
    helm: Helm,
    course: Course,
    rng: ChaCha8Rng,
    /// The random state from which the episode was drawn.
    drawn_from: ChaCha8Rng,
    /// The actions of the episode so far, one for each flow and step.
    actions: Vec<f32>,
    pilots: Vec<Pilot>,
    sharing: Sharing,
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
        Self::steered(config, Helm::Program)
    }

    /// As [`Self::new`], with somebody else at the helm.
    pub(crate) fn steered(config: Arc<Config>, helm: Helm) -> Result<Self, Error> {
        config.validate()?;
        let course = Course::new(&config, &helm)?;
        let pilots = vec![Pilot::new(&config); config.flows];
        // Reports what the engine refuses now, instead of at the first step.
        Simulation::new(&course.scenario)?;
        for arm in config.arms.iter().skip(1).chain([&config.companion]) {
            Course::new(&config, &Helm::Arm(arm.clone()))
                .and_then(|course| Ok(Simulation::new(&course.scenario)?))?;
        }
        let rng = ChaCha8Rng::seed_from_u64(0);
        Ok(Self {
            config,
            helm,
            course,
            drawn_from: rng.clone(),
            rng,
            actions: Vec::new(),
            pilots,
            sharing: Sharing::default(),
            episode: None,
            packets_before: 0,
        })
    }

    /// How many flows are driven: each has an observation, an action and a reward.
    pub fn flows(&self) -> usize {
        self.pilots.len()
    }

    /// How many numbers an observation of one flow has.
    pub fn observation_len(&self) -> usize {
        self.pilots[0].observation().len()
    }

    /// The settings, which environments of one vector share.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Starts an episode, drawn from `seed`, or from the random state after the last episode. The
    /// observations of the flows follow each other. Of a flow that has not started, or that this
    /// episode lacks, it is all 0.
    pub fn reset(&mut self, seed: Option<u64>, observations: &mut [f32]) -> Result<(), Error> {
        let len = self.observation_len() * self.flows();
        hold_length("observation", observations.len(), len)?;
        if let Some(seed) = seed {
            self.rng = ChaCha8Rng::seed_from_u64(seed);
        }
        self.packets_before = self.packets_sent();
        self.episode = None;
        self.drawn_from.clone_from(&self.rng);
        self.actions.clear();
        self.course.draw(&self.config, &self.helm, &mut self.rng)?;
        let mut episode = Episode::new(Simulation::new(&self.course.scenario)?, self.flows());
        self.sharing.restart(self.course.parties.len());
        for pilot in &mut self.pilots {
            pilot.start(1, 1.0, 0.0);
        }
        for (index, driven) in self.course.driven.iter().enumerate() {
            self.pilots[index].start(
                driven.mss_bytes,
                driven.base_rtt_s(),
                driven.start_bytes_per_sec,
            );
            episode.flows[index].phase = Phase::Waiting;
            if self.is_armed() {
                episode.simulation.watch(driven.place);
            } else {
                episode.decide(index, driven, &self.pilots[index]);
            }
        }
        episode.simulation.run_until(self.course.start);
        self.episode = Some(episode);
        for _ in 0..self.course.warm_up_steps {
            self.steer();
            self.advance();
        }
        self.copy_to(observations);
        Ok(())
    }

    /// Whether an arm drives the flows.
    fn is_armed(&self) -> bool {
        match self.helm {
            Helm::Program => self.config.control == Control::Arm,
            Helm::Arm(_) => true,
            Helm::Oracle => false,
        }
    }

    fn copy_to(&self, observations: &mut [f32]) {
        let rows = observations.chunks_exact_mut(self.observation_len());
        for (row, pilot) in rows.zip(&self.pilots) {
            row.copy_from_slice(pilot.observation());
        }
    }

    /// Checks an action, without executing it.
    pub(crate) fn check(&self, action: f32) -> Result<(), Error> {
        if !action.is_finite() {
            return Err(Error::Action { action });
        }
        if self.config.control == Control::Arm {
            let last = self.config.arms.len() - 1;
            let fits = action.fract() == 0.0 && (0.0..=last as f32).contains(&action);
            return if fits { Ok(()) } else { Err(Error::Choice { action, last }) };
        }
        Ok(())
    }

    /// Executes one step of an environment with one flow. An action outside of -1 to 1 counts as
    /// the nearest of these.
    pub fn step(&mut self, action: f32, observation: &mut [f32]) -> Result<Step, Error> {
        let mut step = [Step::default()];
        self.step_all(&[action], observation, &mut step)?;
        Ok(step[0])
    }

    /// Executes one step, with an action for each flow. The action of a flow that does not run is
    /// ignored. On an error nothing has changed.
    pub fn step_all(
        &mut self,
        actions: &[f32],
        observations: &mut [f32],
        steps: &mut [Step],
    ) -> Result<(), Error> {
        let flows = self.flows();
        hold_length("observation", observations.len(), self.observation_len() * flows)?;
        hold_length("actions", actions.len(), flows)?;
        hold_length("steps", steps.len(), flows)?;
        actions.iter().try_for_each(|action| self.check(*action))?;
        self.episode.as_ref().filter(|it| !it.is_over).ok_or(Error::Over)?;
        self.act(actions);
        self.steer();
        self.advance();
        self.actions.extend_from_slice(actions);
        self.judge(steps);
        self.copy_to(observations);
        Ok(())
    }

    /// Lets the program's actions take effect.
    fn act(&mut self, actions: &[f32]) {
        let Some(episode) = &mut self.episode else { return };
        if self.helm != Helm::Program {
            return;
        }
        for (index, driven) in self.course.driven.iter().enumerate() {
            if episode.flows[index].phase != Phase::Running {
                continue;
            }
            if self.config.control == Control::Arm {
                let arm = actions[index] as usize;
                if std::mem::replace(&mut episode.flows[index].arm, arm) != arm {
                    episode.simulation.order(driven.place, &self.config.arms[arm]);
                }
                continue;
            }
            self.pilots[index].act(f64::from(actions[index]));
            episode.decide(index, driven, &self.pilots[index]);
        }
    }

    /// Lets the oracle set its rates: those at which the link will carry the packets, and a window
    /// of what it will carry in a round trip.
    fn steer(&mut self) {
        let (Helm::Oracle, Some(episode)) = (&self.helm, &mut self.episode) else { return };
        let course = &self.course;
        let now = episode.simulation.now();
        let lag = course.lag();
        let running = course.parties.iter().filter(|it| it.is_greedy);
        let count = running.filter(|it| it.start <= now && now < it.end).count().max(1) as f64;
        for (index, driven) in course.driven.iter().enumerate() {
            // What is sent at `now` is acknowledged `lag` later.
            let carried = |span: Nanos| course.payload_between(now + lag, now + lag + span) / count;
            let mss_bytes = f64::from(driven.mss_bytes);
            let span_s = course.step.0 as f64 / 1e9;
            let rate = carried(course.step) / span_s;
            let cwnd = carried(driven.truth.base_rtt) + ORACLE_PKTS * mss_bytes;
            let least = mss_bytes / span_s;
            let decision = Decision {
                cwnd: Bytes(cwnd as u64),
                rate: Some(Rate::from_bytes_per_sec(rate.max(least) as u64)),
            };
            episode.flows[index].decision = decision;
            episode.simulation.decide(driven.place, decision);
        }
    }

    /// Simulates one step, and observes it.
    fn advance(&mut self) {
        let is_armed = self.is_armed();
        let Some(episode) = &mut self.episode else { return };
        let course = &self.course;
        let from = episode.simulation.now();
        episode.simulation.run_until(from + course.step);
        self.sharing.take(&episode.simulation, course, from);
        for (index, driven) in course.driven.iter().enumerate() {
            let flow = &mut episode.flows[index];
            (flow.is_active, flow.starts) = (false, false);
            if flow.phase == Phase::Over || driven.start >= from + course.step {
                continue;
            }
            if flow.phase == Phase::Waiting {
                flow.phase = Phase::WarmingUp(course.warm_up_steps);
            }
            let simulation = &mut episode.simulation;
            let m = simulation.take_measurement(driven.place);
            let before = flow.delivered;
            flow.delivered = simulation.delivered(driven.place);
            let (span, arrived) = (Duration::from(course.step), flow.delivered - before);
            if is_armed {
                let cwnd = simulation.cwnd(driven.place);
                flow.decision = Decision { cwnd, rate: None };
                let srtt_s = simulation.srtt(driven.place).map(|it| it.0 as f64 / 1e9);
                self.pilots[index].note_window(cwnd, srtt_s);
            }
            flow.seen = self.pilots[index].observe(&m, arrived, span);
            let due = self.sharing.due_bytes;
            flow.shared = Shared {
                of_equal: (due > 0.0).then(|| arrived.0 as f64 / due),
                harm: self.sharing.harm(driven.place, course),
            };
            flow.advance_phase();
        }
    }

    /// The rewards of the step, and who has come to an end.
    fn judge(&mut self, steps: &mut [Step]) {
        steps.fill(Step::default());
        let Some(episode) = &mut self.episode else { return };
        episode.steps += 1;
        let is_long = self.config.episode_steps.is_some_and(|steps| episode.steps >= steps);
        let next = episode.simulation.now() + self.course.step;
        let is_last = is_long || next > self.course.end;
        for (index, driven) in self.course.driven.iter().enumerate() {
            let flow = &mut episode.flows[index];
            if !flow.is_active {
                continue;
            }
            let step = &mut steps[index];
            step.reward = reward(&flow.seen, &flow.shared, &driven.truth, &self.config);
            step.terminated = driven.bytes.is_some_and(|bytes| flow.delivered >= Bytes(bytes));
            step.truncated = !step.terminated && (is_last || next > driven.end);
            if step.is_over() {
                flow.phase = Phase::Over;
            }
        }
        let all_over = episode.flows.iter().all(|flow| flow.phase == Phase::Over);
        episode.is_over = is_last || all_over;
    }

    /// Whether the episode of all flows is over: the next step needs a reset.
    pub fn is_over(&self) -> bool {
        self.episode.as_ref().is_none_or(|it| it.is_over)
    }

    /// The last observation of a flow again.
    pub fn observation_of(&self, flow: usize) -> &[f32] {
        self.pilots[flow].observation()
    }

    /// The last observation of the first flow again.
    pub fn observation(&self) -> &[f32] {
        self.observation_of(0)
    }

    /// The true properties of this episode's path, for its first driven flow.
    pub fn truth(&self) -> &Truth {
        &self.course.driven[0].truth
    }

    /// The figures of the last step of the first flow.
    pub fn metrics(&self) -> Metrics {
        self.metrics_of(0)
    }

    /// The figures of the last step of a flow; all 0 if this episode lacks it.
    pub fn metrics_of(&self, index: usize) -> Metrics {
        let (Some(episode), Some(driven)) = (&self.episode, self.course.driven.get(index)) else {
            return [0.0; METRICS.len()];
        };
        let flow = &episode.flows[index];
        let mbit = |bytes_per_sec: f64| bytes_per_sec * 8.0 / 1e6;
        let rate = flow.decision.rate.unwrap_or_default();
        let whole = driven.truth.bandwidth_mbit_per_sec / driven.truth.payload_bytes_per_sec;
        let step_s = self.course.step.0 as f64 / 1e9;
        [
            episode.simulation.now().as_millis_f64() / 1e3,
            mbit(flow.seen.bytes_per_sec),
            flow.seen.rtt_s.unwrap_or(0.0) * 1e3,
            flow.seen.loss_rate,
            mbit(rate.bytes_per_sec() as f64),
            flow.decision.cwnd.0 as f64 / f64::from(driven.mss_bytes),
            driven.truth.bandwidth_mbit_per_sec,
            driven.truth.base_rtt.as_millis_f64(),
            self.sharing.capacity_bytes / step_s * whole,
            flow.shared.of_equal.unwrap_or(0.0),
            flow.shared.harm,
            f64::from(u8::from(flow.is_active)),
            f64::from(u8::from(flow.starts)),
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

impl Flow {
    const ABSENT: Self = Self {
        phase: Phase::Over,
        decision: Decision { cwnd: Bytes(0), rate: None },
        arm: 0,
        delivered: Bytes(0),
        seen: Seen { bytes_per_sec: 0.0, rtt_s: None, loss_rate: 0.0 },
        shared: Shared { of_equal: None, harm: 0.0 },
        is_active: false,
        starts: false,
    };

    /// One more step of this flow was observed.
    fn advance_phase(&mut self) {
        match self.phase {
            Phase::WarmingUp(0 | 1) => {
                self.phase = Phase::Running;
                self.starts = true;
            }
            Phase::WarmingUp(steps) => self.phase = Phase::WarmingUp(steps - 1),
            Phase::Running => self.is_active = true,
            Phase::Waiting | Phase::Over => {}
        }
    }
}

impl Episode {
    fn new(simulation: Simulation, flows: usize) -> Self {
        Self { simulation, flows: vec![Flow::ABSENT; flows], steps: 0, is_over: false }
    }

    /// Applies the current rate or window to a flow.
    fn decide(&mut self, index: usize, driven: &Driven, pilot: &Pilot) {
        let srtt_s = self.simulation.srtt(driven.place).map(|it| it.0 as f64 / 1e9);
        let decision = pilot.decision(srtt_s);
        self.flows[index].decision = decision;
        self.simulation.decide(driven.place, decision);
    }
}

#[cfg(test)]
mod tests;
