//! What CUBIC flows keep beside a flow of a policy, and how flows of one policy share.

use crate::BUFFERS;
use remuda_bench::Error;
use remuda_bench::antelope::figures::jain;
use remuda_bench::lingbo::scene::{Scene, WIRED, goodput};
use remuda_bench::stats::Mean;
use remuda_bench::stats::target::{Row, Target};
use std::ops::RangeInclusive;

pub const HEAD: &str = "\
# What a neighbour keeps beside a policy

`make harm` writes this page, simulated. A flow of each policy, with the default preference, starts
on a wired path of 12 Mbit/s and 40 ms, and half a second later one CUBIC flow, or the first of four
that start half a second apart; all run for a minute. A figure is the goodput of the CUBIC flow over
its goodput beside another CUBIC flow on the same path and seed; of four CUBIC flows, the least
goodput over the least beside another CUBIC. Jain's index is that of five flows of the policy, half
a second apart, over the second half of the minute. The mean over the seeds has a 95 % interval
(Student's t). [harm.md](harm.md) has the same for single arms.

";

/// The policies, and whether they have targets.
const POLICIES: [(&str, bool); 3] = [("antelope", true), ("rein", true), ("tcp_rl", false)];
/// Each CUBIC keeps so much of what it has beside another CUBIC.
const KEPT_MIN: f64 = 0.6;
const JAIN_MIN: f64 = 0.95;
const SECONDS: f64 = 60.0;
const APART_S: f64 = 0.5;

fn scene(driver: &str, beside: &str, others: u32, buffer_pkts: u64) -> Scene {
    let mut scene = Scene::new(WIRED, driver);
    (scene.seconds, scene.buffer_pkts) = (SECONDS, buffer_pkts);
    scene.flows.extend((1..=others).map(|nth| (beside.to_owned(), f64::from(nth) * APART_S)));
    scene
}

/// The least goodput of the CUBIC flows beside a flow of `driver`, in Mbit/s.
fn least(driver: &str, cubics: u32, buffer_pkts: u64, seed: u64) -> Result<f64, Error> {
    let outcome = scene(driver, "cubic", cubics, buffer_pkts).run(seed)?;
    let others = outcome.flows[1..].iter().map(|flow| flow.goodput_mbit_per_sec);
    Ok(others.fold(f64::INFINITY, f64::min))
}

/// Jain's index of five flows.
fn evenness(driver: &str, buffer_pkts: u64, seed: u64) -> Result<f64, Error> {
    let outcome = scene(driver, driver, 4, buffer_pkts).run(seed)?;
    let each: Vec<f64> =
        (0..5).map(|flow| goodput(&outcome, flow, SECONDS / 2.0, SECONDS)).collect();
    Ok(jain(&each).unwrap_or(0.0))
}

/// The rows of all policies. `each` sees every row as soon as it is measured.
///
/// # Errors
///
/// The simulator refuses a scenario.
pub fn rows(seeds: &RangeInclusive<u64>, mut each: impl FnMut(&Row)) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    let mut add = |row: Row| {
        each(&row);
        rows.push(row);
    };
    for (policy, has_target) in POLICIES {
        let target = |least| if has_target { Target::AtLeast(least) } else { Target::Shown };
        for (cubics, name) in [(1, "one CUBIC"), (4, "four CUBICs")] {
            for (bdps, buffer_pkts) in BUFFERS {
                let kept = seeds.clone().map(|seed| {
                    let alike = least("cubic", cubics, buffer_pkts, seed)?;
                    Ok(least(policy, cubics, buffer_pkts, seed)? / alike)
                });
                let got = Mean::of(&kept.collect::<Result<Vec<f64>, Error>>()?);
                let what = format!("{name}, {bdps} BDP");
                add(Row { id: policy, what, paper: "", target: target(KEPT_MIN), got });
            }
        }
        for (bdps, buffer_pkts) in BUFFERS {
            let even = seeds.clone().map(|seed| evenness(policy, buffer_pkts, seed));
            let got = Mean::of(&even.collect::<Result<Vec<f64>, Error>>()?);
            let what = format!("Jain's index of five, {bdps} BDP");
            add(Row { id: policy, what, paper: "", target: target(JAIN_MIN), got });
        }
    }
    Ok(rows)
}
