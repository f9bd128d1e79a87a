//! QUIC under the agent beside noq's own algorithms, behind the same emulated links, and quinn's
//! window alone beside noq's window and rate.
//!
//! Each run has a path of its own, one flow, and lasts as long. The runs of a round are one of each
//! side, one after the other; each round begins with another side. Figures are medians over rounds
//! with their spread. A run that a hypervisor disturbed is run again.

mod page;
mod quinn_server;
mod run;

use ccp_agent::child::AgentChild;
use ccp_agent::host::Target;
use clap::Parser;
use remuda_stats::Origin;
use run::{Figures, Path, Side};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// QUIC under the agent beside noq's own algorithms, behind the same links (root).
#[derive(Debug, Parser)]
struct Args {
    /// Seconds each run lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    seconds: u64,
    /// Runs of each side on each path
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Who sends: noq:cubic, noq:newreno, noq:bbr; ours:ARM; quinn:ARM
    #[arg(
        long,
        value_name = "SIDE",
        value_delimiter = ',',
        default_value = "noq:cubic,ours:cubic,quinn:cubic,noq:bbr,ours:bbr,ours:bbr3,quinn:bbr"
    )]
    sides: Vec<Side>,
    /// Paths: rate in Mbit/s, delay one way in ms, buffer in BDPs, random loss in per cent
    #[arg(
        long,
        value_name = "RATE:DELAY:BUFFER:LOSS",
        value_delimiter = ',',
        default_value = "24:20:1:0,24:20:4:0,96:10:1:0,24:20:1:1"
    )]
    paths: Vec<Path>,
    /// First seed of the links' random loss
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often a run is run, at most, of which a hypervisor took more than 0.7 % of a processor
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
    /// Write the table between the marks of this file, docs/quic.md
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// The remuda command
    #[arg(long, value_name = "FILE", default_value = "target/release/remuda", env = "REMUDA_BIN")]
    remuda: PathBuf,
}

/// All runs on one path, side by side.
fn measure_path(
    args: &Args,
    path: &Path,
    agent: &AgentChild,
) -> Result<Vec<Vec<Figures>>, Box<dyn std::error::Error>> {
    let mut figures = vec![Vec::new(); args.sides.len()];
    for round in 0..args.rounds {
        for turn in 0..args.sides.len() {
            let at = (round as usize + turn) % args.sides.len();
            let side = &args.sides[at];
            if let Some(arm) = side.arm() {
                agent.set(Target::New, arm)?;
            }
            let seconds = Duration::from_secs(args.seconds);
            let work = || run::run(side, path, args.seed + round, (seconds, agent.run_dir()));
            let again = |stolen: f64| {
                eprintln!("{:.1} % of a processor was stolen: run again", stolen * 100.0);
            };
            let (got, stolen) = remuda_live::least_disturbed(args.tries, work, again)?;
            eprintln!("{path}, {side}: {got}, {:.1} % stolen", stolen * 100.0);
            figures[at].push(got);
        }
    }
    Ok(figures)
}

fn measure(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("remuda.toml");
    std::fs::write(&config, "[agent]\nbpf = false\n")?;
    let run_dir = folder.path().join("run");
    let config = config.display().to_string();
    let arguments = ["--config", &config, "--arm", "cubic"];
    let agent = AgentChild::start(&args.remuda, &run_dir, &arguments)?;
    let mut rows = Vec::new();
    for path in &args.paths {
        let figures = measure_path(args, path, &agent)?;
        for (side, figures) in args.sides.iter().zip(&figures) {
            rows.push(page::row(path, side, figures));
        }
    }
    agent.stop()?;
    let about = format!("{} s a run, {} runs each, interleaved.", args.seconds, args.rounds);
    let table = format!("{about} {}.\n\n{}\n{}", Origin::here(), page::HEAD, rows.join("\n"));
    println!("{table}");
    if let Some(path) = &args.write {
        page::write(path, &table)?;
    }
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
