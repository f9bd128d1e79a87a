//! C1: paths that stay as they are.

use super::scene::{Path, Run, Scene, run_all};
use remuda_bench::Error;
use remuda_bench::stats::target::{Row, Target};
use remuda_bench::stats::{Mean, percentile, sorted};
use remuda_selector::tcp_rl_policy::Networks;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// The policy, and what it is compared with.
const TESTED: [&str; 3] = ["tcp_rl", "copa", "antelope"];
/// Arms that have less than this of the best power with the first seed have no run with others.
const CONTENDER: f64 = 0.9;
/// The decisions within which a flow is to settle.
const DECISIONS: usize = 3;

/// The runs of one path with one seed, by driver.
type Runs = BTreeMap<&'static str, Run>;

/// All runs: a list of seeds, each with all paths.
pub struct Measured {
    seeds: Vec<Vec<Runs>>,
    arms: Vec<&'static str>,
}

/// Runs every arm with the first seed, and then those that may be the best.
pub fn measure(
    networks: &Arc<Networks>,
    paths: &[Path],
    seeds: u64,
    seconds: f64,
) -> Result<Measured, Error> {
    let arms = networks.arms();
    let mut drivers: Vec<Vec<&'static str>> = vec![with_tested(arms); paths.len()];
    let mut all = Vec::new();
    for seed in 1..=seeds {
        let mut scenes = Vec::new();
        for (path, drivers) in paths.iter().zip(&drivers) {
            scenes.extend(drivers.iter().map(|it| (Scene::fixed(it, *path, seconds), seed)));
        }
        let mut runs = run_all(networks, &scenes)?.into_iter();
        let of_seed: Vec<Runs> = drivers
            .iter()
            .map(|drivers| drivers.iter().copied().zip(runs.by_ref()).collect())
            .collect();
        if seed == 1 {
            for (drivers, runs) in drivers.iter_mut().zip(&of_seed) {
                *drivers = with_tested(&contenders(runs, arms));
            }
        }
        eprintln!("tcp-rl-table: {} paths, seed {seed}: {} runs", paths.len(), scenes.len());
        all.push(of_seed);
    }
    Ok(Measured { seeds: all, arms: arms.to_vec() })
}

fn with_tested(arms: &[&'static str]) -> Vec<&'static str> {
    let others = arms.iter().filter(|arm| !TESTED.contains(arm));
    TESTED.iter().chain(others).copied().collect()
}

/// The arms that may be the best by either measure, and the one that the policy ends with.
fn contenders(runs: &Runs, arms: &[&'static str]) -> Vec<&'static str> {
    let near = |of: fn(&Run) -> f64, arm: &str| {
        let best = arms.iter().filter_map(|arm| runs.get(arm)).map(of).fold(0.0, f64::max);
        runs.get(arm).is_some_and(|run| of(run) >= CONTENDER * best)
    };
    let last = runs["tcp_rl"].last_arm();
    let is_one = |arm: &str| arm == last || near(Run::power, arm) || near(Run::power95, arm);
    arms.iter().copied().filter(|arm| is_one(arm)).collect()
}

impl Measured {
    /// What of a driver's power, as a share of that of the best arm, by path; for each seed.
    fn ratios(&self, of: fn(&Run) -> f64, driver: impl Fn(&Runs) -> Option<f64>) -> Vec<Vec<f64>> {
        let ratio = |runs: &Runs| {
            let best = self.arms.iter().filter_map(|arm| runs.get(arm)).map(of);
            driver(runs).map(|got| got / best.fold(0.0, f64::max))
        };
        self.seeds.iter().map(|paths| paths.iter().filter_map(ratio).collect()).collect()
    }

    fn of(&self, of: fn(&Run) -> f64, driver: &'static str) -> Vec<Vec<f64>> {
        self.ratios(of, |runs| runs.get(driver).map(of))
    }

    /// Of the arm that the policy ends with, run alone.
    fn of_last(&self, of: fn(&Run) -> f64) -> Vec<Vec<f64>> {
        self.ratios(of, |runs| runs.get(runs["tcp_rl"].last_arm()).map(of))
    }

    /// Of the arm with the highest mean logarithm over the other seeds: what a choice earns that
    /// knows each path, but not the draws of the run.
    fn of_foreseen(&self, of: fn(&Run) -> f64) -> Vec<Vec<f64>> {
        let foreseen = |seed: usize, path: usize| {
            let others = || self.seeds.iter().enumerate().filter(move |(other, _)| *other != seed);
            let score = |arm: &&&'static str| {
                let runs = others().filter_map(|(_, paths)| paths[path].get(**arm));
                mean(&runs.map(|run| libm::log(of(run).max(1e-9))).collect::<Vec<_>>())
            };
            let has_run =
                |arm: &&&'static str| self.seeds.iter().all(|it| it[path].contains_key(**arm));
            let best =
                self.arms.iter().filter(has_run).max_by(|a, b| score(a).total_cmp(&score(b)));
            best.copied().expect("copa runs with every seed")
        };
        let ratio = |seed: usize, path: usize| {
            let runs = &self.seeds[seed][path];
            let best = self.arms.iter().filter_map(|arm| runs.get(arm)).map(of).fold(0.0, f64::max);
            of(&runs[foreseen(seed, path)]) / best
        };
        (0..self.seeds.len())
            .map(|seed| (0..self.seeds[seed].len()).map(|path| ratio(seed, path)).collect())
            .collect()
    }

    /// The rows of the table. `id` names the set of paths.
    pub fn rows(&self, id: &'static str) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut add = |what: &str, paper, target, values: Vec<f64>| {
            rows.push(Row { id, what: what.to_owned(), paper, target, got: Mean::of(&values) });
        };
        let least = Target::AtLeast;
        for (name, of) in MEASURES {
            let ours = self.of(of, "tcp_rl");
            add(&format!("{name} of tcp_rl"), "", least(0.97), means(&ours));
            let share = shares(&ours, 0.9);
            add(&format!("{name} ≥ 0.9: share of paths"), "", least(0.92), share);
            add(
                &format!("{name} of the arm it ends with"),
                "",
                least(0.97),
                means(&self.of_last(of)),
            );
            let foreseen = self.of_foreseen(of);
            add(
                &format!("{name} of the best arm of other seeds"),
                "",
                Target::Shown,
                means(&foreseen),
            );
            let share = shares(&foreseen, 0.9);
            add(
                &format!("{name} of the best arm of other seeds ≥ 0.9: share"),
                "",
                Target::Shown,
                share,
            );
            for beaten in ["copa", "antelope"] {
                let theirs = self.of(of, beaten);
                add(&format!("{name} of {beaten}"), "", Target::Shown, means(&theirs));
                let share = shares(&theirs, 0.9);
                add(&format!("{name} of {beaten} ≥ 0.9: share"), "", Target::Shown, share);
                let less = means(&ours).iter().zip(means(&theirs)).map(|(a, b)| a - b).collect();
                add(&format!("{name}: tcp_rl less {beaten}"), "> 0", least(1e-9), less);
            }
        }
        let settled = |paths: &Vec<Runs>| {
            let is_soon = |runs: &Runs| {
                let after = runs["tcp_rl"].settled_after(0.0, f64::INFINITY);
                f64::from(u8::from(after.is_some_and(|it| it <= DECISIONS)))
            };
            mean(&paths.iter().map(is_soon).collect::<Vec<_>>())
        };
        let settled = self.seeds.iter().map(settled).collect();
        add("settles within 3 decisions: share of paths", "0.96", least(0.95), settled);
        rows
    }

    /// Figure 16: the loss of reward of the arm that the policy ends with, as percentiles of paths.
    pub fn figure_16(&self) -> String {
        let losses = |driver: &dyn Fn(&Runs) -> Option<f64>| {
            let loss = |runs: &Runs| {
                let best = self.arms.iter().filter_map(|arm| runs.get(arm)).map(Run::reward);
                let best = best.fold(f64::MIN, f64::max);
                driver(runs).map(|got| (best - got) / best)
            };
            sorted(self.seeds.iter().flatten().filter_map(loss))
        };
        let mut text = "| loss of reward, % | 50 % of paths | 80 % | 90 % | 95 % | 99 % \
                        | at most 12 %: share |\n\
                        |---|---|---|---|---|---|---|\n\
                        | paper, TCP-RL | | | 12 | | | 0.90 |\n"
            .to_owned();
        for (name, driver) in FIGURE_16 {
            let losses = losses(&driver);
            let of = |percent| percentile(&losses, percent) * 100.0;
            let within = losses.iter().filter(|it| **it <= 0.12).count() as f64;
            let _ = writeln!(
                text,
                "| {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.3} |",
                of(50.0),
                of(80.0),
                of(90.0),
                of(95.0),
                of(99.0),
                within / losses.len().max(1) as f64
            );
        }
        text
    }

    /// On how many paths each arm is the best, and on how many the policy ends with it, with the
    /// first seed.
    pub fn arms_table(&self) -> String {
        let mut text =
            "| arm | best (p95) | ends with it | power95 ratio |\n|---|---|---|---|\n".to_owned();
        for arm in &self.arms {
            let best = |runs: &&Runs| {
                let power = |arm: &&'static str| runs[arm].power95();
                self.arms.iter().all(|other| power(other) <= power(arm))
            };
            let first = &self.seeds[0];
            let wins = first.iter().filter(best).count();
            let ends = first.iter().filter(|runs| runs["tcp_rl"].last_arm() == *arm).count();
            let ratio = mean(&self.of(Run::power95, arm)[0]);
            let _ = writeln!(text, "| {arm} | {wins} | {ends} | {ratio:.3} |");
        }
        text
    }
}

type Driver = fn(&Runs) -> Option<f64>;

const FIGURE_16: [(&str, Driver); 3] = [
    ("the arm that tcp_rl ends with", |runs| runs.get(runs["tcp_rl"].last_arm()).map(Run::reward)),
    ("tcp_rl, the whole flow", |runs| runs.get("tcp_rl").map(Run::reward)),
    ("copa", |runs| runs.get("copa").map(Run::reward)),
];

/// The name of a measure, and how a run gives it.
type Measure = (&'static str, fn(&Run) -> f64);

/// The two measures of power.
const MEASURES: [Measure; 2] = [("power ratio", Run::power), ("power95 ratio", Run::power95)];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The mean over the paths, for each seed.
fn means(ratios: &[Vec<f64>]) -> Vec<f64> {
    ratios.iter().map(|of_seed| mean(of_seed)).collect()
}

/// The share of paths at or above a value, for each seed.
fn shares(ratios: &[Vec<f64>], least: f64) -> Vec<f64> {
    let share = |of_seed: &Vec<f64>| {
        of_seed.iter().filter(|it| **it >= least).count() as f64 / of_seed.len().max(1) as f64
    };
    ratios.iter().map(share).collect()
}
