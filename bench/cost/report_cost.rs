//! The cost of a report in each arm: nanoseconds of `on_measurement`; and the cost of a switch to
//! the arm in the agent, `hand_off` and `resume`. This runs on one core without the kernel's TCP,
//! and needs no root.
//!
//! Each arm drives a flow on a computed path of 24 Mbit/s and 40 ms: sent data is acknowledged a
//! round trip later, and data beyond the bottleneck's rate becomes a queue. Arms alternate by
//! round, so that other work on the machine affects all of them.

use crate::cpu::own_ns;
use crate::{Fallible, Options, Promise};
use ccp_agent::author::{Authors, Line, Process};
use ccp_agent::clock;
use remuda_algorithms::units::{Bytes, Packets, Rate, Time};
use remuda_algorithms::{
    Arm, ArmInfo, CwndUse, Decision, Measurement, PathState, RttSamples, arms,
};
use remuda_bench::stats::{Spread, percentile, sorted};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const REPORTS: u32 = 20_000;
const SWITCHES: u32 = 2_000;
const MSS: Bytes = Bytes(1_448);
const BOTTLENECK: Rate = Rate::from_bytes_per_sec(3_000_000);
const RTT: Duration = Duration::from_millis(40);
/// Time between two reports: four reports a round trip.
const STEP: Duration = Duration::from_millis(10);
/// The arm in Python whose reports are timed, and the interpreter that has the package.
const AUTHORED: (&str, &str) = ("python/examples/aimd.py", "aimd");
const PYTHON: &str = "target/venv/bin/python";
const AUTHORED_REPORTS: u32 = 3_000;
/// Size of the bottleneck's queue.
const QUEUE_MAX: Bytes = Bytes(120_000);

pub struct Course {
    pub now: Time,
    queue: Bytes,
}

impl Course {
    /// A path with an empty queue.
    pub fn new() -> Self {
        Self { now: Time::ZERO, queue: Bytes(0) }
    }

    /// The measurement that the sender of `decision` gets after one step.
    pub fn step(&mut self, decision: Decision) -> Measurement {
        self.now = Time(self.now.0 + STEP);
        let rtt = RTT + Duration::from_secs_f64(self.queue.0 as f64 / 3e6);
        let window = decision.cwnd / rtt;
        let rate = decision.rate.map_or(window, |rate| rate.min(window));
        let (sent, drained) = (rate * STEP, BOTTLENECK * STEP);
        let queue = (self.queue + sent) - drained;
        let lost = queue - QUEUE_MAX;
        self.queue = queue.min(QUEUE_MAX);
        let delivered = sent.min(drained);
        Measurement {
            acked: delivered,
            delivered,
            lost: lost.to_packets(MSS),
            rtt: Some(RttSamples::one(rtt)),
            send_rate: rate,
            delivery_rate: rate.min(BOTTLENECK),
            in_flight: decision.cwnd.min(rate * rtt),
            cwnd: decision.cwnd,
            cwnd_use: Some(CwndUse::Full),
            companions: 0,
            ..Measurement::QUIET
        }
    }
}

fn path() -> PathState {
    let mut path = PathState::new(MSS, Packets(83).to_bytes(MSS));
    path.ecn = true;
    path.observe_rtt(RTT, RTT, RTT, 0);
    path
}

/// The arm with a new flow, whose path is known, and its first decision.
pub fn start(arm: &ArmInfo) -> (Box<dyn Arm>, PathState, Decision) {
    let path = path();
    let mut controller = arm.build().expect("this crate makes it");
    let first = controller.resume(&path, Time::ZERO);
    (controller, path, first)
}

fn report_ns(arm: &ArmInfo) -> f64 {
    let (mut controller, _, mut decision) = start(arm);
    let mut course = Course::new();
    let mut spent = 0;
    // In batches, so that reading the clock does not count.
    for _ in 0..REPORTS / 100 {
        let before = own_ns();
        for _ in 0..100 {
            let m = course.step(decision);
            decision = black_box(controller.on_measurement(black_box(&m), course.now));
        }
        spent += own_ns() - before;
    }
    spent as f64 / f64::from(REPORTS)
}

/// Nanoseconds of a hand-off from the arm and a resume to it.
fn switch_ns(arm: &ArmInfo) -> f64 {
    let (mut controller, mut path, mut decision) = start(arm);
    let mut course = Course::new();
    for _ in 0..200 {
        let m = course.step(decision);
        path.observe(&m, course.now);
        decision = controller.on_measurement(&m, course.now);
    }
    let before = own_ns();
    for _ in 0..SWITCHES {
        let mut handed = path.clone();
        controller.hand_off(&mut handed);
        black_box(controller.resume(black_box(&handed), course.now));
    }
    (own_ns() - before) as f64 / f64::from(SWITCHES)
}

/// Microseconds of real time from a report to the decision of an arm in Python. Another process
/// does this work, and the agent does not wait for it.
fn authored_us() -> Fallible<Vec<f64>> {
    let (file, name) = AUTHORED;
    let mut process = Process::start(Path::new(PYTHON), Path::new(file))?;
    let authors = Authors::default();
    let line = Line::new(process.take_socket()?, true, Duration::from_secs(5));
    authors.add(Arc::new(line), &process.hello)?;
    let mut controller = authors.build(name).ok_or("the arm is missing")?;
    let mut decision = controller.resume(&path(), Time::ZERO);
    let mut course = Course::new();
    let mut took = Vec::new();
    for _ in 0..AUTHORED_REPORTS {
        let m = course.step(decision);
        let before_ns = clock::monotonic_ns();
        decision = controller.on_measurement(&m, course.now);
        took.push((clock::monotonic_ns() - before_ns) as f64 / 1e3);
    }
    match controller.failure() {
        Some(reason) => Err(reason.into()),
        None => Ok(sorted(took)),
    }
}

fn authored() -> Fallible<Promise> {
    if !Path::new(PYTHON).is_file() {
        println!("\nSKIPPED: an arm in Python needs {PYTHON}\nfix: bash tools/python.sh build");
        return Ok(Promise::shown("a report of an arm in Python", "skipped"));
    }
    let us = authored_us()?;
    let [p50, p95, p99] = [50.0, 95.0, 99.0].map(|percent| percentile(&us, percent));
    let count = us.len();
    println!(
        "\nIn Python (`{}`): {p50:.0}, {p95:.0}, {p99:.0} us from a report to its decision \
              (p50, p95, p99 of {count}).",
        AUTHORED.1
    );
    Ok(Promise::shown("a report of an arm in Python", &format!("{p50:.0}, {p99:.0} us (p50, p99)")))
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## Cost of a report, by arm\n");
    let measured: Vec<&ArmInfo> =
        arms().iter().copied().filter(|arm| arm.loads.is_none()).collect();
    let mut figures = vec![(Vec::new(), Vec::new()); measured.len()];
    for _ in 0..options.rounds {
        for (arm, (reports, switches)) in measured.iter().zip(&mut figures) {
            reports.push(report_ns(arm));
            switches.push(switch_ns(arm));
        }
    }
    println!(
        "{} rounds of {REPORTS} reports and {SWITCHES} switches, interleaved; with what the path \
         as arithmetic takes in them (the figure of `fixed` is nearly that alone). `remy` needs \
         a table.\n",
        options.rounds
    );
    println!("| arm | ns a report | ns of hand_off and resume |\n|---|---:|---:|");
    let mut worst = ("", 0.0);
    for (arm, (reports, switches)) in measured.iter().zip(figures) {
        let (report, switch) = (Spread::of(reports), Spread::of(switches));
        println!("| {} | {report:.0} | {switch:.0} |", arm.name);
        if report.median > worst.1 {
            worst = (arm.name, report.median);
        }
    }
    let (name, ns) = worst;
    let dearest = format!("{name}: {ns:.0} ns");
    Ok(vec![Promise::shown("cost of a report, the dearest arm", &dearest), authored()?])
}
