//! The module's scenarios on Debian's kernels, in virtual machines: on one processor whose clock
//! counts instructions, and on two parallel processors for races.

use remuda_guest::Processors;
use remuda_guest::kernel::{Machine, build, with_headers};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Limit for the longest run, by a machine's clock.
const OWN: Duration = Duration::from_secs(120);

fn run(name: &str, processors: Processors, scenarios: &[&str]) {
    let Some(folder) = with_headers(name) else { return };
    let module = build(&folder, "datapath/kernel").expect("the module is built");
    run_with(name, &folder, module, processors, scenarios);
}

fn run_with(
    name: &str,
    folder: &Path,
    module: PathBuf,
    processors: Processors,
    scenarios: &[&str],
) {
    let program = Path::new(env!("CARGO_BIN_EXE_remuda-kernel"));
    let programs = (&*remuda_tests::binary(), program);
    let machine = Machine::new(folder, processors, programs, &[module]).expect("a machine");
    let ended = machine.run(scenarios, OWN).expect("it ends");
    println!("Linux {name}, {processors:?}:\n{}", ended.output);
    assert_eq!(ended.status, 0, "{}", ended.console);
    assert_eq!(ended.console_complaints(), [""; 0], "{}", ended.console);
}

const LIVES: [&str; 5] = ["parameters", "unload", "functional", "portus", "full"];
const SURVIVES: [&str; 3] = ["switches", "killed", "stopped"];
const RACES: [&str; 2] = ["hostile", "churn"];

#[test]
fn it_drives_flows_of_6_1() {
    run("6.1", Processors::Counted, &LIVES);
}

#[test]
fn it_drives_flows_of_6_12() {
    run("6.12", Processors::Counted, &LIVES);
}

#[test]
fn flows_survive_their_agent_on_6_1() {
    run("6.1", Processors::Counted, &SURVIVES);
}

#[test]
fn flows_survive_their_agent_on_6_12() {
    run("6.12", Processors::Counted, &SURVIVES);
}

#[test]
fn attacks_and_churn_harm_nothing_on_6_1() {
    run("6.1", Processors::Parallel(2), &RACES);
}

#[test]
fn attacks_and_churn_harm_nothing_on_6_12() {
    run("6.12", Processors::Parallel(2), &RACES);
}

/// With the BPF datapath, which kernel 6.1 does not support.
#[test]
fn an_agent_drives_three_datapaths_at_once_on_6_12() {
    run("6.12", Processors::Counted, &["datapaths"]);
}

/// CCP's own module is in no registry. REMUDA_CCP_KERNEL names its `ccp-cong.ko`, built for
/// Debian's 6.12 in `target/guest/6.12/headers`.
#[test]
fn an_agent_drives_ccp_kernel_by_netlink() {
    let Some(module) = std::env::var_os("REMUDA_CCP_KERNEL") else {
        eprintln!("SKIPPED: REMUDA_CCP_KERNEL names no ccp-cong.ko of ccp-kernel");
        return;
    };
    let Some(folder) = with_headers("6.12") else { return };
    run_with("6.12", &folder, module.into(), Processors::Counted, &["ccp-kernel"]);
}

/// The module is only compiled for Debian's newest kernel: a compiler warning is an error.
#[test]
fn it_compiles_for_the_newest_kernel() {
    let Some(folder) = with_headers("newest") else { return };
    build(&folder, "datapath/kernel").expect("the module is built");
}
