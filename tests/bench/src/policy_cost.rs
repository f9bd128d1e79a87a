//! What a policy that asks boosted trees costs: the features of a report, the models of all arms,
//! and the agent's processor time for a hundred flows.
//!
//! The models are made up, of the shape of those that are trained: eight of a hundred trees, six
//! comparisons deep, over the schema's features. A walk through a tree costs the same whatever its
//! numbers; rows take turns, so that branches and caches learn none by heart. The agent's time is
//! of real flows over one emulated link: all under a fixed arm; all under the policy, in a dry run
//! that rides the same arm and does all else; and all under the policy as it is. What the policy
//! costs is the second less the first (Zhou et al., Antelope, ICNP 2021, section VI-H); the third
//! has in it what its arms cost, which they do without a policy, too.

use crate::cpu::Meter;
use crate::report_cost::Course;
use crate::{Fallible, Options, Promise, Verdict};
use ccp_agent::child::AgentChild;
use ccp_agent::clock;
use remuda_algorithms::units::Packets;
use remuda_algorithms::{Decision, Measurement};
use remuda_live::transfer::{Running, Transfer};
use remuda_live::{LinkSpec, PathSpec, QueueSpec, Testbed};
use remuda_selector::features::{self, Units};
use remuda_selector::trees::Ensemble;
use remuda_stats::{Spread, percentile, sorted};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Duration;

const MODELS: u64 = 8;
const TREES: u64 = 100;
const DEPTH: u32 = 6;
const ROWS: usize = 512;
const PREDICTIONS: usize = 50_000;
const REPORTS: u32 = 100_000;
/// Issue 7: all arms' models for one flow.
const PREDICTION_US_MAX: f64 = 10.0;
/// Of a core, for [`FLOWS`].
const CORE_PERCENT_MAX: f64 = 3.0;
/// What the policy is beside, and rides in a dry run.
const ARM: &str = "cubic";
const ROUNDS: usize = 3;
const FLOWS: usize = 100;
const RATE_MBIT_PER_SEC: f64 = 200.0;
/// Start-ups are not what is meant.
const SETTLING: Duration = Duration::from_secs(4);
const SPAN: Duration = Duration::from_secs(10);

/// The output step of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), as a share of 1.
fn share(seed: u64) -> f32 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32
}

/// A perfect tree over features of 0 to 1.
fn tree(seed: u64) -> Value {
    let inner = (1usize << DEPTH) - 1;
    let count = 2 * inner + 1;
    let child = |nth: usize| -> Vec<i64> {
        let of = |at: usize| if at < inner { (2 * at + nth) as i64 } else { -1 };
        (0..count).map(of).collect()
    };
    let draw = |at: usize, stream: u64| share((seed * 1_000 + at as u64) * 2 + stream);
    let feature = |at: usize| ((draw(at, 0) * features::COUNT as f32) as usize) % features::COUNT;
    let zeros = vec![0; count];
    json!({
        "left_children": child(1),
        "right_children": child(2),
        "split_indices": (0..count).map(feature).collect::<Vec<_>>(),
        "split_conditions": (0..count).map(|at| draw(at, 1)).collect::<Vec<_>>(),
        "default_left": zeros,
        "split_type": zeros,
    })
}

fn model(nth: u64) -> Fallible<Ensemble> {
    let trees: Vec<Value> = (0..TREES).map(|at| tree(nth * TREES + at)).collect();
    let text = json!({ "learner": {
        "gradient_booster": { "name": "gbtree", "model": {
            "tree_info": vec![0; trees.len()],
            "trees": trees,
        } },
        "learner_model_param": {
            "base_score": "5E-1",
            "num_feature": features::COUNT.to_string(),
        },
        "objective": { "name": "reg:squarederror" },
    } });
    Ok(Ensemble::parse(&text.to_string(), features::COUNT)?)
}

/// Nanoseconds of all models for one row, in ascending order.
fn prediction_ns() -> Fallible<Vec<f64>> {
    let models = (0..MODELS).map(model).collect::<Fallible<Vec<_>>>()?;
    let row = |nth: usize| -> Vec<f32> {
        let of = |at: usize| share((nth * features::COUNT + at) as u64 + (1 << 40));
        (0..features::COUNT).map(of).collect()
    };
    let rows: Vec<Vec<f32>> = (0..ROWS).map(row).collect();
    let took = (0..PREDICTIONS).map(|nth| {
        let row = black_box(&rows[nth % ROWS]);
        let before_ns = clock::monotonic_ns();
        let sum: f32 = models.iter().map(|model| model.predict(row)).sum();
        black_box(sum);
        (clock::monotonic_ns() - before_ns) as f64
    });
    Ok(sorted(took))
}

/// Nanoseconds of taking a report into the features, in ascending order; and how many units ended.
fn feature_ns() -> (Vec<f64>, usize) {
    let mss = remuda_algorithms::units::Bytes(1_448);
    let decision = Decision { cwnd: Packets(120).to_bytes(mss), rate: None };
    let (mut course, mut units, mut ended) = (Course::new(), Units::default(), 0);
    let took = (0..REPORTS).map(|_| {
        let m: Measurement = black_box(course.step(decision));
        let before_ns = clock::monotonic_ns();
        let unit = black_box(units.add(&m, course.now));
        ended += usize::from(unit.is_some());
        (clock::monotonic_ns() - before_ns) as f64
    });
    let took = sorted(took.collect::<Vec<_>>());
    (took, ended)
}

/// The agent's share of a core in percent, while it drives so many flows by what `driver` says.
fn core_percent(options: &Options, driver: &[&str]) -> Fallible<f64> {
    let folder = tempfile::tempdir()?;
    let name = format!("bp{}", std::process::id());
    let arguments = [&["--name", &name], driver].concat();
    let agent = AgentChild::start(&options.remuda, &folder.path().join("run"), &arguments)?;
    let down = LinkSpec {
        rate_mbit_per_sec: Some(RATE_MBIT_PER_SEC),
        delay_ms: 20.0,
        queue: QueueSpec::droptail_bdp(1.0),
        ..LinkSpec::default()
    };
    let up = LinkSpec { delay_ms: 20.0, ..LinkSpec::default() };
    let testbed = Testbed::new(&PathSpec { up, down, ..PathSpec::default() })?;
    let transfer = Transfer { algorithm: Some(name), verify: false, ..Transfer::default() };
    let start = |_| Ok(transfer.start(testbed.server(), testbed.client())?);
    let running = (0..FLOWS).map(start).collect::<Fallible<Vec<Running>>>()?;
    std::thread::sleep(SETTLING);
    let meter = Meter::new(Some(agent.pid()))?;
    let (before, started_ns) = (meter.read()?, clock::monotonic_ns());
    std::thread::sleep(SPAN);
    let used_ns = meter.read()?.since(before).agent_ns;
    let span_ns = clock::monotonic_ns() - started_ns;
    for flow in &running {
        flow.stop();
    }
    for flow in running {
        flow.join().map_err(|error| format!("{}: {error}", driver.join(" ")))?;
    }
    agent.stop()?;
    Ok(used_ns as f64 / span_ns as f64 * 100.0)
}

/// The agent's shares of a core, by rounds.
struct Cores {
    /// Under the policy as it is.
    policy: Spread,
    /// Under the arm.
    arm: Spread,
    /// Under the policy in a dry run, less that.
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

fn show(predictions: &[f64], (reports, units): (&[f64], usize)) {
    println!("| what | p50, ns | p99, ns |\n|---|---:|---:|");
    let models = format!("{MODELS} models of {TREES} trees of depth {DEPTH}, one flow");
    let each = REPORTS as usize / units.max(1);
    let features = format!("a report into the features, a unit each {each} reports");
    for (what, values) in [(models, predictions), (features, reports)] {
        let [p50, p99] = [50.0, 99.0].map(|percent| percentile(values, percent));
        println!("| {what} | {p50:.0} | {p99:.0} |");
    }
}

/// Runs it.
pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## What a policy costs that asks trees\n");
    let predictions = prediction_ns()?;
    let (reports, units) = feature_ns();
    show(&predictions, (&reports, units));
    let Cores { policy, arm, more } = cores_percent(options)?;
    println!(
        "\nThe agent, {FLOWS} flows over {RATE_MBIT_PER_SEC} Mbit/s and 40 ms, {ROUNDS} rounds of \
         {} s: {policy:.2} % of a core under `{}`, {arm:.2} % under `{ARM}`, {more:.2} % more if \
         the policy rides that in a dry run.",
        SPAN.as_secs(),
        options.policy,
    );
    let us = |percent| percentile(&predictions, percent) / 1e3;
    let (p50, p99) = (us(50.0), us(99.0));
    let [features_p50, features_p99] = [50.0, 99.0].map(|percent| percentile(&reports, percent));
    let name = &options.policy;
    Ok(vec![
        Promise {
            what: format!("{MODELS} models for one flow, p99"),
            figure: format!("{p99:.2} us (p50 {p50:.2})"),
            bound: format!("<= {PREDICTION_US_MAX} us"),
            verdict: Verdict::of(p99 <= PREDICTION_US_MAX),
        },
        Promise::shown(
            "features of a report",
            &format!("{features_p50:.0}, {features_p99:.0} ns (p50, p99)"),
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
    fn the_models_are_of_the_shape_that_is_measured() {
        let model = model(3).expect("it is one");
        assert_eq!((model.trees() as u64, model.features()), (TREES, features::COUNT));
        let rows = [0.1, 0.9].map(|value| model.predict(&[value; features::COUNT]));
        assert_ne!(rows[0], rows[1], "its trees compare");
    }
}
