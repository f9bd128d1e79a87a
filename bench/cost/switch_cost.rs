//! The time of a switch: from the decision, when the agent gives the message to the datapath, to
//! the flow's first ACK under the new program.
//!
//! A flow over veth alternates between two programs and, for native arms, between the kernel's own
//! algorithms and ours. The ACKs' spacing is part of the figure.

use crate::traffic::{Load, Traffic};
use crate::{Options, Promise};
use ccp_agent::clock;
use remuda_bench::stats::{percentile, sorted};
use remuda_bpf::{Datapath, Settings};
use remuda_live::VethPair;
use remuda_tests::{Fallible, message};
use remuda_wire::ToAgent;
use remuda_wire::to_datapath::encode_native;
use std::time::Duration;

const CWND_BYTES: u64 = 400 * 1_448;
/// An ACK every 70 to 100 us.
const TRICKLE: Load = Load::Trickle(Duration::from_micros(50));
const BETWEEN: Duration = Duration::from_millis(3);
const PATIENCE: Duration = Duration::from_secs(2);
const TURN: Duration = Duration::from_micros(20);

struct Bench {
    datapath: Datapath,
    sid: Option<u32>,
}

impl Bench {
    fn listen(&mut self) -> Fallible<()> {
        let now_ns = clock::monotonic_ns();
        self.datapath.beat(now_ns);
        let sid = &mut self.sid;
        let mut sink = |said: &[u8]| {
            if let Ok(ToAgent::Create { sid: created, .. }) = ToAgent::parse(said) {
                *sid = Some(created);
            }
        };
        self.datapath.drain_messages(&mut sink);
        self.datapath.look_messages(now_ns, &mut sink)?;
        Ok(())
    }

    /// Reads messages until `holds` is true; returns the nanoseconds until then.
    fn until(&mut self, mut holds: impl FnMut(&Self) -> bool) -> Fallible<u64> {
        let start = clock::monotonic_ns();
        while !holds(self) {
            self.listen()?;
            if clock::monotonic_ns() - start > PATIENCE.as_nanos() as u64 {
                return Err("the flow did not follow the order within the limit".into());
            }
            std::thread::sleep(TURN);
        }
        Ok(clock::monotonic_ns() - start)
    }

    /// One change of program: nanoseconds until the first ACK that runs it.
    fn change(&mut self, sid: u32, uid: u32) -> Fallible<f64> {
        self.listen()?;
        let decided = clock::monotonic_ns();
        self.datapath.handle(&message::change_program(sid, uid, CWND_BYTES)?)?;
        self.until(|bench| bench.datapath.applied_ns(sid) >= decided)?;
        Ok((self.datapath.applied_ns(sid) - decided) as f64)
    }
}

fn print(what: &str, ns: Vec<f64>) -> String {
    let count = ns.len();
    let all = sorted(ns);
    let at = |percent| percentile(&all, percent) / 1e3;
    println!("| {what} | {:.0} | {:.0} | {:.0} | {count} |", at(50.0), at(95.0), at(99.0));
    format!("{:.0}, {:.0} us (p50, p99)", at(50.0), at(99.0))
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## Cost of a switch\n");
    let name = format!("bs{}", std::process::id());
    let mut datapath = Datapath::load(
        Settings { name: name.clone(), ..Settings::default() },
        clock::monotonic_ns(),
    )?;
    datapath.attach()?;
    let mut bench = Bench { datapath, sid: None };
    for (uid, arm) in [(1, "cubic"), (2, "bbr")] {
        let arm = remuda_algorithms::arm(arm).ok_or("an arm is missing")?;
        bench.datapath.handle(&message::install(uid, arm.program_text)?.0)?;
    }
    let pair = VethPair::new()?;
    println!("| switch | p50 us | p95 us | p99 us | switches |\n|---|---:|---:|---:|---:|");
    let mut promises = Vec::new();
    for (load, word) in [(TRICKLE, "trickling"), (Load::Bulk, "bulk")] {
        bench.sid = None;
        let traffic = Traffic::start(&pair, &name, load)?;
        bench.until(|bench| bench.sid.is_some())?;
        let sid = bench.sid.ok_or("the flow was never announced")?;
        bench.change(sid, 1)?;
        let (mut programs, mut back) = (Vec::new(), Vec::new());
        for turn in 0..options.reports {
            std::thread::sleep(BETWEEN);
            programs.push(bench.change(sid, 1 + (turn as u32 + 1) % 2)?);
        }
        let figure = print(&format!("program to program, {word} flow"), programs);
        let what = format!("decision to first ACK under the new program, {word} flow");
        promises.push(Promise::shown(&what, &figure));
        for _ in 0..options.reports / 10 {
            let mut order = Vec::new();
            encode_native(&mut order, sid, "cubic", 0);
            bench.datapath.handle(&order)?;
            bench.until(|bench| bench.datapath.is_native(sid))?;
            std::thread::sleep(BETWEEN);
            let decided = clock::monotonic_ns();
            bench.datapath.handle(&message::change_program(sid, 1, CWND_BYTES)?)?;
            bench.until(|bench| bench.datapath.applied_ns(sid) >= decided)?;
            back.push((bench.datapath.applied_ns(sid) - decided) as f64);
        }
        let figure = print(&format!("back from native:cubic, {word} flow"), back);
        promises.push(Promise::shown(&format!("back from the kernel's own, {word} flow"), &figure));
        drop(traffic);
    }
    Ok(promises)
}
