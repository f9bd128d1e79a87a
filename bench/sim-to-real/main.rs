//! Checks whether the simulator agrees with real TCP.
//!
//! The same scenario files run on this kernel's TCP, once with its own algorithms and once with
//! ours under the agent, and in the simulator. The table compares goodput, queueing delay and
//! retransmissions.

use clap::Parser;
use remuda_bench::sim_to_real::guests::{self, Guests};
use remuda_bench::sim_to_real::measure::{self, Measured, Ran, Settings, Side};
use remuda_bench::sim_to_real::verdict::Verdict;
use remuda_bench::sim_to_real::{Error, cell, cost, table};
use remuda_bench::stats::{Origin, RoundsOf, document};
use remuda_scenarios::{Driver, Scenario};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare the simulator with real TCP on the same scenario files
#[derive(Debug, Parser)]
struct Args {
    /// Run only scenarios whose name contains one of these texts, separated by commas
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Folder of the scenario files
    #[arg(long, value_name = "DIR", default_value = "emulation/scenarios/sim-to-real")]
    scenarios: PathBuf,
    /// Number of rounds of each scenario
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u64,
    /// Number of rounds of the scenarios whose name contains a text; may be given several times,
    /// and the last match counts
    #[arg(long, value_name = "TEXT=N")]
    rounds_of: Vec<RoundsOf>,
    /// Seconds that each scenario lasts [default: as in its file]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// First seed of the links' random loss; each further round uses the next
    #[arg(long, value_name = "N", default_value_t = 1, env = "SEED")]
    seed: u64,
    /// Number of live runs at a time on this host, guests not counted; with 2, the kernel's side
    /// and ours run at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Most attempts at a live run of which a hypervisor took more than 0.7 % of a processor
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
    /// Make live runs up to 100 Mbit/s in virtual machines whose clock counts instructions, with
    /// the kernel in this folder; `tools/guest.sh` makes target/guest/6.12
    #[arg(long, value_name = "DIR")]
    guest: Option<PathBuf>,
    /// Run only the scenario in this file, live, and print its figures as JSON
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["guest", "keep", "sim_only", "write"])]
    alone: Option<PathBuf>,
    /// Run only the simulator; needs no root
    #[arg(long)]
    sim_only: bool,
    /// Write the table into this document, between its markers
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Keep live figures in this file, and skip the live runs that the file has already
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Write the trace of the cell scenarios to this file and exit
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Show the cost of a simulated packet with 10 to 10,000 flows and exit
    #[arg(long)]
    cost: bool,
    /// Path of the remuda command, which must be built
    #[arg(long, value_name = "FILE", default_value = "target/release/remuda", env = "REMUDA_BIN")]
    remuda: PathBuf,
}

fn scenarios(args: &Args) -> Result<Vec<Scenario>, Error> {
    let failed = |problem: String| Error::File { path: args.scenarios.clone(), problem };
    let entries = std::fs::read_dir(&args.scenarios).map_err(|error| failed(error.to_string()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let mut scenario = Scenario::load(&path)?;
        let is_meant = |text: &String| scenario.name.contains(text.as_str());
        if args.only.is_empty() || args.only.iter().any(is_meant) {
            scenario.duration_s = args.seconds.unwrap_or(scenario.duration_s);
            scenario.validate()?;
            all.push(scenario);
        }
    }
    if all.is_empty() {
        return Err(failed(format!("holds no scenario named like {}", args.only.join(", "))));
    }
    Ok(all)
}

/// Prints a finished run to stderr.
fn note(measured: &Measured) {
    let Measured { key, ran: Ran { figures, lost_by_host, stolen } } = measured;
    if key.side == Side::Sim {
        return;
    }
    let disturbed = match lost_by_host {
        0 => String::new(),
        packets => format!(", {packets} packets lost by this host"),
    };
    eprintln!(
        "{} seed {} {}: {:.2} Mbit/s, {:.1} ms, {} retransmitted, {:.1} % stolen{disturbed}",
        key.scenario,
        key.seed,
        key.side.name(),
        figures.goodput_mbit_per_sec,
        figures.queueing_p95_ms,
        figures.retransmitted_pkts,
        stolen * 100.0
    );
}

/// Returns whether all scenarios are within bounds.
fn compare(args: &Args) -> Result<bool, Error> {
    let scenarios = scenarios(args)?;
    let guests = args.guest.as_ref().filter(|_| !args.sim_only);
    let guests = guests.map(|kernel| Guests::new(kernel, &args.remuda)).transpose()?;
    let in_guests = guests.as_ref().map(|guests| guests.kernel()).transpose()?;
    let settings = Settings {
        rounds: args.rounds.max(1),
        rounds_of: args.rounds_of.clone(),
        seed: args.seed,
        jobs: args.jobs,
        tries: args.tries,
        sim_only: args.sim_only,
        remuda: args.remuda.clone(),
        guests,
        keep: args.keep.clone(),
    };
    let measured = measure::run(&scenarios, &settings, note)?;
    if args.sim_only {
        println!("{}", table::sim_columns());
        for scenario in &scenarios {
            println!("{}", table::sim_line(scenario, &measured));
        }
        return Ok(true);
    }
    let verdicts: Vec<Verdict> =
        scenarios.iter().filter_map(|scenario| Verdict::of(scenario, &measured)).collect();
    let mut text = table::head(&settings, &Origin::here(), in_guests.as_deref());
    text += &format!("\n{}\n", table::columns());
    for verdict in &verdicts {
        text += &format!("{}\n", table::row(verdict));
    }
    text += &format!("\n{}\n", table::summary(&verdicts));
    println!("{text}");
    if let Some(path) = &args.write {
        document::write(path, "make sim-to-real", &text)
            .map_err(|error| Error::File { path: path.clone(), problem: error.to_string() })?;
    }
    Ok(verdicts.iter().all(Verdict::is_met))
}

/// Returns whether the cost of a packet is about the same with any number of flows.
fn show_cost() -> Result<bool, Error> {
    const PACKETS: u64 = 4_000_000;
    println!("| driver | flows | data packets | ns of processor a packet |\n|---|---|---|---|");
    let mut is_linear = true;
    for driver in [Driver::Window(10), Driver::Named("cubic".to_owned())] {
        let mut least = f64::INFINITY;
        for flows in [10, 100, 1_000, 10_000] {
            let cost = cost::measure(&driver, flows, PACKETS)?;
            let ns = cost.ns_per_packet();
            println!("| {driver} | {flows} | {} | {ns:.0} |", cost.packets);
            least = least.min(ns);
            is_linear &= ns <= least * cost::FACTOR_MAX;
        }
    }
    Ok(is_linear)
}

fn run(args: &Args) -> Result<bool, Error> {
    if let Some(path) = &args.trace {
        let text = cell::trace(cell::SEED, cell::STEPS);
        return match std::fs::write(path, text) {
            Ok(()) => Ok(true),
            Err(error) => Err(Error::File { path: path.clone(), problem: error.to_string() }),
        };
    }
    if let Some(file) = &args.alone {
        return guests::run_alone(file, &args.remuda).map(|()| true);
    }
    if args.cost { show_cost() } else { compare(args) }
}

fn main() -> ExitCode {
    let args = Args::parse();
    // SAFETY: no arguments, no failure.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root && !args.sim_only && !args.cost && args.trace.is_none() && args.guest.is_none() {
        eprintln!("SKIPPED: needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN)");
        return ExitCode::FAILURE;
    }
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim-to-real: {error}");
            ExitCode::FAILURE
        }
    }
}
