//! How much got through, and how soon after the link became faster.
//!
//! - **goodput**: payload of the tested flows that arrived, each byte once, over the time from the
//!   first one's start to the last one's end (RFC 7928, section 2.5).
//! - **utilisation**: IP bytes of all flows' payload, headers added, over what the bottleneck could
//!   have carried in the whole run ([`Capacity`](remuda_link::Capacity)); Pantheon's. At most 1,
//!   but for a policer's burst.
//! - **retransmitted**: segments of the tested flows sent again, of all they sent.
//! - **dropped**: packets the bottleneck dropped, of all that came to it; Pantheon's loss.
//! - **response**: where the link's rate steps up, the time until the tested flows have had 90 % of
//!   the new rate for a look (0.1 s); the median over steps, a step without it counting in full.
//!   Only where a constant rate has steps and one flow is alone. (ccBench's responsiveness.)

use super::{Run, median};
use remuda_link::Nanos;
use remuda_scenarios::HEADER_BYTES;
use remuda_scenarios::outcome::FlowSample;

/// The share of the new rate that counts as reached.
const REACHED: f64 = 0.9;

/// See this file's head.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Payload of the tested flows.
    pub goodput_mbit_per_sec: f64,
    /// The bottleneck's mean capacity; `None` if nothing limits it.
    pub capacity_mbit_per_sec: Option<f64>,
    /// How much of it was used.
    pub utilisation: Option<f64>,
    /// Random loss as the scenario has it at the start.
    pub path_loss_percent: f64,
    /// Sent again, of what was sent.
    pub retransmitted_percent: f64,
    /// Dropped, of what came.
    pub dropped_percent: f64,
    /// From a step up to 90 % of it.
    pub response_s: Option<f64>,
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

impl Throughput {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        let lives: Vec<_> = run.tested.iter().map(|flow| run.life_s(*flow)).collect();
        let start_s = lives.iter().map(|life| life.0).fold(f64::INFINITY, f64::min);
        let end_s = lives.iter().map(|life| life.1).fold(0.0, f64::max);
        let bytes: u64 = run.outcomes(&run.tested).map(|flow| flow.delivered_bytes).sum();
        let span_s = end_s - start_s;
        let goodput = if span_s > 0.0 { bytes as f64 * 8.0 / 1e6 / span_s } else { 0.0 };
        let duration_s = run.scenario.duration_s;
        let capacity = run.capacity.bytes(Nanos::ZERO, run.scenario.duration());
        let pairs = run.flows.iter().zip(&run.outcome.flows);
        let carried: f64 = pairs
            .map(|(spec, flow)| {
                let mss = f64::from(spec.mss_bytes);
                flow.delivered_bytes as f64 * (mss + f64::from(HEADER_BYTES)) / mss
            })
            .sum();
        let sent = run.outcomes(&run.tested).map(|flow| flow.sent_pkts).sum();
        let again = run.outcomes(&run.tested).map(|flow| flow.retransmitted_pkts).sum();
        let link = run.bottleneck;
        Self {
            goodput_mbit_per_sec: goodput,
            capacity_mbit_per_sec: capacity.map(|bytes| bytes * 8.0 / 1e6 / duration_s),
            utilisation: capacity.filter(|it| *it > 0.0).map(|bytes| carried / bytes),
            path_loss_percent: run.bottleneck_spec.loss_percent,
            retransmitted_percent: percent(again, sent),
            dropped_percent: percent(link.dropped_pkts, link.packets_in),
            response_s: response_s(run),
        }
    }
}

/// Moments at which the rate steps up, with the rate before and from then on, and until when.
fn steps_up(run: &Run<'_>) -> Vec<(f64, f64, f64)> {
    let spec = &run.bottleneck_spec;
    let Some(mut before) = spec.rate_mbit_per_sec else { return Vec::new() };
    let duration_s = run.scenario.duration_s;
    let period_s = spec.rate_steps_period_s.unwrap_or(f64::INFINITY);
    let first = before;
    let mut all = Vec::new();
    let mut base_s = 0.0;
    while base_s < duration_s && !spec.rate_steps.is_empty() {
        let steps = spec.rate_steps.iter().map(|step| (step.at_s, step.rate_mbit_per_sec));
        let again = (base_s > 0.0).then_some((0.0, first));
        for (at_s, rate) in again.into_iter().chain(steps) {
            all.push((base_s + at_s, before, rate));
            before = rate;
        }
        base_s += period_s;
    }
    let moments: Vec<f64> = all.iter().map(|step| step.0).collect();
    let untils = moments.into_iter().skip(1).chain([duration_s]);
    let with_until = all.into_iter().zip(untils);
    let up = with_until.filter(|((at_s, before, rate), _)| rate > before && *at_s < duration_s);
    up.map(|((at_s, _, rate), until_s)| (at_s, rate, until_s.min(duration_s))).collect()
}

fn response_s(run: &Run<'_>) -> Option<f64> {
    let [flow] = run.tested[..] else { return None };
    if !run.neighbours.is_empty() {
        return None;
    }
    let of_flow = |sample: &&FlowSample| sample.flow as usize == flow;
    let samples: Vec<&FlowSample> = run.outcome.flow_samples.iter().filter(of_flow).collect();
    if samples.is_empty() {
        return None;
    }
    let payload = f64::from(run.flows[flow].mss_bytes);
    let share = REACHED * payload / (payload + f64::from(HEADER_BYTES));
    let waits = steps_up(run).into_iter().map(|(at_s, rate, until_s)| {
        let looks = samples.windows(2).filter(|pair| pair[0].t_s >= at_s && pair[1].t_s <= until_s);
        let reached = looks.into_iter().find(|pair| {
            let bytes = pair[1].delivered_bytes - pair[0].delivered_bytes;
            bytes as f64 * 8.0 / 1e6 >= share * rate * (pair[1].t_s - pair[0].t_s)
        });
        reached.map_or(until_s, |pair| pair[1].t_s) - at_s
    });
    median(&waits.collect::<Vec<_>>())
}
