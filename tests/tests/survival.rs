//! The agent dies or hangs, and the flows go on: on the BPF datapath.

use ccp_agent::child::AgentChild;
use remuda_live::transfer::Transfer;
use remuda_tests::{Place, exclusive, skip, survival, wired};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
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

/// Makes a socket run the algorithm `name`, as an application does.
fn choose(socket: &impl AsRawFd, name: &str) {
    let length = libc::socklen_t::try_from(name.len()).expect("a short name");
    let (socket, value) = (socket.as_raw_fd(), name.as_ptr().cast());
    // SAFETY: an open socket, and a name with its length.
    let set =
        unsafe { libc::setsockopt(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, value, length) };
    assert_eq!(set, 0, "{name}: {}", io::Error::last_os_error());
}

/// A TCP socket that is not connected.
fn unconnected() -> OwnedFd {
    // SAFETY: integers alone.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    assert!(socket >= 0, "{}", io::Error::last_os_error());
    // SAFETY: just opened, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(socket) }
}

/// Connects a socket to a port of loopback.
fn connect(socket: OwnedFd, port: u16) -> TcpStream {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be() },
        sin_zero: [0; 8],
    };
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: an open socket, and an address with its length.
    let done = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    TcpStream::from(socket)
}

/// How many flows the agent drives, once there are as many as expected or two seconds have passed.
fn flows(agent: &AgentChild, expected: usize) -> usize {
    for _ in 0..200 {
        if agent.flows().expect("the agent answers").len() == expected {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    agent.flows().expect("the agent answers").len()
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
    let port = listener.local_addr().expect("an address").port();
    choose(&listener, &place.name);
    for restart in ["kill -9", "a clean stop", "kill -9"] {
        let client = unconnected();
        choose(&client, &place.name);
        let ended = if restart == "kill -9" { agent.kill() } else { agent.stop() };
        ended.expect(restart);
        agent = place.agent(&["--arm", "cubic"]);
        let near = TcpStream::connect(("127.0.0.1", port)).expect("it connects");
        let far = listener.accept().expect("it accepts").0;
        assert_eq!(flows(&agent, 1), 1, "the accepted socket, after {restart}");
        drop((near, far));
        assert_eq!(flows(&agent, 0), 0, "both ends are closed");
        let other = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let near = connect(client, other.local_addr().expect("an address").port());
        let far = other.accept().expect("it accepts").0;
        assert_eq!(flows(&agent, 1), 1, "the connected socket, after {restart}");
        drop((near, far));
        assert_eq!(flows(&agent, 0), 0, "both ends are closed");
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
    assert_eq!(flows(&agent, 1), 1, "a socket of that namespace is the new agent's");
    running.join().expect("every byte arrives");
    agent.stop().expect("it ends");
}
