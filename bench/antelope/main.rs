//! Measures Antelope's acceptance table.

use clap::Parser;
use remuda::stop_flag;
use remuda_bench::antelope::card::Card;
use remuda_bench::antelope::measure::{Keep, Settings, live, simulate};
use remuda_bench::antelope::page::{self, Head};
use remuda_bench::antelope::rows::Table;
use remuda_bench::antelope::scene::Extent;
use remuda_bench::antelope::{Error, ablations, head_to_head, online};
use remuda_bench::only;
use remuda_bench::stats::{Origin, document};
use remuda_live::Clock;
use remuda_matrix::Progress;
use remuda_selector::{CANDIDATES, POLICIES};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Antelope's acceptance table: rows A1 to A10 with the paper's figure, the target and our result
#[derive(Debug, Parser)]
#[command(after_help = "\
Examples:
  The table of another policy
    cargo run --release -p remuda-bench --bin remuda-antelope-table -- --driver rein
  On real TCP, one round of everything (needs root)
    cargo run --release -p remuda-bench --bin remuda-antelope-table -- --live --seeds 1
  What each part of it is worth
    cargo run --release -p remuda-bench --bin remuda-antelope-table -- --ablations
  What learning from live flows is worth, on two kinds of paths
    cargo run --release -p remuda-bench --bin remuda-antelope-table -- --online --worlds CoDel,lossy

Results are kept: after Ctrl-C the same command continues.")]
struct Args {
    /// The policy that the table measures
    #[arg(long, value_name = "NAME", default_value = "antelope")]
    driver: String,
    /// Fixed arms to compare with, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = CANDIDATES)]
    arms: Vec<String>,
    /// Other policies to compare with, separated by commas [default: all other policies]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    against: Option<Vec<String>>,
    /// Number of seeds of every run, 1 to 10000 [default: 30; 1 with --live; 2 with --smoke]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// The first seed; each further run of a case uses the next one
    #[arg(long, value_name = "N", default_value_t = 1, env = "SEED",
        value_parser = clap::value_parser!(u64).range(..1 << 40))]
    seed: u64,
    /// Suites, suite files or drawn environments for the comparison with other drivers
    #[arg(
        long,
        value_name = "NAME|FILE|drawn:FROM..TO",
        value_delimiter = ',',
        default_value = "drawn:1000000..1000300"
    )]
    held_out: Vec<String>,
    /// Number of seeds in the comparison with other drivers
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    held_out_seeds: u64,
    /// Measure rows A1, A3, A5, A7 and A8 on real TCP instead of the simulator (needs root)
    #[arg(long)]
    live: bool,
    /// Measure the value of each part of the policy instead of the table: the whole policy compared
    /// with the policy without that part
    #[arg(long, conflicts_with = "live")]
    ablations: bool,
    /// Measure what the antelope policy gains by learning from live flows, instead of the table
    #[arg(long, conflicts_with_all = ["live", "ablations"])]
    online: bool,
    /// Hosts' paths on which --online learns, separated by commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "online")]
    worlds: Option<Vec<String>>,
    /// The Python interpreter that trains; it needs remuda[train]
    #[arg(long, value_name = "FILE", default_value = "target/venv/bin/python")]
    python: PathBuf,
    /// A smoke test: a few seconds of every part
    #[arg(long)]
    smoke: bool,
    /// Number of runs at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Folder where the results of runs are kept
    #[arg(long, value_name = "DIR", default_value = "out/antelope")]
    keep: PathBuf,
    /// Run everything again and keep nothing
    #[arg(long, conflicts_with = "keep")]
    fresh: bool,
    /// The model file whose card lists the training data
    #[arg(long, value_name = "FILE", default_value = "selector/models/antelope.json")]
    model: PathBuf,
    /// Write the table into this document, between its markers [default: print the table, and the
    /// figures of every driver after it]
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// The remuda command, whose agents drive real TCP
    #[arg(long, value_name = "FILE", default_value = "target/release/remuda", env = "REMUDA_BIN")]
    remuda: PathBuf,
}

/// Number of seeds if --seeds is absent.
const SEEDS: u64 = 30;
const SEEDS_LIVE: u64 = 1;
const SEEDS_SMOKE: u64 = 2;

fn known(flag: &'static str, names: &[String]) -> Result<(), Error> {
    names.iter().try_for_each(|name| {
        ccp_agent::catalogue::kind(name).map(|_| ()).map_err(|error| Error::Driver {
            flag,
            name: name.clone(),
            rule: error.to_string(),
        })
    })
}

impl Args {
    fn settings(&self) -> Result<Settings, Error> {
        let policies = || POLICIES.iter().map(|policy| policy.name.to_owned());
        let against = self.against.clone().unwrap_or_else(|| policies().collect());
        known("driver", std::slice::from_ref(&self.driver))?;
        known("arms", &self.arms)?;
        known("against", &against)?;
        let usual = match (self.smoke, self.live) {
            (true, _) => SEEDS_SMOKE,
            (false, true) => SEEDS_LIVE,
            (false, false) => SEEDS,
        };
        let count = self.seeds.unwrap_or(usual);
        Ok(Settings {
            against: against.into_iter().filter(|name| *name != self.driver).collect(),
            driver: self.driver.clone(),
            arms: self.arms.clone(),
            remembering: only::names().map(str::to_owned).collect(),
            seeds: self.seed..=self.seed + count - 1,
            extent: match (self.smoke, self.live) {
                (true, _) => Extent::Smoke,
                (false, true) => Extent::Live,
                (false, false) => Extent::Full,
            },
        })
    }

    /// Indices of the chosen worlds.
    fn worlds(&self) -> Result<Vec<usize>, Error> {
        let known: Vec<&str> = online::WORLDS.iter().map(|world| world.name).collect();
        let place = |name: &String| {
            known.iter().position(|it| it == name).ok_or_else(|| Error::Driver {
                flag: "worlds",
                name: name.clone(),
                rule: format!("there is no such world; fix: one of {}", known.join(", ")),
            })
        };
        match &self.worlds {
            Some(names) => names.iter().map(place).collect(),
            None => Ok((0..known.len()).collect()),
        }
    }

    fn held_out_seeds(&self) -> RangeInclusive<u64> {
        self.seed..=self.seed + self.held_out_seeds - 1
    }

    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        self.jobs.unwrap_or_else(cores).max(1)
    }

    fn head(&self) -> Head {
        let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
        let command = "cargo run --release -p remuda-bench --bin remuda-antelope-table --";
        Head {
            origin: Origin::here().to_string(),
            command: page::broken(format!("{command} {arguments}").trim_end()),
        }
    }
}

/// Returns a function that prints the progress every few seconds.
fn told(what: &'static str) -> impl FnMut(&Progress) {
    const EVERY: Duration = Duration::from_secs(5);
    let (clock, mut next) = (Clock::start(), EVERY);
    let mut is_warned = false;
    move |progress: &Progress| {
        if let (false, Some(first)) = (is_warned, &progress.unkept) {
            is_warned = true;
            eprintln!("antelope-table: cannot keep a run: {}\nfix: another --keep", first.why);
        }
        let elapsed = clock.elapsed();
        if elapsed >= next || progress.done == progress.all {
            next = elapsed + EVERY;
            let Progress { done, kept, all, .. } = progress;
            eprintln!("antelope-table: {what}: {done} of {all} runs, {kept} kept from before");
        }
    }
}

fn written(args: &Args, command: &str, text: &str) -> Result<(), Error> {
    match &args.write {
        Some(path) => document::write(path, command, text)
            .map_err(|error| Error::File { path: path.clone(), problem: error.to_string() }),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// Runs the ablations; they have no target to meet.
fn run_ablations(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let (settings, stopped) = (args.settings()?, stop_flag()?);
    let keep = Keep { folder: (!args.fresh).then(|| args.keep.clone()) };
    let held = (&args.held_out[..], args.held_out_seeds());
    let how = (args.jobs(), &*stopped);
    let findings = ablations::run(&settings, &held, &keep, how, told("ablations"))?;
    let seeds = [*settings.seeds.start(), *settings.seeds.end()];
    let text = ablations::text(&args.head(), &settings.driver, &seeds, &findings);
    Ok(written(args, "make antelope-ablations", &text)?)
}

/// Runs the learning; it has no target to meet.
fn run_online(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let (settings, stopped) = (args.settings()?, stop_flag()?);
    let keep = Keep { folder: (!args.fresh).then(|| args.keep.clone()) };
    let worlds = args.worlds()?;
    let trainer = online::Trainer { python: args.python.clone(), seed: args.seed };
    let how = (args.jobs(), &*stopped);
    let what = (&settings, &worlds[..]);
    let findings = online::run(what, &keep, &trainer, how, told("online"))?;
    let text = online::text(&args.head(), &settings, &findings);
    Ok(written(args, "make antelope-online", &text)?)
}

/// Returns whether every target is met.
fn run(args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    let settings = args.settings()?;
    let stopped = stop_flag()?;
    let keep = Keep { folder: (!args.fresh).then(|| args.keep.clone()) };
    let (text, lines, command, drivers) = if args.live {
        let how = (args.remuda.as_path(), &*stopped);
        let measured = live(&settings, &keep, how, told("real TCP"))?;
        let table = Table { measured: &measured, settings: &settings };
        let lines = table.live_lines();
        let text = page::live(&args.head(), &table, &lines);
        (text, lines, "make antelope-table-live", page::drivers(&table))
    } else {
        let card = Card::load(&args.model)?;
        let how = (args.jobs(), &*stopped);
        let measured = simulate(&settings, &keep, how, told("rows"))?;
        let what = (&settings, &args.held_out[..], args.held_out_seeds());
        let rows = head_to_head::run(what, &keep, how, told("head to head"))?;
        let comparison = head_to_head::compare(&rows, &settings.driver, &settings.arms);
        let table = Table { measured: &measured, settings: &settings };
        let lines = table.lines(card.as_ref());
        let beside = (&comparison, &args.held_out[..]);
        let text = page::simulated(&args.head(), &table, &lines, beside);
        (text, lines, "make antelope-table", page::drivers(&table))
    };
    written(args, command, &text)?;
    if args.write.is_none() {
        print!("{drivers}");
    }
    eprintln!("antelope-table: {}", page::summary(&lines));
    Ok(lines.iter().all(|line| line.met != Some(false)))
}

fn main() -> ExitCode {
    let args = Args::parse();
    only::add();
    let done = match (args.ablations, args.online) {
        (true, _) => run_ablations(&args).map(|()| true),
        (_, true) => run_online(&args).map(|()| true),
        _ => run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("antelope-table: {error}");
            ExitCode::FAILURE
        }
    }
}
