//! `remuda`: one command for the agent, its flows, the emulators and the demonstration.
//!
//! It is a library so that a program with arms of its own can be the same command with those beside
//! ours: `tests/example-arm`.

// First: what it prints with, all others print with.
#[macro_use]
mod output;

mod agent;
mod author;
mod commit;
mod datapath;
mod demo;
mod doctor;
mod drivers;
mod flows;
mod graph;
mod kinds;
mod matrix;
mod memory;
mod model;
mod prefer;
mod programs;
mod quic;
mod report;
mod sim;
mod stop;
mod table;
mod train;
mod why;

pub use ccp_agent::author::congalg;
use clap::{Parser, Subcommand};
use remuda_live::mahimahi::{MmDelayArgs, MmLinkArgs, MmLossArgs};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A congestion-control plane for a host: one agent runs every congestion-control algorithm, a
/// policy gives each TCP flow the one that suits its path, and changes it in mid-flow.
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
    /// Show the live flows: peer, arm, window, rate, RTT, and why
    Flows(flows::FlowsArgs),
    /// Give a flow, all flows, or those to come another arm or policy
    Set(flows::SetArgs),
    /// Say what flows want: delay, throughput, or weights between
    ///
    /// Policies read it. Running flows are told at once, those to come when they start. The newest
    /// order that means a flow counts, before what its application has said and before the
    /// configuration's [[prefer]]. Of a rule, all must hold that is given. An order is gone when
    /// the agent ends.
    Prefer(prefer::PreferArgs),
    /// Show what suited destinations before, or have it forgotten
    Memory(memory::MemoryArgs),
    /// Show the model that antelope picks by and how it does; or go back to the one before
    Model(model::ModelArgs),
    /// Run arms written in Python on live flows
    Run(author::RunArgs),
    /// Let an agent built on portus drive this kernel's TCP
    Datapath(datapath::DatapathArgs),
    /// List arms and policies, with the datapath programs
    Programs(programs::ProgramsArgs),
    /// Say what this host can do, what is missing, and the fix
    Doctor(doctor::DoctorArgs),
    /// Download files over three paths, by rein and by each arm alone, and compare
    Demo(demo::DemoArgs),
    /// Run scenarios in the simulator
    Sim(sim::SimArgs),
    /// How good arms and policies are, on every kind of path
    Matrix(matrix::MatrixArgs),
    /// What a matrix says, and what changed since another one
    Report(report::ReportArgs),
    /// Train what a policy picks by
    Train(train::TrainArgs),
    /// What logs of links say: capacity, throughput, queueing delay and drops; and a plot
    Graph(graph::GraphArgs),
    /// Serve the files of a folder over QUIC, the agent deciding how fast
    QuicServe(quic::ServeArgs),
    /// Fetch a file from `remuda quic-serve`
    QuicGet(quic::GetArgs),
    /// Run a command behind an emulated link, as mm-link does
    Link(Box<remuda_live::args::LinkArgs>),
    /// Run a command behind Mahimahi's mm-link: bottlenecks that traces pace
    MmLink(Box<MmLinkArgs>),
    /// Run a command behind Mahimahi's mm-delay
    MmDelay(MmDelayArgs),
    /// Run a command behind Mahimahi's mm-loss
    MmLoss(MmLossArgs),
}

/// Names by which the binary is one of Mahimahi's commands.
const SHELLS: [&str; 3] = ["mm-link", "mm-delay", "mm-loss"];

/// Where the agent's sockets are, the same for every command that talks to it.
#[derive(Debug, clap::Args)]
struct RunDirArgs {
    /// The agent's run directory
    #[arg(long, value_name = "DIR", default_value = "/run/remuda", env = "REMUDA_RUN_DIR")]
    run_dir: PathBuf,
}

/// Makes an algorithm that is built on portus an arm of that name, in every command that the
/// process runs from now on: call it before [`main`]. The algorithm's crate is used unchanged.
/// `make` builds an instance for each agent or simulation.
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
/// An error says what is wrong: a name that is taken, or a program that no datapath would run.
pub fn with_portus<A, F>(name: &str, make: F) -> Result<(), ccp_agent::Error>
where
    A: congalg::CongAlg<congalg::Loopback> + 'static,
    F: Fn() -> A + Send + Sync + 'static,
{
    congalg::bring(name, make)
}

/// Anything a command can fail with; every one says the fix.
type Failure = Box<dyn std::error::Error>;

/// The command, with the process's arguments.
pub fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let parsed = || Ok(run(Cli::try_parse_from(arguments())?.command));
    output::ending(ExitCode::FAILURE, || parsed().unwrap_or_else(|error| explain(&error)))
}

/// What is wrong with the arguments; or the help and the version, which are results.
fn explain(error: &clap::Error) -> ExitCode {
    let done = error.print();
    if !error.use_stderr() {
        output::printed(done);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX))
}

fn run(command: Command) -> ExitCode {
    let done = match command {
        Command::Agent(args) => args.run(),
        Command::Flows(args) => args.run(),
        Command::Set(args) => args.run(),
        Command::Prefer(args) => args.run(),
        Command::Memory(args) => args.run(),
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

/// Of a report that cannot tell.
const TROUBLE: u8 = 2;

/// As of diff: 0 if all is as good as it must be, 1 if not, 2 if that cannot be told.
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

/// The exit status is the command's own.
fn status(name: &str, done: Result<i32, remuda_live::Error>) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(failure) => {
            eprintln!("{name}: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The process's arguments. Called by one of Mahimahi's names, through a link, it is that command.
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
