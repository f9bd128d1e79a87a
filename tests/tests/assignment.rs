//! How the agent gets sockets: by cgroup, and as the namespace's default; and the state after the
//! agent has ended.

use ccp_agent::child::AgentChild;
use remuda_bpf::DefaultAlgorithm;
use remuda_live::transfer::Transfer;
use remuda_tests::cgroup::Cgroup;
use remuda_tests::{Place, binary, exclusive, skip, wait_for, wired};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

fn flows(agent: &AgentChild, at_least: usize) -> usize {
    for _ in 0..200 {
        let count = agent.flows().expect("the agent answers").len();
        if count >= at_least {
            return count;
        }
        thread::sleep(Duration::from_millis(10));
    }
    agent.flows().expect("the agent answers").len()
}

fn connect() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("it connects");
    (near, listener.accept().expect("it accepts").0)
}

/// A cgroup for the test; prints SKIPPED where none can be made.
fn own_cgroup(place: &Place) -> Option<Cgroup> {
    let made = Cgroup::new(&place.name);
    if made.is_none() {
        eprintln!("SKIPPED: needs a writable cgroup v2");
    }
    made
}

#[test]
fn a_cgroups_new_sockets_are_ours_and_no_others() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let Some(cgroup) = own_cgroup(&place) else { return };
    let path = cgroup.path().to_str().expect("a path");
    let agent = place.agent(&["--arm", "reno", "--cgroup", path]);
    let _outside = connect();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(flows(&agent, 0), 0, "a socket of another cgroup is not ours");
    let _inside = cgroup.run(connect);
    assert_eq!(flows(&agent, 2), 2, "both ends of a connection within the cgroup are ours");
    let rows = agent.flows().expect("the agent answers");
    assert!(rows.iter().all(|row| row.arm == "reno"), "{rows:?}");
    agent.stop().expect("it ends");
}

#[test]
fn doctor_lists_what_is_attached_and_whose_it_is() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let Some(cgroup) = own_cgroup(&place) else { return };
    let path = cgroup.path().to_str().expect("a path");
    let agent = place.agent(&["--arm", "reno", "--cgroup", path]);
    let doctor = |run_dir: &Path| {
        let mut command = Command::new(binary());
        let output = command.arg("doctor").arg("--run-dir").arg(run_dir).output();
        String::from_utf8(output.expect("it runs").stdout).expect("a table is text")
    };
    let said = doctor(&place.run_dir());
    assert!(said.contains(&format!("{} (this agent's)", place.name)), "{said}");
    assert!(said.contains(path), "{said}");
    let said = doctor(Path::new("/nonexistent"));
    assert!(said.contains(&format!("{} (of another process)", place.name)), "{said}");
    agent.stop().expect("it ends");
    let said = doctor(&place.run_dir());
    assert!(!said.contains(&place.name), "nothing is left over: {said}");
}

/// A service manager removes the directory of a service that ends, and makes it again at its start.
#[test]
fn a_cgroup_that_is_missing_or_made_again_is_taken_over_when_it_comes() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let Some(cgroup) = own_cgroup(&place) else { return };
    let path = cgroup.path().to_str().expect("a path").to_owned();
    drop(cgroup);
    let agent = place.agent(&["--arm", "reno", "--cgroup", &path]);
    for time in 1..=3 {
        let cgroup = Cgroup::new(&place.name).expect("the directory is made again");
        // The agent looks every 200 ms. Sockets of before that are not ours.
        let what = format!("to take over directory {time}");
        wait_for(&what, Duration::from_secs(20), || {
            let _inside = cgroup.run(connect);
            flows(&agent, 2) == 2
        });
    }
    agent.stop().expect("it ends");
}

#[test]
fn the_default_is_taken_given_back_and_mended_after_a_crash() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let path = wired(24.0, 5.0, 1.0);
    let host = DefaultAlgorithm::current().expect("the default");
    let place = Place::new();
    // The test uses its own namespace, so that the host's default does not change.
    let current = || path.server().sysctl("net.ipv4.tcp_congestion_control").expect("the sysctl");
    let before = current();
    let agent = start_outliving(&place, &path, &["--arm", "cubic", "--take-default"]);
    assert_eq!(current(), place.name);
    let transfer = Transfer { bytes: Some(2_000_000), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    assert!(flows(&agent, 1) >= 1, "a socket that asks for nothing is ours");
    running.join().expect("every byte arrives");
    agent.stop().expect("it ends");
    assert_eq!(current(), before, "a clean end gives the default back");

    let agent = start_outliving(&place, &path, &["--arm", "cubic", "--take-default"]);
    agent.kill().expect("kill -9");
    assert_eq!(current(), place.name, "a crash leaves the default behind");
    let agent = start_outliving(&place, &path, &["--arm", "cubic"]);
    assert_ne!(current(), place.name, "the next agent mends it");
    agent.stop().expect("it ends");
    assert_eq!(DefaultAlgorithm::current().expect("the default"), host);
}

#[test]
fn a_stop_can_give_flows_to_the_hosts_default() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let path = wired(24.0, 5.0, 1.0);
    path.server().set_sysctl("net.ipv4.tcp_congestion_control", "reno").expect("it is set");
    let place = Place::new();
    let config = place.file("remuda.toml", "[agent]\nnative = 'default'\n");
    let config = config.to_str().expect("UTF-8");
    let agent = start_outliving(&place, &path, &["--arm", "cubic", "--config", config]);
    let transfer = Transfer { algorithm: Some(place.name.clone()), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    assert_eq!(flows(&agent, 1), 1);
    agent.stop().expect("it ends");
    assert_eq!(running.algorithm().as_deref(), Some("reno"));
    running.stop();
    running.join().expect("every byte arrives");
}

/// Starts an agent inside the server's namespace, from a thread that lives as long as the test: the
/// agent dies with the thread that started it.
fn start_outliving(place: &Place, path: &remuda_live::Testbed, arguments: &[&str]) -> AgentChild {
    use std::os::fd::AsRawFd;
    let home = fs::File::open("/proc/thread-self/ns/net").expect("our namespace");
    // SAFETY: the descriptors are open; only this thread changes its namespace, and comes back.
    let enter = |fd: i32| unsafe { libc::setns(fd, libc::CLONE_NEWNET) };
    assert_eq!(enter(path.server().fd().as_raw_fd()), 0, "it enters");
    let agent = place.agent(arguments);
    assert_eq!(enter(home.as_raw_fd()), 0, "it comes back");
    agent
}
