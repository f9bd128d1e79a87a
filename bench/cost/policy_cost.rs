//! The cost of a policy that evaluates boosted trees: the features of a report, the models of all
//! arms, and the agent's processor time for a hundred flows.
//!
//! The models are the shipped ones. Rows are made up, and alternate, so that branch predictors and
//! caches do not learn one of them. The agent's time is measured on real flows over one emulated
//! link in three settings: all under a fixed arm; all under the policy in a dry run, which keeps
//! the same arm and does all other work; and all under the policy. The policy's cost is the second
//! setting less the first (Zhou et al., Antelope, ICNP 2021, section VI-H). The third setting also
//! contains the cost of the chosen arms, which they have without a policy, too.

use crate::hundred_flows::{FLOWS, RATE_MBIT_PER_SEC, SPAN, core_percent};
use crate::report_cost::Course;
use crate::{Fallible, Options, Promise, Verdict};
use ccp_agent::clock;
use remuda_algorithms::units::Packets;
use remuda_algorithms::{Decision, Measurement, Preference};
use remuda_bench::stats::{Spread, percentile, sorted};
use remuda_selector::antelope::model::Model;
use remuda_selector::features::{self, Features, Units};
use std::hint::black_box;

const ROWS: usize = 512;
/// Other work uses the machine as well, so each figure is measured this often.
const PASSES: usize = 9;
const PREDICTIONS: usize = 50_000;
const REPORTS: u32 = 100_000;
/// Bound for the models of all arms for one flow; the paper has 135 to 140 ms.
const PREDICTION_NS_MAX: f64 = 10_000.0;
/// Bound in per cent of a core, for [`FLOWS`] flows.
const CORE_PERCENT_MAX: f64 = 3.0;
/// The arm that the policy is compared with, and keeps in a dry run.
const ARM: &str = "cubic";
/// Rounds differ by more than a per cent of a core, and so would the median of only three.
const ROUNDS: usize = 9;

/// The output step of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), as a number from 0 to 1.
fn share(seed: u64) -> f32 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32
}

/// The 50th and the 99th percentile, each with its spread over passes.
struct Below {
    p50: Spread,
    p99: Spread,
}

impl Below {
    fn of(mut pass: impl FnMut() -> Vec<f64>) -> Self {
        let passes: Vec<Vec<f64>> = (0..PASSES).map(|_| pass()).collect();
        let [p50, p99] =
            [50.0, 99.0].map(|at| Spread::of(passes.iter().map(|it| percentile(it, at))));
        Self { p50, p99 }
    }
}

/// Features of a made-up flow: each from a thousandth to a thousand.
fn row(nth: usize) -> Features {
    let of = |at: usize| share((nth * features::COUNT + at) as u64);
    Features(std::array::from_fn(|at| 10f32.powf(6.0 * of(at) - 3.0)))
}

/// Nanoseconds for the scores of all arms for one flow, ascending.
fn prediction_ns(model: &Model) -> Vec<f64> {
    let rows: Vec<Features> = (0..ROWS).map(row).collect();
    let took = (0..PREDICTIONS).map(|nth| {
        let row = black_box(&rows[nth % ROWS]);
        let before_ns = clock::monotonic_ns();
        black_box(model.predict(row, Preference::DEFAULT));
        (clock::monotonic_ns() - before_ns) as f64
    });
    sorted(took)
}

/// Nanoseconds for adding a report to the features, ascending; and the number of units that ended.
fn feature_ns() -> (Vec<f64>, usize) {
    let mss = remuda_algorithms::units::Bytes(1_448);
    let decision = Decision { cwnd: Packets(120).to_bytes(mss), rate: None };
    let (mut course, mut units, mut ended) = (Course::new(), Units::default(), 0);
    let took = (0..REPORTS).map(|_| {
        let m: Measurement = black_box(course.step(decision));
        let before_ns = clock::monotonic_ns();
        let unit = black_box(units.add(&m, "cubic", course.now));
        ended += usize::from(unit.is_some());
        (clock::monotonic_ns() - before_ns) as f64
    });
    let took = sorted(took.collect::<Vec<_>>());
    (took, ended)
}

/// The agent's shares of a core, over rounds.
struct Cores {
    /// Under the policy, without a dry run.
    policy: Spread,
    arm: Spread,
    /// Under the policy in a dry run, less that under the fixed arm.
    more: Spread,
}

fn cores_percent(options: &Options) -> Fallible<Cores> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("dry-run.toml");
    let name = &options.policy;
    std::fs::write(&path, format!("[policy.{name}]\ndry_run = true\nfirst = \"{ARM}\"\n"))?;
    let config = path.to_string_lossy();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let policy = core_percent(options, &["--policy", name])?;
        let arm = core_percent(options, &["--arm", ARM])?;
        let dry = core_percent(options, &["--policy", name, "--config", &config])?;
        rounds.push([policy, arm, dry - arm]);
    }
    let [policy, arm, more] =
        [0, 1, 2].map(|which| Spread::of(rounds.iter().map(|round| round[which])));
    Ok(Cores { policy, arm, more })
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## What a policy costs that asks trees\n");
    let model = Model::shipped();
    let predictions = Below::of(|| prediction_ns(&model));
    let mut units = 0;
    let reports = Below::of(|| {
        let (took, ended) = feature_ns();
        units = ended;
        took
    });
    println!("| what, {PASSES} times | p50, ns | p99, ns |\n|---|---:|---:|");
    let models = format!("the models of all {} arms, one flow", model.arms().len());
    let each = REPORTS as usize / units.max(1);
    let features = format!("a report into the features, a unit each {each} reports");
    for (what, Below { p50, p99 }) in [(models, &predictions), (features, &reports)] {
        println!("| {what} | {p50:.0} | {p99:.0} |");
    }
    let Cores { policy, arm, more } = cores_percent(options)?;
    println!(
        "\nThe agent, {FLOWS} flows over {RATE_MBIT_PER_SEC} Mbit/s and 40 ms, {ROUNDS} rounds of \
         {} s: {policy:.2} % of a core under `{}`, {arm:.2} % under `{ARM}`, {more:.2} % more if \
         the policy rides that in a dry run.",
        SPAN.as_secs(),
        options.policy,
    );
    let Below { p50, p99 } = &predictions;
    let name = &options.policy;
    Ok(vec![
        Promise {
            what: "all arms' models for one flow, p99".to_owned(),
            figure: format!("{p99:.0} ns; at p50 {p50:.0} ns"),
            bound: format!("<= {PREDICTION_NS_MAX} ns"),
            verdict: Verdict::of(p99.median <= PREDICTION_NS_MAX),
        },
        Promise::shown(
            "features of a report",
            &format!("{:.0} ns at p50, {:.0} ns at p99", reports.p50, reports.p99),
        ),
        Promise {
            what: format!("{FLOWS} flows, {name} in a dry run beyond {ARM}: of a core"),
            figure: format!("{more:.2} %"),
            bound: format!("<= {CORE_PERCENT_MAX} %"),
            verdict: Verdict::of(more.median <= CORE_PERCENT_MAX),
        },
        Promise::shown(
            &format!("{FLOWS} flows under {name}: of a core, all in all"),
            &format!("{policy:.2} %"),
        ),
        Promise::shown(
            &format!("{FLOWS} flows under {ARM}: of a core, all in all"),
            &format!("{arm:.2} %"),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_take_different_ways_through_the_trees() {
        let model = Model::shipped();
        let best = |nth| {
            let scores = model.predict(&row(nth), Preference::DEFAULT);
            scores.iter().map(|it| it.mean.to_bits()).collect::<Vec<_>>()
        };
        let all: std::collections::BTreeSet<_> = (0..ROWS).map(best).collect();
        assert_eq!(all.len(), ROWS);
    }
}
