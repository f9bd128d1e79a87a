//! Simulates environments and stores the samples, a file for 25 environments.
//!
//! A file gets its name only when it is complete, and its metadata have the program and the
//! settings. A collection that was stopped continues where it ended, and one of another program
//! starts anew. The same settings give the same bytes, on every machine and with any number of
//! threads.

use crate::draw::Environment;
use crate::learning::{BLOCK_SEEDS, to_learn_from};
use crate::plan::{ARMS, Plan, plans};
use crate::row::{Row, table};
use crate::share::{Bottleneck, Shared};
use crate::suite::SAMPLE_MS;
use ccp_agent::Config;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_algorithms::Sample;
use remuda_scenarios::Scenario;
use remuda_selector::features::{SchemaHash, schema};
use remuda_sim::Simulation;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Environments in each file.
const PER_FILE: u64 = BLOCK_SEEDS;
/// How many rows of a run become states of decisions; the rows of one run are much alike, so a few
/// are enough.
const STATES: usize = 10;
/// Rows of the first 5 seconds, in which most flows live, are preferred as states, with a weight of
/// 2.5.
const EARLY: (f64, f64) = (5.0, 2.5);

/// The settings of a collection.
#[derive(Clone, Debug)]
pub struct Collection {
    pub folder: PathBuf,
    /// The seed of the first environment.
    pub first: u64,
    pub environments: u64,
    /// Random plans for each environment.
    pub plans: u64,
    /// Simulations that run at a time.
    pub threads: usize,
    /// More metadata for the files. A file with other metadata is made anew.
    pub about: BTreeMap<String, String>,
}

/// The progress of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Environments that are done, including those of earlier files.
    pub done: u64,
    /// Environments that were already in a file.
    pub kept: u64,
    pub all: u64,
}

/// Why a collection failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder cannot be created.
    #[error("{path}: {source}")]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Write(#[from] remuda_results::Error),
    /// An environment cannot be simulated: a defect of the drawing.
    #[error("environment {seed}: {rule}")]
    Environment { seed: u64, rule: String },
}

/// The guard limits windows and rates as usual, but no switch: the plan decides these.
fn unguarded() -> Config {
    let mut config = Config::default();
    config.guard.dwell_ms_min = 0;
    config.guard.dwell_rtts_min = 0;
    config.guard.switches_per_minute_max = 1_000;
    config.guard.roll_back_percent = 0;
    config.guard.roll_back_lost_percent = 0;
    config
}

impl Collection {
    fn facts(&self) -> BTreeMap<String, String> {
        let features: Vec<&str> = schema().features.iter().map(|it| it.name.as_str()).collect();
        let own = [
            ("arms", ARMS.join(",")),
            ("features", features.join(",")),
            ("schema_hash", SchemaHash::ours().to_string()),
            ("schema_version", schema().version.to_string()),
            ("plans", self.plans.to_string()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        own.chain(self.about.clone()).collect()
    }

    /// The files, each with its range of seeds.
    fn files(&self) -> Vec<(PathBuf, std::ops::Range<u64>)> {
        let end = self.first + self.environments;
        let starts = (self.first..end).step_by(PER_FILE as usize);
        let file = |from: u64| {
            let to = (from + PER_FILE).min(end);
            (self.folder.join(format!("samples-{from}-{to}.parquet")), from..to)
        };
        starts.map(file).collect()
    }

    /// The seeds of each missing file, for a caller that collects them elsewhere.
    pub fn missing(&self) -> Vec<std::ops::Range<u64>> {
        let files = self.files().into_iter();
        files.filter(|(path, _)| !self.is_kept(path)).map(|(_, seeds)| seeds).collect()
    }

    /// Whether the file exists, is complete, and has the same program and settings.
    fn is_kept(&self, path: &Path) -> bool {
        let Ok((_, facts)) = table().read(path) else { return false };
        self.facts().iter().all(|(name, value)| facts.get(name) == Some(value))
    }
}

/// Collects the missing files; `None` if it was stopped. `show` gets the progress.
pub fn collect(
    collection: &Collection,
    stopped: &AtomicBool,
    show: impl Fn(Progress) + Sync,
) -> Result<Option<Progress>, Error> {
    let folder = &collection.folder;
    let failed = |source| Error::Folder { path: folder.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let files = collection.files();
    let missing: Vec<_> = files.iter().filter(|file| !collection.is_kept(&file.0)).collect();
    let left: u64 = missing.iter().map(|(_, seeds)| seeds.end - seeds.start).sum();
    let all = collection.environments;
    let kept = all - left;
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(kept));
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let progress = || Progress { done: done.load(Ordering::Relaxed), kept, all };
    show(progress());
    let work = || {
        while let Some((path, seeds)) = missing.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let noted = || {
                done.fetch_add(1, Ordering::Relaxed);
                show(progress());
            };
            match file(collection, path, seeds.clone(), stopped, noted) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    stop(&failure, error);
                    return;
                }
            }
            if failure.lock().is_ok_and(|failure| failure.is_some()) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..collection.threads.max(1) {
            scope.spawn(work);
        }
    });
    if let Ok(Some(error)) = failure.into_inner() {
        return Err(error);
    }
    let finished = Progress { done: done.load(Ordering::Relaxed), kept, all };
    Ok((finished.done == all).then_some(finished))
}

fn stop(failure: &Mutex<Option<Error>>, error: Error) {
    if let Ok(mut failure) = failure.lock() {
        failure.get_or_insert(error);
    }
}

/// Writes one file; `false` if it was stopped.
fn file(
    collection: &Collection,
    path: &Path,
    seeds: std::ops::Range<u64>,
    stopped: &AtomicBool,
    noted: impl Fn(),
) -> Result<bool, Error> {
    let config = unguarded();
    let mut rows = Vec::new();
    for seed in seeds {
        let environment = to_learn_from(seed);
        for plan in plans(&environment, collection.plans) {
            if stopped.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let (samples, bottleneck) = run(&environment, &plan, &config)
                .map_err(|rule| Error::Environment { seed, rule })?;
            rows.extend(rows_of(&environment, &plan, samples, &bottleneck));
        }
        noted();
    }
    table().write(path, &rows, &collection.facts())?;
    Ok(true)
}

/// The policy that runs the plans.
const SAMPLER: &str = "sampler";

fn run(
    environment: &Environment,
    plan: &Plan,
    config: &Config,
) -> Result<(Vec<Sample>, Bottleneck), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let name = format!("drawn-{}", environment.seed);
    let mut scenario = Scenario::parse(&environment.with(SAMPLER), &name).map_err(|e| text(&e))?;
    scenario.sample_ms = SAMPLE_MS as f64;
    let mut config = config.clone();
    config.policy.sampler = plan.sampler.clone();
    let mut simulation =
        Simulation::with_setup(&scenario, &Arc::new(config.into())).map_err(|e| text(&e))?;
    let end = simulation.end();
    simulation.run_until(end);
    // The flow under test is the last one.
    let outcome = simulation.outcome();
    let bottleneck = Bottleneck::of(&scenario, &outcome, SAMPLER)?;
    Ok((simulation.samples(outcome.flows.len().saturating_sub(1)).to_vec(), bottleneck))
}

fn rows_of(
    environment: &Environment,
    plan: &Plan,
    samples: Vec<Sample>,
    bottleneck: &Bottleneck,
) -> Vec<Row> {
    let states = states(environment, plan, &samples);
    // Samples have the flow's time, which begins at its start; the bottleneck has the scenario's.
    let start_s = environment.start_s;
    let shared = |sample: &Sample| {
        let [from_s, until_s] = [sample.from, sample.until].map(|at| start_s + at.0.as_secs_f64());
        bottleneck.shared(from_s, until_s)
    };
    let row = |(at, sample): (usize, Sample)| {
        let Shared { equal_mbit_per_sec, tested_mbit_per_sec, neighbour_mbit_per_sec } =
            shared(&sample);
        Row {
            environment: environment.seed,
            kind: environment.kind.to_owned(),
            neighbours: environment.neighbours.to_owned(),
            path_rtt_ms: environment.rtt_ms,
            plan: plan.name.clone(),
            arm: sample.arm.to_owned(),
            from_s: sample.from.0.as_secs_f64(),
            until_s: sample.until.0.as_secs_f64(),
            seen_throughput_mbit_per_sec: sample.seen.throughput_mbit_per_sec,
            seen_lost_mbit_per_sec: sample.seen.lost_mbit_per_sec,
            seen_rtt_mean_ms: sample.seen.rtt_mean_ms,
            share_mbit_per_sec: equal_mbit_per_sec,
            tested_mbit_per_sec,
            neighbour_mbit_per_sec,
            features: states[at].then(|| sample.features[..].try_into().ok()).flatten(),
        }
    };
    samples.into_iter().enumerate().map(row).collect()
}

/// Chooses at random which samples of a run are decision states, with a preference for early ones.
fn states(environment: &Environment, plan: &Plan, samples: &[Sample]) -> Vec<bool> {
    let stream = plan.name.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31) + u64::from(byte));
    let mut rng = ChaCha8Rng::seed_from_u64(environment.seed ^ 0x7374_6174);
    rng.set_stream(stream);
    let (early_s, weight) = EARLY;
    let rank = |sample: &Sample| {
        let is_early = sample.until.0.as_secs_f64() < early_s;
        rng.random::<f64>() / if is_early { weight } else { 1.0 }
    };
    let ranks: Vec<f64> = samples.iter().map(rank).collect();
    let mut sorted = ranks.clone();
    sorted.sort_by(f64::total_cmp);
    let bound = sorted.get(STATES).copied().unwrap_or(f64::INFINITY);
    ranks.iter().map(|rank| *rank < bound).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{ALIKE, DURATION_S};
    use crate::plan::FIRST;

    fn collection(folder: &Path, threads: usize) -> Collection {
        let about = BTreeMap::from([("program".to_owned(), "this".to_owned())]);
        let folder = folder.to_owned();
        Collection { folder, first: 7, environments: 2, plans: 1, threads, about }
    }

    fn bytes(folder: &Path) -> Vec<u8> {
        fs::read(folder.join("samples-7-9.parquet")).expect("the file")
    }

    #[test]
    fn the_same_settings_give_the_same_bytes_and_what_is_there_is_kept() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let never = AtomicBool::new(false);
        let run = |of: &Collection| collect(of, &never, |_| {}).expect("it runs").expect("whole");
        assert_eq!(run(&collection(one.path(), 1)), Progress { done: 2, kept: 0, all: 2 });
        assert_eq!(collection(two.path(), 2).missing(), vec![7..9; 1]);
        run(&collection(two.path(), 2));
        assert!(collection(two.path(), 2).missing().is_empty());
        assert!(bytes(one.path()) == bytes(two.path()));
        assert_eq!(run(&collection(one.path(), 1)).kept, 2);
        // A file of another program, or an incomplete file, is made anew.
        let mut other = collection(one.path(), 1);
        other.about.insert("program".to_owned(), "another".to_owned());
        assert_eq!(run(&other).kept, 0);
        let cut = bytes(two.path());
        fs::write(two.path().join("samples-7-9.parquet"), &cut[..cut.len() / 2]).unwrap();
        assert_eq!(run(&collection(two.path(), 1)).kept, 0);

        let (rows, facts) = table().read(&two.path().join("samples-7-9.parquet")).unwrap();
        assert_eq!(facts["schema_hash"], SchemaHash::ours().to_string());
        for seed in [7, 8] {
            for plan in plans(&to_learn_from(seed), 1).iter().take(ARMS.len()) {
                let of = |row: &&Row| row.environment == seed && row.plan == plan.name;
                let its: Vec<&Row> = rows.iter().filter(of).collect();
                assert!(its.len() > 20, "{seed} {}: {} rows", plan.name, its.len());
                let later = plan.sampler.turns.first().map_or(FIRST, |turn| &turn.arm);
                assert_eq!((&*its[0].arm, &*its[its.len() - 1].arm), (FIRST, later));
                assert_eq!(its.iter().filter(|row| row.features.is_some()).count(), STATES);
            }
            let random =
                rows.iter().filter(|row| row.environment == seed && row.plan == "random:0");
            let used: std::collections::BTreeSet<&str> = random.map(|row| &*row.arm).collect();
            assert!(used.len() > 1, "arms take turns");
        }
    }

    #[test]
    fn flows_alike_are_companions_and_others_are_not() {
        let features = &schema().features;
        let place = features.iter().position(|it| it.name == "companions").expect("a feature");
        for (neighbours, is_alone) in [(ALIKE, false), ("cubics", true)] {
            let of_kind = |it: &Environment| it.neighbours == neighbours;
            let environment = (0..).map(Environment::draw).find(of_kind).expect("one is drawn");
            let plan = plans(&environment, 0).remove(0);
            let (samples, _) = run(&environment, &plan, &unguarded()).expect("it runs");
            let seen: Vec<f32> = samples.iter().map(|sample| sample.features[place]).collect();
            assert_eq!(seen.iter().all(|count| *count == 0.0), is_alone, "{neighbours}: {seen:?}");
        }
    }

    #[test]
    fn what_a_late_flow_had_is_of_the_same_time_as_what_it_saw() {
        let is_late = |it: &Environment| it.start_s > 5.0 && it.neighbours == "cubics";
        for environment in (0..).map(Environment::draw).filter(is_late).take(3) {
            let plan = plans(&environment, 0).remove(0);
            let (samples, bottleneck) = run(&environment, &plan, &unguarded()).expect("it runs");
            let rows = rows_of(&environment, &plan, samples, &bottleneck);
            let (first, last) = (&rows[0], &rows[rows.len() - 1]);
            assert!((0.0..1.0).contains(&first.from_s), "it begins at {} s", first.from_s);
            assert!(last.until_s > DURATION_S - 2.0, "it ends at {} s", last.until_s);
            let sum = |of: fn(&Row) -> f64| {
                rows.iter().map(|row| of(row) * (row.until_s - row.from_s)).sum::<f64>()
            };
            let saw = sum(|row| row.seen_throughput_mbit_per_sec);
            let had = sum(|row| row.tested_mbit_per_sec);
            let seed = environment.seed;
            assert!((0.8..1.2).contains(&(had / saw)), "{seed}: saw {saw} Mbit, had {had}");
        }
    }

    #[test]
    fn what_is_stopped_leaves_no_half_file() {
        let folder = tempfile::tempdir().unwrap();
        let at_once = AtomicBool::new(true);
        assert_eq!(collect(&collection(folder.path(), 1), &at_once, |_| {}).unwrap(), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
