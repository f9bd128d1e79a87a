//! How long packets took.
//!
//! - **queueing delay**: from arrival at the bottleneck's queue to the end of transmission, over
//!   all packets that passed, of all flows (RFC 7928, section 2.6).
//! - **one-way delay**: from the sender to the receiver, of every segment of a tested flow that
//!   arrived (RFC 7679). With several tested flows it is the mean of their figures. Real TCP does
//!   not report one-way delay. A live run uses the queueing delay of all packets plus the
//!   propagation delay, as at the start and without jitter, of the links that data crosses. This is
//!   ccBench's delay. Power is made with it: goodput over mean delay (Kleinrock, 1979), power95
//!   over the 95th percentile (LingBo, section 5.1), and score is goodput squared over mean delay
//!   (ccBench).

use super::quantile::mean;
use super::run::Run;
use remuda_link::{Direction, Nanos};
use remuda_scenarios::outcome::FlowOutcome;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delay {
    /// The round trip of the first tested flow's path when no packet waits.
    pub path_rtt_ms: f64,
    /// The delay of the links that data crosses, as at the start and without jitter.
    pub propagation_ms: f64,
    /// Size of the bottleneck's queue in BDPs of that path; `None` if the queue has no limit.
    pub queue_bdp: Option<f64>,
    pub queueing_mean_ms: f64,
    pub queueing_p50_ms: f64,
    pub queueing_p95_ms: f64,
    pub queueing_p99_ms: f64,
    pub one_way_mean_ms: f64,
    pub one_way_p50_ms: f64,
    pub one_way_p95_ms: f64,
    pub one_way_p99_ms: f64,
}

impl Delay {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        let first = run.tested.first().map(|flow| &run.flows[*flow]);
        let rtt = first.map_or(Nanos::ZERO, |flow| run.scenario.rtt_of(flow));
        let links = first.into_iter().flat_map(|flow| &flow.route);
        let specs = links.filter_map(|name| run.scenario.links.get(name));
        let propagation_ms: f64 = specs.map(|spec| spec.delay_ms).sum();
        let link = run.bottleneck;
        let one_way = |of: fn(&FlowOutcome) -> Option<f64>, queueing_ms: f64| {
            let measured: Vec<f64> = run.outcomes(&run.tested).filter_map(of).collect();
            mean(&measured).unwrap_or(propagation_ms + queueing_ms)
        };
        Self {
            path_rtt_ms: rtt.0 as f64 / 1e6,
            propagation_ms,
            queue_bdp: queue_bdp(run, rtt),
            queueing_mean_ms: link.queueing_mean_ms,
            queueing_p50_ms: link.queueing_p50_ms,
            queueing_p95_ms: link.queueing_p95_ms,
            queueing_p99_ms: link.queueing_p99_ms,
            one_way_mean_ms: one_way(|flow| flow.one_way_mean_ms, link.queueing_mean_ms),
            one_way_p50_ms: one_way(|flow| flow.one_way_p50_ms, link.queueing_p50_ms),
            one_way_p95_ms: one_way(|flow| flow.one_way_p95_ms, link.queueing_p95_ms),
            one_way_p99_ms: one_way(|flow| flow.one_way_p99_ms, link.queueing_p99_ms),
        }
    }
}

/// Size of the bottleneck's queue, in BDPs of the mean capacity. A limit in packets counts as full
/// packets. A policer has no queue.
fn queue_bdp(run: &Run<'_>, rtt: Nanos) -> Option<f64> {
    if run.bottleneck_spec.policer.is_some() {
        return None;
    }
    let held = run.bottleneck_spec.queue_bytes(run.scenario.rtt(), Direction::Down).ok()??;
    let end = run.scenario.duration();
    let bytes_per_sec = run.capacity.bytes(Nanos::ZERO, end)? / run.scenario.duration_s;
    let bdp = bytes_per_sec * rtt.0 as f64 / 1e9;
    (bdp > 0.0).then(|| held / bdp)
}
