//! Measures the cost of an ACK in the module, in instructions, beside the kernel's own algorithms.
//!
//! For a machine whose clock counts instructions: `tests/guest/probe` measures the calls of one
//! kernel function. `tcp_ack()` is the whole work of the stack at an ACK; the called function of
//! the algorithm is its own part. The flow is past slow start, and almost nothing is lost during a
//! measurement.

use crate::device::Agent;
use crate::module;
use nix::kmod::{DeleteModuleFlags, ModuleInitFlags, delete_module, finit_module};
use remuda_live::transfer::Transfer;
use remuda_tests::{Fallible, message, synthetic, wired};
use std::ffi::CString;
use std::fs::{self, File};
use std::thread;
use std::time::Duration;

const PROBE: &str = "remuda_probe";
const ANNOUNCED: Duration = Duration::from_millis(300);
/// By then slow start is over, and its losses have been repaired.
const SETTLE: Duration = Duration::from_millis(2_500);
const SPAN: Duration = Duration::from_secs(2);
/// With fewer ACKs between two losses, the work of recovery would distort the figures.
const LOSSES_APART: u64 = 200;
/// A few segments more than the path holds.
const CWND_BYTES: u64 = 24 * 1_448;
/// The module's callback at an ACK.
const OWN: &str = "ccp_cong_control";
/// The function that passes reports to the agent.
const READ: &str = "tcp_remuda:device_read";
const LENGTHS: [usize; 3] = [10, 40, 100];
/// A report at every ACK, appended to a program.
const REPORT: &str = "    (fallthrough))\n(when true (report))";

fn parameter(name: &str) -> u64 {
    let path = format!("/sys/module/{PROBE}/parameters/{name}");
    let text = fs::read_to_string(path).expect("the probe is loaded");
    text.trim().parse().expect("a number")
}

/// The calls of one function in a span of time.
struct Measured {
    calls: u64,
    /// Instructions of one call.
    each: f64,
}

/// Counts the calls of a function until it is dropped.
struct Probe;

impl Probe {
    /// Counts calls whose first argument is a socket of the local port; 0 counts all calls.
    fn of(function: &str, port: u16) -> Self {
        let file = File::open(format!("/modules/{PROBE}.ko")).expect("the image has the probe");
        let parameters = CString::new(format!("function={function} port={port}")).expect("no NUL");
        finit_module(file, &parameters, ModuleInitFlags::empty()).expect("the function is there");
        Self
    }

    fn measure(&self) -> Measured {
        let read = || (parameter("calls"), parameter("total_ns"));
        let before = read();
        thread::sleep(SPAN);
        let after = read();
        let calls = after.0 - before.0;
        assert!(calls > 100, "only {calls} calls");
        let each = (after.1 - before.1) as f64 / calls as f64;
        Measured { calls, each: each - parameter("overhead_ns") as f64 }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let name = CString::new(PROBE).expect("no NUL");
        delete_module(&name, DeleteModuleFlags::empty()).expect("nobody uses it");
    }
}

/// Measures a function during a flow under an algorithm; `program` is for our own algorithm.
fn measure(function: &str, algorithm: &str, program: Option<&str>) -> Fallible<Measured> {
    let path = wired(20.0, 5.0, 8.0);
    let mut agent = program.map(|_| Agent::open());
    if let (Some(agent), Some(text)) = (&mut agent, program) {
        agent.write(&message::install(1, text)?.0)?;
    }
    let transfer = Transfer { algorithm: Some(algorithm.to_owned()), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client())?;
    thread::sleep(ANNOUNCED);
    let reader = agent.as_mut().map(|agent| -> Fallible<_> {
        let sid = agent.sid().ok_or("the flow was not announced")?;
        agent.write(&message::change_program(sid, 1, CWND_BYTES)?)?;
        Ok(agent.keep_reading()?)
    });
    let reader = reader.transpose()?;
    thread::sleep(SETTLE);
    let retransmitted = || running.retransmitted_pkts().ok_or("the flow is gone");
    let before = retransmitted()?;
    // Both ends of the flow are in one kernel, so the probe selects the sender's port.
    let port = if function == READ { 0 } else { running.sender_address.port() };
    let measured = Probe::of(function, port).measure();
    let lost = u64::from(retransmitted()? - before);
    assert!(lost * LOSSES_APART < measured.calls, "{algorithm}: {lost} segments lost meanwhile");
    drop(reader);
    running.stop();
    running.join()?;
    Ok(measured)
}

/// One line: an algorithm, its own function, and the program that it runs.
fn line(label: &str, algorithm: &str, function: &str, program: Option<&str>) -> Fallible<Measured> {
    let ack = measure("tcp_ack", algorithm, program)?;
    let own = measure(function, algorithm, program)?;
    println!("| {label} | {} | {:.0} | {} | {:.0} |", ack.calls, ack.each, own.calls, own.each);
    Ok(own)
}

fn lines() -> Fallible<()> {
    line("the kernel's reno", "reno", "tcp_reno_cong_avoid", None)?;
    line("the kernel's cubic", "cubic", "cubictcp_cong_avoid", None)?;
    module::load("")?;
    line("ccp, without an agent", "ccp", OWN, None)?;
    let mut silent = Vec::new();
    for length in LENGTHS {
        let text = synthetic::program(length)?;
        silent.push(line(&format!("ccp, {length} instructions"), "ccp", OWN, Some(&text))?);
    }
    let text = synthetic::program(LENGTHS[0])?;
    let text = text.strip_suffix(')').ok_or("a program ends with a bracket")?;
    let text = format!("{text}{REPORT}");
    let label = format!("ccp, {} instructions and a report at each ACK", LENGTHS[0]);
    let reporting = line(&label, "ccp", OWN, Some(&text))?;
    let read = measure(READ, "ccp", Some(&text))?;
    // Reports and ACKs are equal in number, so this is the number of reports in a read().
    let at_once = reporting.calls as f64 / read.calls as f64;
    println!("\n| a report | instructions |\n|---|---|");
    println!("| is made and queued, at the ACK | {:.0} |", reporting.each - silent[0].each);
    println!("| is read, {at_once:.1} in a read() | {:.0} |", read.each / at_once);
    Ok(())
}

/// Prints the tables to standard output.
pub fn table() {
    println!("| algorithm | ACKs | `tcp_ack()` | calls of its own part | its own part |");
    println!("|---|---|---|---|---|");
    lines().expect("each line is measured");
    crate::life::unload_soon();
}
