//! Runs random programs through libccp, the VM and compiled BPF, and says whether they agree.

use clap::Parser;
use remuda_conformance::run::{Bench, Options};
use std::io::{stdin, stdout};
use std::process::{Command, ExitCode};

/// The word with which this command is started again, to be libccp in a process of its own.
const ORACLE: &str = "oracle";

/// libccp, the VM and the BPF compiler do the same: random programs, random primitives.
#[derive(Debug, Parser)]
struct Args {
    /// Program/primitive steps, at least
    #[arg(long, value_name = "N", default_value_t = 1_000_000, env = "STEPS")]
    steps: u64,
    /// Seed of programs and primitives
    #[arg(long, value_name = "SEED", default_value_t = 1, env = "SEED")]
    seed: u64,
    /// Only this case of the seed, as a failure names it
    #[arg(long, value_name = "N")]
    case: Option<u64>,
    /// What this process is (for its own use)
    #[arg(hide = true, value_parser = [ORACLE])]
    role: Option<String>,
}

fn run(args: &Args) -> remuda_conformance::Fallible<()> {
    if args.role.is_some() {
        return Ok(remuda_oracle::serve(stdin().lock(), stdout().lock())?);
    }
    let mut oracle = Command::new(std::env::current_exe()?);
    oracle.arg(ORACLE);
    let options = Options { steps: args.steps, seed: args.seed, only: args.case };
    println!("{}", Bench::new(oracle)?.go(&options)?);
    Ok(())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
