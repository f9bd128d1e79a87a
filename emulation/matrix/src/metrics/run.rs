//! A run and its outcome, as the metrics read them.

use remuda_link::Capacity;
use remuda_scenarios::outcome::{FlowOutcome, LinkOutcome, Outcome};
use remuda_scenarios::{FlowSpec, LinkSpec, Scenario};
use std::collections::BTreeSet;

/// A run and its outcome, as the metrics read them.
pub(crate) struct Run<'a> {
    pub(crate) scenario: &'a Scenario,
    /// One entry a flow, after flows with a count or arrivals are expanded.
    pub(crate) flows: Vec<FlowSpec>,
    pub(crate) outcome: &'a Outcome,
    /// Indices of the tested flows.
    pub(crate) tested: Vec<usize>,
    /// Indices of all other flows that respond to congestion.
    pub(crate) neighbours: Vec<usize>,
    /// The link with the least capacity on the route of the first tested flow.
    pub(crate) bottleneck: &'a LinkOutcome,
    pub(crate) bottleneck_spec: LinkSpec,
    pub(crate) capacity: Capacity,
}

impl<'a> Run<'a> {
    pub(crate) fn outcomes(&self, flows: &[usize]) -> impl Iterator<Item = &'a FlowOutcome> {
        let all = &self.outcome.flows;
        flows.iter().filter_map(|flow| all.get(*flow)).collect::<Vec<_>>().into_iter()
    }

    /// The neighbours' drivers, each once, separated by commas.
    pub(crate) fn neighbour_drivers(&self) -> String {
        let drivers = self.neighbours.iter().map(|flow| self.flows[*flow].driver.to_string());
        drivers.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    }

    /// When a flow is active: from its start until it finishes, is stopped or the scenario ends.
    pub(crate) fn life_s(&self, flow: usize) -> (f64, f64) {
        let spec = &self.flows[flow];
        let end_s = self.outcome.flows.get(flow).and_then(|it| it.end_s);
        let end_s = end_s.or(spec.stop_s).unwrap_or(self.scenario.duration_s);
        (spec.start_s, end_s.min(self.scenario.duration_s))
    }
}
