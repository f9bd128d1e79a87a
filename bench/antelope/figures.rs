//! The figures of a run, each defined here once.
//!
//! - **goodput**: payload of the tested flows over the sum of their lives. A request counts for as
//!   long as it takes; a pause between requests does not count.
//! - **delay**: one-way delay of segments: the mean and the 95th percentile of each flow, weighted
//!   by the flow's payload. Real TCP does not report one-way delay; a live run uses the queueing
//!   delay of all packets at the bottleneck plus the propagation delay.
//! - **power**: goodput over the mean delay.
//! - **time shares** of arms: the share of a flow's life in which each arm drove it, averaged over
//!   flows, as in the paper's Table III.
//! - **settled**: from an event until the last change of arm that is followed by 10 s without a
//!   change.
//! - **Jain's index** of n goodputs x: (sum x)^2 / (n sum x^2).

use crate::antelope::scene::{ALL_FIVE_S, CUBIC_COMES_S};
use remuda_matrix::Job;
use remuda_scenarios::FlowSpec;
use remuda_scenarios::outcome::{FlowOutcome, Outcome, Switch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A choice has settled after this time without a change.
const SETTLED_FOR_S: f64 = 10.0;
/// The cost of a switch is counted for this long after it.
const AFTER_SWITCH_S: f64 = 2.0;

/// The result of a run. A field is `None` if the scene does not measure it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    pub goodput_mbit_per_sec: f64,
    pub delay_mean_ms: f64,
    pub delay_p95_ms: f64,
    /// Share of the packets arriving at the bottleneck that it dropped.
    pub dropped_percent: f64,
    /// Share of the tested flows' segments that were sent again.
    pub resent_percent: f64,
    /// The sum of the tested flows' lives.
    pub life_s: f64,
    /// Each arm's share of the tested flows' time.
    pub arms: BTreeMap<String, f64>,
    /// Changes of arm, summed over the tested flows.
    pub switches: u64,
    /// A5: time until the choice of arm settled; `None` if it did not settle.
    pub settled_s: Option<f64>,
    /// A5: goodput since the CUBIC flow came.
    pub beside_mbit_per_sec: Option<f64>,
    /// A5: segments sent again since the CUBIC flow came, as a mean over two seconds.
    pub resent_pkts: Option<f64>,
    /// A5: each switch since the CUBIC flow came: the new arm, and the segments sent again within
    /// two seconds.
    pub switched: Vec<(String, f64)>,
    /// A6: mean over the seconds in which all flows are active of Jain's index of that second.
    pub jain_mean: Option<f64>,
    /// A6: Jain's index over all of that time.
    pub jain_whole: Option<f64>,
    /// A7: the tested flows' part of all payload.
    pub share: Option<f64>,
    /// Whether other processes of the machine disturbed the run.
    pub is_disturbed: bool,
}

impl Figures {
    /// Goodput over the mean delay, in Mbit/s per millisecond.
    pub fn power(&self) -> f64 {
        if self.delay_mean_ms > 0.0 { self.goodput_mbit_per_sec / self.delay_mean_ms } else { 0.0 }
    }

    /// Changes of arm in a minute of a flow's life.
    pub fn switches_per_min(&self) -> f64 {
        if self.life_s > 0.0 { self.switches as f64 * 60.0 / self.life_s } else { 0.0 }
    }

    /// The figures of a job's outcome.
    pub fn of(job: &Job, outcome: &Outcome) -> Self {
        let run = Run::of(job, outcome);
        let mut figures = run.common();
        match job.environment.group.as_str() {
            "A5" => run.note_newcomer(&mut figures),
            "A6" => {
                let (from_s, to_s) = ALL_FIVE_S;
                let seconds = (from_s as u32..to_s as u32).map(f64::from);
                let each = seconds.filter_map(|at_s| jain(&run.arrived(at_s, at_s + 1.0)));
                figures.jain_mean = mean(&each.collect::<Vec<_>>());
                figures.jain_whole = jain(&run.arrived(from_s, to_s));
            }
            "A7" => {
                let all: u64 = outcome.flows.iter().map(|flow| flow.delivered_bytes).sum();
                let own: u64 = run.outcomes().map(|flow| flow.delivered_bytes).sum();
                figures.share = (all > 0).then(|| own as f64 / all as f64);
            }
            _ => {}
        }
        figures
    }
}

/// A run, and its tested flows.
struct Run<'a> {
    job: &'a Job,
    outcome: &'a Outcome,
    specs: Vec<FlowSpec>,
    tested: Vec<usize>,
}

impl<'a> Run<'a> {
    fn of(job: &'a Job, outcome: &'a Outcome) -> Self {
        let specs = job.scenario.flows_expanded();
        let tested = job.environment.tested_flows(&job.scenario);
        Self { job, outcome, specs, tested }
    }

    fn outcomes(&self) -> impl Iterator<Item = &'a FlowOutcome> {
        self.tested.iter().filter_map(|flow| self.outcome.flows.get(*flow))
    }

    /// From the flow's start to its finish, its stop or the scenario's end.
    fn life_s(&self, flow: &FlowOutcome) -> (f64, f64) {
        let stop_s = self.specs.get(flow.flow as usize).and_then(|spec| spec.stop_s);
        let last_s = stop_s.unwrap_or(f64::INFINITY).min(self.job.scenario.duration_s);
        (flow.start_s, flow.end_s.unwrap_or(last_s).min(last_s))
    }

    fn common(&self) -> Figures {
        let down = self.outcome.links.iter().find(|link| link.name == "down");
        let spec = self.job.scenario.links.get("down");
        let propagation_ms = spec.map_or(0.0, |spec| spec.delay_ms);
        let queued = |of: fn(&remuda_scenarios::outcome::LinkOutcome) -> f64| {
            propagation_ms + down.map_or(0.0, of)
        };
        let weighted = |of: fn(&FlowOutcome) -> Option<f64>| {
            let known = self.outcomes().filter_map(|flow| Some((of(flow)?, flow.delivered_bytes)));
            let (sum, bytes) = known.fold((0.0, 0.0), |(sum, all), (value, bytes)| {
                (sum + value * bytes as f64, all + bytes as f64)
            });
            (bytes > 0.0).then(|| sum / bytes)
        };
        let bytes: u64 = self.outcomes().map(|flow| flow.delivered_bytes).sum();
        let lives = self.outcomes().map(|flow| self.life_s(flow));
        let time_s: f64 = lives.map(|(from_s, to_s)| (to_s - from_s).max(0.0)).sum();
        let sent: u64 = self.outcomes().map(|flow| flow.sent_pkts).sum();
        let resent: u64 = self.outcomes().map(|flow| flow.retransmitted_pkts).sum();
        let dropped = down.filter(|link| link.packets_in > 0);
        let dropped = dropped.map(|link| link.dropped_pkts as f64 / link.packets_in as f64);
        Figures {
            goodput_mbit_per_sec: if time_s > 0.0 { bytes as f64 * 8e-6 / time_s } else { 0.0 },
            delay_mean_ms: weighted(|flow| flow.one_way_mean_ms)
                .unwrap_or_else(|| queued(|link| link.queueing_mean_ms)),
            delay_p95_ms: weighted(|flow| flow.one_way_p95_ms)
                .unwrap_or_else(|| queued(|link| link.queueing_p95_ms)),
            dropped_percent: dropped.unwrap_or(0.0) * 100.0,
            resent_percent: if sent > 0 { resent as f64 * 100.0 / sent as f64 } else { 0.0 },
            life_s: time_s,
            arms: self.arms(),
            switches: self.outcomes().map(|flow| flow.switches.len() as u64).sum(),
            ..Figures::default()
        }
    }

    fn arms(&self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        let count = self.outcomes().count().max(1) as f64;
        for flow in self.outcomes() {
            for (arm, share) in time_shares(&flow.arm, &flow.switches, self.life_s(flow)) {
                *all.entry(arm).or_default() += share / count;
            }
        }
        all
    }

    /// Bytes received and segments sent again of a flow until `at_s`, taken at the last sample
    /// before.
    fn until(&self, flow: u32, at_s: f64) -> (f64, f64) {
        let looks = self.outcome.flow_samples.iter().filter(|look| look.flow == flow);
        let before = looks.take_while(|look| look.t_s <= at_s + 1e-9).last();
        before.map_or((0.0, 0.0), |look| {
            (look.delivered_bytes as f64, look.retransmitted_pkts as f64)
        })
    }

    /// Bytes of each tested flow that arrived in a span.
    fn arrived(&self, from_s: f64, to_s: f64) -> Vec<f64> {
        let of =
            |flow: &FlowOutcome| self.until(flow.flow, to_s).0 - self.until(flow.flow, from_s).0;
        self.outcomes().map(of).collect()
    }

    fn note_newcomer(&self, figures: &mut Figures) {
        let (from_s, end_s) = (CUBIC_COMES_S, self.job.scenario.duration_s);
        let Some(flow) = self.outcomes().next() else { return };
        let (before, after) = (self.until(flow.flow, from_s), self.until(flow.flow, end_s));
        let span_s = end_s - from_s;
        figures.beside_mbit_per_sec = Some((after.0 - before.0) * 8e-6 / span_s);
        figures.resent_pkts = Some((after.1 - before.1) * AFTER_SWITCH_S / span_s);
        let moments: Vec<f64> = flow.switches.iter().map(|it| it.t_s).collect();
        figures.settled_s = settled_s(&moments, from_s, end_s);
        let since = flow.switches.iter().filter(|it| it.t_s >= from_s);
        let cost = |it: &Switch| {
            let (at, then) = (it.t_s, it.t_s + AFTER_SWITCH_S);
            (it.to.clone(), self.until(flow.flow, then).1 - self.until(flow.flow, at).1)
        };
        figures.switched = since.map(cost).collect();
    }
}

/// Each arm's share of a flow's life; `last` is the arm in charge at its end.
pub fn time_shares(
    last: &str,
    switches: &[Switch],
    (from_s, to_s): (f64, f64),
) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    let life_s = to_s - from_s;
    if life_s <= 0.0 {
        shares.insert(last.to_owned(), 1.0);
        return shares;
    }
    let mut at_s = from_s;
    for switch in switches {
        let until_s = switch.t_s.clamp(at_s, to_s);
        *shares.entry(switch.from.clone()).or_default() += (until_s - at_s) / life_s;
        at_s = until_s;
    }
    *shares.entry(last.to_owned()).or_default() += (to_s - at_s) / life_s;
    shares
}

/// Time from `event_s` until the last change of arm that is followed by [`SETTLED_FOR_S`] without a
/// change; 0 if no change comes for that long. `None` if the flow ends before. `moments` has the
/// times of all changes, in order.
pub fn settled_s(moments: &[f64], event_s: f64, end_s: f64) -> Option<f64> {
    let mut settled_s = event_s;
    for at_s in moments.iter().filter(|at_s| **at_s >= event_s) {
        if at_s - settled_s >= SETTLED_FOR_S {
            return Some(settled_s - event_s);
        }
        settled_s = *at_s;
    }
    (end_s - settled_s >= SETTLED_FOR_S).then_some(settled_s - event_s)
}

/// `None` if nothing arrived.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let (sum, squares): (f64, f64) = (shares.iter().sum(), shares.iter().map(|it| it * it).sum());
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// `None` for an empty slice.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The rank of `own` among `others`, the greatest first: 1 if no value is greater.
pub fn rank(own: f64, others: &[f64]) -> usize {
    1 + others.iter().filter(|other| **other > own).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(t_s: f64, from: &str, to: &str) -> Switch {
        Switch { t_s, from: from.to_owned(), to: to.to_owned(), why: String::new() }
    }

    #[test]
    fn time_shares_sum_to_the_whole_life() {
        let none: BTreeMap<String, f64> = [("bbr".to_owned(), 1.0)].into();
        assert_eq!(time_shares("bbr", &[], (5.0, 25.0)), none);
        assert_eq!(time_shares("bbr", &[], (5.0, 5.0)), none, "a life of no time");
        let changes = [switch(10.0, "cubic", "bbr"), switch(20.0, "bbr", "cubic")];
        let shares = time_shares("cubic", &changes, (5.0, 25.0));
        let want: BTreeMap<String, f64> =
            [("cubic".to_owned(), 0.5), ("bbr".to_owned(), 0.5)].into();
        assert_eq!(shares, want);
    }

    #[test]
    fn a_change_after_the_end_of_a_life_takes_nothing_of_it() {
        let shares = time_shares("bbr", &[switch(30.0, "cubic", "bbr")], (5.0, 25.0));
        assert_eq!(shares["cubic"], 1.0);
        assert_eq!(shares["bbr"], 0.0);
    }

    #[test]
    fn a_choice_has_settled_ten_seconds_before_the_next() {
        let of = |moments: &[f64]| settled_s(moments, 20.0, 60.0);
        assert_eq!(of(&[]), Some(0.0));
        assert_eq!(of(&[3.0, 12.0]), Some(0.0), "before the event nothing counts");
        assert_eq!(of(&[21.0, 22.5, 24.0]), Some(4.0));
        assert_eq!(of(&[21.0, 22.5, 24.0, 50.0]), Some(4.0), "later it is another choice");
        assert_eq!(of(&[31.0]), Some(0.0));
        assert_eq!(of(&[25.0, 33.0, 41.0, 49.0, 55.0]), None, "never ten seconds");
    }

    #[test]
    fn jain_is_1_if_even_and_one_nth_if_one_has_all() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0]), None);
    }

    #[test]
    fn a_rank_is_1_if_nobody_has_more() {
        assert_eq!(rank(5.0, &[1.0, 4.0]), 1);
        assert_eq!(rank(5.0, &[5.0, 6.0]), 2);
        assert_eq!(rank(0.0, &[5.0, 6.0, 7.0]), 4);
        assert_eq!(rank(1.0, &[]), 1);
    }
}
