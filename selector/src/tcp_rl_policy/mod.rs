//! TCP-RL's policy for long flows: a recurrent actor picks the arm, and a network notices when the
//! path changes.
//!
//! X. Nie et al., "Dynamic TCP Initial Windows and Congestion Control Schemes through Reinforcement
//! Learning", IEEE JSAC 37(6), 2019, section V. A step is some 5 s. At its end the actor reads the
//! states of the step (throughput, round trip, loss) and picks the arm of the next one, until it
//! picks the arm that the flow has: that arm then keeps the flow. From then on each step is
//! compared with the one before ([`change`]). Two comparisons in a row that say that the path has
//! changed clear the memory of the actor, and it picks again.
//!
//! ```text
//! choosing ── the actor picks the arm in charge, or for the last time ──▶ settled
//!    ▲                                                                      │
//!    └──────────────── two findings in a row: the path has changed ─────────┘
//! ```
//!
//! `remuda train tcp_rl` trains both networks (`python/remuda/training/tcp_rl.py`) by A2C, which is
//! A3C with synchronous updates. The reward of a step is ln(bit/s over the 95th percentile of the
//! one-way delay in ms): the paper's table of rewards fits no other units.
//!
//! Differs from the paper:
//!   - the actor also reads which arm made the states, the logarithms of throughput, round trip and
//!     least round trip, and how much throughput and delay count for the application: one network
//!     serves all preferences. Logarithms, as 1 and 5 Mbit/s are 0.01 and 0.05 in the paper's unit;
//!   - a flow starts with the arm that is remembered of its destination, or with `first`; the paper
//!     draws the first arm (`first = "random"`);
//!   - after a change the actor picks by the states of the changed path. The paper draws any arm,
//!     and lets the actor pick after that (`on_change = "uniform"`);
//!   - the memory of the recurrent layer is cleared at a change and at a new preference; the paper
//!     does not say when;
//!   - the second finding of a change compares with the same earlier step as the first;
//!   - a flow's first step lasts half a second and at least 5 round trips, because the flow carries
//!     data while it looks for an arm. The actor may pick another arm after it; if it keeps the
//!     first one, it decides again after a whole step;
//!   - later steps are at least 20 round trips long; a step begins two round trips after a switch
//!     ([`crate::turn`]); a step in which the application had too little to send decides nothing;
//!   - where a state is outside the range of the training, the flow keeps its arm;
//!   - the arms are ten of this project; the paper has fourteen of Pantheon.

mod change;
mod config;
mod networks;
mod state;

pub use config::{DetectorKind, OnChange, RANDOM, TcpRlConfig};
pub use networks::{Networks, Unfit};

use crate::arm_runner::ArmRunner;
use crate::draw::Draws;
use crate::policy::{Policy, PolicyInfo};
use crate::sampling::Sampling;
use crate::turn::{DWELL_RTTS_MIN, SPAN_RTTS_MIN, Turn};
use change::{Detector, Finding};
use remuda_algorithms::network::State as Memory;
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{
    Measurement, PathState, Preference, Proposal, Reason, Sample, Slot, Validity, Verdict, Why,
};
use state::State;
use std::sync::Arc;
use std::time::Duration;

/// Its line in [`crate::POLICIES`].
pub const POLICY: PolicyInfo = PolicyInfo {
    name: "tcp_rl",
    summary: "a recurrent network picks the arm, and picks again where the path changes (TCP-RL)",
    build: |config, loaded| {
        let policy = TcpRl::new(config.tcp_rl.clone(), loaded.slot(NETWORKS));
        Box::new(ArmRunner::new(policy, loaded))
    },
};

/// The name of the networks in force among what is loaded. If none are loaded, flows use those that
/// come with the program.
pub const NETWORKS: &str = "tcp_rl";

/// A switch that the guard or the moment has not let pass is proposed again after this, until the
/// next decision.
const RETRY: Duration = Duration::from_secs(2);

/// The first step is over after so many round trips: it shows where the first arm begins, which is
/// enough to see that the arm has no chance.
const FIRST_RTTS_MIN: u32 = 5;

/// Whether a flow looks for an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// After so many switches.
    Choosing(u32),
    Settled,
}

/// TCP-RL, for one flow.
pub struct TcpRl {
    config: TcpRlConfig,
    /// A flow keeps the networks that it began with: its memory belongs to them.
    networks: Arc<Networks>,
    slot: Option<Slot<Networks>>,
    wants: Preference,
    phase: Phase,
    /// Whether the flow has had no decision yet.
    is_first: bool,
    turn: Turn,
    sampling: Sampling,
    sample: Option<Sample>,
    draws: Draws,
    memory: Memory,
    detector: Detector,
    /// The actor's probabilities at its last choice, in the order of the networks' arms.
    probabilities: Vec<f32>,
    inputs: Vec<f32>,
    proposal: Option<Proposal>,
    /// A switch that has not happened yet, and when it is proposed again.
    waiting: Option<(Proposal, Time)>,
}

impl TcpRl {
    /// One that has no flow yet.
    pub fn new(config: TcpRlConfig, slot: Option<Slot<Networks>>) -> Self {
        let networks = slot.as_ref().map_or_else(Networks::shipped, Slot::get);
        Self {
            wants: Preference::DEFAULT,
            phase: Phase::Choosing(0),
            is_first: true,
            turn: Turn::begin(networks.arms()[0], Time::ZERO),
            sampling: Sampling::default(),
            sample: None,
            draws: Draws::of(&PathState::new(Bytes(0), Bytes(0)), Time::ZERO),
            memory: Memory::new(&networks.actor),
            detector: Detector::new(&config),
            probabilities: Vec::new(),
            inputs: Vec::with_capacity(networks.actor.inputs_len()),
            proposal: None,
            waiting: None,
            networks,
            slot,
            config,
        }
    }

    /// The least length of the present step, and its least number of round trips.
    fn step(&self) -> (Duration, u32) {
        let TcpRlConfig { step_ms, first_step_ms, .. } = self.config;
        let (ms, rtts) = match self.is_first {
            true => (first_step_ms.min(step_ms), FIRST_RTTS_MIN),
            false => (step_ms, DWELL_RTTS_MIN),
        };
        (Duration::from_millis(ms), rtts)
    }

    fn may_pick(&self, arm: &str) -> bool {
        let allowed = &self.config.arms;
        let is_known = self.networks.place(arm).is_some();
        is_known && (allowed.is_empty() || allowed.iter().any(|it| it == arm))
    }

    /// The arms that may be picked, each with its probability; none before the first choice.
    fn choices(&self) -> impl Iterator<Item = (&'static str, f32)> {
        let known = self.networks.arms().iter().copied().zip(self.probabilities.iter().copied());
        known.filter(|(arm, _)| self.may_pick(arm))
    }

    /// Draws one of the allowed arms, all equally likely; `None` if no arm is allowed.
    fn drawn(&mut self) -> Option<&'static str> {
        let all: Vec<&'static str> =
            self.networks.arms().iter().copied().filter(|arm| self.may_pick(arm)).collect();
        let at = self.draws.below(all.len());
        all.get(at).copied()
    }

    /// The most likely arm; of equal ones, the first. `None` if none may be picked.
    fn likeliest(&self) -> Option<(&'static str, f32)> {
        self.choices().reduce(|best, it| if it.1 > best.1 { it } else { best })
    }

    /// An arm by the probabilities of those that may be picked.
    fn drawn_by_probability(&mut self) -> Option<(&'static str, f32)> {
        let all: f32 = self.choices().map(|(_, probability)| probability).sum();
        let mut left = self.draws.share() as f32 * all;
        let found = self.choices().find(|(_, probability)| {
            left -= probability;
            left < 0.0
        });
        found.or_else(|| self.likeliest())
    }

    /// Asks the actor. An error says why its answer means nothing.
    fn ask(&mut self, state: &State, arm: &str) -> Result<(), String> {
        self.inputs.clear();
        self.inputs.extend(state.inputs());
        self.inputs.extend([self.wants.throughput as f32, self.wants.delay as f32]);
        let drives = |it: &&'static str| f32::from(u8::from(**it == *arm));
        self.inputs.extend(self.networks.arms().iter().map(drives));
        self.probabilities.resize(self.networks.arms().len(), 0.0);
        let actor = &self.networks.actor;
        match actor.evaluate(&self.inputs, &mut self.memory, &mut self.probabilities) {
            Validity::Inside => Ok(()),
            Validity::NotFinite => Err("the network's output is no number".to_owned()),
            Validity::Outside(index) => {
                let (name, value) = (actor.input_name(index), self.inputs[index]);
                let (low, high) = actor.input_range(index);
                Err(format!("{name} is {value}, and was {low} to {high} in training"))
            }
        }
    }

    /// A step of the arm in charge is over.
    fn decide(&mut self, state: &State, arm: &'static str, now: Time) {
        self.waiting = None;
        let is_first = std::mem::take(&mut self.is_first);
        let place = self.networks.place(arm);
        let mut finding = None;
        let mut explores = false;
        if self.phase == Phase::Settled {
            let networks = Arc::clone(&self.networks);
            let found = place.map(|place| self.detector.step(state, place, &networks));
            finding = found;
            if !found.is_some_and(|it| it.is_change) {
                let text = format!("stays with {arm}: the path is as it was");
                return self.propose(arm, text, false, state, finding);
            }
            self.choose_anew();
            explores = self.config.on_change == OnChange::Uniform;
        }
        let Phase::Choosing(steps) = self.phase else { return };
        if let Err(reason) = self.ask(state, arm) {
            self.probabilities.clear();
            let text = format!("stays with {arm}: {reason}");
            return self.propose(arm, text, false, state, finding);
        }
        let likeliest =
            if self.config.draws { self.drawn_by_probability() } else { self.likeliest() };
        let picked = match explores {
            true => self.drawn().map(|drawn| (drawn, 0.0)),
            false => likeliest,
        };
        let (to, probability) = picked.unwrap_or((arm, 0.0));
        let is_last = steps + 1 >= self.config.trials_max;
        if to == arm && is_first && !is_last {
            self.phase = Phase::Choosing(steps + 1);
            let text = format!("keeps {arm} for a whole step: the actor picks it");
            return self.propose(arm, text, false, state, finding);
        }
        if to == arm || is_last {
            self.phase = Phase::Settled;
            self.detector.restart();
            // The next step is compared with this one.
            if let Some(place) = place.filter(|_| to == arm) {
                self.detector.step(state, place, &Arc::clone(&self.networks));
            }
        }
        let text = match (explores, self.phase) {
            (true, Phase::Settled) => {
                format!("settles with {to}, drawn from all: the path has changed")
            }
            (false, Phase::Settled) if to == arm => {
                format!("settles with {arm}: the actor picks it")
            }
            (false, Phase::Settled) => {
                format!("settles with {to}: the actor picks it in its last trial")
            }
            (true, _) => format!("the path has changed: tries {to}, drawn from all"),
            (false, _) => format!("the actor picks {to} with {probability:.2}"),
        };
        self.propose(to, text, explores, state, finding);
        let switch = self.proposal.clone().filter(|proposal| proposal.to != arm);
        self.waiting = switch.map(|proposal| (proposal, now + RETRY));
    }

    /// The actor forgets, and picks again.
    fn choose_anew(&mut self) {
        self.phase = Phase::Choosing(0);
        self.memory.reset();
        self.detector.restart();
    }

    fn propose(
        &mut self,
        to: &'static str,
        text: String,
        explores: bool,
        state: &State,
        finding: Option<Finding>,
    ) {
        let text = if self.config.dry_run { format!("would decide: {text}") } else { text };
        let why = Why { text, features: self.features(state, finding) };
        let to = if self.config.dry_run { self.turn.arm() } else { to };
        self.proposal = Some(Proposal { to, why, explores, is_watched: !explores });
    }

    /// What the decision was derived from: each arm's probability by its name, then the states.
    fn features(&self, state: &State, finding: Option<Finding>) -> Vec<Reason> {
        let scores = self.choices().map(|(arm, value)| (arm, format!("{value:.3}")));
        let State { throughput_bit_per_sec, rtt_s, rtt_min_s, loss } = state;
        let states = [
            ("throughput_bit_per_sec", throughput_bit_per_sec),
            ("rtt_s", rtt_s),
            ("rtt_min_s", rtt_min_s),
            ("loss", loss),
        ];
        let states = states.into_iter().map(|(name, value)| (name, value.to_string()));
        let changed = finding.map(|it| ("changed", format!("{:.3}", it.probability)));
        scores.chain(states).chain(changed).collect()
    }
}

impl Policy for TcpRl {
    fn begin(&mut self, path: &PathState, now: Time) -> &'static str {
        *self = Self::new(self.config.clone(), self.slot.clone());
        (self.wants, self.sampling) = (path.wants, Sampling::begin(now));
        self.draws = Draws::of(path, now);
        let remembered = path.remembered_arm.filter(|_| !self.config.dry_run);
        let remembered = remembered.filter(|arm| self.may_pick(arm));
        let first = remuda_algorithms::arm(&self.config.first).map(|arm| arm.name);
        let first = first.filter(|arm| self.config.arms.is_empty() || self.may_pick(arm));
        let arm = remembered.or(first).or_else(|| self.drawn());
        let arm = arm.unwrap_or(self.networks.arms()[0]);
        self.turn = Turn::begin(arm, now);
        arm
    }

    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time) {
        self.draws.stir(m, now);
        if let Some((proposal, again_at)) = self.waiting.as_mut().filter(|it| it.1 <= now) {
            *again_at = now + RETRY;
            self.proposal = Some(proposal.clone());
        }
        self.turn.add(m, now);
        self.sampling.add(m, arm, now);
        if let Some(sample) = self.sampling.sample() {
            if self.phase == Phase::Settled {
                self.detector.sample(&sample.seen);
            }
            self.sample = Some(sample);
        }
        let (dwell, rtts_min) = self.step();
        if !self.turn.has_lasted(dwell, rtts_min, now) {
            return;
        }
        let enough = if self.is_first { FIRST_RTTS_MIN } else { SPAN_RTTS_MIN };
        if let Some(outcome) = self.turn.outcome(enough) {
            self.decide(&State::of(&outcome), arm, now);
        }
        self.turn = self.turn.next(arm, now);
    }

    fn proposal(&mut self) -> Option<Proposal> {
        self.proposal.take()
    }

    fn taken(&mut self, arm: &'static str, now: Time) {
        self.sampling.switched(self.turn.arm(), now);
        self.turn = self.turn.next(arm, now);
        self.detector.restart();
        self.waiting = None;
        if let Phase::Choosing(switches) = &mut self.phase {
            *switches += 1;
        }
    }

    fn picks(&self, arm: &str) -> bool {
        self.may_pick(arm) || arm == self.config.first
    }

    fn prefer(&mut self, wants: Preference) {
        (self.wants, self.waiting) = (wants, None);
        self.choose_anew();
    }

    fn sample(&mut self) -> Option<Sample> {
        self.sample.take()
    }

    fn verdict(&self) -> Option<Verdict> {
        let arm = self.turn.arm();
        let of_arm =
            self.choices().find(|(it, _)| *it == arm).filter(|_| self.phase == Phase::Settled);
        let (arm, score) = of_arm.or_else(|| self.likeliest())?;
        Some(Verdict { arm, score: f64::from(score).clamp(0.0, 1.0) })
    }

    fn remembers(&self) -> bool {
        !self.config.dry_run
    }
}

#[cfg(test)]
mod tests;
