//! The description of a flow in a scenario file.

use crate::arrivals::Arrivals;
use crate::driver::Driver;
use remuda_algorithms::Wants;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The bytes of a packet beside its payload: IPv4 and TCP headers with timestamps.
pub const HEADER_BYTES: u32 = 52;
/// The default links for data and for ACKs.
pub(crate) const ROUTE: &str = "down";
pub(crate) const BACK: &str = "up";

/// A flow, or a group of equal flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowSpec {
    pub driver: Driver,
    /// The name in results; empty: the driver's name. Flows with the same name are numbered from 1.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The number of flows in the group.
    pub count: u32,
    /// When the first flow starts.
    pub start_s: f64,
    /// The time between the starts of two flows of the group.
    pub stagger_s: f64,
    /// When the flow stops sending; `None`: at the end of the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Random arrivals: the entry then stands for many flows, each with its own size, and `count`
    /// and `bytes` must be left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// How many bytes each flow has to send; `None`: more than it can send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How fast the application writes; `None`: faster than the flow can send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_rate_mbit_per_sec: Option<f64>,
    /// How many bytes the application writes at once. It pauses between writes, so that it writes
    /// `app_rate_mbit_per_sec` on average. `None`: a few milliseconds' worth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_write_bytes: Option<u64>,
    /// Unresponsive flows: packets leave as a Poisson process, not evenly spaced.
    pub poisson: bool,
    /// The initial window in segments (RFC 6928).
    pub init_cwnd_pkts: u32,
    /// Whether the application prefers throughput or short delays. Some policies use it.
    #[serde(skip_serializing_if = "Wants::is_default")]
    pub wants: Wants,
    /// The payload of a full segment: 1448 in a 1500-byte packet over IPv4 with TCP timestamps.
    pub mss_bytes: u32,
    /// Whether the flow uses ECN.
    pub ecn: bool,
    /// Whether the receiver delays ACKs: one for every second segment, or after a timeout (RFC
    /// 1122).
    pub delayed_acks: bool,
    /// Added to the round trip of every route.
    pub extra_delay_ms: f64,
    /// Changes of the arm or policy, in the order of their moments, like an operator's `remuda
    /// set`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchOrder>,
    /// The links that data crosses, in order.
    pub route: Vec<String>,
    /// The links that ACKs cross, in order.
    pub back: Vec<String>,
}

/// A change of the arm or policy at a given moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchOrder {
    /// In seconds since the start of the scenario. The change happens with the flow's next report.
    pub at_s: f64,
    /// The arm or policy that drives the flow from then on.
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
    /// A flow with this driver and default values.
    pub fn driven_by(driver: Driver) -> Self {
        Self { driver, ..Self::default() }
    }

    /// When the last flow of the group starts, in seconds.
    pub(crate) fn last_start_s(&self) -> f64 {
        self.start_s + f64::from(self.count.saturating_sub(1)) * self.stagger_s
    }

    fn base_name(&self) -> String {
        if self.name.is_empty() { self.driver.to_string() } else { self.name.clone() }
    }
}

/// Replaces each entry with random arrivals by one flow for each arrival; keeps the others. Each
/// flow comes with the index of its entry.
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

/// Turns groups into single flows, each with its own start and a unique name.
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
