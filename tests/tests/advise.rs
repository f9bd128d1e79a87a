//! `remuda advise` on real TCP: the command reports flows of a real agent within a minute and
//! changes nothing.

use remuda_live::transfer::Transfer;
use remuda_live::{Clock, LinkSpec, PathSpec, QueueSpec, Testbed};
use remuda_tests::{Place, exclusive, skip, wait_for};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const FLOWS: usize = 12;
const FILE_BYTES: u64 = 700_000;
const LIMIT: Duration = Duration::from_secs(60);
/// Events that an order to the agent, or a policy, would leave.
const CHANGES: [&str; 6] =
    ["switched", "default_changed", "preferred", "vetoed", "reloaded", "initial_cwnd_set"];

/// 24 Mbit/s and 40 ms, with 1 % random loss.
fn lossy() -> Testbed {
    let down = LinkSpec {
        rate_mbit_per_sec: Some(24.0),
        delay_ms: 20.0,
        loss_percent: 1.0,
        queue: QueueSpec::droptail_bdp(1.0),
        ..LinkSpec::default()
    };
    let up = LinkSpec { loss_percent: 0.0, ..down.clone() };
    let path = PathSpec { up, ..PathSpec::symmetric(down) };
    Testbed::new(&path).expect("root can make namespaces and TUN devices")
}

#[test]
fn on_a_busy_host_the_first_words_come_within_a_minute_of_the_start_of_the_agent() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (place, path) = (Place::new(), lossy());
    let clock = Clock::start();
    let agent = place.agent(&["--arm", "cubic"]);
    let done = AtomicBool::new(false);
    let said = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let algorithm = Some(place.name.clone());
                let transfer =
                    Transfer { bytes: Some(FILE_BYTES), algorithm, ..Transfer::default() };
                while !done.load(Ordering::Relaxed) {
                    transfer.run(path.server(), path.client()).expect("it arrives");
                }
            });
        }
        wait_for("the first flow", LIMIT, || agent.flows().is_ok_and(|rows| !rows.is_empty()));
        let (is_good, said) = place.remuda(&["advise"]);
        done.store(true, Ordering::Relaxed);
        assert!(is_good, "{said}");
        said
    });
    let took = clock.elapsed();
    println!("{said}{took:.1?} after the start of the agent");
    assert!(said.contains("/24: "), "{said}");
    assert!(took < LIMIT, "it takes {took:?}");
    agent.stop().expect("it ends");
}

#[test]
fn advise_reports_real_flows_within_a_minute_and_changes_nothing() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let (is_good, said) = place.remuda(&["advise"]);
    assert!(!is_good && said.contains("fix:"), "without an agent: {said}");
    let agent = place.agent(&["--arm", "cubic"]);
    let (is_good, said) = place.remuda(&["advise", "--wait", "0"]);
    assert!(!is_good && said.contains("no flow runs, and none has ended\nfix:"), "{said}");

    let path = lossy();
    let transfer = |bytes| Transfer {
        bytes: Some(bytes),
        algorithm: Some(place.name.clone()),
        ..Transfer::default()
    };
    let closed = || {
        let events = agent.events().expect("the event log");
        events.iter().filter(|event| event["event"] == "closed").count()
    };
    transfer(FILE_BYTES).run(path.server(), path.client()).expect("it arrives");
    wait_for("the end of a flow", LIMIT, || closed() == 1);
    let (is_good, said) = place.remuda(&["advise", "--wait", "0"]);
    assert!(is_good && said.contains("/24: 1 flow, cannot say: 9 flows more"), "{said}");
    for _ in 1..FLOWS {
        transfer(FILE_BYTES).run(path.server(), path.client()).expect("it arrives");
    }
    wait_for("the end of all flows", LIMIT, || closed() == FLOWS);

    let clock = Clock::start();
    let (is_good, said) = place.remuda(&["advise"]);
    let took = clock.elapsed();
    println!("{said}in {took:.1?}");
    assert!(is_good && said.contains("/24: 12 flows, ") && said.contains("now cubic"), "{said}");
    assert!(took < LIMIT, "it takes {took:?}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "80 columns:\n{said}");
    let (_, json) = place.remuda(&["advise", "--json"]);
    let advice: serde_json::Value = serde_json::from_str(&json).expect(&json);
    assert_eq!(
        (&advice["ended"], &advice["present_arm"]),
        (&FLOWS.into(), &"cubic".into()),
        "{json}"
    );

    let events = agent.events().expect("the event log");
    let changed = |event: &&serde_json::Value| CHANGES.iter().any(|name| event["event"] == *name);
    assert_eq!(events.iter().find(changed), None, "advise changes nothing");
    agent.stop().expect("it ends");
}
