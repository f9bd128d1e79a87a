//! What an ACK costs in the module, in instructions, beside the kernel's own algorithms.
//!
//! For a machine whose clock counts instructions: `tests/kernel/probe` measures the calls of one
//! kernel function. `tcp_ack()` is the whole work of the stack at an ACK; what is below it is the
//! algorithm's part. The flow is the same each time: its receiver's window limits it, and nothing
//! is lost.

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
const SETTLE: Duration = Duration::from_secs(1);
const SPAN: Duration = Duration::from_secs(3);
/// As many as the path holds, and some more.
const CWND_BYTES: u64 = 40 * 1_448;
const LENGTHS: [usize; 3] = [10, 40, 100];
/// At every ACK, behind what is there.
const REPORT: &str = "    (fallthrough))\n(when true (report))";

fn parameter(name: &str) -> u64 {
    let path = format!("/sys/module/{PROBE}/parameters/{name}");
    let text = fs::read_to_string(path).expect("the probe is loaded");
    text.trim().parse().expect("a number")
}

/// The calls of a function while this lives.
struct Probe;

impl Probe {
    fn of(function: &str) -> Self {
        let file = File::open(format!("/modules/{PROBE}.ko")).expect("the image has the probe");
        let parameters = CString::new(format!("function={function}")).expect("no NUL");
        finit_module(file, &parameters, ModuleInitFlags::empty()).expect("the function is there");
        Self
    }

    /// Calls in a while, and what one takes, in instructions.
    fn measure(&self) -> (u64, f64) {
        let read = || (parameter("calls"), parameter("total_ns"));
        let before = read();
        thread::sleep(SPAN);
        let after = read();
        let calls = after.0 - before.0;
        assert!(calls > 100, "only {calls} calls");
        let each = (after.1 - before.1) as f64 / calls as f64;
        (calls, each - parameter("overhead_ns") as f64)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let name = CString::new(PROBE).expect("no NUL");
        delete_module(&name, DeleteModuleFlags::empty()).expect("nobody uses it");
    }
}

/// One line: an algorithm, its own function, and the program that it runs, if it is ours.
fn line(label: &str, algorithm: &str, function: &str, program: Option<&str>) -> Fallible<()> {
    let mut agent = program.map(|_| Agent::open());
    if let (Some(agent), Some(text)) = (&mut agent, program) {
        agent.write(&message::install(1, text)?.0)?;
    }
    let mut figures = Vec::new();
    for function in ["tcp_ack", function] {
        let path = wired(40.0, 5.0, 8.0);
        let transfer = Transfer { algorithm: Some(algorithm.to_owned()), ..Transfer::default() };
        let running = transfer.start(path.server(), path.client())?;
        thread::sleep(SETTLE);
        let reader = agent.as_mut().map(|agent| {
            let sid = agent.sid().expect("the flow was announced");
            agent.write(&message::change_program(sid, 1, CWND_BYTES).expect("it encodes"))?;
            agent.keep_reading()
        });
        let reader = reader.transpose()?;
        thread::sleep(SETTLE);
        figures.push(Probe::of(function).measure());
        drop(reader);
        running.stop();
        running.join()?;
    }
    let [(acks, whole), (_, own)] = figures[..] else { return Ok(()) };
    println!("| {label} | {acks} | {whole:.0} | {own:.0} |");
    Ok(())
}

/// The table, on standard output.
pub fn table() {
    println!("| algorithm | ACKs | tcp_ack(), instructions | the algorithm's part of it |");
    println!("|---|---|---|---|");
    let own = "ccp_cong_control";
    let lines = || -> Fallible<()> {
        line("the kernel's reno", "reno", "tcp_reno_cong_avoid", None)?;
        line("the kernel's cubic", "cubic", "cubictcp_cong_avoid", None)?;
        module::load("")?;
        line("ccp, without an agent", "ccp", own, None)?;
        for length in LENGTHS {
            let text = synthetic::program(length)?;
            line(&format!("ccp, {length} instructions"), "ccp", own, Some(&text))?;
        }
        let text = synthetic::program(10)?;
        let text = text.strip_suffix(')').ok_or("a program ends with a bracket")?;
        let text = format!("{text}{REPORT}");
        line("ccp, 10 instructions and a report at each ACK", "ccp", own, Some(&text))
    };
    lines().expect("each line is measured");
    crate::life::unload_soon();
}
