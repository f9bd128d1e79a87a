//! `remuda`: one command for the agent, its flows, the emulators and the demonstration.
//!
//! The crate is a library, so that a program with its own arms can be the same command with those
//! arms added: `tests/example-arm`.

// First, because its macros replace `print!` and `println!` in all modules below.
#[macro_use]
mod output;
mod owner;

mod advise;
mod agent;
mod author;
mod broker;
mod columns;
mod commit;
mod compare;
mod datapath;
mod demo;
mod doctor;
mod drivers;
mod event_log;
mod explain;
mod flows;
mod graph;
mod iw;
mod kinds;
mod manual;
mod matrix;
mod memory;
mod model;
mod prefer;
mod programs;
mod quic;
mod report;
mod rule;
mod select;
mod set;
mod sim;
mod stop;
mod table;
mod train;
mod weights;
mod why;
mod wrap;

/// The verdict of `remuda advise` on one destination; `bench/advise` measures how right it is.
pub use advise::{Verdict, verdict};
pub use ccp_agent::author::congalg;
/// The datapath of an agent built on portus, as `remuda datapath` runs it; `bench/cost` measures
/// its latency.
pub use datapath::{AgentSocket, Bridge};
/// A figure with its interval, as tables show it; `bench/ranking` writes it into a page.
pub use matrix::spread;
pub use stop::stop_flag;

use clap::{Parser, Subcommand};
use remuda_live::mahimahi::{MmDelayArgs, MmLinkArgs, MmLossArgs};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A congestion-control plane for a host: one agent runs every congestion-control algorithm, a
/// policy gives each TCP flow the algorithm that suits its path, and changes it in mid-flow.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the agent until Ctrl-C or SIGTERM
    Agent(agent::AgentArgs),
    /// Hold the privileges for an agent that runs without any
    Broker(broker::BrokerArgs),
    /// Show the live flows: peer, arm, window, rate, RTT, and the reason for the arm
    Flows(flows::FlowsArgs),
    /// Show the busiest flows, updated until Ctrl-C
    Top(flows::TopArgs),
    /// Explain a running flow: what held it back, its arms, and how fast it was
    Explain(explain::ExplainArgs),
    /// Give a flow, all flows, or new flows another arm or policy
    Set(set::SetArgs),
    /// Set what flows prefer: short delays, throughput, or weights between the two
    ///
    /// Some policies use the preference. Running flows get it at once, new flows when they start.
    /// If several orders match a flow, the newest counts; an order counts before the application's
    /// own preference and before [[prefer]] in the configuration. A flow must match all given
    /// conditions. Orders are lost when the agent ends.
    Prefer(prefer::PreferArgs),
    /// Choose by rules what drives which flows
    ///
    /// The first rule that matches a flow counts: those that were added, the newest first, then
    /// [[rule]] in the configuration. A rule counts before what the socket asks for and before the
    /// agent's default; `guard.deny` and `remuda set` count before rules.
    Rule(rule::RuleArgs),
    /// Compare the flows of each rule with those of its control group
    Compare(compare::CompareArgs),
    /// Say which arm would serve each destination better, and by how much; change nothing
    Advise(advise::AdviseArgs),
    /// Show what the agent remembers of destinations, or make it forget
    Memory(memory::MemoryArgs),
    /// Show groups of destinations and their learned initial windows; pin or forget a group
    Iw(iw::IwArgs),
    /// Show antelope's model and how well it predicts; or return to an earlier model
    Model(model::ModelArgs),
    /// Run arms written in Python on live flows
    Run(author::RunArgs),
    /// Let an agent built on portus drive this kernel's TCP
    Datapath(datapath::DatapathArgs),
    /// List arms and policies, with the datapath programs
    Programs(programs::ProgramsArgs),
    /// Check what this host can do, and print what is missing and the fix
    Doctor(doctor::DoctorArgs),
    /// Download files over three paths, by rein and by each arm alone, and compare
    Demo(demo::DemoArgs),
    /// Run scenarios in the simulator
    Sim(sim::SimArgs),
    /// Compare arms and policies on every kind of path
    Matrix(matrix::MatrixArgs),
    /// Report the results of a matrix, and what changed since another one
    Report(report::ReportArgs),
    /// Train the model of a policy
    Train(train::TrainArgs),
    /// Show capacity, throughput, queueing delay and drops from logs of links, with a plot
    Graph(graph::GraphArgs),
    /// Serve the files of a folder over QUIC, with the agent's congestion control
    QuicServe(quic::ServeArgs),
    /// Fetch a file from `remuda quic-serve`
    QuicGet(quic::GetArgs),
    /// Print a shell's completions of this command
    Completions(manual::CompletionsArgs),
    /// Write a manual page for each command
    #[command(hide = true)]
    Manual(manual::ManualArgs),
    /// Run a command behind an emulated link
    Link(Box<remuda_live::args::LinkArgs>),
    /// Run a command behind a link driven by traces, as Mahimahi's mm-link does
    MmLink(Box<MmLinkArgs>),
    /// Run a command behind a delay, as Mahimahi's mm-delay does
    MmDelay(MmDelayArgs),
    /// Run a command behind random loss, as Mahimahi's mm-loss does
    MmLoss(MmLossArgs),
}

/// The binary acts as one of Mahimahi's commands when called by these names.
const SHELLS: [&str; 3] = ["mm-link", "mm-delay", "mm-loss"];

/// The agent's run directory, for every command that talks to the agent.
#[derive(Debug, clap::Args)]
struct RunDirArgs {
    /// The agent's run directory, which contains its sockets
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/run/remuda",
        env = "REMUDA_RUN_DIR",
        global = true
    )]
    run_dir: PathBuf,
}

/// Adds an algorithm built on portus as an arm with this name, for every command of this process.
/// Call it before [`main`]. The algorithm's crate is used unchanged. `make` builds an instance for
/// each agent or simulation.
///
/// ```ignore
/// fn main() -> std::process::ExitCode {
///     if let Err(refusal) = remuda::with_portus("mine", || Mine::default()) {
///         eprintln!("{refusal}");
///         return std::process::ExitCode::FAILURE;
///     }
///     remuda::main()
/// }
/// ```
///
/// Returns an error if the name is taken, or if no datapath would run the algorithm's program.
pub fn with_portus<A, F>(name: &str, make: F) -> Result<(), ccp_agent::Error>
where
    A: congalg::CongAlg<congalg::Loopback> + 'static,
    F: Fn() -> A + Send + Sync + 'static,
{
    congalg::bring(name, make)
}

/// An error of any command. Its message names the fix.
type Failure = Box<dyn std::error::Error>;

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    // Without colours: the writer shows control characters as text.
    log.with_ansi(false).with_writer(output::VisibleStderr::new()).init();
    let parsed = || Ok(run(Cli::try_parse_from(arguments())?.command));
    output::ending(ExitCode::FAILURE, || parsed().unwrap_or_else(|error| explain(&error)))
}

/// Prints the error in the arguments; or the help or the version, which are no errors.
fn explain(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // The error repeats arguments, which may come from a peer.
        eprint!("{}", error.render());
    } else {
        output::printed(error.print());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX))
}

fn run(command: Command) -> ExitCode {
    let done = match command {
        Command::Agent(args) => args.run(),
        Command::Broker(args) => args.run(),
        Command::Flows(args) => args.run(),
        Command::Top(args) => args.run(),
        Command::Explain(args) => args.run(),
        Command::Set(args) => args.run(),
        Command::Prefer(args) => args.run(),
        Command::Rule(args) => args.run(),
        Command::Compare(args) => args.run(),
        Command::Advise(args) => args.run(),
        Command::Memory(args) => args.run(),
        Command::Iw(args) => args.run(),
        Command::Model(args) => args.run(),
        Command::Run(args) => args.run(),
        Command::Datapath(args) => args.run(),
        Command::Programs(args) => args.run(),
        Command::Doctor(args) => args.run(),
        Command::Demo(args) => args.run(),
        Command::Sim(args) => args.run(),
        Command::Matrix(args) => args.run(),
        Command::Report(args) => return output::ending(ExitCode::from(TROUBLE), || report(&args)),
        Command::Train(args) => args.run(),
        Command::Graph(args) => args.run(),
        Command::QuicServe(args) => args.run(),
        Command::QuicGet(args) => args.run(),
        Command::Completions(args) => args.run(),
        Command::Manual(args) => args.run(),
        Command::Link(args) => return status("remuda link", args.run()),
        Command::MmLink(args) => return status("mm-link", args.run()),
        Command::MmDelay(args) => return status("mm-delay", args.run()),
        Command::MmLoss(args) => return status("mm-loss", args.run()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("remuda: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The exit status of a report that cannot compare.
const TROUBLE: u8 = 2;

/// The exit status is like that of diff: 0 if the checks pass, 1 if one fails, 2 if the report
/// cannot be made.
fn report(args: &report::ReportArgs) -> ExitCode {
    match args.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(report::Failed::Check(why)) => {
            eprintln!("remuda: {why}");
            ExitCode::from(1)
        }
        Err(report::Failed::Trouble(failure)) => {
            eprintln!("remuda: {failure}");
            ExitCode::from(TROUBLE)
        }
    }
}

/// The exit status is that of the command behind the link.
fn status(name: &str, done: Result<i32, remuda_live::Error>) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(failure) => {
            eprintln!("{name}: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The process's arguments. If the process was called by one of Mahimahi's names, adds that name as
/// the subcommand.
fn arguments() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let called = words.first().and_then(|path| Path::new(path).file_name()).map(ToOwned::to_owned);
    if let Some(name) = called.filter(|name| SHELLS.iter().any(|shell| name == shell)) {
        words.insert(1, name);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
