//! Fidelity: does an arm under the agent do what the kernel's own algorithm of that name does?
//!
//! Each scenario runs both, each on an emulated path of its own, one after the other, the first of
//! them changing with round and scenario: a run keeps a link, a sender and a receiver busy, and
//! ours the agent too. Rounds repeat it with other seeds. Figures are medians over rounds of the
//! ratio of ours to the kernel's within a round, with their spread. `--control` runs the kernel's
//! own a second time in each round, for the same ratio of the kernel's own to itself. On this
//! machine's kernel a run that a hypervisor disturbed is run again; with `--guest` each scenario
//! has a virtual machine, which nothing disturbs.
//!
//! Goodput counts the flow's whole life; the queueing delay is the 95th percentile over the packets
//! at the bottleneck, as the link itself saw it.

mod guests;
mod here;
mod run;
mod table;

use clap::Parser;
use remuda_bench::stats::{RoundsOf, document};
use run::{Round, Scenario, Trouble};
use std::process::ExitCode;
use table::{Verdict, row};

/// What the issue promises.
const GOODPUT_TOLERANCE: f64 = 0.05;
const DELAY_TOLERANCE: f64 = 0.15;
/// On a path with reordering or pauses: of goodput, and of the segments sent again.
const TROUBLE_TOLERANCE: f64 = 0.1;
const ONE_WAY_MS: f64 = 20.0;

/// Our arms against the kernel's own algorithms of their names, side by side.
#[derive(Debug, Parser)]
struct Args {
    /// Seconds each flow runs
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    seconds: u64,
    /// How often each scenario is repeated
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// How often those are repeated whose names contain a text; may be given several times
    #[arg(long, value_name = "TEXT=N")]
    rounds_of: Vec<RoundsOf>,
    /// Algorithms that both have
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "reno,cubic,bbr")]
    arms: Vec<String>,
    /// Only these rates, in Mbit/s
    #[arg(long, value_name = "RATE", value_delimiter = ',', default_value = "24,96")]
    rates: Vec<f64>,
    /// Only these buffers, in BDPs; `loss` is 1 BDP with 0.01 % of random loss, `mark` is 1 BDP of
    /// which a quarter may be full before packets are marked (ECN); `reorder` is 1 BDP where 2 % of
    /// the packets travel 8 ms longer, `idle` 1 BDP and an application that pauses
    #[arg(long, value_name = "BDP", value_delimiter = ',', default_value = "0.5,1,4,loss")]
    buffers: Vec<String>,
    /// First seed of the links' random loss
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The kernel's own a second time in each round, of these algorithms: how far it is from itself
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    control: Vec<String>,
    /// How often a run is run, at most, of which a hypervisor took more than 0.7 % of a processor
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
    /// In virtual machines whose clock counts instructions, with the kernel of this folder:
    /// `tools/guest.sh` makes target/guest/6.12
    #[arg(long, value_name = "DIR")]
    guest: Option<std::path::PathBuf>,
    /// Print the figures of all rounds as JSON, nothing else: what a guest is asked for
    #[arg(long, conflicts_with_all = ["guest", "write"])]
    json: bool,
    /// Write the table into this document, between the markers of --part
    #[arg(long, value_name = "FILE")]
    write: Option<std::path::PathBuf>,
    /// Which part of the document that is: the command that its first marker names
    #[arg(long, value_name = "COMMAND", default_value = "make fidelity")]
    part: String,
    /// The remuda command
    #[arg(long, value_name = "FILE", default_value = "target/release/remuda", env = "REMUDA_BIN")]
    remuda: std::path::PathBuf,
}

fn scenarios(args: &Args) -> Result<Vec<Scenario>, String> {
    let mut all = Vec::new();
    for arm in &args.arms {
        for rate in &args.rates {
            for buffer in &args.buffers {
                let mut trouble = Trouble::None;
                let (buffer_bdp, loss_percent, marks) = match buffer.as_str() {
                    "loss" => (1.0, 0.01, false),
                    "mark" => (1.0, 0.0, true),
                    "reorder" | "idle" => {
                        let is_idle = buffer == "idle";
                        trouble = if is_idle { Trouble::Idle } else { Trouble::Reordering };
                        (1.0, 0.0, false)
                    }
                    number => {
                        let bdp = number.parse().map_err(|e| format!("--buffers {number}: {e}"))?;
                        (bdp, 0.0, false)
                    }
                };
                all.push(Scenario {
                    arm: arm.clone(),
                    rate_mbit_per_sec: *rate,
                    delay_ms: ONE_WAY_MS,
                    buffer_bdp,
                    loss_percent,
                    marks,
                    trouble,
                });
            }
        }
    }
    Ok(all)
}

/// A name that selects nothing is a mistake.
fn check_names(args: &Args, scenarios: &[Scenario]) -> Result<(), String> {
    for name in &args.control {
        if !args.arms.contains(name) {
            let arms = args.arms.join(", ");
            return Err(format!("--control: {name} is not run; it is one of {arms}"));
        }
    }
    for of in &args.rounds_of {
        if !scenarios.iter().any(|scenario| of.is_of(&scenario.to_string())) {
            let names: Vec<String> = scenarios.iter().map(Scenario::to_string).collect();
            return Err(format!("--rounds-of {of}: in none of\n{}", names.join("\n")));
        }
    }
    Ok(())
}

impl Args {
    /// How often a scenario is repeated.
    fn rounds_of(&self, scenario: &Scenario) -> u64 {
        RoundsOf::rounds(&scenario.to_string(), &self.rounds_of, self.rounds)
    }
}

/// For a guest: the rounds of its one scenario.
fn print_json(args: &Args, scenarios: &[Scenario]) -> Result<bool, Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    here::run(args, scenarios, |_, rounds| all.extend(rounds))?;
    println!("{}", serde_json::to_string(&all)?);
    Ok(true)
}

fn measure(args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    let scenarios = scenarios(args)?;
    check_names(args, &scenarios)?;
    if args.json {
        return print_json(args, &scenarios);
    }
    let mut verdicts: Vec<Option<Verdict>> = vec![None; scenarios.len()];
    let head = table::head(args);
    println!("{head}");
    let done = |index: usize, rounds: Vec<Round>| {
        let verdict = Verdict::of(scenarios[index].clone(), &rounds);
        println!("{}", row(&verdict));
        verdicts[index] = Some(verdict);
    };
    let origin = match &args.guest {
        Some(kernel) => guests::run((args, kernel), &scenarios, done)?,
        None => here::run(args, &scenarios, done)?,
    };
    let verdicts: Vec<Verdict> = verdicts.into_iter().flatten().collect();
    let met = verdicts.iter().filter(|verdict| verdict.met()).count();
    let summary = format!("{origin}.\n{met} of {} scenarios within bounds.", verdicts.len());
    println!("\n{summary}");
    if let Some(path) = &args.write {
        let rows: Vec<String> = verdicts.iter().map(row).collect();
        let part = format!("{head}\n{}\n\n{summary}", rows.join("\n"));
        document::write(path, &args.part, &part)?;
    }
    Ok(met == verdicts.len())
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fidelity: {error}");
            ExitCode::FAILURE
        }
    }
}
