//! Real flows under a real agent stay byte-exact while the policy changes, over IPv4 and IPv6.

use ccp_agent::host::Target;
use remuda_live::transfer::Transfer;
use remuda_tests::{Place, exclusive, skip, wired};
use std::thread;
use std::time::Duration;

const FLOWS: usize = 100;
const CHANGES: usize = 20;
const FILE_BYTES: u64 = 3_500_000;
const DRIVERS: [&str; 5] = ["cubic", "rein", "bbr", "reno", "westwood"];

#[test]
fn a_hundred_flows_finish_byte_exact_while_the_policy_changes_twenty_times() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--policy", "rein"]);
    let path = wired(200.0, 10.0, 1.0);
    let running: Vec<_> = (0..FLOWS)
        .map(|n| {
            let transfer = Transfer {
                bytes: Some(FILE_BYTES),
                algorithm: Some(place.name.clone()),
                ipv6: n % 2 == 1,
                ..Transfer::default()
            };
            transfer.start(path.server(), path.client()).expect("it starts")
        })
        .collect();
    let mut most = 0;
    for change in 0..CHANGES {
        thread::sleep(Duration::from_millis(250));
        let to = DRIVERS[change % DRIVERS.len()];
        most = most.max(agent.set(Target::All, to).expect("it is set"));
    }
    let under_way = running.iter().filter(|transfer| !transfer.is_finished()).count();
    for transfer in running {
        let outcome = transfer.join().expect("every byte arrives as it was sent");
        assert_eq!(outcome.bytes, FILE_BYTES);
    }
    let events = agent.events().expect("the event log");
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    println!(
        "{FLOWS} flows, half of them IPv6, byte-exact; {CHANGES} changes reached up to {most} of \
         them, {under_way} were still under way after the last; {} switches",
        count("switched")
    );
    assert_eq!(count("created"), FLOWS);
    assert!(most >= FLOWS * 9 / 10, "changes reached running flows: {most}");
    assert!(under_way > 0, "the changes came while flows ran");
    assert!(count("switched") > FLOWS * CHANGES / 4, "{} switches", count("switched"));
    agent.stop().expect("it ends");
}

#[test]
fn an_agent_answers_once_the_kernel_has_its_programs() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let events = agent.events().expect("the event log");
    let events: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(events, ["started", "datapath_ready", "ready"]);
    agent.stop().expect("it ends");
}

#[test]
fn one_flow_is_set_and_the_others_stay() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let path = wired(24.0, 10.0, 1.0);
    let transfer = Transfer { algorithm: Some(place.name.clone()), ..Transfer::default() };
    let running =
        [(); 2].map(|()| transfer.start(path.server(), path.client()).expect("it starts"));
    thread::sleep(Duration::from_millis(500));
    let rows = agent.flows().expect("the flows");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(agent.set(Target::Flow(rows[0].id), "bbr").expect("it is set"), 1);
    agent.set(Target::New, "reno").expect("it is set");
    thread::sleep(Duration::from_millis(300));
    let rows = agent.flows().expect("the flows");
    let arms: Vec<&str> = rows.iter().map(|row| row.arm.as_str()).collect();
    assert_eq!(arms, ["bbr", "cubic"]);
    assert!(rows[0].rate_mbit_per_sec.is_some() && rows[1].rate_mbit_per_sec.is_none());
    for flow in &running {
        flow.stop();
    }
    for flow in running {
        flow.join().expect("it ends intact");
    }
    agent.stop().expect("it ends");
}
