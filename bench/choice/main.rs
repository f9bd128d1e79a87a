//! Measures what a policy's choice is worth: what it misses of the best arm of each path, what an
//! oracle that may switch would gain, and where it has less than half for long.

mod behind;
mod changing;
mod environment;
mod page;

use ccp_agent::Setup;
use clap::Parser;
use environment::{Environment, Run};
use remuda::stop_flag;
use remuda_bench::antelope::head_to_head::suite;
use remuda_bench::stats::document;
use remuda_live::Clock;
use remuda_matrix::{Course, Only, Plan, Progress, Row, Store, code_version, measure, over_time};
use remuda_scenarios::{Suite, suite_names};
use remuda_selector::CANDIDATES;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

/// Measure what a policy misses on suites beside each fixed arm, on paths that change, and where it
/// has less than half of the best arm's merit for long
#[derive(Debug, Parser)]
struct Args {
    /// Suites, separated by commas: names, or TOML files [default: all but `antelope`]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    suite: Vec<String>,
    /// More suites, which count apart: of recorded paths, say
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    apart: Vec<String>,
    /// The policy to measure
    #[arg(long, value_name = "NAME", default_value = "antelope")]
    policy: String,
    /// The fixed arms to compare with, separated by commas [default: those that policies pick from]
    #[arg(long, value_name = "ARMS", value_delimiter = ',')]
    arms: Vec<String>,
    /// The fixed arm that is best over the kinds of paths of the training
    #[arg(long, value_name = "ARM", default_value = "bbr3")]
    chosen: String,
    /// Only environments whose name contains one of these, separated by commas
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// The seed of every run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of runs at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Folder where the results of runs are kept
    #[arg(long, value_name = "DIR", default_value = "out/choice")]
    keep: PathBuf,
    /// Write the tables into this document, between its markers [default: print them]
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// The suite of the policy's own paper, which `remuda-antelope-table` measures.
const OWN: &str = "antelope";

/// Returns a function that prints the progress every few seconds.
fn told() -> impl FnMut(&Progress) {
    const EVERY: Duration = Duration::from_secs(5);
    let (clock, mut next) = (Clock::start(), EVERY);
    move |Progress { done, kept, all, .. }: &Progress| {
        let elapsed = clock.elapsed();
        if elapsed >= next || done == all {
            next = elapsed + EVERY;
            eprintln!("choice: {done} of {all} runs, {kept} kept from before");
        }
    }
}

impl Args {
    fn arms(&self) -> Vec<String> {
        let given =
            if self.arms.is_empty() { &CANDIDATES.map(str::to_owned) } else { &self.arms[..] };
        let mut all = given.to_vec();
        if !all.contains(&self.chosen) {
            all.push(self.chosen.clone());
        }
        all
    }

    /// The suites, and the names of those that count apart.
    fn suites(&self) -> Result<(Vec<Suite>, Vec<String>), Failure> {
        let names: Vec<String> = match &self.suite[..] {
            [] => suite_names().filter(|name| *name != OWN).map(str::to_owned).collect(),
            given => given.to_vec(),
        };
        let of = |names: &[String]| names.iter().map(|it| suite(it)).collect::<Result<_, _>>();
        let (suites, apart): (Vec<Suite>, Vec<Suite>) = (of(&names)?, of(&self.apart)?);
        let names = apart.iter().map(|suite| suite.name.clone()).collect();
        Ok((suites.into_iter().chain(apart).collect(), names))
    }
}

/// The environments of all runs, which are in the order of the plan: the policy, then the arms.
fn environments(runs: Vec<(Row, Option<Course>)>, drivers: usize) -> Vec<Environment> {
    let mut runs = runs.into_iter().map(|(row, course)| Run { row, course });
    let mut all = Vec::new();
    while let Some(policy) = runs.next() {
        let (suite, name) = (policy.row.suite.clone(), policy.row.environment.clone());
        let arms = runs.by_ref().take(drivers - 1).collect();
        all.push(Environment { suite, name, policy, arms });
    }
    all
}

fn run(args: &Args) -> Result<(), Failure> {
    let drivers = [vec![args.policy.clone()], args.arms()].concat();
    let (suites, apart) = args.suites()?;
    let only = Only { parts: args.only.clone(), groups: Vec::new() };
    let plan = Plan::of(&suites, &only, &drivers, args.seed..=args.seed)?;
    let store = Store::open(&args.keep, code_version()? + "choice")?;
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok().map(Into::into));
    let (with, stopped) = ((Some(&store), &Arc::new(Setup::default())), stop_flag()?);
    let done = measure(&plan, with, (jobs.unwrap_or(1), &stopped), told(), over_time);
    let all = done.len();
    let runs = done.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    if runs.len() < all {
        let done = runs.len();
        return Err(format!(
            "stopped with {done} of {all} runs done; the same command goes on from there"
        )
        .into());
    }
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let command = "cargo run --release -p remuda-bench --bin remuda-choice -- \\\n   ";
    let command = format!("{command} {arguments}");
    let about = page::About {
        policy: &args.policy,
        chosen: &args.chosen,
        command: command.trim_end(),
        apart: &apart,
    };
    let text = page::text(&environments(runs, drivers.len()), &about);
    let write = |path: &Path| {
        let failed = |error| format!("{}: {error}", path.display());
        document::write(path, "make choice", &text).map_err(failed)
    };
    match &args.write {
        Some(path) => write(path)?,
        None => print!("{text}"),
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("choice: {error}");
            ExitCode::FAILURE
        }
    }
}
