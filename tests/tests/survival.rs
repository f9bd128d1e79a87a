//! The agent dies or hangs, and the flows go on: on the BPF datapath.

use ccp_agent::child::AgentChild;
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::host::Target;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, socket};
use remuda_live::transfer::{Transfer, set_algorithm};
use remuda_tests::{Place, exclusive, skip, survival, wait_for, wired};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

#[test]
fn killed_and_restarted() {
    let _one = exclusive();
    if !skip() {
        survival::killed_and_restarted(&Place::new());
    }
}

/// Once with a window arm and once with a paced arm.
#[test]
fn stopped_and_continued() {
    let _one = exclusive();
    if skip() {
        return;
    }
    for arm in ["cubic", "bbr"] {
        println!("{arm}:");
        survival::stopped_and_continued(&Place::new(), arm);
    }
}

#[test]
fn a_clean_end_leaves_the_flows_with_the_kernels_own_algorithm() {
    let _one = exclusive();
    if !skip() {
        survival::ended(&Place::new());
    }
}

fn wait_for_flows(agent: &AgentChild, expected: usize, what: &str) {
    let count = || agent.flows().expect("the agent answers").len();
    wait_for(what, Duration::from_secs(5), || count() == expected);
}

/// A web server sets the algorithm on its listening socket once, and a client sets it before it
/// connects. Both sockets outlive the agent, and their connections belong to the next agent.
#[test]
fn sockets_without_a_connection_are_not_lost_at_a_restart() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let mut agent = place.agent(&["--arm", "cubic"]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let address = listener.local_addr().expect("an address");
    set_algorithm(listener.as_raw_fd(), &place.name).expect("the name is registered");
    let accept = || {
        let near = TcpStream::connect(address).expect("it connects");
        (near, listener.accept().expect("it accepts").0)
    };
    for restart in ["kill -9", "a clean stop", "kill -9"] {
        let kind = SockType::Stream;
        let client = socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, None);
        let client = client.expect("a socket");
        set_algorithm(client.as_raw_fd(), &place.name).expect("the name is registered");
        let ended = if restart == "kill -9" { agent.kill() } else { agent.stop() };
        ended.expect(restart);
        let without_agent = accept();
        agent = place.agent(&["--arm", "cubic"]);
        wait_for_flows(&agent, 1, &format!("a flow from before the start, after {restart}"));
        drop(without_agent);
        wait_for_flows(&agent, 0, "the end of that flow");
        let accepted = accept();
        wait_for_flows(&agent, 1, &format!("the accepted flow, after {restart}"));
        drop(accepted);
        wait_for_flows(&agent, 0, "the end of the accepted flow");
        let other = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let port = other.local_addr().expect("an address").port();
        let connected = connect(client.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port));
        connected.expect("it connects");
        wait_for_flows(&agent, 1, &format!("the connected flow, after {restart}"));
        drop((client, other));
        wait_for_flows(&agent, 0, "the end of the connected flow");
    }
    agent.stop().expect("it ends");
}

/// A container whose default is our name keeps a pointer to the former agent's ops as its default.
#[test]
fn a_namespace_whose_default_we_are_is_not_lost_at_a_restart() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let path = wired(24.0, 5.0, 1.0);
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let key = "net.ipv4.tcp_congestion_control";
    path.server().set_sysctl(key, &place.name).expect("the default is set");
    agent.kill().expect("kill -9");
    let agent = place.agent(&["--arm", "cubic"]);
    let transfer = Transfer { bytes: Some(2_000_000), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    wait_for_flows(&agent, 1, "a flow of that namespace");
    running.join().expect("every byte arrives");
    agent.stop().expect("it ends");
}

fn default_driver(agent: &AgentChild) -> String {
    match ask(agent.run_dir(), &Request::Status {}) {
        Ok(Answer::Status(status)) => status.default,
        other => panic!("no status: {other:?}"),
    }
}

#[test]
fn an_order_for_new_flows_outlives_a_kill_until_the_configuration_changes() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    agent.set(Target::New, "reno").expect("it is ordered");
    agent.kill().expect("kill -9");
    let agent = place.agent(&["--arm", "cubic"]);
    assert_eq!(default_driver(&agent), "reno");
    agent.stop().expect("it ends");
    let agent = place.agent(&["--arm", "vegas"]);
    assert_eq!(default_driver(&agent), "vegas", "the configuration has changed");
    agent.stop().expect("it ends");
}
