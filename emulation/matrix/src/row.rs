//! The result of a run, as one row: see `emulation/matrix/README.md` for each metric's formula.

use crate::metrics::{Completion, Delay, Fairness, Sharing, Throughput, former_merit};
use crate::plan::Job;
use remuda_results::{Rows, column};
use remuda_scenarios::{Environment, Expectation};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes of the hash that tells environments of one name apart.
const HASH_BYTES: usize = 8;

/// A run and its metrics. `None` where the run has no such figure: it has no neighbour, no step of
/// the rate, no transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub suite: String,
    /// The letter of the group, or the paper's id.
    pub group: String,
    pub family: String,
    pub environment: String,
    /// A hash of the environment's content, without the tested driver and the seed. Two rows of one
    /// name and different hashes are of two environments.
    pub scenario: String,
    /// The kind of path, as `cellular`.
    pub path: String,
    /// The value on each axis, as `axis=label`, separated by blanks.
    pub factors: String,
    pub driver: String,
    pub engine: String,
    /// 1 if other processes of the machine disturbed a live run, otherwise 0.
    pub disturbed: u64,
    /// The drivers of all other flows that respond to congestion.
    pub neighbours: String,
    pub seed: u64,
    /// Mean capacity of the bottleneck over the run.
    pub capacity_mbit_per_sec: Option<f64>,
    /// Round trip of the path when no packet waits.
    pub path_rtt_ms: f64,
    /// Size of the bottleneck's queue, in BDPs.
    pub queue_bdp: Option<f64>,
    /// Random loss of the bottleneck.
    pub path_loss_percent: f64,
    /// Goodput of the tested flows.
    pub goodput_mbit_per_sec: f64,
    /// Share of the bottleneck that all flows used.
    pub utilisation: Option<f64>,
    /// Share of the tested flows' segments that were sent again.
    pub retransmitted_percent: f64,
    /// Share of the packets that the bottleneck dropped.
    pub dropped_percent: f64,
    /// Time in the bottleneck's queue, with the transmission.
    pub queueing_mean_ms: f64,
    pub queueing_p50_ms: f64,
    pub queueing_p95_ms: f64,
    pub queueing_p99_ms: f64,
    /// One-way delay, with the queue.
    pub delay_mean_ms: f64,
    pub delay_p50_ms: f64,
    pub delay_p95_ms: f64,
    pub delay_p99_ms: f64,
    /// Goodput over mean delay.
    pub power: f64,
    /// Goodput over the 95th percentile of the delay.
    pub power95: f64,
    /// Goodput squared over mean delay, as in ccBench.
    pub score: f64,
    /// The figure that the ranking compares: see `metrics/merit.rs`.
    pub merit: f64,
    /// The merit of commit b1bd1fe: see `metrics/former_merit.rs`.
    pub former_merit: f64,
    /// Median time from a step up of the rate until 90 % of the new rate arrives.
    pub response_s: Option<f64>,
    /// Median Jain's index over spans of 100 ms.
    pub jain_100ms: Option<f64>,
    /// Median Jain's index over spans of 1 s.
    pub jain_1s: Option<f64>,
    /// Jain's index over the flows' lives.
    pub jain: Option<f64>,
    /// From the last arrival until each flow has its share for 5 s.
    pub convergence_s: Option<f64>,
    /// Goodput of the flow with the longer round trip over that of the other.
    pub rtt_fairness: Option<f64>,
    /// A tested flow's goodput over an equal share, while its neighbours are active.
    pub share: Option<f64>,
    /// 1 less the distance of the goodput from an equal share of the link, in such shares.
    pub friendliness: Option<f64>,
    /// Mean goodput of a neighbour in that time.
    pub neighbour_mbit_per_sec: Option<f64>,
    /// `tested`, `neighbour`, or empty.
    pub starved: String,
    /// The drivers of the flows that starved, separated by commas.
    pub starved_drivers: String,
    /// The drivers of the flows that had more than an equal share in that time.
    pub starved_by: String,
    /// Share of the tested transfers that ended.
    pub completed_percent: Option<f64>,
    /// Completion time of transfers below 100 kB.
    pub fct_small_p50_ms: Option<f64>,
    pub fct_small_p95_ms: Option<f64>,
    pub fct_small_p99_ms: Option<f64>,
    /// Completion time of transfers of 100 kB to 1 MB.
    pub fct_medium_p50_ms: Option<f64>,
    pub fct_medium_p95_ms: Option<f64>,
    pub fct_medium_p99_ms: Option<f64>,
    /// Completion time of transfers above 1 MB.
    pub fct_large_p50_ms: Option<f64>,
    pub fct_large_p95_ms: Option<f64>,
    pub fct_large_p99_ms: Option<f64>,
    /// Completion time over that of an idle path.
    pub slowdown_p50: Option<f64>,
    pub slowdown_p95: Option<f64>,
    pub slowdown_p99: Option<f64>,
    /// Number of changes of the tested flows' arms.
    pub switches: u64,
    /// Segments sent again within 2 s after a change of arm.
    pub switch_cost_pkts: Option<f64>,
    /// Number of the environment's pass/fail lines.
    pub expected: u64,
    /// The lines that failed, as `METRIC >= VALUE (VALUE)`, separated by semicolons.
    pub missed: String,
}

/// The table of a matrix.
pub const ROWS: Rows<Row> = Rows {
    name: "matrix",
    columns: &[
        column!(suite: Text),
        column!(group: Text),
        column!(family: Text),
        column!(environment: Text),
        column!(scenario: Text),
        column!(path: Text),
        column!(factors: Text),
        column!(driver: Text),
        column!(engine: Text),
        column!(disturbed: U64, "flag"),
        column!(neighbours: Text),
        column!(seed: U64, "seed"),
        column!(capacity_mbit_per_sec: Maybe, "Mbit/s"),
        column!(path_rtt_ms: F64, "ms"),
        column!(queue_bdp: Maybe, "BDP"),
        column!(path_loss_percent: F64, "%"),
        column!(goodput_mbit_per_sec: F64, "Mbit/s"),
        column!(utilisation: Maybe, "share"),
        column!(retransmitted_percent: F64, "%"),
        column!(dropped_percent: F64, "%"),
        column!(queueing_mean_ms: F64, "ms"),
        column!(queueing_p50_ms: F64, "ms"),
        column!(queueing_p95_ms: F64, "ms"),
        column!(queueing_p99_ms: F64, "ms"),
        column!(delay_mean_ms: F64, "ms"),
        column!(delay_p50_ms: F64, "ms"),
        column!(delay_p95_ms: F64, "ms"),
        column!(delay_p99_ms: F64, "ms"),
        column!(power: F64, "Mbit/s/ms"),
        column!(power95: F64, "Mbit/s/ms"),
        column!(score: F64, "(Mbit/s)^2/ms"),
        column!(merit: F64, "merit"),
        column!(former_merit: F64, "merit of b1bd1fe"),
        column!(response_s: Maybe, "s"),
        column!(jain_100ms: Maybe, "index"),
        column!(jain_1s: Maybe, "index"),
        column!(jain: Maybe, "index"),
        column!(convergence_s: Maybe, "s"),
        column!(rtt_fairness: Maybe, "ratio"),
        column!(share: Maybe, "ratio"),
        column!(friendliness: Maybe, "share"),
        column!(neighbour_mbit_per_sec: Maybe, "Mbit/s"),
        column!(starved: Text),
        column!(starved_drivers: Text),
        column!(starved_by: Text),
        column!(completed_percent: Maybe, "%"),
        column!(fct_small_p50_ms: Maybe, "ms"),
        column!(fct_small_p95_ms: Maybe, "ms"),
        column!(fct_small_p99_ms: Maybe, "ms"),
        column!(fct_medium_p50_ms: Maybe, "ms"),
        column!(fct_medium_p95_ms: Maybe, "ms"),
        column!(fct_medium_p99_ms: Maybe, "ms"),
        column!(fct_large_p50_ms: Maybe, "ms"),
        column!(fct_large_p95_ms: Maybe, "ms"),
        column!(fct_large_p99_ms: Maybe, "ms"),
        column!(slowdown_p50: Maybe, "ratio"),
        column!(slowdown_p95: Maybe, "ratio"),
        column!(slowdown_p99: Maybe, "ratio"),
        column!(switches: U64, "count"),
        column!(switch_cost_pkts: Maybe, "packets"),
        column!(expected: U64, "count"),
        column!(missed: Text),
    ],
};

/// A hash of the environment's content, without the tested driver and the seed. A trace counts by
/// its name, because a worker on another machine has only that.
pub fn scenario_hash(environment: &Environment) -> String {
    // A scenario that is not valid has been refused before its run.
    let text = environment.scenario("reno", 0).ok().and_then(|it| it.to_toml().ok());
    let hash = Sha256::digest(text.unwrap_or_default());
    hash.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The measured figures of a run.
pub(crate) struct Measured {
    pub merit: f64,
    pub throughput: Throughput,
    pub delay: Delay,
    pub fairness: Fairness,
    pub sharing: Sharing,
    pub completion: Completion,
    /// Number of changes of arm, and segments sent again within 2 s after them.
    pub switches: (u64, Option<f64>),
    pub neighbours: String,
}

impl Row {
    /// A stored row may spell the driver otherwise: the row gets the names of the job.
    pub(crate) fn named_for(self, job: &Job) -> Self {
        let environment = &job.environment;
        let factors = environment.factors.iter().map(|(axis, label)| format!("{axis}={label}"));
        let row = Self {
            suite: environment.suite.clone(),
            group: environment.group.clone(),
            family: environment.family.clone(),
            environment: environment.name.clone(),
            scenario: scenario_hash(environment),
            path: environment.path.name().to_owned(),
            factors: factors.collect::<Vec<_>>().join(" "),
            driver: job.driver.clone(),
            seed: job.seed,
            expected: environment.expect.len() as u64,
            ..self
        };
        let missed = row.missed(&environment.expect);
        Self { missed, ..row }
    }

    /// The value in a column of numbers; `None` if the column does not exist or is empty.
    pub fn value(&self, column: &str) -> Option<f64> {
        serde_json::to_value(self).ok()?.get(column)?.as_f64()
    }

    fn missed(&self, expectations: &[Expectation]) -> String {
        let missed = expectations.iter().filter_map(|line| match self.value(&line.metric) {
            Some(value) if line.is_met_by(value) => None,
            Some(value) => Some(format!("{line} ({value:.3})")),
            None => Some(format!("{line} (none)")),
        });
        missed.collect::<Vec<_>>().join("; ")
    }

    pub(crate) fn of(job: &Job, engine: &str, measured: Measured) -> Self {
        let Measured { merit, throughput, delay, fairness, sharing, completion, .. } = measured;
        let [small, medium, large] = completion.fct_ms;
        let slowdown = completion.slowdown;
        let goodput = throughput.goodput_mbit_per_sec;
        let over = |ms: f64| if ms > 0.0 { goodput / ms } else { 0.0 };
        let score = goodput * over(delay.one_way_mean_ms);
        let row = Self {
            engine: engine.to_owned(),
            capacity_mbit_per_sec: throughput.capacity_mbit_per_sec,
            path_rtt_ms: delay.path_rtt_ms,
            queue_bdp: delay.queue_bdp,
            path_loss_percent: throughput.path_loss_percent,
            goodput_mbit_per_sec: goodput,
            utilisation: throughput.utilisation,
            retransmitted_percent: throughput.retransmitted_percent,
            dropped_percent: throughput.dropped_percent,
            queueing_mean_ms: delay.queueing_mean_ms,
            queueing_p50_ms: delay.queueing_p50_ms,
            queueing_p95_ms: delay.queueing_p95_ms,
            queueing_p99_ms: delay.queueing_p99_ms,
            delay_mean_ms: delay.one_way_mean_ms,
            delay_p50_ms: delay.one_way_p50_ms,
            delay_p95_ms: delay.one_way_p95_ms,
            delay_p99_ms: delay.one_way_p99_ms,
            power: over(delay.one_way_mean_ms),
            power95: over(delay.one_way_p95_ms),
            score,
            merit,
            former_merit: former_merit(
                score,
                sharing.friendliness,
                completion.completed_percent,
                slowdown.map(|it| it[1]),
            ),
            response_s: throughput.response_s,
            jain_100ms: fairness.jain_100ms,
            jain_1s: fairness.jain_1s,
            jain: fairness.jain,
            convergence_s: fairness.convergence_s,
            rtt_fairness: fairness.rtt_fairness,
            share: sharing.share,
            friendliness: sharing.friendliness,
            neighbour_mbit_per_sec: sharing.neighbour_mbit_per_sec,
            starved: sharing.starved.to_owned(),
            starved_drivers: sharing.starved_drivers,
            starved_by: sharing.starved_by,
            completed_percent: completion.completed_percent,
            fct_small_p50_ms: small.map(|it| it[0]),
            fct_small_p95_ms: small.map(|it| it[1]),
            fct_small_p99_ms: small.map(|it| it[2]),
            fct_medium_p50_ms: medium.map(|it| it[0]),
            fct_medium_p95_ms: medium.map(|it| it[1]),
            fct_medium_p99_ms: medium.map(|it| it[2]),
            fct_large_p50_ms: large.map(|it| it[0]),
            fct_large_p95_ms: large.map(|it| it[1]),
            fct_large_p99_ms: large.map(|it| it[2]),
            slowdown_p50: slowdown.map(|it| it[0]),
            slowdown_p95: slowdown.map(|it| it[1]),
            slowdown_p99: slowdown.map(|it| it[2]),
            neighbours: measured.neighbours,
            switches: measured.switches.0,
            switch_cost_pkts: measured.switches.1,
            ..Self::default()
        };
        row.named_for(job)
    }
}
