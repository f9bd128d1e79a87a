//! What a run's tested flows get over time, so that spans of a run can be compared with those of
//! another driver.
//!
//! A span has a merit as a run has (`merit.rs`), with what samples show:
//!
//! - **goodput**: payload of the tested flows over an equal share of what the bottleneck could have
//!   carried, among the flows that are active;
//! - **delay**: the one-way delay of the empty path plus the queueing delay, over that one-way
//!   delay; the queueing delay is the mean smoothed round trip less the empty path's round trip;
//! - **loss**: segments sent again over segments sent;
//! - **harm**: 1 less the mean of what active neighbours have of an equal share.
//!
//! A run in which a tested flow has a fixed size has no course, because the merit of such a run
//! counts completion times.

use super::changes::Changes;
use super::delay::Delay;
use super::fairness::Arrived;
use super::quantile::mean;
use super::run::Run;
use super::sharing::payload_carried;
use remuda_algorithms::Preference;
use remuda_algorithms::merit::{Observed, merit};
use remuda_scenarios::outcome::{Decided, FlowSample};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The length of a step, over which samples are added up.
pub const STEP_S: f64 = 0.5;

/// Half a second of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Step {
    /// Payload of the tested flows, in bytes.
    own: f64,
    /// An equal share of what the bottleneck could have carried, in bytes, times tested flows.
    even: f64,
    /// Mean of the smoothed round trips, in milliseconds; `None` without one.
    srtt_ms: Option<f64>,
    /// Segments of the tested flows that were sent again.
    again_pkts: f64,
    /// Payload of each active neighbour over one equal share, at most 1.
    kept: Vec<f64>,
}

/// What the tested flows of a run get in each [`STEP_S`] of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Course {
    steps: Vec<Step>,
    /// When the first tested flow starts, in seconds of the run.
    pub start_s: f64,
    /// The round trip of the empty path, as at the start.
    pub path_rtt_ms: f64,
    propagation_ms: f64,
    mss_bytes: f64,
    wants: Preference,
    pub changes: Changes,
    /// The decisions of the first tested flow, without what they were derived from.
    pub decisions: Vec<Decided>,
    /// Its arm at the end.
    pub last_arm: String,
}

impl Course {
    /// `None` if a tested flow has a fixed size, nothing limits the link or there are no samples.
    pub(super) fn of(run: &Run<'_>) -> Option<Self> {
        let first = &run.flows[*run.tested.first()?];
        let is_endless = run.tested.iter().all(|flow| run.flows[*flow].bytes.is_none());
        let delay = Delay::of(run);
        if !is_endless || run.outcome.flow_samples.is_empty() {
            return None;
        }
        payload_carried(run, 0.0, run.scenario.duration_s)?;
        let (tested, others) = (Looks::of(run, &run.tested), Looks::of(run, &run.neighbours));
        let start_s = first.start_s;
        let end_s = run.tested.iter().map(|flow| run.life_s(*flow).1).fold(f64::INFINITY, f64::min);
        let count = ((end_s - start_s) / STEP_S).floor() as usize;
        let step = |nth: usize| {
            let from_s = start_s + nth as f64 * STEP_S;
            step_of(run, &tested, &others, from_s..from_s + STEP_S)
        };
        let outcome = run.outcomes(&run.tested).next()?;
        let said = |it: &Decided| Decided { features: BTreeMap::new(), ..it.clone() };
        let links = first.route.iter().filter_map(|name| run.scenario.links.get(name));
        Some(Self {
            steps: (0..count).map(step).collect(),
            start_s,
            path_rtt_ms: delay.path_rtt_ms,
            propagation_ms: delay.propagation_ms,
            mss_bytes: f64::from(first.mss_bytes),
            wants: first.wants.preference(),
            changes: Changes::of(links, run.scenario.duration_s),
            decisions: outcome.decisions.iter().map(said).collect(),
            last_arm: outcome.arm.clone(),
        })
    }

    /// How many steps of [`STEP_S`] it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The merit of a span of steps.
    pub fn merit(&self, span: Range<usize>) -> f64 {
        self.merit_of(&[(self, span)])
    }

    /// The merit of spans of several runs on this path, one after the other.
    pub fn merit_of(&self, parts: &[(&Self, Range<usize>)]) -> f64 {
        let steps = || parts.iter().flat_map(|(course, span)| &course.steps[span.clone()]);
        let sum = |of: fn(&Step) -> f64| steps().map(of).sum::<f64>();
        let (own, even, again) = (sum(|it| it.own), sum(|it| it.even), sum(|it| it.again_pkts));
        let srtts: Vec<f64> = steps().filter_map(|it| it.srtt_ms).collect();
        let sent = own / self.mss_bytes + again;
        let queueing_ms = mean(&srtts).map(|srtt_ms| (srtt_ms - self.path_rtt_ms).max(0.0));
        let delay = queueing_ms.map(|it| (self.propagation_ms + it) / self.propagation_ms);
        let kept: Vec<f64> = steps().flat_map(|it| &it.kept).copied().collect();
        let observed = Observed {
            goodput: Some(if even > 0.0 { own / even } else { 0.0 }),
            delay: delay.filter(|_| self.propagation_ms > 0.0),
            loss: Some(if sent > 0.0 { again / sent } else { 0.0 }),
            harm: Some(mean(&kept).map_or(0.0, |kept| 1.0 - kept)),
            transfers: None,
        };
        merit(&observed, self.wants).value
    }
}

/// Samples of some flows.
struct Looks {
    arrived: Arrived,
    /// Time, smoothed round trip, and segments sent again, of each flow.
    samples: Vec<Vec<(f64, Option<f64>, u64)>>,
}

impl Looks {
    fn of(run: &Run<'_>, flows: &[usize]) -> Self {
        let of = |flow: &usize| {
            let own = run.outcome.flow_samples.iter().filter(|it| it.flow as usize == *flow);
            own.map(|it: &FlowSample| (it.t_s, it.srtt_ms, it.retransmitted_pkts)).collect()
        };
        Self { arrived: Arrived::of(run, flows), samples: flows.iter().map(of).collect() }
    }

    fn srtt_ms(&self, span: &Range<f64>) -> Option<f64> {
        let inside = self.samples.iter().flatten().filter(|(t_s, ..)| span.contains(t_s));
        mean(&inside.filter_map(|(_, srtt_ms, _)| *srtt_ms).collect::<Vec<_>>())
    }

    fn again_pkts(&self, span: &Range<f64>) -> f64 {
        let of = |samples: &Vec<(f64, Option<f64>, u64)>| {
            let until = |at_s: f64| {
                let after = samples.partition_point(|(t_s, ..)| *t_s <= at_s + 1e-9);
                after.checked_sub(1).map_or(0, |last| samples[last].2)
            };
            until(span.end).saturating_sub(until(span.start)) as f64
        };
        self.samples.iter().map(of).sum()
    }
}

/// What the tested flows and the neighbours get in a span, in seconds of the run.
fn step_of(run: &Run<'_>, tested: &Looks, others: &Looks, span: Range<f64>) -> Step {
    let between = |looks: &Looks| looks.arrived.between(span.start, span.end);
    let own: Vec<f64> = between(tested).into_iter().flatten().collect();
    let beside: Vec<f64> = between(others).into_iter().flatten().collect();
    let flows = (own.len() + beside.len()).max(1) as f64;
    let share = payload_carried(run, span.start, span.end).unwrap_or(0.0) / flows;
    let kept = beside.into_iter().map(|it| if share > 0.0 { (it / share).min(1.0) } else { 1.0 });
    Step {
        even: share * own.len() as f64,
        own: own.into_iter().sum(),
        srtt_ms: tested.srtt_ms(&span),
        again_pkts: tested.again_pkts(&span),
        kept: kept.collect(),
    }
}
