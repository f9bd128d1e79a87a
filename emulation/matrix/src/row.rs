//! What came of a run, as one row: see `emulation/matrix/README.md` for each metric's formula.

use crate::metrics::{Completion, Delay, Fairness, Sharing, Throughput, merit};
use crate::plan::Job;
use remuda_results::{Rows, column};
use remuda_scenarios::{Environment, Expectation};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Of a hash that tells environments of one name apart.
const HASH_BYTES: usize = 8;

/// A run and its metrics. `None` is what the run cannot say: no neighbour, no steps, no end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The suite that has the environment.
    pub suite: String,
    /// The letter of its group, or the paper's id.
    pub group: String,
    pub family: String,
    /// Its name, which no other of the suite has.
    pub environment: String,
    /// What the environment is made of, whoever is tested and with whatever seed: a hash. Two rows
    /// of one name and another hash are of two environments.
    pub scenario: String,
    /// What kind of path it is like.
    pub path: String,
    /// Its place on each axis, as `axis=label` with blanks between.
    pub factors: String,
    pub driver: String,
    pub engine: String,
    /// 1 if others on the machine disturbed a live run, otherwise 0.
    pub disturbed: u64,
    /// Who shares the path: the drivers of all other flows that listen to congestion.
    pub neighbours: String,
    pub seed: u64,
    /// The bottleneck's mean capacity over the run.
    pub capacity_mbit_per_sec: Option<f64>,
    /// The round trip of the idle path.
    pub path_rtt_ms: f64,
    /// What the bottleneck's queue holds, in BDPs.
    pub queue_bdp: Option<f64>,
    /// Random loss of the bottleneck.
    pub path_loss_percent: f64,
    /// How much the tested flows got.
    pub goodput_mbit_per_sec: f64,
    /// How much of the link was used, by all flows.
    pub utilisation: Option<f64>,
    /// Segments of the tested flows that were sent again.
    pub retransmitted_percent: f64,
    /// Packets that the bottleneck dropped.
    pub dropped_percent: f64,
    /// Time in the bottleneck's queue.
    pub queueing_mean_ms: f64,
    /// Half waited no longer.
    pub queueing_p50_ms: f64,
    /// 95 % waited no longer.
    pub queueing_p95_ms: f64,
    /// 99 % waited no longer.
    pub queueing_p99_ms: f64,
    /// One way, with the queue.
    pub delay_mean_ms: f64,
    /// Half took no longer.
    pub delay_p50_ms: f64,
    /// 95 % took no longer.
    pub delay_p95_ms: f64,
    /// 99 % took no longer.
    pub delay_p99_ms: f64,
    /// Goodput over mean delay.
    pub power: f64,
    /// Goodput over the 95th percentile of the delay.
    pub power95: f64,
    /// Goodput squared over mean delay: ccBench's.
    pub score: f64,
    /// What the ranking compares: score, friendliness, or the inverse of the slowdown.
    pub merit: f64,
    /// Time from a step up of the rate until 90 % of it is used: the median.
    pub response_s: Option<f64>,
    /// Jain's index over tenths of a second: the median.
    pub jain_100ms: Option<f64>,
    /// Over seconds: the median.
    pub jain_1s: Option<f64>,
    /// Over the flows' lives.
    pub jain: Option<f64>,
    /// From the last arrival until each flow has its share for 5 s.
    pub convergence_s: Option<f64>,
    /// Goodput of the flow with the longer round trip to that of the other.
    pub rtt_fairness: Option<f64>,
    /// A tested flow's goodput to an even share, while its neighbours are there.
    pub share: Option<f64>,
    /// 1 less the distance of its goodput from an even share of the link.
    pub friendliness: Option<f64>,
    /// What each neighbour got then.
    pub neighbour_mbit_per_sec: Option<f64>,
    /// Who starved: `tested`, `neighbour`, or nobody.
    pub starved: String,
    /// The drivers of the flows that did.
    pub starved_drivers: String,
    /// The drivers of those that had more than an even share meanwhile.
    pub starved_by: String,
    /// Share of the tested transfers that ended.
    pub completed_percent: Option<f64>,
    /// Completion time of those below 100 kB.
    pub fct_small_p50_ms: Option<f64>,
    /// 95 % took no longer.
    pub fct_small_p95_ms: Option<f64>,
    /// 99 % took no longer.
    pub fct_small_p99_ms: Option<f64>,
    /// Completion time of those of 100 kB to 1 MB.
    pub fct_medium_p50_ms: Option<f64>,
    /// 95 % took no longer.
    pub fct_medium_p95_ms: Option<f64>,
    /// 99 % took no longer.
    pub fct_medium_p99_ms: Option<f64>,
    /// Completion time of those above 1 MB.
    pub fct_large_p50_ms: Option<f64>,
    /// 95 % took no longer.
    pub fct_large_p95_ms: Option<f64>,
    /// 99 % took no longer.
    pub fct_large_p99_ms: Option<f64>,
    /// Completion time to that of an idle path: the median.
    pub slowdown_p50: Option<f64>,
    /// 95 % were slowed down no more.
    pub slowdown_p95: Option<f64>,
    /// 99 % were slowed down no more.
    pub slowdown_p99: Option<f64>,
    /// Changes of the tested flows' arms.
    pub switches: u64,
    /// Segments sent again within 2 s after them.
    pub switch_cost_pkts: Option<f64>,
    /// Pass/fail lines of the environment.
    pub expected: u64,
    /// Those that it fails, as `METRIC >= VALUE (VALUE)` with semicolons between.
    pub missed: String,
}

/// The one table of a matrix.
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

/// What an environment is made of, whoever is tested and with whatever seed. Of a trace it has the
/// name, as a worker on another machine has.
pub fn scenario_hash(environment: &Environment) -> String {
    // One that is none of its own has been refused before it ran.
    let text = environment.scenario("reno", 0).ok().and_then(|it| it.to_toml().ok());
    let hash = Sha256::digest(text.unwrap_or_default());
    hash.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// All that was measured of a run.
pub(crate) struct Measured {
    pub throughput: Throughput,
    pub delay: Delay,
    pub fairness: Fairness,
    pub sharing: Sharing,
    pub completion: Completion,
    /// Changes of arm, and segments sent again within 2 s after them.
    pub switches: (u64, Option<f64>),
    /// The drivers of neighbours.
    pub neighbours: String,
}

impl Row {
    /// Whoever asked for it first, the row says who asks now.
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

    /// What it has in a column of numbers; `None` for a column that is not there, or has none.
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
        let Measured { throughput, delay, fairness, sharing, completion, .. } = measured;
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
            merit: merit(score, &sharing, &completion),
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
