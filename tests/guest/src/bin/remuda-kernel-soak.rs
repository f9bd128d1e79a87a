//! The kernel module under churn for a given time: flows come and go while agents are killed, on
//! two processors that use the host's clock.

use clap::Parser;
use remuda_guest::Processors;
use remuda_guest::kernel::{Machine, build};
use remuda_tests::Fallible;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Run flows and agents against the kernel module in a virtual machine; fails if a transfer is lost
/// or not byte-exact, if the kernel complains, or if memory grows
#[derive(Debug, Parser)]
#[command(name = "remuda-kernel-soak")]
struct Args {
    /// The kernel: a folder with headers, as `tools/guest.sh --headers` makes it
    #[arg(long, value_name = "DIR", default_value = "target/guest/6.12")]
    guest: PathBuf,
    /// Duration in seconds, by the host's clock
    #[arg(long, value_name = "SECONDS", default_value_t = 1_260)]
    seconds: u64,
}

fn run(args: &Args) -> Fallible<()> {
    let modules = [build(&args.guest, "datapath/kernel")?];
    let machine = Machine::beside_this_program(&args.guest, Processors::Parallel(2), &modules)?;
    let seconds = args.seconds.to_string();
    let own = Duration::from_secs(args.seconds);
    let ended = machine.run(&["soak", "--seconds", &seconds], own)?;
    for line in ended.console.lines().filter(|line| line.starts_with("soak: ")) {
        println!("{line}");
    }
    print!("{}", ended.output);
    let complaints = ended.console_complaints();
    if ended.status != 0 || !complaints.is_empty() {
        return Err(format!("status {}\n{}", ended.status, ended.console).into());
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("remuda-kernel-soak: {error}");
            ExitCode::FAILURE
        }
    }
}
