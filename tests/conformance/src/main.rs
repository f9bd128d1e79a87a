//! Runs random programs through libccp, the VM and compiled BPF, and checks that they agree.

use clap::Parser;
use remuda_conformance::run::{Bench, Options};
use std::io::{stdin, stdout};
use std::process::{Command, ExitCode};

/// The argument with which this command starts itself again, to run libccp in another process.
const ORACLE: &str = "oracle";

/// Check that libccp, the VM and the BPF compiler do the same, with random programs and primitives
#[derive(Debug, Parser)]
struct Args {
    /// Least number of steps; a step is one program on one set of primitives
    #[arg(long, value_name = "N", default_value_t = 1_000_000, env = "STEPS")]
    steps: u64,
    /// Seed of programs and primitives
    #[arg(long, value_name = "SEED", default_value_t = 1, env = "SEED")]
    seed: u64,
    /// Run only this case of the seed; a failure prints its number
    #[arg(long, value_name = "N")]
    case: Option<u64>,
    /// The role of this process (internal)
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
