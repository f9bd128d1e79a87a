//! Fidelity: does an arm under the agent do what the kernel's own algorithm of that name does?
//!
//! Each scenario runs both, each on an emulated path of its own: one after the other, the first of
//! them changing with the round, or with `--jobs 2` at the same time, so that what else the machine
//! does hits both. Each run keeps a link, a sender and a receiver busy, and ours the agent too: at
//! the same time is for machines with more than two processors. Rounds repeat it with other seeds.
//! Figures are medians over rounds of the ratio ours / kernel's within a round, with their spread.
//!
//! Goodput counts the flow's whole life; the queueing delay is the 95th percentile over the packets
//! at the bottleneck, as the link itself saw it.

mod run;
mod table;

use ccp_agent::child::AgentChild;
use clap::Parser;
use run::{Order, Scenario, Side, run_both};
use std::process::ExitCode;
use std::time::Duration;
use table::{Verdict, row};

/// What the issue promises.
const GOODPUT_TOLERANCE: f64 = 0.05;
const DELAY_TOLERANCE: f64 = 0.15;
const ONE_WAY_MS: f64 = 20.0;

/// Our reno, cubic and bbr against the kernel's own, side by side.
#[derive(Debug, Parser)]
struct Args {
    /// Seconds each flow runs
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    seconds: u64,
    /// How often each scenario is repeated
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u64,
    /// Only these algorithms
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "reno,cubic,bbr")]
    arms: Vec<String>,
    /// Only these rates, in Mbit/s
    #[arg(long, value_name = "RATE", value_delimiter = ',', default_value = "24,96")]
    rates: Vec<f64>,
    /// Only these buffers, in BDPs; `loss` is 1 BDP with 0.01 % of random loss
    #[arg(long, value_name = "BDP", value_delimiter = ',', default_value = "0.5,1,4,loss")]
    buffers: Vec<String>,
    /// First seed of the links' random loss
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs at once: 1, or 2 for both sides at the same time
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=2))]
    jobs: u64,
    /// The kernel's own on both sides: how far it is from itself
    #[arg(long)]
    control: bool,
    /// The remuda command
    #[arg(long, value_name = "FILE", default_value = "target/release/remuda", env = "REMUDA_BIN")]
    remuda: std::path::PathBuf,
}

fn scenarios(args: &Args) -> Result<Vec<Scenario>, String> {
    let mut all = Vec::new();
    for arm in &args.arms {
        for rate in &args.rates {
            for buffer in &args.buffers {
                let (buffer_bdp, loss_percent) = match buffer.as_str() {
                    "loss" => (1.0, 0.01),
                    number => {
                        (number.parse().map_err(|e| format!("--buffers {number}: {e}"))?, 0.0)
                    }
                };
                all.push(Scenario {
                    arm: arm.clone(),
                    rate_mbit_per_sec: *rate,
                    delay_ms: ONE_WAY_MS,
                    buffer_bdp,
                    loss_percent,
                });
            }
        }
    }
    Ok(all)
}

fn measure(args: &Args) -> Result<Vec<Verdict>, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let name = format!("fid{}", std::process::id());
    let run_dir = folder.path().join("run");
    let agent = AgentChild::start(&args.remuda, &run_dir, &["--name", &name, "--arm", "cubic"])?;
    let seconds = Duration::from_secs(args.seconds);
    let mut verdicts = Vec::new();
    table::head(args.seconds, args.rounds, args.jobs, args.seed);
    for scenario in scenarios(args)? {
        agent.set(ccp_agent::host::Target::New, &scenario.arm)?;
        let mut pairs = Vec::new();
        for round in 0..args.rounds {
            let seed = args.seed + round;
            let kernel = Side { scenario: &scenario, algorithm: &scenario.arm, seed };
            let algorithm = if args.control { &scenario.arm } else { &name };
            let ours = Side { algorithm, ..kernel };
            pairs.push(run_both(&kernel, &ours, seconds, Order::of(args.jobs, round))?);
        }
        let verdict = Verdict::of(scenario, &pairs);
        println!("{}", row(&verdict));
        verdicts.push(verdict);
    }
    agent.stop()?;
    Ok(verdicts)
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(verdicts) => {
            let missed = verdicts.iter().filter(|verdict| !verdict.met()).count();
            println!("\n{} of {} scenarios within bounds", verdicts.len() - missed, verdicts.len());
            if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("fidelity: {error}");
            ExitCode::FAILURE
        }
    }
}
