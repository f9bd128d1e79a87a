//! What a flow is to be, as a scenario file says it.

use crate::arrivals::Arrivals;
use crate::driver::Driver;
use remuda_algorithms::Wants;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// IPv4 and TCP headers with timestamps, in bytes: what a packet has beside its payload.
pub const HEADER_BYTES: u32 = 52;
/// The links that data and ACKs cross where a flow says no other.
pub(crate) const ROUTE: &str = "down";
pub(crate) const BACK: &str = "up";

/// A flow, or several alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowSpec {
    pub driver: Driver,
    /// What results call it; empty: the driver's name. Several of one name are numbered from 1.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How many flows this stands for.
    pub count: u32,
    /// When the first one starts.
    pub start_s: f64,
    /// How much later each further one starts than the one before.
    pub stagger_s: f64,
    /// When it stops sending; without, at the end of the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Stands for many flows that come at random, each with its own size: then `count` and `bytes`
    /// are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// How much each one has to send; without, more than it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How fast its application writes; without, faster than it can send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_rate_mbit_per_sec: Option<f64>,
    /// How much its application writes at once, at `app_rate_mbit_per_sec` on average: it is idle
    /// between two writes. Without, some milliseconds' worth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_write_bytes: Option<u64>,
    /// Unresponsive flows: packets come as a Poisson process, not evenly spaced.
    pub poisson: bool,
    /// The window it starts with, in segments (RFC 6928).
    pub init_cwnd_pkts: u32,
    /// Whether its application wants throughput, short delays, or both: for policies that ask.
    #[serde(skip_serializing_if = "Wants::is_default")]
    pub wants: Wants,
    /// Payload of a full segment: 1448 is a 1500-byte packet with TCP timestamps over IPv4.
    pub mss_bytes: u32,
    /// Whether it speaks ECN.
    pub ecn: bool,
    /// Whether its receiver acknowledges every second segment only, or later (RFC 1122).
    pub delayed_acks: bool,
    /// Added to its round trip, whatever its route.
    pub extra_delay_ms: f64,
    /// What else is to drive it from some moments on, in their order, as an operator's `remuda set`
    /// says it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchOrder>,
    /// The links its data crosses, in order.
    pub route: Vec<String>,
    /// The links its ACKs cross, in order.
    pub back: Vec<String>,
}

/// From that moment on, another arm or policy is to drive a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchOrder {
    /// When, from the start of the scenario: carried out with the flow's next report.
    pub at_s: f64,
    /// The arm or policy.
    pub to: String,
}

impl Default for FlowSpec {
    fn default() -> Self {
        Self {
            driver: Driver::Named("cubic".to_owned()),
            name: String::new(),
            count: 1,
            start_s: 0.0,
            stagger_s: 0.0,
            stop_s: None,
            arrivals: None,
            bytes: None,
            app_rate_mbit_per_sec: None,
            app_write_bytes: None,
            poisson: false,
            init_cwnd_pkts: 10,
            wants: Wants::DEFAULT,
            mss_bytes: 1448,
            ecn: false,
            delayed_acks: true,
            extra_delay_ms: 0.0,
            switches: Vec::new(),
            route: vec![ROUTE.to_owned()],
            back: vec![BACK.to_owned()],
        }
    }
}

impl FlowSpec {
    /// A flow of that driver, otherwise the default.
    pub fn driven_by(driver: Driver) -> Self {
        Self { driver, ..Self::default() }
    }

    /// When the last of its flows starts, in seconds.
    pub(crate) fn last_start_s(&self) -> f64 {
        self.start_s + f64::from(self.count.saturating_sub(1)) * self.stagger_s
    }

    fn base_name(&self) -> String {
        if self.name.is_empty() { self.driver.to_string() } else { self.name.clone() }
    }
}

/// Those that come at random as flows of their own, all others as they are; each with the place of
/// the one it comes from.
pub(crate) fn arrived(specs: &[FlowSpec], (end_s, seed): (f64, u64)) -> Vec<(usize, FlowSpec)> {
    let mut flows = Vec::new();
    for (place, spec) in specs.iter().enumerate() {
        let Some(arrivals) = &spec.arrivals else {
            flows.push((place, spec.clone()));
            continue;
        };
        let span = (spec.start_s, spec.stop_s.unwrap_or(end_s).min(end_s));
        for (start_s, bytes) in arrivals.draw(span, (seed, place as u64)) {
            let (stop_s, bytes) = (None, Some(bytes));
            let arrivals = None;
            flows.push((place, FlowSpec { arrivals, start_s, stop_s, bytes, ..spec.clone() }));
        }
    }
    flows
}

/// Each flow by itself, with a start of its own and a name that no other has.
pub(crate) fn expanded(specs: &[FlowSpec]) -> Vec<FlowSpec> {
    let mut of_name: BTreeMap<String, u64> = BTreeMap::new();
    for spec in specs {
        *of_name.entry(spec.base_name()).or_default() += u64::from(spec.count);
    }
    let mut taken: BTreeSet<String> =
        of_name.iter().filter(|(_, flows)| **flows == 1).map(|(name, _)| name.clone()).collect();
    let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
    let mut flows = Vec::new();
    for spec in specs {
        let base = spec.base_name();
        for index in 0..spec.count {
            let mut name = base.clone();
            if of_name[&base] > 1 {
                let number = numbers.entry(base.clone()).or_default();
                *number += 1;
                name = format!("{base}-{number}");
                while !taken.insert(name.clone()) {
                    *number += 1;
                    name = format!("{base}-{number}");
                }
            }
            let start_s = spec.start_s + f64::from(index) * spec.stagger_s;
            flows.push(FlowSpec { name, count: 1, start_s, stagger_s: 0.0, ..spec.clone() });
        }
    }
    flows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, count: u32) -> FlowSpec {
        FlowSpec { name: name.to_owned(), count, stagger_s: 0.5, ..FlowSpec::default() }
    }

    #[track_caller]
    fn named(specs: &[FlowSpec], want: &str) {
        let names: Vec<_> = expanded(specs).into_iter().map(|flow| flow.name).collect();
        assert_eq!(names.join(" "), want);
    }

    #[test]
    fn every_flow_has_a_name_of_its_own() {
        named(&[flow("", 1)], "cubic");
        named(&[flow("a", 1), flow("b", 1)], "a b");
        named(&[flow("", 2), flow("a", 1)], "cubic-1 cubic-2 a");
        named(&[flow("a", 1), flow("a", 2)], "a-1 a-2 a-3");
        named(&[flow("a", 2), flow("a-1", 1)], "a-2 a-3 a-1");
    }

    #[test]
    fn starts_are_staggered() {
        let flows = expanded(&[FlowSpec { start_s: 2.0, ..flow("", 3) }]);
        let starts: Vec<_> = flows.iter().map(|flow| flow.start_s).collect();
        assert_eq!(starts, [2.0, 2.5, 3.0]);
        assert!(flows.iter().all(|flow| flow.count == 1 && flow.stagger_s == 0.0));
        assert_eq!(expanded(&flows), flows, "what is expanded stays as it is");
    }
}
