//! QUIC under the agent beside noq's own algorithms, over the same emulated links; and quinn, which
//! takes a window only, beside noq, which takes a window and a rate.
//!
//! Each run has its own path and one flow, and all runs last equally long. A round has one run of
//! each side on each path, one after the other; each round begins with another side. Figures are
//! medians over rounds with their spread. A run that a hypervisor disturbed is repeated. The table
//! is written after each round, so an interrupted measurement keeps the finished rounds.

mod page;
mod quinn_server;
mod run;

use ccp_agent::child::AgentChild;
use ccp_agent::host::Target;
use clap::Parser;
use remuda_bench::stats::{Origin, document};
use remuda_live::Clock;
use run::{Figures, Path, Side};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Time that a run takes beyond its flow: namespaces, handshake, end.
const AROUND: Duration = Duration::from_millis(300);

/// Compare QUIC under the agent with noq's own algorithms, over the same links (needs root)
#[derive(Debug, Parser)]
struct Args {
    /// Seconds that each run lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 12)]
    seconds: u64,
    /// Number of runs of each side on each path
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Senders, separated by commas: noq:cubic, noq:newreno, noq:bbr; ours:ARM; quinn:ARM
    #[arg(
        long,
        value_name = "SIDE",
        value_delimiter = ',',
        default_value = "noq:cubic,ours:cubic,quinn:cubic,noq:bbr,ours:bbr,ours:bbr3,quinn:bbr"
    )]
    sides: Vec<Side>,
    /// Paths, separated by commas: rate in Mbit/s, one-way delay in ms, buffer in BDPs, random loss
    /// in per cent
    #[arg(
        long,
        value_name = "RATE:DELAY:BUFFER:LOSS",
        value_delimiter = ',',
        default_value = "24:20:1:0,24:20:4:0,24:20:1:1"
    )]
    paths: Vec<Path>,
    /// The first seed of the links' random loss
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Most attempts at a run of which a hypervisor took more than 0.7 % of a processor
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
    /// Write the table into this file, docs/quic.md, after each round
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Path of the remuda command, which must be built
    #[arg(long, value_name = "FILE", default_value = "target/release/remuda", env = "REMUDA_BIN")]
    remuda: PathBuf,
}

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// The results so far: the runs of each side on each path, ordered by path.
struct Measured<'a> {
    args: &'a Args,
    agent: AgentChild,
    figures: Vec<Vec<Vec<Figures>>>,
    clock: Clock,
}

impl<'a> Measured<'a> {
    fn new(args: &'a Args, agent: AgentChild) -> Self {
        let figures = vec![vec![Vec::new(); args.sides.len()]; args.paths.len()];
        Self { args, agent, figures, clock: Clock::start() }
    }

    fn runs(&self) -> usize {
        self.figures.iter().flatten().map(Vec::len).sum()
    }

    /// The progress, and the time that the rest takes if no run is repeated.
    fn progress(&self) -> String {
        let Args { paths, sides, rounds, seconds, .. } = self.args;
        let (done, all) = (self.runs(), paths.len() * sides.len() * *rounds as usize);
        let left = (Duration::from_secs(*seconds) + AROUND) * (all - done) as u32;
        let (gone, left) = (self.clock.elapsed().as_secs() / 60, left.as_secs().div_ceil(60));
        format!("{done} of {all}, {gone} min gone, {left} min left")
    }

    /// Runs each side once on the path at index `at`, beginning with another side each round.
    fn round(&mut self, round: u64, at: usize) -> Fallible<()> {
        let Args { sides, seed, seconds, tries, .. } = self.args;
        let path = &self.args.paths[at];
        for turn in 0..sides.len() {
            let turn = (round as usize + turn) % sides.len();
            let side = &sides[turn];
            if let Some(arm) = side.arm() {
                self.agent.set(Target::New, arm)?;
            }
            let span = (Duration::from_secs(*seconds), self.agent.run_dir());
            let work = || run::run(side, path, seed + round, span);
            let again = |stolen: f64| {
                eprintln!("{:.1} % of a processor was stolen: the run is repeated", stolen * 100.0);
            };
            let (got, stolen) = remuda_live::least_disturbed(*tries, work, again)?;
            self.figures[at][turn].push(got);
            let stolen = stolen * 100.0;
            eprintln!("{}: {path}, {side}: {got}, {stolen:.1} % stolen", self.progress());
        }
        Ok(())
    }

    fn table(&self, origin: &Origin, round: u64) -> String {
        let Args { paths, sides, rounds, seconds, seed, .. } = self.args;
        let rows = paths.iter().zip(&self.figures).flat_map(|(path, of_path)| {
            sides.iter().zip(of_path).map(move |(side, figures)| page::row(path, side, figures))
        });
        let rows: Vec<String> = rows.collect();
        let last = seed + round;
        let seeds = format!("seeds {seed} to {last}");
        let runs = match round + 1 {
            done if done < *rounds => format!("{done} of {rounds} runs each"),
            done => format!("{done} runs each"),
        };
        let about = format!("{seconds} s a run, {runs}, interleaved, {seeds}.\n{origin}.");
        format!("{about}\n\n{}\n{}", page::HEAD, rows.join("\n"))
    }
}

fn measure(args: &Args) -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("remuda.toml");
    std::fs::write(&config, "[agent]\nbpf = false\n")?;
    let run_dir = folder.path().join("run");
    let config = config.display().to_string();
    let arguments = ["--config", &config, "--arm", "cubic"];
    let mut measured = Measured::new(args, AgentChild::start(&args.remuda, &run_dir, &arguments)?);
    // Before the page is written: writing it makes the tree dirty.
    let origin = Origin::here();
    for round in 0..args.rounds {
        for at in 0..args.paths.len() {
            measured.round(round, at)?;
        }
        let table = measured.table(&origin, round);
        match &args.write {
            Some(path) => document::write(path, "make quic", &table)?,
            None => println!("{table}"),
        }
    }
    measured.agent.stop()?;
    Ok(())
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quic: {error}");
            ExitCode::FAILURE
        }
    }
}
