//! The metrics. Each file defines one group, with formula and source.

mod completion;
mod delay;
mod fairness;
mod merit;
mod sharing;
mod switches;
mod throughput;

pub use completion::Completion;
pub use delay::Delay;
pub use fairness::Fairness;
pub(crate) use merit::merit;
pub use sharing::Sharing;
pub use throughput::Throughput;

use crate::error::Error;
use crate::plan::Job;
use crate::row::{Measured, Row};
use ccp_agent::catalogue::{self, Kind};
use remuda_link::{Capacity, Direction};
use remuda_scenarios::outcome::{FlowOutcome, LinkOutcome, Outcome};
use remuda_scenarios::{FlowSpec, LinkSpec, Nanos, Scenario};
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
    fn of(job: &'a Job, outcome: &'a Outcome) -> Result<Self, Error> {
        let scenario = &job.scenario;
        let flows = scenario.flows_expanded();
        let tested = job.environment.tested_flows(scenario);
        if tested.is_empty() {
            return Err(Error::NoFlow { run: job.name() });
        }
        let neighbours = (0..flows.len())
            .filter(|flow| !tested.contains(flow))
            .filter(|flow| flows[*flow].driver != remuda_scenarios::Driver::Unresponsive)
            .collect();
        let end = scenario.duration();
        let route = tested.first().map_or(&[][..], |flow| &flows[*flow].route);
        let mut narrowest: Option<(f64, String, LinkSpec, Capacity)> = None;
        for (name, spec) in scenario.seeded_links() {
            if !route.contains(&name) {
                continue;
            }
            let failed = |source| Error::Link { run: job.name(), source };
            let capacity = spec.capacity(Direction::Down).map_err(failed)?;
            let bytes = capacity.bytes(Nanos::ZERO, end).unwrap_or(f64::INFINITY);
            if narrowest.as_ref().is_none_or(|(least, ..)| bytes < *least) {
                narrowest = Some((bytes, name, spec, capacity));
            }
        }
        let (_, name, bottleneck_spec, capacity) =
            narrowest.expect("`validate` has checked that a flow's route has a link");
        let bottleneck = outcome.links.iter().find(|link| link.name == name);
        let bottleneck = bottleneck.expect("an outcome has every link of its scenario");
        Ok(Self {
            scenario,
            flows,
            outcome,
            tested,
            neighbours,
            bottleneck,
            bottleneck_spec,
            capacity,
        })
    }

    pub(crate) fn outcomes(&self, flows: &[usize]) -> impl Iterator<Item = &'a FlowOutcome> {
        let all = &self.outcome.flows;
        flows.iter().filter_map(|flow| all.get(*flow)).collect::<Vec<_>>().into_iter()
    }

    /// Fails if the tested arm lost its flow. An arm keeps its flow unless the scenario orders a
    /// switch. If an arm fails, as an author's arm can, another arm takes over, and the rest of the
    /// run is not a result of the tested arm.
    fn check_it_stayed(&self, job: &Job) -> Result<(), Error> {
        if matches!(catalogue::kind(&job.driver), Ok(Kind::Policy)) {
            return Ok(());
        }
        let unordered = self.tested.iter().filter(|flow| self.flows[**flow].switches.is_empty());
        let outcomes = unordered.filter_map(|flow| self.outcome.flows.get(*flow));
        match outcomes.flat_map(|flow| &flow.switches).next() {
            None => Ok(()),
            Some(switch) => Err(Error::GaveUp {
                run: job.name(),
                driver: job.driver.clone(),
                t_s: switch.t_s,
                why: switch.why.clone(),
            }),
        }
    }

    /// The neighbours' drivers, each once, separated by commas.
    fn neighbour_drivers(&self) -> String {
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

/// The row of a run.
pub(crate) fn row(job: &Job, outcome: &Outcome) -> Result<Row, Error> {
    let run = Run::of(job, outcome)?;
    run.check_it_stayed(job)?;
    let measured = Measured {
        throughput: Throughput::of(&run),
        delay: Delay::of(&run),
        fairness: Fairness::of(&run),
        sharing: Sharing::of(&run),
        completion: Completion::of(&run),
        switches: switches::of(&run),
        neighbours: run.neighbour_drivers(),
    };
    Ok(Row::of(job, outcome.engine.name(), measured))
}

/// The least value that a `share` of the values does not exceed (nearest rank); `None` for an empty
/// slice.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// `None` for an empty slice.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean of the two middle values if their number is even; `None` for an empty slice.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(f64::midpoint(sorted[low], sorted[high]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_there() {
        let values = [4.0, 1.0, 3.0, 2.0];
        let of = |share| quantile(&values, share).unwrap();
        assert_eq!(
            [of(0.0), of(0.25), of(0.5), of(0.51), of(0.95), of(1.0)],
            [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]
        );
        assert_eq!(quantile(&[], 0.5), None);
    }
}
