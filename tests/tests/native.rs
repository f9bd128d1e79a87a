//! Native arms: a flow runs the kernel's own algorithm and can still be measured and switched;
//! where a route locks the algorithm, the flow keeps it.

use ccp_agent::child::AgentChild;
use ccp_agent::clock;
use ccp_agent::flow::Row;
use ccp_agent::host::Target;
use remuda_live::transfer::{Running, Transfer};
use remuda_tests::{Place, exclusive, lacks_native_arms, skip, wired};
use std::thread;
use std::time::Duration;

const TURN: Duration = Duration::from_millis(20);
const PATIENCE_TURNS: usize = 150;

/// The agent's rows once `holds` is true; panics with the last rows otherwise.
fn rows(agent: &AgentChild, holds: impl Fn(&[Row]) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for _ in 0..PATIENCE_TURNS {
        rows = agent.flows().expect("the agent answers");
        if holds(&rows) {
            return rows;
        }
        thread::sleep(TURN);
    }
    panic!("it did not come to be: {rows:?}");
}

fn runs(flow: &Running, algorithm: &str) {
    for _ in 0..PATIENCE_TURNS {
        if flow.algorithm().as_deref() == Some(algorithm) {
            return;
        }
        thread::sleep(TURN);
    }
    panic!("it runs {:?}, not {algorithm}", flow.algorithm());
}

fn events(agent: &AgentChild, name: &str) -> usize {
    let events = agent.events().expect("the event log");
    events.iter().filter(|event| event["event"] == name).count()
}

#[test]
fn a_flow_goes_to_the_kernels_own_and_comes_back_and_is_measured_all_the_while() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    if lacks_native_arms(&agent) {
        return;
    }
    let path = wired(24.0, 10.0, 1.0);
    for ipv6 in [false, true] {
        let algorithm = Some(place.name.clone());
        let transfer = Transfer { algorithm, ipv6, ..Transfer::default() };
        let flow = transfer.start(path.server(), path.client()).expect("it starts");
        let id = rows(&agent, |rows| rows.iter().any(|row| row.reports > 20))[0].id;
        for (arm, kernels) in [
            ("native:bbr", "bbr"),
            ("native:reno", "reno"),
            ("bbr", place.name.as_str()),
            ("native:cubic", "cubic"),
            ("reno", place.name.as_str()),
        ] {
            agent.set(Target::Flow(id), arm).expect("it is set");
            runs(&flow, kernels);
            let before = rows(&agent, |rows| rows[0].arm == arm)[0].clone();
            let before_us = clock::monotonic_us();
            let after = rows(&agent, |rows| rows[0].reports > before.reports + 40)[0].clone();
            let span_us = clock::monotonic_us() - before_us;
            assert_eq!((after.id, after.state.as_str()), (id, "driven"));
            let rate = (after.acked_bytes - before.acked_bytes) as f64 * 8.0 / span_us as f64;
            assert!(rate > 10.0 && rate < 40.0, "{arm}: {rate} Mbit/s");
            let rtt = after.srtt_ms.expect("an RTT");
            assert!(rtt > 19.0 && rtt < 70.0, "{arm}: {rtt} ms");
        }
        flow.stop();
        flow.join().expect("every byte arrives as it was sent");
        rows(&agent, <[Row]>::is_empty);
    }
    assert_eq!((events(&agent, "created"), events(&agent, "closed")), (2, 2));
    agent.stop().expect("it ends");
}

#[test]
fn flows_that_end_under_the_kernels_own_are_missed() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "native:cubic"]);
    if lacks_native_arms(&agent) {
        return;
    }
    let path = wired(100.0, 5.0, 1.0);
    for _ in 0..3 {
        let transfer = Transfer {
            bytes: Some(200_000),
            algorithm: Some(place.name.clone()),
            ..Transfer::default()
        };
        let flows: Vec<Running> = (0..20)
            .map(|_| transfer.start(path.server(), path.client()).expect("it starts"))
            .collect();
        for flow in flows {
            flow.join().expect("every byte arrives as it was sent");
        }
        rows(&agent, <[Row]>::is_empty);
    }
    assert_eq!((events(&agent, "created"), events(&agent, "closed")), (60, 60));
    agent.stop().expect("it ends");
}

/// A switch that the kernel refuses: the flow continues under its arm.
#[test]
fn a_route_that_locks_the_algorithm_is_said_and_the_flow_goes_on() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "bbr"]);
    if lacks_native_arms(&agent) {
        return;
    }
    let path = wired(24.0, 10.0, 1.0);
    let to = path.client().ipv4().to_string();
    let device = path.server().device().to_owned();
    let route = ["route", "replace", &to, "dev", &device, "congctl", "lock", &place.name];
    let status = path.server().command("ip").args(route).status().expect("ip runs");
    assert!(status.success(), "ip route replace ... congctl lock");
    // The route names the algorithm, so the flow is ours without a socket option.
    let transfer = Transfer::default();
    let flow = transfer.start(path.server(), path.client()).expect("it starts");
    let id = rows(&agent, |rows| rows.iter().any(|row| row.reports > 20))[0].id;
    agent.set(Target::Flow(id), "native:reno").expect("it is taken as an order");
    let row = rows(&agent, |rows| rows[0].why.contains("does not let"))[0].clone();
    assert_eq!((row.driver.as_str(), row.arm.as_str()), ("bbr", "bbr"));
    runs(&flow, &place.name);
    let after = rows(&agent, |rows| rows[0].reports > row.reports + 20)[0].clone();
    assert!(after.acked_bytes > row.acked_bytes);
    assert_eq!(events(&agent, "vetoed"), 1);
    // Our own arms do not change the kernel's algorithm, so the lock does not affect them.
    agent.set(Target::Flow(id), "cubic").expect("it is set");
    rows(&agent, |rows| rows[0].arm == "cubic");
    flow.stop();
    flow.join().expect("every byte arrives as it was sent");
    agent.stop().expect("it ends");
}

#[test]
fn an_algorithm_that_the_kernel_has_not_is_refused_with_those_it_has() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let error = agent.set(Target::All, "native:no-such").expect_err("refused").to_string();
    assert!(error.contains("no-such") && error.contains("reno"), "{error}");
    agent.stop().expect("it ends");
}
