//! The cost of the datapath and the agent, beside the kernel's own algorithm and beside portus.
//!
//! Everything is measured on this machine, on real TCP flows in network namespaces. Other work may
//! run at the same time, so every figure is a ratio, or a percentile, within one interleaved run,
//! with its spread.

mod ack_cost;
mod agent_cost;
mod arm_cost;
mod broker_cost;
mod cpu;
mod crowd;
mod echo;
mod hundred_flows;
mod latency;
mod policy_cost;
mod report_cost;
mod rule_cost;
mod run_stats;
mod simulator;
mod switch_cost;
mod throughput;
mod traffic;
mod window_cost;

use clap::{Parser, ValueEnum};
use remuda_bench::stats::{Origin, document};
use remuda_tests::Fallible;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Bench {
    /// Goodput and CPU time per byte of cubic under the agent, compared with the kernel's cubic
    Throughput,
    /// Nanoseconds per ACK, by the length of the program
    AckCost,
    /// Time from a report to the ACK that applies the answer, beside portus over unix datagrams
    Latency,
    /// Time from a switch's decision to the first ACK under the new program, and back from the
    /// kernel's own algorithms
    SwitchCost,
    /// Nanoseconds for a report and for a switch in each arm
    ReportCost,
    /// Cost of a policy that evaluates boosted trees: models, features, the agent for 100 flows
    PolicyCost,
    /// Cost of an arm that evaluates networks: a report, the agent for 100 flows
    ArmCost,
    /// Reports per second of one core, CPU time per report beside portus, and CPU, memory and
    /// latency for 10 to 50,000 flows
    AgentCost,
    /// Cost and latency of a report where a broker has loaded the kernel side
    BrokerCost,
    /// Microseconds of CPU to find the rule of a new flow
    RuleCost,
    /// Microseconds that a learned initial window costs a new connection, of 10,000 prefixes
    WindowCost,
    /// Packets per processor second of the simulator, and memory per flow
    Simulator,
}

/// Measure cost and latency of the datapath and the agent, beside the kernel's own algorithm and
/// portus
#[derive(Debug, Parser)]
struct Options {
    /// The benchmarks to run [default: all]
    #[arg(value_enum)]
    benches: Vec<Bench>,
    /// throughput: number of pairs of runs
    #[arg(long, value_name = "N", default_value_t = 15)]
    pairs: usize,
    /// throughput: seconds that a flow runs; agent-cost, broker-cost: seconds of a
    /// measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// throughput: run the kernel's cubic on both sides, which shows the noise of this machine
    #[arg(long)]
    control: bool,
    /// ack-cost, latency, broker-cost: number of rounds
    #[arg(long, value_name = "N", default_value_t = 12)]
    rounds: usize,
    /// ack-cost: milliseconds that a program runs in a round
    #[arg(long, value_name = "MS", default_value_t = 400)]
    ack_ms: u64,
    /// latency: reports of each side in a round; switch-cost: number of switches
    #[arg(long, value_name = "N", default_value_t = 600)]
    reports: usize,
    /// agent-cost: at most this many flows
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    flows_max: usize,
    /// policy-cost: the policy that drives the flows; its configuration must know `dry_run`
    #[arg(long, value_name = "NAME", default_value = "antelope")]
    policy: String,
    /// arm-cost: the arm that drives the flows
    #[arg(long, value_name = "NAME", default_value = "anole")]
    arm: String,
    /// What a process of `agent-cost` is started for: to hold idle flows
    #[arg(long, value_name = "ADDRESS,ALGORITHM,COUNT", hide = true)]
    hold: Option<String>,
    /// Print the row of this many flows; `agent-cost` runs this command once for each row
    #[arg(long, value_name = "N", hide = true)]
    row: Option<usize>,
    /// Write the table of promises and figures into this document, between its markers
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Path of the remuda command, which must be built
    #[arg(long, value_name = "FILE", default_value = "target/release/remuda", env = "REMUDA_BIN")]
    remuda: PathBuf,
}

/// The result for a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Met,
    Missed,
    /// The machine was too busy for a verdict.
    Undecided,
    /// The figure has no bound.
    Shown,
}

impl Verdict {
    fn of(met: bool) -> Self {
        if met { Self::Met } else { Self::Missed }
    }
}

/// A promise and its result.
struct Promise {
    what: String,
    figure: String,
    bound: String,
    verdict: Verdict,
}

impl Promise {
    fn shown(what: &str, figure: &str) -> Self {
        let (what, figure, bound) = (what.to_owned(), figure.to_owned(), "-".to_owned());
        Self { what, figure, bound, verdict: Verdict::Shown }
    }
}

/// Prints what a reader needs to repeat the figures.
fn head(options: &Options) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("# command: {}", std::env::args().collect::<Vec<_>>().join(" "));
    println!("# {}; load before: {}", Origin::here(), load.trim());
    let Options { pairs, seconds, rounds, ack_ms, reports, .. } = options;
    println!("# pairs: {pairs} of {seconds} s; rounds: {rounds} of {ack_ms} ms, {reports} reports");
    println!("# nothing is random: no seed. Spreads are median (least..greatest)");
}

fn summary(promises: &[Promise]) -> String {
    let mut out = String::from("| promise | figure | bound | verdict |\n|---|---|---|---|\n");
    for Promise { what, figure, bound, verdict } in promises {
        let verdict = match verdict {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::Undecided => "UNDECIDED: the machine was busy",
            Verdict::Shown => "shown",
        };
        let _ = writeln!(out, "| {what} | {figure} | {bound} | {verdict} |");
    }
    out
}

/// Writes the table into a document, with what a reader needs to repeat the figures.
fn write(path: &Path, options: &Options, table: &str) -> Fallible<()> {
    let of_agent = options.benches == [Bench::AgentCost];
    let target = if of_agent { "make agent-cost" } else { "make bench" };
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let head = format!("{}. Command:\n\n```\n", Origin::here());
    let text = format!("{head}cargo run --release -p remuda-bench -- {command}\n```\n\n{table}");
    let failed = |error| format!("{}: {error}", path.display());
    Ok(document::write(path, target, &text).map_err(failed)?)
}

/// The promises, and tables that are written below theirs.
fn run(options: &Options) -> Fallible<(Vec<Promise>, String)> {
    let chosen = |bench| options.benches.is_empty() || options.benches.contains(&bench);
    let (mut promises, mut tables) = (Vec::new(), String::new());
    if chosen(Bench::Throughput) {
        promises.extend(throughput::run(options)?);
    }
    if chosen(Bench::AckCost) {
        promises.extend(ack_cost::run(options)?);
    }
    if chosen(Bench::Latency) {
        promises.extend(latency::run(options)?);
    }
    if chosen(Bench::SwitchCost) {
        promises.extend(switch_cost::run(options)?);
    }
    if chosen(Bench::ReportCost) {
        promises.extend(report_cost::run(options)?);
    }
    if chosen(Bench::PolicyCost) {
        promises.extend(policy_cost::run(options)?);
    }
    if chosen(Bench::ArmCost) {
        promises.extend(arm_cost::run(options)?);
    }
    if chosen(Bench::AgentCost) {
        let (shown, of_agent) = agent_cost::run(options)?;
        promises.extend(shown);
        tables = of_agent;
    }
    if chosen(Bench::BrokerCost) {
        promises.extend(broker_cost::run(options)?);
    }
    if chosen(Bench::RuleCost) {
        promises.extend(rule_cost::run(options)?);
    }
    if chosen(Bench::WindowCost) {
        promises.extend(window_cost::run(options)?);
    }
    if chosen(Bench::Simulator) {
        promises.extend(simulator::run()?);
    }
    Ok((promises, tables))
}

/// Returns true, and prints a message, if the user is not root, because benchmarks need root.
fn skip() -> bool {
    // SAFETY: no arguments, no failure.
    let skip = unsafe { libc::geteuid() } != 0;
    if skip {
        eprintln!("SKIPPED: needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN)");
    }
    skip
}

/// What this process is to do for another one of `agent-cost`, if it was started for that.
fn part(options: &Options) -> Option<Fallible<()>> {
    if let Some(spec) = &options.hold {
        return Some(crowd::hold(spec));
    }
    let row = agent_cost::row(options.row?, Duration::from_secs_f64(options.seconds));
    Some(row.map(|row| print!("{row}")))
}

fn main() -> ExitCode {
    let options = Options::parse();
    if skip() {
        return ExitCode::FAILURE;
    }
    if let Some(done) = part(&options) {
        return match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("bench: {error}");
                ExitCode::FAILURE
            }
        };
    }
    head(&options);
    match run(&options) {
        Ok((promises, tables)) => {
            let table = summary(&promises);
            println!("\n## Promises\n\n{}", table.trim_end());
            let table = format!("{table}\n{tables}");
            if let Some(Err(error)) =
                options.write.as_ref().map(|path| write(path, &options, &table))
            {
                eprintln!("bench: {error}");
                return ExitCode::FAILURE;
            }
            let kept = |p: &Promise| matches!(p.verdict, Verdict::Met | Verdict::Shown);
            if promises.iter().all(kept) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
