//! Harm to the neighbours of the tested flows, as one figure for the merit of a run. (`harm.rs`
//! compares two runs.)
//!
//! **Harm** is 1 less the mean of what the neighbours keep, and 0 without neighbours:
//!
//! - A neighbour without a fixed size keeps its goodput over an equal share of the bottleneck, at
//!   most 1. If no flow has a fixed size, goodput counts while all flows are active (`sharing.rs`).
//!   Otherwise goodput counts over the neighbour's life, and the tested flows count as one flow.
//! - A transfer keeps its goodput over the goodput that it would have on an idle path, which is 1
//!   over its slowdown.
//!
//! No transfer has the goodput of an idle path beside other flows, so harm to transfers is above 0
//! for every driver. This part of harm cancels out: drivers are compared in one environment, and
//! merit has harm as a factor.

use super::completion::idle_s;
use super::fairness::Arrived;
use super::quantile::mean;
use super::run::Run;
use super::sharing::{common_span, payload_carried};

pub(super) fn harm(run: &Run<'_>) -> f64 {
    let endless = |flow: &usize| run.flows[*flow].bytes.is_none();
    let all: Vec<usize> = run.tested.iter().chain(&run.neighbours).copied().collect();
    let sharing = all.iter().filter(|flow| endless(flow)).count();
    let kept = if sharing == all.len() {
        in_common_span(run, &all)
    } else {
        let count = run.neighbours.iter().filter(|flow| endless(flow)).count() + 1;
        let one = |flow: &usize| {
            if endless(flow) { in_its_life(run, *flow, count) } else { as_transfer(run, *flow) }
        };
        run.neighbours.iter().filter_map(one).collect()
    };
    mean(&kept).map_or(0.0, |kept| 1.0 - kept)
}

/// What each neighbour keeps while all flows are active.
fn in_common_span(run: &Run<'_>, all: &[usize]) -> Vec<f64> {
    let (from_s, to_s) = common_span(run, all);
    let arrived = Arrived::of(run, all).between(from_s, to_s);
    let Some(bytes) = arrived.into_iter().collect::<Option<Vec<f64>>>() else {
        return Vec::new();
    };
    let carried = payload_carried(run, from_s, to_s).unwrap_or_else(|| bytes.iter().sum());
    let share = carried / all.len() as f64;
    let others = bytes.into_iter().skip(run.tested.len());
    others.map(|it| if share > 0.0 { (it / share).min(1.0) } else { 1.0 }).collect()
}

/// What a neighbour without a fixed size keeps over its life, where `count` flows share the link.
fn in_its_life(run: &Run<'_>, flow: usize, count: usize) -> Option<f64> {
    let (from_s, to_s) = run.life_s(flow);
    let carried = payload_carried(run, from_s, to_s)?;
    let delivered = run.outcome.flows.get(flow)?.delivered_bytes as f64;
    Some((delivered * count as f64 / carried).min(1.0))
}

fn as_transfer(run: &Run<'_>, flow: usize) -> Option<f64> {
    let spec = &run.flows[flow];
    let bytes = spec.bytes.filter(|bytes| *bytes > 0)? as f64;
    let (from_s, to_s) = run.life_s(flow);
    let delivered = run.outcome.flows.get(flow)?.delivered_bytes as f64;
    let idle_s = idle_s(run, spec, bytes);
    (to_s > from_s).then(|| (delivered / bytes * idle_s / (to_s - from_s)).min(1.0))
}
