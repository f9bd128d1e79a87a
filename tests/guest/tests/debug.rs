//! The module on a kernel that detects its own faults (`tools/debug-kernel.sh`): the kernel must
//! not complain, and no memory may leak. `tests/detectors.rs` checks that each detector finds its
//! fault.

use remuda_guest::Processors;
use remuda_guest::kernel::{Machine, build, with_headers};
use std::path::Path;
use std::time::Duration;

/// Limit for the longest run, by a machine's clock.
const OWN: Duration = Duration::from_secs(300);

fn run(processors: Processors, scenarios: &[&str]) {
    let Some(folder) = with_headers("debug") else { return };
    let module = build(&folder, "datapath/kernel").expect("the module is built");
    let program = Path::new(env!("CARGO_BIN_EXE_remuda-kernel"));
    let programs = (&*remuda_tests::binary(), program);
    let machine = Machine::new(&folder, processors, programs, &[module]).expect("a machine");
    let ended = machine.run_and_find_leaks(scenarios, OWN).expect("it ends");
    println!("{processors:?}:\n{}", ended.output);
    assert_eq!(ended.status, 0, "{}\n{}", ended.console, ended.output);
    assert_eq!(ended.console_complaints(), [""; 0], "{}", ended.console);
}

/// Scenarios with time limits run where the clock counts instructions.
#[test]
fn a_kernel_that_looks_for_faults_finds_none_in_what_it_does() {
    run(Processors::Counted, &["--slower", "8", "unload", "functional", "killed", "full"]);
}

#[test]
fn a_kernel_that_looks_for_faults_finds_none_in_races() {
    run(Processors::Parallel(2), &["--slower", "8", "hostile", "churn"]);
}
