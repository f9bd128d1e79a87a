//! The cost of the simulator: data packets per second of processor time, memory per flow, and the
//! time for the 690 single-flow environments of ccBench.

use crate::cpu::own_ns;
use crate::{Fallible, Promise, Verdict};
use ccp_agent::clock;
use remuda_link::{LinkSpec, QueueSpec, RateStep};
use remuda_scenarios::{Driver, FlowSpec, Scenario};
use remuda_sim::Simulation;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

const ROUNDS: usize = 5;
const PLAIN_PKTS_PER_SEC: f64 = 10e6;
const FULL_PKTS_PER_SEC: f64 = 3e6;
/// With ten thousand flows the state does not fit a cache, so a packet may cost this many times as
/// much.
const SCALE_MAX: f64 = 3.0;
const SHARE_MBIT_PER_SEC: f64 = 4.8;
const CCBENCH_SECONDS_MAX: f64 = 120.0;

fn scenario(down: LinkSpec, delay_ms: f64, flows: FlowSpec, duration_s: f64) -> Scenario {
    let down = LinkSpec { delay_ms, ..down };
    let up = LinkSpec { delay_ms, ..LinkSpec::default() };
    let links = BTreeMap::from([("down".to_owned(), down), ("up".to_owned(), up)]);
    Scenario {
        name: "bench".to_owned(),
        duration_s,
        sample_ms: 0.0,
        links,
        flows: vec![flows],
        ..Scenario::default()
    }
}

fn wired(rate_mbit_per_sec: f64, bdp: f64) -> LinkSpec {
    let rate_mbit_per_sec = Some(rate_mbit_per_sec);
    LinkSpec { rate_mbit_per_sec, queue: QueueSpec::droptail_bdp(bdp), ..LinkSpec::default() }
}

fn named(name: &str) -> FlowSpec {
    FlowSpec::driven_by(Driver::Named(name.to_owned()))
}

/// Number of data packets, and processor time in seconds.
fn cost(scenario: &Scenario) -> Fallible<(u64, f64)> {
    let mut simulation = Simulation::new(scenario)?;
    let before_ns = own_ns();
    simulation.run_until(simulation.end());
    let seconds = (own_ns() - before_ns) as f64 / 1e9;
    Ok((simulation.packets_sent(), seconds))
}

/// Millions of packets per processor second: median, least and greatest of some rounds.
fn speed(scenario: &Scenario) -> Fallible<[f64; 3]> {
    let mut speeds = Vec::new();
    for _ in 0..ROUNDS {
        let (packets, seconds) = cost(scenario)?;
        speeds.push(packets as f64 / seconds.max(1e-6) / 1e6);
    }
    speeds.sort_by(f64::total_cmp);
    Ok([speeds[ROUNDS / 2], speeds[0], speeds[ROUNDS - 1]])
}

fn promise(what: &str, [median, least, most]: [f64; 3], bound: f64) -> Promise {
    Promise {
        what: what.to_owned(),
        figure: format!("{median:.1} M/s ({least:.1}..{most:.1})"),
        bound: format!(">= {:.0} M/s", bound / 1e6),
        verdict: Verdict::of(median * 1e6 >= bound),
    }
}

/// 48 Mbit/s on average: from one to seven opportunities in a millisecond, in a fixed order.
fn write_trace(path: &Path) -> Fallible<()> {
    let mut text = String::new();
    for ms in 1..=1_000 {
        for _ in 0..1 + ms * 37 % 7 {
            writeln!(text, "{ms}")?;
        }
    }
    Ok(std::fs::write(path, text)?)
}

fn packets(folder: &Path) -> Fallible<Vec<Promise>> {
    let window = FlowSpec::driven_by(Driver::Window(400));
    let plain = scenario(wired(96.0, 1.0), 20.0, window, 300.0);
    let trace = folder.join("bench.trace");
    write_trace(&trace)?;
    let cellular = LinkSpec {
        trace: Some(trace),
        loss_percent: 0.1,
        queue: QueueSpec::droptail_packets(200),
        ..LinkSpec::default()
    };
    let full = scenario(cellular, 20.0, named("cubic"), 300.0);
    let plain_speed = speed(&plain)?;
    let full_speed = speed(&full)?;
    Ok(vec![
        promise("data packets, fixed window, plain link", plain_speed, PLAIN_PKTS_PER_SEC),
        promise(
            "data packets, cubic through VM and agent, trace link, 0.1 % loss, SACK recovery",
            full_speed,
            FULL_PKTS_PER_SEC,
        ),
    ])
}

fn resident_bytes() -> Fallible<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).unwrap_or("0").parse()?;
    Ok(pages * 4_096)
}

/// More and more flows, each with the same share of the link.
fn scale() -> Fallible<Vec<Promise>> {
    println!("\n| flows | packets | ns a packet | KiB a flow |\n|---|---|---|---|");
    let mut costs = Vec::new();
    for count in [10u32, 100, 1_000, 10_000] {
        let flows = FlowSpec { count, stagger_s: 1.0 / f64::from(count), ..named("cubic") };
        let duration_s = (3_000.0 / f64::from(count)).max(3.0);
        let link = wired(SHARE_MBIT_PER_SEC * f64::from(count), 1.0);
        let scenario = scenario(link, 20.0, flows, duration_s);
        let before = resident_bytes()?;
        let mut simulation = Simulation::new(&scenario)?;
        let before_ns = own_ns();
        simulation.run_until(simulation.end());
        let spent_ns = (own_ns() - before_ns) as f64;
        let each_kib = resident_bytes()?.saturating_sub(before) as f64 / 1_024.0 / f64::from(count);
        let packets = simulation.packets_sent();
        let packet_ns = spent_ns / packets as f64;
        println!("| {count} | {packets} | {packet_ns:.0} | {each_kib:.1} |");
        costs.push((packet_ns, each_kib));
    }
    let ratio = costs[3].0 / costs[0].0;
    Ok(vec![
        Promise {
            what: "cost of a packet with 10,000 flows, to that with 10".to_owned(),
            figure: format!("{ratio:.2}"),
            bound: format!("<= {SCALE_MAX}"),
            verdict: Verdict::of(ratio <= SCALE_MAX),
        },
        Promise::shown("memory of a flow, of 10,000", &format!("{:.1} KiB", costs[3].1)),
    ])
}

/// The environments of arXiv 2307.10054: five rates, each constant and with steps every 7 s from 10
/// s on; five delays; six queues; 30 s each.
fn ccbench() -> Vec<Scenario> {
    let mut all = Vec::new();
    let rates = [12.0, 24.0, 48.0, 96.0, 192.0];
    for (rate, factor) in
        rates.iter().flat_map(|rate| [1.0, 2.0, 4.0, 0.5, 0.25].map(|f| (*rate, f)))
    {
        if rate == 192.0 && factor > 1.0 {
            continue;
        }
        for delay_ms in [5.0, 10.0, 20.0, 40.0, 80.0] {
            for bdp in [0.5, 1.0, 2.0, 4.0, 8.0, 16.0] {
                let step = |at_s: f64, rate_mbit_per_sec: f64| RateStep { at_s, rate_mbit_per_sec };
                let changed =
                    [step(10.0, rate * factor), step(17.0, rate), step(24.0, rate * factor)];
                let rate_steps = if factor == 1.0 { Vec::new() } else { changed.to_vec() };
                let down = LinkSpec { rate_steps, ..wired(rate, bdp) };
                all.push(scenario(down, delay_ms, named("cubic"), 30.0));
            }
        }
    }
    all
}

fn environments() -> Fallible<Vec<Promise>> {
    let all = ccbench();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let (started_us, before_ns) = (clock::monotonic_us(), own_ns());
    let work = || {
        let mut packets = 0;
        while let Some(scenario) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            packets += remuda_sim::run(scenario).map_err(|error| error.to_string())?.packets;
        }
        Ok::<u64, String>(packets)
    };
    let packets = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|w| w.join().expect("it does not panic")).sum::<Result<u64, _>>()
    })?;
    let seconds = (clock::monotonic_us() - started_us) as f64 / 1e6;
    let busy = (own_ns() - before_ns) as f64 / 1e9;
    Ok(vec![Promise {
        what: format!("ccBench's {} single-flow environments of 30 s, cubic", all.len()),
        figure: format!(
            "{seconds:.1} s on {threads} threads ({busy:.1} CPU-s, {:.0} M packets)",
            packets as f64 / 1e6
        ),
        bound: format!("<= {CCBENCH_SECONDS_MAX} s"),
        verdict: Verdict::of(all.len() == 690 && seconds <= CCBENCH_SECONDS_MAX),
    }])
}

pub fn run() -> Fallible<Vec<Promise>> {
    println!("\n## The simulator\n\nSeed 1; processor time of one thread; rounds: {ROUNDS}.");
    let folder = tempfile::tempdir()?;
    let mut promises = packets(folder.path())?;
    promises.extend(scale()?);
    promises.extend(environments()?);
    Ok(promises)
}
