//! The agent dies or hangs, and the flows go on. Times are printed. The same requirements hold for
//! every datapath of Linux TCP.

use crate::{Place, wait_for, wired};
use ccp_agent::child::AgentChild;
use ccp_agent::clock::monotonic_us;
use ccp_agent::host::Target;
use nix::sys::signal::Signal;
use remuda_live::transfer::{Outcome, Running, Transfer};
use remuda_live::{Clock, Testbed};
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// The promised limit for the fallback.
const FALLBACK_LIMIT: Duration = Duration::from_millis(500);
const FLOWS: usize = 8;
/// After the agent has returned, it drives every flow again within this time.
const TAKE_BACK_LIMIT: Duration = Duration::from_secs(2);
/// Within this time the agent reads the reports that were queued while it did not read.
const BACKLOG: Duration = Duration::from_millis(300);
const TURN: Duration = Duration::from_millis(5);
/// Eight slow starts at once lose so many packets that some flows wait for a timeout, and for a
/// second one of twice the length. Without ACKs a flow cannot fall back, and this is not the
/// agent's fault. It lasts at most this many round trips of the idle path.
const SETTLED_RTTS: f64 = 100.0;
/// The rate of the path, and its one-way delay.
const FAST_MBIT_PER_SEC: f64 = 48.0;
const DELAY_MS: f64 = 20.0;

fn start(path: &Testbed, name: &str) -> Vec<Running> {
    (0..FLOWS)
        .map(|n| {
            let transfer = Transfer {
                algorithm: Some(name.to_owned()),
                ipv6: n % 2 == 1,
                ..Transfer::default()
            };
            transfer.start(path.server(), path.client()).expect("it starts")
        })
        .collect()
}

/// Waits until slow start has ended in all flows.
fn settle(delay_ms: f64) {
    thread::sleep(Duration::from_secs_f64(2.0 * delay_ms * SETTLED_RTTS / 1e3));
}

fn finish(running: Vec<Running>) -> Vec<Outcome> {
    for flow in &running {
        flow.stop();
    }
    running.into_iter().map(|flow| flow.join().expect("it ends intact")).collect()
}

fn largest_rtt(running: &[Running]) -> Duration {
    running.iter().filter_map(Running::window).map(|(_, rtt)| rtt).max().expect("flows")
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let ms = |at: usize| times[at].as_secs_f64() * 1e3;
    println!("{what}: median {:.0} ms, longest {:.0} ms", ms(times.len() / 2), ms(times.len() - 1));
}

/// The longest time without a received byte after `since`, which counts from the flow's first byte.
/// A stall that began before `since` counts with its whole length.
fn longest_stall(outcome: &Outcome, since: Duration) -> Duration {
    let end = (outcome.elapsed, outcome.bytes);
    let moments: Vec<Duration> = outcome.progress.iter().chain([&end]).map(|(at, _)| *at).collect();
    let after = moments.windows(2).filter(|pair| pair[1] >= since);
    after.map(|pair| pair[1] - pair[0]).max().expect("it went on")
}

/// No flow stalls for more than 2 RTT + 500 ms, and each receives data after the fault.
fn check_stalls(what: &str, outcomes: &[Outcome], (fault, rtt): (Duration, Duration)) {
    let mut stalls: Vec<Duration> =
        outcomes.iter().map(|outcome| longest_stall(outcome, fault)).collect();
    report(&format!("{what}: longest stall of a flow (RTT {} ms)", rtt.as_millis()), &mut stalls);
    let limit = 2 * rtt + FALLBACK_LIMIT;
    assert!(stalls.iter().all(|stall| *stall <= limit), "{stalls:?}");
}

fn driven(agent: &AgentChild) -> usize {
    let rows = agent.flows().unwrap_or_default();
    rows.iter().filter(|row| row.state == "driven" && row.reports > 0).count()
}

/// After the queued reports have been read, each flow continues to report, and takes another arm.
fn are_heard_and_obey(agent: &AgentChild) {
    thread::sleep(BACKLOG);
    let reports = || -> BTreeMap<u32, u64> {
        let rows = agent.flows().unwrap_or_default();
        rows.into_iter().map(|row| (row.id, row.reports)).collect()
    };
    let before = reports();
    assert_eq!(agent.set(Target::All, "reno").expect("it is set"), FLOWS);
    let grown = || reports().iter().filter(|(id, now)| before.get(id) < Some(now)).count();
    wait_for("hearing of each flow", TAKE_BACK_LIMIT, || grown() == FLOWS);
    let rows = agent.flows().expect("the agent answers");
    assert!(rows.iter().all(|row| row.arm == "reno"), "{rows:?}");
}

/// The time from `since_us` until each flow first entered `state`, by the datapath's time stamps.
/// Earlier changes, such as a fallback because the host was busy, do not count.
fn after(agent: &AgentChild, state: &str, since_us: u64) -> BTreeMap<u64, Duration> {
    let mut first = BTreeMap::new();
    for event in agent.events().unwrap_or_default() {
        let (Some(flow), Some(at_us)) = (event["flow"].as_u64(), event["at_monotonic_us"].as_u64())
        else {
            continue;
        };
        if event["event"] == state && at_us >= since_us {
            first.entry(flow).or_insert(Duration::from_micros(at_us - since_us));
        }
    }
    first
}

/// Kills the agent with `kill -9`, and starts another agent.
pub fn killed_and_restarted(place: &Place) {
    killed_and_restarted_slower(place, 1.0);
}

/// The same with links slower by `factor`, for a slow processor. The path's buffer holds as many
/// packets, and the limits are the same.
pub fn killed_and_restarted_slower(place: &Place, factor: f64) {
    // `fixed` holds its window, so the first change of a window is the fallback's.
    let agent = place.agent(&["--arm", "fixed"]);
    let delay_ms = DELAY_MS * factor;
    let path = wired(FAST_MBIT_PER_SEC / factor, delay_ms, 1.0);
    let running = start(&path, &place.name);
    let clock = Clock::start();
    wait_for("the first reports", Duration::from_secs(5), || driven(&agent) == FLOWS);
    settle(delay_ms);
    let held: Vec<u32> = running.iter().map(|flow| flow.window().expect("it runs").0).collect();
    let rtt = largest_rtt(&running);

    let fault = clock.elapsed();
    agent.kill().expect("kill -9");
    let clock = Clock::start();
    let mut fell_back = vec![None; FLOWS];
    while fell_back.contains(&None) {
        assert!(clock.elapsed() < Duration::from_secs(5), "windows still held: {fell_back:?}");
        for (n, flow) in running.iter().enumerate() {
            let window = flow.window().expect("it runs").0;
            if window != held[n] {
                fell_back[n].get_or_insert(clock.elapsed());
            }
        }
        thread::sleep(TURN);
    }
    // Reno counts a window of ACKs, so its first step is visible an RTT after the fallback at the
    // latest.
    let mut times: Vec<Duration> = fell_back.into_iter().flatten().collect();
    report("kill -9: first step of the fallback's window after", &mut times);
    let limit = FALLBACK_LIMIT + 2 * rtt;
    assert!(times.iter().all(|time| *time <= limit), "{times:?}, RTT {rtt:?}");

    thread::sleep(Duration::from_secs(1));
    let before: Vec<u64> = running.iter().map(Running::received_bytes).collect();
    let agent = place.agent(&["--arm", "cubic"]);
    let took = wait_for("taking the flows back", TAKE_BACK_LIMIT, || driven(&agent) == FLOWS);
    println!(
        "restart: all {FLOWS} flows taken back {} ms after the agent answered",
        took.as_millis()
    );
    if !place.on_module() {
        let events = agent.events().expect("the event log");
        assert!(events.iter().any(|event| event["event"] == "adopted"), "{events:?}");
    }
    thread::sleep(Duration::from_secs(1));
    for (n, flow) in running.iter().enumerate() {
        assert!(flow.received_bytes() > before[n], "flow {n} moves on");
    }
    check_stalls("kill -9", &finish(running), (fault, rtt));
    agent.stop().expect("it ends");
}

/// SIGSTOP and SIGCONT, with all flows under one arm. Arms do not share the path: in a buffer this
/// short BBR leaves CUBIC two segments, and a flow that loses both of them stalls even with a
/// healthy agent.
pub fn stopped_and_continued(place: &Place, arm: &str) {
    let agent = place.agent(&["--arm", arm]);
    let path = wired(FAST_MBIT_PER_SEC, DELAY_MS, 1.0);
    let running = start(&path, &place.name);
    let clock = Clock::start();
    wait_for("the first reports", Duration::from_secs(5), || driven(&agent) == FLOWS);
    settle(DELAY_MS);
    let rtt = largest_rtt(&running);
    let fault = clock.elapsed();
    agent.signal(Signal::SIGSTOP).expect("it stops");
    let stopped_us = monotonic_us();
    thread::sleep(Duration::from_secs(3));
    let during: Vec<u64> = running.iter().map(Running::received_bytes).collect();
    let continued_us = monotonic_us();
    agent.signal(Signal::SIGCONT).expect("it continues");
    let restored = || after(&agent, "restored", continued_us).len() == FLOWS;
    let took = wait_for("taking the flows back", TAKE_BACK_LIMIT, restored);
    println!("SIGCONT: all {FLOWS} flows taken back after {} ms", took.as_millis());
    are_heard_and_obey(&agent);

    let fell_back = after(&agent, "fell_back", stopped_us);
    assert_eq!(fell_back.len(), FLOWS, "each flow fell back: {fell_back:?}");
    let mut times: Vec<Duration> = fell_back.into_values().collect();
    report("SIGSTOP: fallback after", &mut times);
    assert!(times.iter().all(|time| *time <= FALLBACK_LIMIT), "{times:?}");
    thread::sleep(Duration::from_secs(1));
    for (n, flow) in running.iter().enumerate() {
        assert!(flow.received_bytes() > during[n], "flow {n} moves on");
    }
    check_stalls("SIGSTOP", &finish(running), (fault, rtt));
    agent.stop().expect("it ends");
}

/// SIGTERM: the flows continue without an agent.
pub fn ended(place: &Place) {
    let agent = place.agent(&["--arm", "bbr"]);
    let path = wired(24.0, 10.0, 1.0);
    let running = start(&path, &place.name);
    wait_for("the first reports", Duration::from_secs(5), || driven(&agent) == FLOWS);
    let log = ccp_agent::run_dir::event_log(agent.run_dir());
    agent.stop().expect("it ends with status 0");
    let text = std::fs::read_to_string(log).expect("the event log");
    let last = text.lines().last().expect("a line");
    assert!(last.contains("\"stopped\""), "{last}");
    let let_go: serde_json::Value = serde_json::from_str(last).expect("JSON");
    if !place.on_module() {
        assert!(let_go["flows_let_go"].as_u64() >= Some(FLOWS as u64), "{last}");
    }
    let before: u64 = running.iter().map(Running::received_bytes).sum();
    thread::sleep(Duration::from_secs(1));
    assert!(running.iter().map(Running::received_bytes).sum::<u64>() > before);
    finish(running);
}
