//! Measures the cost of an ACK in the kernel module, in instructions: docs/kernel-module.md.

use clap::Parser;
use remuda_bench::stats::{Origin, document};
use remuda_guest::Processors;
use remuda_guest::kernel::{Machine, build};
use remuda_tests::Fallible;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Limit for the whole measurement, by the machine's clock.
const OWN: Duration = Duration::from_secs(150);

/// Measure the cost of an ACK in the module, beside the kernel's own reno and cubic, in
/// instructions
///
/// It runs in a virtual machine whose clock counts instructions, and takes about five minutes.
#[derive(Debug, Parser)]
#[command(name = "remuda-kernel-cost")]
struct Args {
    /// The kernel: a folder with headers, as `tools/guest.sh --headers` makes it
    #[arg(long, value_name = "DIR", default_value = "target/guest/6.12")]
    guest: PathBuf,
    /// Write the table into this document, between its markers
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

fn run(args: &Args) -> Fallible<()> {
    let folders = ["datapath/kernel", "tests/guest/probe"];
    let modules = folders.map(|folder| build(&args.guest, folder));
    let modules = modules.into_iter().collect::<Result<Vec<_>, _>>()?;
    let machine = Machine::beside_this_program(&args.guest, Processors::Counted, &modules)?;
    let ended = machine.run(&["overhead"], OWN)?;
    if ended.status != 0 {
        return Err(format!("status {}\n{}", ended.status, ended.console).into());
    }
    let table: Vec<&str> =
        ended.output.lines().filter(|line| line.is_empty() || line.starts_with('|')).collect();
    let release = machine.kernel_release()?;
    let origin = Origin::here().in_guests(release);
    let page = format!("{origin}; figures are instructions.\n\n{}", table.join("\n"));
    println!("{page}");
    if let Some(path) = &args.write {
        document::write(path, "make kernel-cost", &page)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("remuda-kernel-cost: {error}");
            ExitCode::FAILURE
        }
    }
}
