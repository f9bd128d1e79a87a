//! Epsilon-greedy: the arm that has cost least so far; now and then any.
//!
//! The rule of bpftune's `tcp_conn` tuner (Oracle, github.com/oracle/bpftune, docs and
//! `tcp_conn_tuner.h` of 2023), which keeps a table of arms for each remote host:
//!
//! ```text
//! cost of a connection = (its min RTT - least min RTT) / least min RTT
//!                      + (highest delivery rate - its rate) / highest delivery rate
//! cost of an arm      += 1/4 (cost of the connection - cost of the arm)
//! pick                 = the arm of the least cost; with 5 %, any
//! ```
//!
//! An arm not tried yet costs nothing, and is so tried; among equals one is drawn. Hosts with fewer
//! than four connections are left alone.
//!
//! Differs from bpftune:
//!   - it learns within a flow: a turn of 5 s ([`crate::turn`]) is what a connection is there. A
//!     flow begins with the arm that is remembered of its destination; otherwise the policy has no
//!     memory of other flows;
//!   - it picks after one turn, not after four, and an arm not tried yet costs 0.3, so that a flow
//!     stays with its first arm until another is drawn. Both were tuned on four development suites,
//!     where it misses 27.8 % of the best merit, and 34.3 % with four turns and a cost of 0;
//!   - the rate is the payload delivered over the turn's time, not the last sample of a filter,
//!     which is the bottleneck's rate whatever the arm does;
//!   - ten arms ([`crate::CANDIDATES`]) in place of CUBIC, BBR, H-TCP and DCTCP;
//!   - bpftune also sets BBR where a connection retransmits more than 1/2^DROP_SHIFT of its
//!     segments; here that is left to the cost;
//!   - an arm drawn with 5 % is exploration, of which the guard allows a share of the flow's life.
//!     One picked because it was not tried is not counted so, unless `budget_optimism` is set.

use crate::arm_runner::ArmRunner;
use crate::candidates::{CANDIDATES, first, place};
use crate::draw::Draws;
use crate::policy::{Policy, PolicyInfo};
use crate::turn::{DWELL_RTTS_MIN, Outcome, SPAN_RTTS_MIN, Turn};
use crate::{ConfigError, check, check_dwell};
use remuda_algorithms::Reason;
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{Measurement, PathState, Proposal, Verdict, Why};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Its line in [`crate::POLICIES`].
pub const POLICY: PolicyInfo = PolicyInfo {
    name: "epsilon_greedy",
    summary: "the arm that cost least so far, now and then any (as bpftune; a baseline)",
    build: |config, loaded| {
        Box::new(ArmRunner::new(EpsilonGreedy::new(config.epsilon_greedy.clone()), loaded))
    },
};

/// The settings. `epsilon` and `learning_rate` are bpftune's by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EpsilonGreedyConfig {
    /// How long a turn lasts, in milliseconds; 20 round trips at least.
    pub dwell_ms: u64,
    /// How many turns come before the first pick.
    pub turns_min: u32,
    /// How often any arm is drawn, as a share of the picks.
    pub epsilon: f64,
    /// The weight of a new turn in an arm's cost, as a share.
    pub learning_rate: f64,
    /// What an arm costs that was not tried yet.
    pub untried_cost: f64,
    /// An arm picked because it was not tried yet counts as exploration, as a drawn one does.
    pub budget_optimism: bool,
}

impl Default for EpsilonGreedyConfig {
    fn default() -> Self {
        Self {
            dwell_ms: 5_000,
            turns_min: 1,
            epsilon: 0.05,
            learning_rate: 0.25,
            untried_cost: 0.3,
            budget_optimism: false,
        }
    }
}

impl EpsilonGreedyConfig {
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_dwell("epsilon_greedy.dwell_ms", self.dwell_ms)?;
        let turns = self.turns_min;
        let rule = "must be 1 to 1000";
        check((1..=1_000).contains(&turns), "epsilon_greedy.turns_min", turns, rule)?;
        let (epsilon, rate) = (self.epsilon, self.learning_rate);
        let untried = self.untried_cost;
        let rule = "must be 0 to 100";
        check((0.0..=100.0).contains(&untried), "epsilon_greedy.untried_cost", untried, rule)?;
        let rule = "must be 0 to 1";
        check((0.0..=1.0).contains(&epsilon), "epsilon_greedy.epsilon", epsilon, rule)?;
        let holds = rate > 0.0 && rate <= 1.0;
        check(holds, "epsilon_greedy.learning_rate", rate, "must be above 0 and at most 1")
    }
}

/// What the arms have cost a flow.
#[derive(Clone, Debug, Default)]
struct Costs {
    of: [Option<f64>; CANDIDATES.len()],
    rtt_min_ms: Option<f64>,
    throughput_max: f64,
}

impl Costs {
    fn learn(&mut self, at: usize, outcome: &Outcome, learning_rate: f64) {
        let (rtt_ms, throughput) = (outcome.rtt_min_ms, outcome.seen.throughput_mbit_per_sec);
        let least = self.rtt_min_ms.map_or(rtt_ms, |least| least.min(rtt_ms));
        let most = self.throughput_max.max(throughput);
        (self.rtt_min_ms, self.throughput_max) = (Some(least), most);
        let beyond = if least > 0.0 { (rtt_ms - least) / least } else { 0.0 };
        let missed = if most > 0.0 { (most - throughput) / most } else { 0.0 };
        let cost = beyond + missed;
        let known = self.of[at].unwrap_or(cost);
        self.of[at] = Some(known + (cost - known) * learning_rate);
    }

    /// Those of the least cost.
    fn cheapest(&self, untried: f64) -> Vec<usize> {
        let cost = |at: &usize| self.of[*at].unwrap_or(untried);
        let all = 0..CANDIDATES.len();
        let least = all.clone().map(|at| cost(&at)).fold(f64::INFINITY, f64::min);
        all.filter(|at| cost(at) <= least).collect()
    }

    fn verdict(&self) -> Option<Verdict> {
        let known = CANDIDATES.iter().zip(self.of).filter_map(|(arm, cost)| Some((*arm, cost?)));
        let (arm, cost) = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Verdict { arm, score: 1.0 / (1.0 + cost) })
    }
}

/// Epsilon-greedy, for one flow.
pub struct EpsilonGreedy {
    config: EpsilonGreedyConfig,
    draws: Draws,
    costs: Costs,
    turn: Turn,
    turns: u32,
    /// The flow's destination is known.
    known: bool,
    proposal: Option<Proposal>,
}

impl EpsilonGreedy {
    /// One that has no flow yet.
    pub fn new(config: EpsilonGreedyConfig) -> Self {
        Self {
            config,
            draws: Draws::of(&PathState::new(Bytes(0), Bytes(0)), Time::ZERO),
            costs: Costs::default(),
            turn: Turn::begin(CANDIDATES[0], Time::ZERO),
            turns: 0,
            known: false,
            proposal: None,
        }
    }

    fn learn(&mut self) -> bool {
        let Some((at, outcome)) = place(self.turn.arm()).zip(self.turn.outcome(SPAN_RTTS_MIN))
        else {
            return false;
        };
        self.costs.learn(at, &outcome, self.config.learning_rate);
        self.turns = self.turns.saturating_add(1);
        true
    }

    fn pick(&mut self, current: &'static str) -> Proposal {
        let EpsilonGreedyConfig { turns_min, epsilon, untried_cost, budget_optimism, .. } =
            self.config;
        if !self.known && self.turns < turns_min {
            let text = format!("{} of {turns_min} turns; stays with {current}", self.turns);
            return self.proposal_to(current, text, false);
        }
        if self.draws.share() < epsilon {
            let to = CANDIDATES[self.draws.below(CANDIDATES.len())];
            return self.proposal_to(to, format!("drawn, to learn what {to} costs"), true);
        }
        let cheapest = self.costs.cheapest(untried_cost);
        let at = cheapest[self.draws.below(cheapest.len())];
        let to = CANDIDATES[at];
        match self.costs.of[at] {
            Some(cost) => self.proposal_to(to, format!("{to} costs least, {cost:.3}"), false),
            None => self.proposal_to(to, format!("{to} was not tried yet"), budget_optimism),
        }
    }

    fn proposal_to(&self, to: &'static str, text: String, explores: bool) -> Proposal {
        let value = |cost: Option<f64>| cost.map_or("untried".to_owned(), |it| format!("{it:.3}"));
        let costs = CANDIDATES.iter().zip(self.costs.of);
        let mut features: Vec<Reason> = costs.map(|(arm, cost)| (*arm, value(cost))).collect();
        features.push(("turns", self.turns.to_string()));
        Proposal { explores, ..Proposal::new(to, Why { text, features }) }
    }
}

impl Policy for EpsilonGreedy {
    fn begin(&mut self, path: &PathState, now: Time) -> &'static str {
        *self = Self::new(self.config.clone());
        self.draws = Draws::of(path, now);
        self.known = path.remembered_arm.is_some_and(|arm| place(arm).is_some());
        let first = first(path.remembered_arm);
        self.turn = Turn::begin(first, now);
        first
    }

    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time) {
        self.draws.stir(m, now);
        self.turn.add(m, now);
        if self.turn.has_lasted(Duration::from_millis(self.config.dwell_ms), DWELL_RTTS_MIN, now) {
            if self.learn() {
                self.proposal = Some(self.pick(arm));
            }
            self.turn = self.turn.next(arm, now);
        }
    }

    fn proposal(&mut self) -> Option<Proposal> {
        self.proposal.take()
    }

    fn taken(&mut self, arm: &'static str, now: Time) {
        self.learn();
        self.turn = self.turn.next(arm, now);
    }

    fn picks(&self, arm: &str) -> bool {
        place(arm).is_some()
    }

    fn verdict(&self) -> Option<Verdict> {
        self.costs.verdict()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{at, drive, holds, path, proposals, report, suits, whatever_is_reported};
    use proptest::prelude::*;
    use remuda_algorithms::Loaded;

    fn policy(config: EpsilonGreedyConfig) -> ArmRunner<EpsilonGreedy> {
        let mut policy = ArmRunner::new(EpsilonGreedy::new(config), &Loaded::default());
        policy.resume(&path(), Time::ZERO);
        policy
    }

    fn greedy() -> EpsilonGreedyConfig {
        let bpftunes = EpsilonGreedyConfig { turns_min: 4, untried_cost: 0.0, ..<_>::default() };
        EpsilonGreedyConfig { epsilon: 0.0, ..bpftunes }
    }

    /// Copa has the whole link at the least round trip, and all others less.
    fn copa_is_best(arm: &'static str, _ms: u64) -> Measurement {
        if arm == "copa" { report(12_500, 40) } else { report(6_250, 60) }
    }

    #[test]
    fn costs_are_as_bpftune_counts_them() {
        let outcome = |throughput_mbit_per_sec, rtt_min_ms| Outcome {
            seen: remuda_algorithms::Seen { throughput_mbit_per_sec, ..Default::default() },
            rtt_min_ms,
        };
        let mut costs = Costs::default();
        let rows = [
            // Arm, throughput, min RTT; the arm's cost then.
            (0, 10.0, 40.0, 0.0),
            (1, 5.0, 60.0, 0.5 + 0.5),
            (1, 10.0, 40.0, 0.75),
            (2, 20.0, 20.0, 0.0),
            (0, 10.0, 40.0, 0.25 * (1.0 + 0.5)),
        ];
        for (arm, throughput, rtt_ms, want) in rows {
            costs.learn(arm, &outcome(throughput, rtt_ms), 0.25);
            assert_eq!(costs.of[arm], Some(want), "{arm} {throughput} {rtt_ms}");
        }
        assert_eq!(costs.cheapest(0.0), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(costs.cheapest(0.1), [2]);
        assert_eq!(costs.verdict(), Some(Verdict { arm: CANDIDATES[2], score: 1.0 }));
    }

    #[test]
    fn each_arm_is_tried_after_four_turns_and_then_the_cheapest_stays() {
        let arms = drive(&mut policy(greedy()), 200, copa_is_best);
        assert!(CANDIDATES.iter().all(|name| arms.iter().any(|(_, arm)| arm == name)), "{arms:?}");
        assert!(arms[1].0 >= 20, "{arms:?}");
        // What was best so far costs nothing either, and is drawn among those not tried.
        let last = arms[arms.len() - 1];
        assert!(last.1 == "copa" && last.0 < 100, "{arms:?}");
    }

    #[test]
    fn the_first_arm_stays_unless_others_cost_less() {
        let arms = |untried_cost| {
            let config = EpsilonGreedyConfig { epsilon: 0.0, untried_cost, ..<_>::default() };
            drive(&mut policy(config), 60, |_, _| report(12_500, 40)).len()
        };
        assert_eq!([arms(0.3), arms(0.1)], [1, 1], "its cost is 0, beside itself alone");
        assert!(arms(0.0) > 1);
    }

    #[test]
    fn one_in_twenty_picks_is_drawn_and_explores() {
        let (mut all, mut drawn) = (0, 0);
        let mut policy = policy(EpsilonGreedyConfig::default());
        proposals(&mut policy, 20_000, copa_is_best, |_, proposal, _| {
            all += 1;
            drawn += u32::from(proposal.explores);
            assert_eq!(proposal.explores, proposal.why.text.starts_with("drawn"), "{proposal:?}");
        });
        assert_eq!(all, 3_999);
        assert!((150..250).contains(&drawn), "{drawn}");
    }

    #[test]
    fn where_a_destination_is_known_it_begins_with_what_suited_it_and_learns_at_once() {
        let mut policy = ArmRunner::new(EpsilonGreedy::new(greedy()), &Loaded::default());
        policy.resume(&suits("bbr"), Time::ZERO);
        assert_eq!(policy.arm(), "bbr");
        assert_eq!(drive(&mut policy, 12, copa_is_best)[1].0, 5);
    }

    #[test]
    fn what_the_guard_undoes_has_cost_something() {
        let mut policy = policy(EpsilonGreedyConfig { turns_min: 1, ..greedy() });
        assert_eq!(drive(&mut policy, 5, copa_is_best).len(), 1);
        policy.switch_to("vegas", &path(), at(5_000)).expect("it is a candidate");
        for ms in (5_010..=7_000).step_by(10) {
            policy.on_measurement(&report(100, 90), at(ms));
        }
        policy.switch_to("learned", &path(), at(7_000)).expect("it is a candidate");
        let costs = policy.policy().costs.of;
        assert!(costs[place("vegas").expect("it is one")] > Some(1.0), "{costs:?}");
        assert_eq!(policy.verdict().expect("learned").arm, "learned");
    }

    #[test]
    fn what_the_application_limits_is_not_learned_from() {
        let mut policy = policy(EpsilonGreedyConfig { turns_min: 1, ..greedy() });
        let limited = |_, _| Measurement { app_limited: true, ..report(1_000, 40) };
        proposals(&mut policy, 60, limited, |ms, proposal, _| panic!("{ms}: {proposal:?}"));
        assert_eq!(policy.verdict(), None);
    }

    #[test]
    fn untried_arms_count_as_exploration_if_the_operator_says_so() {
        let config = EpsilonGreedyConfig { budget_optimism: true, turns_min: 1, ..greedy() };
        let mut explored = Vec::new();
        proposals(&mut policy(config), 120, copa_is_best, |_, proposal, _| {
            explored.push(proposal.explores);
        });
        assert_eq!(explored.iter().filter(|explores| **explores).count(), 9, "{explored:?}");
    }

    #[test]
    fn a_bad_setting_is_named_with_its_value_and_the_rule() {
        let config = EpsilonGreedyConfig { epsilon: 1.5, ..greedy() };
        let error = config.validate().expect_err("above 1").to_string();
        assert_eq!(error, "epsilon_greedy.epsilon = 1.5: must be 0 to 1");
        for config in [
            EpsilonGreedyConfig { epsilon: f64::NAN, ..greedy() },
            EpsilonGreedyConfig { learning_rate: 0.0, ..greedy() },
            EpsilonGreedyConfig { turns_min: 0, ..greedy() },
            EpsilonGreedyConfig { untried_cost: -0.1, ..greedy() },
            EpsilonGreedyConfig { dwell_ms: u64::MAX, ..greedy() },
        ] {
            config.validate().expect_err("out of range");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_arm_is_a_candidate(reports in whatever_is_reported()) {
            let config = EpsilonGreedyConfig {
                dwell_ms: 100,
                turns_min: 1,
                ..EpsilonGreedyConfig::default()
            };
            holds(ArmRunner::new(EpsilonGreedy::new(config), &Loaded::default()), &reports)?;
        }
    }
}
