//! What the agent costs by the number of flows: reports per second of one core, CPU time per report
//! beside portus over unix datagrams, and a table from 10 to 50,000 flows.
//!
//! Reports come from real flows under BPF over veth devices (crowd.rs): the ring, the typed path
//! and the slots are the product's. *Processor time* is that of the agent's threads alone. With
//! portus that is the bridge, which carries messages between BPF and the socket, and portus' own
//! thread.

use crate::crowd::Crowd;
use crate::echo::{EchoAgent, Samples};
use crate::latency::{self, Side, WINDOWS_PKTS};
use crate::{Fallible, Options, Promise};
use ccp_agent::datapath::{Agent, Datapath as _, Obey, Peer};
use ccp_agent::events::{Event, Recorder};
use ccp_agent::host::Host;
use ccp_agent::ipc::BpfEnd;
use ccp_agent::lock::lock;
use ccp_agent::waiter::Waiter;
use ccp_agent::{Config, clock, run_loop};
use remuda_bench::stats::{Spread, percentile, sorted};
use remuda_bench::thread_time::thread_ns;
use remuda_bpf::{Datapath, Settings};
use remuda_live::VethPair;
use remuda_wire::Event as Said;
use std::fmt::Write as _;
use std::os::unix::thread::JoinHandleExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The rate at which both sides are compared: 1,000 flows that report each 115 ms.
const REPORTS_PER_SEC: f64 = 8_700.0;
const COMPARED_FLOWS: [usize; 2] = [1_000, 5_000];
/// Flows of the batches, and how many reports each leaves in the ring before it is drained: fewer
/// than the ring has room for.
const BATCH_FLOWS: usize = 500;
const REPORTS_PER_FLOW: usize = 4;
const BATCHES: usize = 20;
/// An ACK is there by then.
const ACK_WAIT: Duration = Duration::from_millis(15);
/// At most this many flows of the table send, each this many times a second.
const BUSY_MAX: usize = 100;
const WRITES_PER_SEC: f64 = 100.0;
/// The memory of fewer flows is lost among pages.
const MEMORY_FLOWS_MIN: usize = 1_000;
const SETTLING: Duration = Duration::from_millis(500);
/// A flow that has just started counts as busy for two seconds, and has its share of the limit of
/// reports (ccp-agent/src/flows/spread.rs).
const IDLING: Duration = Duration::from_secs(3);
/// The run loop looks for lost events this often.
const HOUSEKEEPING_NS: u64 = 200_000_000;

struct Silent;

impl Recorder for Silent {
    fn record(&mut self, _: Option<u32>, _: &Event) {}
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid out-pointer; a clock that has gone leaves zeros.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time of threads that run, in nanoseconds.
pub fn threads_ns<T>(threads: &[JoinHandle<T>]) -> u64 {
    let of = |thread: &JoinHandle<T>| {
        let mut clock = libc::CLOCK_THREAD_CPUTIME_ID;
        // SAFETY: the thread has not been joined; a valid out-pointer.
        let result = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &mut clock) };
        if result == 0 { clock_ns(clock) } else { 0 }
    };
    threads.iter().map(of).sum()
}

/// Resident memory of this process, in bytes, without what is free.
fn resident_bytes() -> Fallible<u64> {
    // SAFETY: no pointers; it gives free memory back to the system.
    unsafe { libc::malloc_trim(0) };
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).unwrap_or_default().parse()?;
    // SAFETY: no pointers.
    Ok(pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64)
}

fn name() -> String {
    format!("ba{}", std::process::id())
}

fn bpf_end(name: &str, flows: usize) -> Fallible<BpfEnd> {
    let flows_max = u32::try_from(flows)?.max(1_000) + 1_000;
    let settings = Settings { name: name.to_owned(), flows_max, ..Settings::default() };
    let mut datapath = Datapath::load(settings, clock::monotonic_ns())?;
    datapath.attach()?;
    Ok(BpfEnd::new(datapath, None, false))
}

fn host() -> Host {
    let mut config = Config::default();
    config.agent.default = "cubic".to_owned();
    Host::new(config, Box::new(Silent))
}

/// Drains all that is there.
fn drain(end: &mut BpfEnd, agent: &mut dyn Agent) {
    let now_ns = clock::monotonic_ns();
    end.beat(now_ns);
    while end.drain(agent, now_ns) {}
}

/// Reports per second of one core, decided and ordered, from the ring to the slot, in batches.
fn batches(pair: &VethPair) -> Fallible<Spread> {
    let name = name();
    let mut end = bpf_end(&name, BATCH_FLOWS)?;
    let samples = Arc::<Mutex<Samples>>::default();
    let mut agent = EchoAgent::new(host(), Arc::clone(&samples), WINDOWS_PKTS)?;
    drain(&mut end, &mut agent);
    let counts = (BATCH_FLOWS, BATCH_FLOWS);
    let agent = Mutex::new((end, agent));
    let mut crowd = Crowd::open(pair, &name, counts, || {
        let (end, agent) = &mut *lock(&agent);
        drain(end, agent);
    })?;
    let (mut end, mut agent) =
        agent.into_inner().map_err(|_| "a thread panicked with the agent")?;
    let (mut rates, mut all) = (Vec::new(), 0);
    for _ in 0..BATCHES {
        drain(&mut end, &mut agent);
        for _ in 0..REPORTS_PER_FLOW {
            end.beat(clock::monotonic_ns());
            crowd.send(0, BATCH_FLOWS);
            std::thread::sleep(ACK_WAIT);
        }
        let reports_before = lock(&samples).reports;
        let before_ns = thread_ns();
        drain(&mut end, &mut agent);
        let took_ns = thread_ns() - before_ns;
        let reports = lock(&samples).reports - reports_before;
        all += reports;
        rates.push(reports as f64 / took_ns.max(1) as f64 * 1e9);
    }
    println!("\n{BATCHES} batches of {} reports on average.", all / BATCHES);
    Ok(Spread::of(rates))
}

/// What one side takes for its reports.
pub struct Compared {
    pub per_sec: f64,
    pub us_per_report: f64,
    /// From the report to the slot, sorted.
    pub written_us: Vec<f64>,
}

/// Loads one side with reports of `flows` flows for `span`.
pub fn compared(pair: &VethPair, side: Side, flows: usize, span: Duration) -> Fallible<Compared> {
    let name = name();
    let driver = latency::start(side, &name)?;
    let pause = || std::thread::sleep(Duration::from_millis(5));
    let load = Crowd::open(pair, &name, (flows, flows), pause)?.load(REPORTS_PER_SEC);
    std::thread::sleep(SETTLING);
    *lock(&driver.samples) = Samples::default();
    let (before_ns, started_ns) = (threads_ns(&driver.threads), clock::monotonic_ns());
    std::thread::sleep(span);
    let samples = lock(&driver.samples).clone();
    let used_ns = threads_ns(&driver.threads) - before_ns;
    let elapsed_ns = clock::monotonic_ns() - started_ns;
    drop(load);
    driver.stop()?;
    if samples.reports == 0 {
        return Err(format!("{side:?}, {flows} flows: no report came").into());
    }
    Ok(Compared {
        per_sec: samples.reports as f64 / elapsed_ns as f64 * 1e9,
        us_per_report: used_ns as f64 / 1e3 / samples.reports as f64,
        written_us: sorted(samples.written_us),
    })
}

fn compare(pair: &VethPair, options: &Options) -> Fallible<(String, Vec<Promise>)> {
    let mut table = String::from(
        "| flows | side | reports/s | CPU us per report | report to slot: p50 us | p95 us | \
         p99 us |\n|---:|---|---:|---:|---:|---:|---:|\n",
    );
    let mut promises = Vec::new();
    let span = Duration::from_secs_f64(options.seconds);
    for flows in COMPARED_FLOWS.map(|flows| flows.min(options.flows_max)) {
        let mut us = Vec::new();
        for side in [Side::Ours, Side::Portus] {
            let Compared { per_sec, us_per_report, written_us } =
                compared(pair, side, flows, span)?;
            let [p50, p95, p99] = [50.0, 95.0, 99.0].map(|at| percentile(&written_us, at));
            let label = if side == Side::Ours { "ours" } else { "portus over unix datagrams" };
            let _ = writeln!(
                table,
                "| {flows} | {label} | {per_sec:.0} | {us_per_report:.2} | {p50:.0} | {p95:.0} | \
                 {p99:.0} |"
            );
            us.push(us_per_report);
        }
        promises.push(Promise::shown(
            &format!("CPU time per report, {flows} flows, ours and portus"),
            &format!("{:.2} us and {:.2} us", us[0], us[1]),
        ));
    }
    Ok((table, promises))
}

/// The product's host, with the time from each report to the slot.
struct Timed {
    host: Host,
    reports: u64,
    took_us: Vec<f64>,
}

impl Agent for Timed {
    fn event(&mut self, datapath: &mut dyn Obey, peer: &Peer, event: Said<'_>) {
        let signals = if let Said::Report(report) = event { report.signals } else { None };
        self.host.event(datapath, peer, event);
        if let Some(signals) = signals {
            self.reports += 1;
            self.took_us.push(clock::monotonic_us().saturating_sub(signals.now_us) as f64);
        }
    }

    fn refused(&mut self, peer: &Peer, reason: String) {
        self.host.refused(peer, reason);
    }

    fn lost(&mut self, peer: &Peer, reason: String) {
        self.host.lost(peer, reason);
    }
}

/// The run loop's turns over the BPF datapath, until `stop`.
fn turns(mut end: BpfEnd, agent: &Mutex<Timed>, stop: &AtomicBool) {
    let mut waiter = Waiter::new().expect("a process has a descriptor left");
    waiter.follow([&end as &dyn ccp_agent::datapath::Datapath], &[]);
    let mut housekept_ns = 0;
    while !stop.load(Ordering::Relaxed) {
        let now_ns = clock::monotonic_ns();
        end.beat(now_ns);
        let mut agent = lock(agent);
        let is_busy = end.drain(&mut *agent, now_ns);
        if now_ns.saturating_sub(housekept_ns) > HOUSEKEEPING_NS {
            housekept_ns = now_ns;
            end.keep_house(&mut *agent, now_ns);
        }
        drop(agent);
        if !is_busy {
            waiter.wait(run_loop::limit([&end as &dyn ccp_agent::datapath::Datapath], None));
        }
    }
}

/// One line of the table, from a process of its own: memory that other flows have left to the
/// allocator would hide what these take.
fn row_of_its_own(flows: usize, options: &Options) -> Fallible<String> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--row", &flows.to_string(), "--seconds", &options.seconds.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{flows} flows: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// One line of the table, measured in this process.
pub fn row(flows: usize, span: Duration) -> Fallible<String> {
    let pair = &VethPair::new()?;
    let (name, busy) = (name(), flows.min(BUSY_MAX));
    let end = bpf_end(&name, flows)?;
    let agent = Arc::new(Mutex::new(Timed { host: host(), reports: 0, took_us: Vec::new() }));
    let stop = Arc::<AtomicBool>::default();
    let thread = std::thread::spawn({
        let (agent, stop) = (Arc::clone(&agent), Arc::clone(&stop));
        move || turns(end, &agent, &stop)
    });
    std::thread::sleep(IDLING); // the kernel gets all programs, and what that took is freed
    let resident = resident_bytes()?;
    let pause = || std::thread::sleep(Duration::from_millis(2));
    let crowd = Crowd::open(pair, &name, (flows, busy), pause)?;
    std::thread::sleep(IDLING);
    let bytes = resident_bytes()?.saturating_sub(resident) / crowd.len() as u64;
    let known = lock(&agent).host.rows().len();
    let load = crowd.load(busy as f64 * WRITES_PER_SEC);
    std::thread::sleep(SETTLING);
    let reports_before = lock(&agent).reports;
    lock(&agent).took_us.clear();
    let threads = [thread];
    let (before_ns, started_ns) = (threads_ns(&threads), clock::monotonic_ns());
    std::thread::sleep(span);
    let (used_ns, elapsed_ns) =
        (threads_ns(&threads) - before_ns, clock::monotonic_ns() - started_ns);
    let reports = lock(&agent).reports - reports_before;
    let took_us = sorted(std::mem::take(&mut lock(&agent).took_us));
    drop(load);
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "the agent's thread panicked")?;
    }
    if known != flows || took_us.is_empty() {
        return Err(format!("the agent knows {known} flows of {flows}; {reports} reports").into());
    }
    let bytes = if flows < MEMORY_FLOWS_MIN { "-".to_owned() } else { bytes.to_string() };
    let cpu_percent = used_ns as f64 / elapsed_ns as f64 * 100.0;
    let each = reports as f64 / busy as f64 / elapsed_ns as f64 * 1e9;
    let p99 = percentile(&took_us, 99.0);
    Ok(format!("| {flows} | {busy} | {cpu_percent:.1} | {bytes} | {each:.0} | {p99:.0} |\n"))
}

/// The promises, and both tables.
pub fn run(options: &Options) -> Fallible<(Vec<Promise>, String)> {
    println!("\n## What the agent costs, by the number of flows");
    let pair = VethPair::new()?;
    let per_core = batches(&pair)?;
    let mut promises = vec![Promise::shown(
        "reports per second of one core, from ring to slot, in batches",
        &format!("{per_core:.0}"),
    )];
    let (mut tables, compared) = compare(&pair, options)?;
    promises.extend(compared);
    tables += "\n| flows | busy | CPU % of a core | memory per flow, bytes | reports/s per busy \
               flow | report to slot: p99 us |\n|---:|---:|---:|---:|---:|---:|\n";
    for flows in [10, 1_000, 10_000, 50_000].into_iter().filter(|it| *it <= options.flows_max) {
        tables += &row_of_its_own(flows, options)?;
    }
    println!("\n{tables}");
    Ok((promises, tables))
}
