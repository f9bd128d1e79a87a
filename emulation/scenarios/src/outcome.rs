//! The result of running a scenario: plain numbers, the same from every engine.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The engine that ran a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    #[default]
    Sim,
    /// Real TCP between network namespaces.
    Live,
}

impl Engine {
    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Live => "live",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Self::Sim, Self::Live].into_iter().find(|engine| engine.name() == name)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The result of running a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub scenario: String,
    pub engine: Engine,
    pub seed: u64,
    /// The scenario's `duration_s`.
    pub duration_s: f64,
    /// In the order of [`crate::Scenario::flows_expanded`].
    pub flows: Vec<FlowOutcome>,
    /// In the order of the links' names.
    pub links: Vec<LinkOutcome>,
    /// Ordered by time, then by flow; empty with `sample_ms = 0`.
    pub flow_samples: Vec<FlowSample>,
    /// Ordered by time, then by link; empty with `sample_ms = 0`.
    pub link_samples: Vec<LinkSample>,
    /// Data packets sent, including retransmissions.
    pub packets: u64,
}

/// The result of one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// The flow's index in the scenario, from 0.
    pub flow: u32,
    /// The flow's name, unique in the scenario.
    pub name: String,
    pub driver: String,
    /// The arm that drove the flow at its end.
    pub arm: String,
    pub start_s: f64,
    /// When all bytes were acknowledged; `None` if they were not, or the flow has no byte limit.
    pub end_s: Option<f64>,
    /// Payload that arrived; each byte counts once.
    pub delivered_bytes: u64,
    /// `delivered_bytes` over the flow's life: from its start to its end, its stop, or the
    /// scenario's end.
    pub goodput_mbit_per_sec: f64,
    /// Segments sent, including retransmissions.
    pub sent_pkts: u64,
    pub retransmitted_pkts: u64,
    /// Segments the sender declared lost.
    pub lost_pkts: u64,
    pub timeouts: u64,
    /// Segments that were acknowledged with a congestion mark.
    pub ecn_marked_pkts: u64,
    /// The shortest measured round trip.
    pub rtt_min_ms: Option<f64>,
    pub rtt_mean_ms: Option<f64>,
    /// Half of the round trips were no longer.
    pub rtt_p50_ms: Option<f64>,
    /// 95 % of the round trips were no longer.
    pub rtt_p95_ms: Option<f64>,
    /// 99 % of the round trips were no longer.
    pub rtt_p99_ms: Option<f64>,
    /// Mean one-way delay from sender to receiver over all segments that arrived, including
    /// retransmissions (RFC 7679). Only the simulator has it, because it has one clock for both
    /// ends.
    pub one_way_mean_ms: Option<f64>,
    /// Half of the segments took no longer.
    pub one_way_p50_ms: Option<f64>,
    /// 95 % of the segments took no longer.
    pub one_way_p95_ms: Option<f64>,
    /// 99 % of the segments took no longer.
    pub one_way_p99_ms: Option<f64>,
    /// Reports that the agent received from the flow's datapath.
    pub reports: u64,
    /// Changes of the flow's arm, in order.
    pub switches: Vec<Switch>,
    /// The first [`DECISIONS_MAX`] decisions of the flow's policy, in order; only the simulator
    /// records them.
    pub decisions: Vec<Decided>,
    pub decisions_left_out: u64,
}

/// The most decisions kept for a flow. Further ones are only counted.
pub const DECISIONS_MAX: usize = 1_000;

/// The effect of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// The arm stays, as the policy decided.
    #[default]
    Stayed,
    /// The arm changed, as the policy or an operator decided.
    Switched,
    /// The guard or the arm refused the change.
    Vetoed,
    /// The guard undid the last change.
    RolledBack,
}

impl Became {
    const ALL: [Self; 4] = [Self::Stayed, Self::Switched, Self::Vetoed, Self::RolledBack];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stayed => "stayed",
            Self::Switched => "switched",
            Self::Vetoed => "vetoed",
            Self::RolledBack => "rolled_back",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// A decision about a flow's arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    pub t_s: f64,
    pub became: Became,
    pub arm: String,
    /// The arm that was chosen.
    pub to: String,
    /// The reason in words; of a veto, that of the guard or of the arm.
    pub why: String,
    /// The inputs of the decision, by name. For an arm's name: the reward expected of that arm.
    pub features: BTreeMap<String, String>,
}

/// A change of a flow's arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Switch {
    pub t_s: f64,
    pub from: String,
    pub to: String,
    pub why: String,
}

/// The result of one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    pub name: String,
    /// Packets that came to the link.
    pub packets_in: u64,
    /// Packets that reached the link's other end.
    pub packets_out: u64,
    /// The bytes of these packets, from the IP header on.
    pub bytes_out: u64,
    /// Packets dropped, for any reason.
    pub dropped_pkts: u64,
    /// Packets that the link marked for congestion.
    pub marked_pkts: u64,
    /// Mean time from arrival at the queue to the end of transmission.
    pub queueing_mean_ms: f64,
    /// Half of the packets waited no longer.
    pub queueing_p50_ms: f64,
    /// 95 % of the packets waited no longer.
    pub queueing_p95_ms: f64,
    /// 99 % of the packets waited no longer.
    pub queueing_p99_ms: f64,
    pub queueing_max_ms: f64,
    /// The most packets that waited at once.
    pub queue_packets_max: u64,
}

/// The state of a flow at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSample {
    pub t_s: f64,
    pub flow: u32,
    /// The arm that drives the flow.
    pub arm: Arc<str>,
    pub cwnd_pkts: f64,
    /// The pacing rate; `None` if the flow is not paced.
    pub pacing_mbit_per_sec: Option<f64>,
    /// The smoothed RTT; `None` before the first sample.
    pub srtt_ms: Option<f64>,
    pub in_flight_pkts: u32,
    /// Payload that has arrived since the start.
    pub delivered_bytes: u64,
    /// Segments retransmitted since the start.
    pub retransmitted_pkts: u64,
}

impl Default for FlowSample {
    fn default() -> Self {
        Self {
            t_s: 0.0,
            flow: 0,
            arm: Arc::from(""),
            cwnd_pkts: 0.0,
            pacing_mbit_per_sec: None,
            srtt_ms: None,
            in_flight_pkts: 0,
            delivered_bytes: 0,
            retransmitted_pkts: 0,
        }
    }
}

/// The state of a link at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSample {
    pub t_s: f64,
    /// The link's index in [`Outcome::links`].
    pub link: u32,
    pub queue_packets: u64,
    pub queue_bytes: u64,
}

impl Outcome {
    /// The goodput of all flows together over the whole duration. It is not the sum of the flows'
    /// own goodputs, which are over the life of each flow.
    pub fn goodput_mbit_per_sec(&self) -> f64 {
        let bytes: u64 = self.flows.iter().map(|flow| flow.delivered_bytes).sum();
        if self.duration_s > 0.0 { bytes as f64 * 8.0 / 1e6 / self.duration_s } else { 0.0 }
    }

    /// Jain's index of the flows' goodputs (Jain, Chiu and Hawe, 1984): 1 if all are equal, 1/n if
    /// one flow has everything; `None` if nothing arrived.
    pub fn jain(&self) -> Option<f64> {
        let shares = || self.flows.iter().map(|flow| flow.goodput_mbit_per_sec);
        let (sum, squares) = (shares().sum::<f64>(), shares().map(|it| it * it).sum::<f64>());
        (squares > 0.0).then(|| sum * sum / (self.flows.len() as f64 * squares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharing(goodputs: &[f64]) -> Outcome {
        let flow = |it: &f64| FlowOutcome { goodput_mbit_per_sec: *it, ..FlowOutcome::default() };
        Outcome { flows: goodputs.iter().map(flow).collect(), ..Outcome::default() }
    }

    #[test]
    fn jain_is_one_when_even_and_one_nth_when_one_has_all() {
        assert_eq!(sharing(&[3.0, 3.0, 3.0]).jain(), Some(1.0));
        assert_eq!(sharing(&[5.0, 0.0, 0.0, 0.0]).jain(), Some(0.25));
        assert_eq!(sharing(&[0.0]).jain(), None);
        assert_eq!(sharing(&[]).jain(), None);
    }

    #[test]
    fn goodput_together_is_over_the_whole_duration() {
        let flow = |delivered_bytes| FlowOutcome { delivered_bytes, ..FlowOutcome::default() };
        let flows = vec![flow(1_000_000), flow(250_000)];
        let outcome = Outcome { duration_s: 5.0, flows, ..Outcome::default() };
        assert_eq!(outcome.goodput_mbit_per_sec(), 2.0);
        assert_eq!(Outcome::default().goodput_mbit_per_sec(), 0.0);
    }

    #[test]
    fn an_outcome_survives_json() {
        let mut outcome = sharing(&[1.0 / 3.0]);
        outcome.engine = Engine::Live;
        outcome.flow_samples = vec![FlowSample { arm: Arc::from("bbr"), ..FlowSample::default() }];
        let text = serde_json::to_string(&outcome).unwrap();
        assert!(text.contains("\"engine\":\"live\"") && text.contains("\"arm\":\"bbr\""), "{text}");
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        assert_eq!(Engine::named("live"), Some(Engine::Live));
        assert_eq!(Engine::named("Live"), None);
        for became in Became::ALL {
            assert_eq!(Became::named(became.name()), Some(became));
            assert_eq!(serde_json::to_value(became).unwrap(), became.name());
        }
    }
}
