//! What the tested flows leave to their neighbours while all of them are active.
//!
//! - **share**: mean goodput of the tested flows over the mean goodput of all flows: 1 is equal, 0
//!   is nothing. It counts from 5 s after the last of the flows has started, or from half of the
//!   common time if that is less.
//! - **friendliness**: 1 - |g / f - 1|, not below 0. g is the mean goodput of the tested flows in
//!   that time, and f an equal share of what the bottleneck could have carried. ccBench's second
//!   league ranks by the distance from f. Taking too much counts as much as getting too little.
//! - **starved**: a flow got less than a tenth of an equal share over all of that time, and the
//!   time is at least 10 s. The value says whether a tested flow or a neighbour starved. (RFC 9743,
//!   section 5.1, asks for this without giving a number.)
//!
//! Harm compares two runs: see `harm.rs`.

use super::fairness::Arrived;
use super::run::Run;
use remuda_link::Nanos;
use remuda_scenarios::HEADER_BYTES;
use std::collections::BTreeSet;

/// Seconds at the start of sharing that do not count.
const SETTLING_S: f64 = 5.0;
/// A flow starves if it has less than this part of an equal share
const STARVED_SHARE: f64 = 0.1;
/// over at least this many seconds.
const STARVED_S: f64 = 10.0;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sharing {
    /// The tested flows' goodput over an equal share.
    pub share: Option<f64>,
    /// 1 is an equal share of the link; 0 is nothing, or twice that share.
    pub friendliness: Option<f64>,
    /// The tested flows' mean goodput over an equal share of what the bottleneck could carry.
    pub of_equal_share: Option<f64>,
    /// Mean goodput of a neighbour.
    pub neighbour_mbit_per_sec: Option<f64>,
    /// `tested`, `neighbour`, or empty.
    pub starved: &'static str,
    /// The drivers of the flows that starved, each once, separated by commas.
    pub starved_drivers: String,
    /// If a flow starved, the drivers of the flows with more than an equal share.
    pub starved_by: String,
}

fn mean(values: &[f64]) -> f64 {
    super::quantile::mean(values).unwrap_or(0.0)
}

impl Sharing {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        let all: Vec<usize> = run.tested.iter().chain(&run.neighbours).copied().collect();
        let endless = |flow: &&usize| run.flows[**flow].bytes.is_none();
        if all.len() < 2 || all.iter().filter(endless).count() < all.len() {
            return Self::default();
        }
        let (from_s, end_s) = common_span(run, &all);
        let bytes = Arrived::of(run, &all).between(from_s, end_s);
        let Some(bytes) = bytes.into_iter().collect::<Option<Vec<f64>>>() else {
            return Self::default();
        };
        let fair = mean(&bytes);
        let (tested, others) = bytes.split_at(run.tested.len());
        if fair <= 0.0 {
            return Self::default();
        }
        let starves = |bytes: &[f64]| bytes.iter().any(|it| *it < STARVED_SHARE * fair);
        let long_enough = end_s - from_s >= STARVED_S;
        let starved = match (long_enough, starves(tested), starves(others)) {
            (true, true, _) => "tested",
            (true, false, true) => "neighbour",
            _ => "",
        };
        let is_starving = !starved.is_empty();
        let drivers = |is_meant: &dyn Fn(f64) -> bool| {
            let those = all.iter().zip(&bytes).filter(|(_, it)| is_starving && is_meant(**it));
            let names = those.map(|(flow, _)| run.flows[*flow].driver.to_string());
            names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
        };
        let even = payload_carried(run, from_s, end_s).map_or(fair, |it| it / bytes.len() as f64);
        let friendliness = (1.0 - (mean(tested) / even - 1.0).abs()).max(0.0);
        let rate = |bytes: f64| bytes * 8.0 / 1e6 / (end_s - from_s);
        let beside = !others.is_empty();
        Self {
            share: beside.then(|| mean(tested) / fair),
            friendliness: beside.then_some(friendliness),
            of_equal_share: beside.then(|| mean(tested) / even),
            neighbour_mbit_per_sec: beside.then(|| rate(mean(others))),
            starved,
            starved_drivers: drivers(&|it| it < STARVED_SHARE * fair),
            starved_by: drivers(&|it| it > fair),
        }
    }
}

/// The begin and the end, in seconds, of the time in which all these flows are active, without the
/// time to settle.
pub(super) fn common_span(run: &Run<'_>, flows: &[usize]) -> (f64, f64) {
    let lives: Vec<_> = flows.iter().map(|flow| run.life_s(*flow)).collect();
    let met_s = lives.iter().map(|life| life.0).fold(0.0, f64::max);
    let end_s = lives.iter().map(|life| life.1).fold(f64::INFINITY, f64::min);
    let from_s = met_s + SETTLING_S.min((end_s - met_s) / 2.0);
    // Samples are 0.1 s apart, so a span between two of them is exact.
    ((from_s * 10.0).round() / 10.0, end_s)
}

/// The payload that the bottleneck could have carried; `None` if nothing limits it.
pub(super) fn payload_carried(run: &Run<'_>, from_s: f64, to_s: f64) -> Option<f64> {
    let [from, to] = [from_s, to_s].map(|at_s| Nanos::from_millis_f64(at_s * 1e3));
    let mss = run.tested.first().map_or(1.0, |flow| f64::from(run.flows[*flow].mss_bytes));
    let carried = run.capacity.bytes(from, to).filter(|bytes| *bytes > 0.0)?;
    Some(carried * mss / (mss + f64::from(HEADER_BYTES)))
}
