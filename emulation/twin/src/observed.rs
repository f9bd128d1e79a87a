//! Flows that have ended, as the event log has them, by destination.

use ccp_agent::flow::PathSeen;
use ccp_agent::rules::Group;
use remuda_selector::antelope::memory::Network;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Fewer bytes are slow start alone, which shows little of the path.
const BYTES_MIN: u64 = 60_000;
/// The same in round trips.
const ROUNDS_MIN: f64 = 6.0;
/// A flow that an end held back for a larger share of its life does not show the path.
const HELD_BY_ENDS_MAX: f64 = 0.3;

/// A flow that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    pub network: Network,
    /// The arm that had the flow last.
    pub arm: String,
    pub switches: u64,
    /// A rule gave it its driver.
    pub is_of_rule: bool,
    pub acked_bytes: u64,
    pub lost_pkts: u64,
    pub mss_bytes: u64,
    pub duration_s: f64,
    /// When it ended, in seconds since 1970.
    pub ended_s: f64,
    pub rtt_ms: Option<f64>,
    pub path: PathSeen,
}

/// Why a flow does not show its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// Its application, or a buffer of either end, held it back.
    HeldByEnds,
    /// It ended before it left slow start.
    Short,
    /// Its arm has changed.
    Switched,
    /// The event lacks what the path is known from: an agent of an earlier version wrote it.
    NotMeasured,
}

#[derive(Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    t_unix_us: u64,
    #[serde(default)]
    remote: String,
    #[serde(default)]
    arm: String,
    #[serde(default)]
    switches: u64,
    #[serde(default)]
    group: Option<Group>,
    #[serde(default)]
    acked_bytes: u64,
    #[serde(default)]
    lost_pkts: u64,
    #[serde(default)]
    mss_bytes: u64,
    #[serde(default)]
    duration_ms: f64,
    #[serde(default)]
    rtt_ms: Option<f64>,
    #[serde(default)]
    path: PathSeen,
}

/// The network of a flow's remote end: /24, or /56 of IPv6.
pub fn network(remote: &str) -> Option<Network> {
    let remote: SocketAddr = remote.parse().ok()?;
    Some(Network::around(remote.ip()))
}

impl Flow {
    /// Reads a line of the event log. `None` for any event but the end of a flow.
    ///
    /// # Errors
    ///
    /// The line is not an event.
    pub fn parse(line: &str) -> Result<Option<Self>, serde_json::Error> {
        let line: Line = serde_json::from_str(line)?;
        let network = network(&line.remote).filter(|_| line.event == "closed");
        Ok(network.map(|network| Self {
            network,
            arm: line.arm,
            switches: line.switches,
            is_of_rule: line.group == Some(Group::Rule),
            acked_bytes: line.acked_bytes,
            lost_pkts: line.lost_pkts,
            mss_bytes: line.mss_bytes.max(1),
            duration_s: line.duration_ms / 1e3,
            ended_s: line.t_unix_us as f64 / 1e6,
            rtt_ms: line.rtt_ms,
            path: line.path,
        }))
    }

    /// When the flow began and ended, in seconds.
    fn span(&self) -> (f64, f64) {
        (self.ended_s - self.duration_s, self.ended_s)
    }

    /// In bytes per second.
    pub fn goodput(&self) -> f64 {
        self.acked_bytes as f64 / self.duration_s.max(1e-6)
    }

    /// Segments lost over segments sent.
    pub fn loss(&self) -> f64 {
        let acked_pkts = self.acked_bytes as f64 / self.mss_bytes as f64;
        self.lost_pkts as f64 / (self.lost_pkts as f64 + acked_pkts).max(1.0)
    }

    /// Why the flow does not show its path; `None` if it does.
    pub fn unfit(&self) -> Option<Unfit> {
        let (Some(rtt_ms), Some(rtt_ms_min)) = (self.rtt_ms, self.path.rtt_ms_min) else {
            return Some(if self.acked_bytes > 0 { Unfit::NotMeasured } else { Unfit::Short });
        };
        if self.switches > 0 {
            Some(Unfit::Switched)
        } else if self.path.held_by_ends_ms > HELD_BY_ENDS_MAX * self.duration_s * 1e3 {
            Some(Unfit::HeldByEnds)
        } else if self.acked_bytes < BYTES_MIN
            || self.duration_s * 1e3 < ROUNDS_MIN * rtt_ms
            || rtt_ms_min <= 0.0
            || self.path.delivery_bytes_per_sec_max == 0
        {
            Some(Unfit::Short)
        } else {
            None
        }
    }
}

/// A moment when a flow begins or ends.
struct Step {
    at_s: f64,
    /// The sum of the flows' lives until then.
    flow_s: f64,
    /// Flows that run from then on.
    flows: f64,
}

/// How many flows run at each moment, as steps in order of time. A log may have 100,000 flows to a
/// network, too many to compare each flow with each other flow.
struct Running(Vec<Step>);

impl Running {
    fn new(flows: &[Flow]) -> Self {
        let spans = flows.iter().map(Flow::span);
        let mut changes: Vec<(f64, f64)> =
            spans.flat_map(|(from, to)| [(from, 1.0), (to, -1.0)]).collect();
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut steps: Vec<Step> = Vec::with_capacity(changes.len());
        for (at_s, change) in changes {
            let (flow_s, flows) =
                steps.last().map_or((0.0, 0.0), |last| (last.flow_s_at(at_s), last.flows));
            steps.push(Step { at_s, flow_s, flows: flows + change });
        }
        Self(steps)
    }

    /// The sum of the flows' lives until a moment.
    fn flow_s(&self, at_s: f64) -> f64 {
        let before = self.0.partition_point(|step| step.at_s <= at_s);
        before.checked_sub(1).map_or(0.0, |last| self.0[last].flow_s_at(at_s))
    }
}

impl Step {
    /// The sum of the flows' lives until a moment before the next step.
    fn flow_s_at(&self, at_s: f64) -> f64 {
        self.flow_s + self.flows * (at_s - self.at_s)
    }
}

/// The flows to one network that have ended.
#[derive(Clone, Debug)]
pub struct Destination {
    pub network: Network,
    pub flows: Vec<Flow>,
}

/// The flows by destination, that with the most bytes first.
pub fn destinations(flows: Vec<Flow>) -> Vec<Destination> {
    let mut by_network: BTreeMap<Network, Vec<Flow>> = BTreeMap::new();
    for flow in flows {
        by_network.entry(flow.network).or_default().push(flow);
    }
    let all = by_network.into_iter();
    let mut all: Vec<_> = all.map(|(network, flows)| Destination { network, flows }).collect();
    let bytes = |of: &Destination| of.flows.iter().map(|flow| flow.acked_bytes).sum::<u64>();
    all.sort_by_key(|of| std::cmp::Reverse(bytes(of)));
    all
}

impl Destination {
    /// The arm that the most flows had from start to end: of those that no rule drives, if there
    /// are such flows.
    pub fn arm(&self) -> Option<&str> {
        let most = |is_wanted: fn(&&Flow) -> bool| {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for flow in self.flows.iter().filter(is_wanted) {
                *counts.entry(&flow.arm).or_default() += 1;
            }
            counts.into_iter().max_by_key(|(_, count)| *count).map(|(arm, _)| arm)
        };
        most(|flow| flow.switches == 0 && !flow.is_of_rule)
            .or_else(|| most(|flow| flow.switches == 0))
    }

    /// The flows of `arm` that show the path.
    pub fn fit(&self, arm: &str) -> Vec<&Flow> {
        let is_fit = |flow: &&Flow| flow.arm == arm && flow.unfit().is_none();
        self.flows.iter().filter(is_fit).collect()
    }

    /// The most frequent reason why flows do not show the path, with how many flows have it.
    pub fn unfit(&self) -> Option<(Unfit, usize)> {
        let mut counts: BTreeMap<Unfit, usize> = BTreeMap::new();
        for why in self.flows.iter().filter_map(Flow::unfit) {
            *counts.entry(why).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count)
    }

    /// How many other flows to this network run beside a flow of the arm, as a mean over its life.
    pub fn companions(&self, arm: &str) -> f64 {
        let running = Running::new(&self.flows);
        let (mut shared_s, mut all_s) = (0.0, 0.0);
        for flow in self.flows.iter().filter(|flow| flow.arm == arm) {
            let (from, to) = flow.span();
            shared_s += running.flow_s(to) - running.flow_s(from) - (to - from);
            all_s += flow.duration_s;
        }
        if all_s > 0.0 { shared_s / all_s } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn closed(ended_s: u64, seconds: f64, arm: &str, group: Option<&str>) -> Flow {
        let line = json!({
            "event": "closed", "t_unix_us": ended_s * 1_000_000, "remote": "192.0.2.7:443",
            "arm": arm, "group": group, "acked_bytes": 1_448_000, "lost_pkts": 10,
            "mss_bytes": 1448, "duration_ms": seconds * 1e3, "rtt_ms": 50.0,
            "path": { "rtt_ms_min": 40.0, "delivery_bytes_per_sec_max": 2_000_000 },
        });
        Flow::parse(&line.to_string()).expect("it is an event").expect("a flow")
    }

    #[test]
    fn a_flow_shows_its_path_unless_something_else_held_it_back() {
        let flow = closed(10, 4.0, "cubic", None);
        assert_eq!((flow.goodput(), flow.unfit()), (362_000.0, None));
        assert!((flow.loss() - 10.0 / 1_010.0).abs() < 1e-12);
        let mut held = flow.clone();
        held.path.held_by_ends_ms = 1_500.0;
        let mut unmeasured = flow.clone();
        unmeasured.path = PathSeen::default();
        let [switched, short] =
            [Flow { switches: 1, ..flow.clone() }, Flow { acked_bytes: 20_000, ..flow }];
        let why = [held, unmeasured, switched, short].map(|flow| flow.unfit());
        let want = [Unfit::HeldByEnds, Unfit::NotMeasured, Unfit::Switched, Unfit::Short];
        assert_eq!(why, want.map(Some));
    }

    #[test]
    fn other_events_are_passed_over_and_other_lines_are_refused() {
        let event: Value = json!({ "event": "created", "remote": "192.0.2.7:443" });
        assert_eq!(Flow::parse(&event.to_string()).expect("an event"), None);
        assert!(Flow::parse("{").is_err() && Flow::parse("[]").is_err());
    }

    #[test]
    fn the_present_arm_is_that_of_flows_without_a_rule() {
        let mut flows: Vec<Flow> = (0..5).map(|at| closed(at, 1.0, "bbr3", Some("rule"))).collect();
        let of = |flows: &[Flow]| destinations(flows.to_vec()).remove(0);
        assert_eq!(of(&flows).arm(), Some("bbr3"));
        flows.push(closed(9, 1.0, "cubic", Some("control")));
        assert_eq!(of(&flows).arm(), Some("cubic"));
    }

    #[test]
    fn flows_that_run_at_once_are_counted_over_the_life_of_a_flow() {
        let flows = |ends_s: &[u64]| {
            let flows = ends_s.iter().map(|end_s| closed(*end_s, 4.0, "cubic", None));
            destinations(flows.collect()).remove(0).companions("cubic")
        };
        assert_eq!(flows(&[10, 20, 30]), 0.0);
        assert_eq!(flows(&[10, 12]), 0.5);
        assert_eq!(flows(&[10, 10, 10]), 2.0);
        let many: Vec<u64> = (0..100_000).collect();
        assert!((flows(&many) - 3.0).abs() < 1e-3, "four run at each moment");
    }
}
