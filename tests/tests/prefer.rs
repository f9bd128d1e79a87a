//! What applications and operators want of flows of real TCP: authorised users may set it, others
//! may not.

use ccp_agent::child::AgentChild;
use ccp_agent::flow::Row;
use ccp_agent::host::Target;
use ccp_agent::prefer::Wants;
use ccp_agent::run_dir::application_socket;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
};
use remuda_client::{Preference, prefer_at};
use remuda_tests::cgroup::Cgroup;
use remuda_tests::other_user::{UID, as_other_user, enter_new_namespace, of_other_user};
use remuda_tests::{Place, exclusive, root, sink, skip};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const TURNS: u32 = 500;
const TURN: Duration = Duration::from_millis(10);

/// The socket for applications, in a folder of this test that other users can reach.
fn door(place: &Place) -> PathBuf {
    let folder = place.run_dir();
    let folder = folder.parent().expect("it lies in a folder");
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("chmod");
    application_socket(&place.run_dir())
}

/// A socket of the calling user that asks for the agent's algorithm.
fn unconnected(name: &str) -> OwnedFd {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .expect("a socket");
    setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(name)).expect("any user may");
    fd
}

fn connected(fd: OwnedFd, to: SocketAddr) -> TcpStream {
    let SocketAddr::V4(to) = to else { panic!("{to} is not IPv4") };
    let to: SocketAddrV4 = to;
    connect(fd.as_raw_fd(), &SockaddrIn::from(to)).expect("it connects");
    let mut stream = TcpStream::from(fd);
    stream.write_all(&[7; 10_000]).expect("it is sent");
    stream
}

/// The agent's row of the flow with this stream's local port, once the flow has that preference.
fn wait_for(agent: &AgentChild, stream: &TcpStream, wants: &str) -> Row {
    let local = stream.local_addr().expect("an address").to_string();
    wait_for_one(agent, wants, |row| row.local == local)
}

fn wait_for_one(agent: &AgentChild, wants: &str, is: impl Fn(&Row) -> bool) -> Row {
    let wants: Wants = wants.parse().expect("a preference");
    for _ in 0..TURNS {
        let rows = agent.flows().expect("the agent answers");
        if let Some(row) = rows.into_iter().find(|row| is(row) && row.wants == wants) {
            return row;
        }
        thread::sleep(TURN);
    }
    panic!("no flow wants {wants}: {:?}", agent.flows());
}

#[test]
fn an_application_says_what_its_own_flow_wants() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let (door, to) = (door(&place), sink(Ipv4Addr::LOCALHOST));
    let stream = as_other_user(|| {
        let early = unconnected(&place.name);
        prefer_at(&door, &early, Preference::DELAY).expect("before it connects");
        connected(early, to)
    });
    let row = wait_for(&agent, &stream, "delay");
    let (_, shown) = place.remuda(&["flows"]);
    assert!(shown.contains("wants") && shown.contains("delay"), "{shown}");
    as_other_user(|| {
        let wants = Preference { throughput: 0.7, delay: 1.0 };
        prefer_at(&door, &stream, wants).expect("after it has connected");
    });
    wait_for(&agent, &stream, "throughput=0.7,delay=1");
    agent.set(Target::Flow(row.id), "native:reno").expect("it is set");
    thread::sleep(TURN * 10);
    as_other_user(|| {
        prefer_at(&door, &stream, Preference::DEFAULT).expect("under the kernel's own algorithm");
    });
    wait_for(&agent, &stream, "default");
    let late = as_other_user(|| {
        let late = connected(unconnected(&place.name), to);
        prefer_at(&door, &late, Preference::THROUGHPUT).expect("at once after connecting");
        late
    });
    wait_for(&agent, &late, "throughput");
    prefer_at(&door, &late, Preference::DELAY).expect("root may for all");
    wait_for(&agent, &late, "delay");
    let events = agent.events().expect("the event log");
    let first = events.iter().find(|event| event["event"] == "preferred").expect("an event");
    assert_eq!(first["flow"], row.id);
    assert_eq!((&first["from"], &first["to"]), (&"default".into(), &"delay".into()));
    assert_eq!(first["by"], format!("its application, user {UID}"));
    agent.stop().expect("it ends");
}

#[test]
fn another_users_flow_is_not_the_applications() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let (door, to) = (door(&place), sink(Ipv4Addr::LOCALHOST));
    let early = unconnected(&place.name);
    let refused = |socket: &OwnedFd| {
        let error = prefer_at(&door, socket, Preference::DELAY).expect_err("it is root's");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains("another user's"), "{error}");
    };
    as_other_user(|| refused(&early));
    let stream = connected(early, to);
    wait_for(&agent, &stream, "default");
    let copy = OwnedFd::from(stream.try_clone().expect("a copy"));
    as_other_user(|| refused(&copy));
    let run_dir = place.run_dir();
    let error = as_other_user(|| fs::read_dir(&run_dir)).expect_err("it is private");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    wait_for(&agent, &stream, "default");
    let events = agent.events().expect("the event log");
    assert!(events.iter().all(|event| event["event"] != "preferred"), "{events:?}");
    agent.stop().expect("it ends");
}

#[test]
fn the_same_addresses_in_another_namespace_are_another_flow() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let (door, to) = (door(&place), sink(Ipv4Addr::LOCALHOST));
    let roots = connected(unconnected(&place.name), to);
    let row = wait_for(&agent, &roots, "default");
    let SocketAddr::V4(from) = roots.local_addr().expect("an address") else {
        panic!("it is of IPv4")
    };
    for algorithm in ["reno", place.name.as_str()] {
        let theirs = thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                enter_new_namespace();
                as_other_user(|| {
                    let listener = TcpListener::bind(to).expect("it is free here");
                    let socket = unconnected(algorithm);
                    bind(socket.as_raw_fd(), &SockaddrIn::from(from)).expect("it is free here");
                    let stream = connected(socket, to);
                    prefer_at(&door, &stream, Preference::DELAY).expect("it is theirs");
                    (stream, listener)
                })
            });
            elsewhere.join().expect("the other namespace")
        });
        if algorithm == place.name {
            wait_for_one(&agent, "delay", |other| other.id != row.id && other.local == row.local);
        }
        drop(theirs);
        let rows = agent.flows().expect("the agent answers");
        let roots = rows.iter().find(|other| other.id == row.id).expect("it is there");
        assert_eq!(roots.wants, Wants::DEFAULT, "{algorithm}");
    }
    agent.stop().expect("it ends");
}

#[test]
fn an_operators_order_comes_before_and_the_configuration_after() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let cgroup = Cgroup::new(&place.name);
    let directory = cgroup.as_ref().map_or(PathBuf::from("/proc"), |it| it.path().to_owned());
    let to = sink(Ipv4Addr::LOCALHOST);
    let rules = format!(
        "[[prefer]]\nmark = '0x70/0xf0'\nwants = 'throughput'\n\
         [[prefer]]\ncgroup = {directory:?}\nwants = {{ throughput = 0.5, delay = 1 }}\n"
    );
    let rules = if cgroup.is_some() { rules } else { rules[..rules.rfind("[[").unwrap()].into() };
    let config = place.file("remuda.toml", &rules);
    let agent = place.agent(&["--arm", "cubic", "--config", config.to_str().expect("a path")]);
    let door = door(&place);
    let marked = unconnected(&place.name);
    setsockopt(&marked, sockopt::Mark, &0x7a).expect("root marks");
    let marked = connected(marked, to);
    wait_for(&agent, &marked, "throughput");
    if let Some(cgroup) = &cgroup {
        let within = connected(cgroup.run(|| unconnected(&place.name)), to);
        wait_for(&agent, &within, "throughput=0.5,delay=1");
    }
    prefer_at(&door, &marked, Preference { throughput: 1.0, delay: 0.2 }).expect("it is ours");
    wait_for(&agent, &marked, "throughput=1,delay=0.2");
    let (done, said) = place.remuda(&["prefer", "delay", "--destination", "127.0.0.0/8"]);
    assert!(done && said.starts_with("order 1: delay; it counts for"), "{said}");
    let row = wait_for(&agent, &marked, "delay");
    let to_come = connected(unconnected(&place.name), to);
    wait_for(&agent, &to_come, "delay");
    let number = row.id.to_string();
    let (done, said) = place.remuda(&["prefer", "throughput", "--flow", &number, "--json"]);
    assert!(done && said.contains("\"order\":2,\"flows\":1"), "{said}");
    wait_for(&agent, &marked, "throughput");
    let (done, said) = place.remuda(&["prefer", "--list", "--json"]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(done && lines[0].contains(&format!("flow {number}")), "{said}");
    assert!(lines[1].contains("127.0.0.0/8") && lines[2].contains("mark 0x70/0xf0"), "{said}");
    let (done, said) = place.remuda(&["prefer", "--clear", "2"]);
    assert!(done && said.starts_with("1 orders"), "{said}");
    wait_for(&agent, &marked, "delay");
    let (done, said) = place.remuda(&["prefer", "--clear"]);
    assert!(done, "{said}");
    wait_for(&agent, &marked, "throughput=1,delay=0.2");
    wait_for(&agent, &to_come, "default");
    for (arguments, part) in [
        (&["prefer", "delay", "--flow", "4000000"][..], "no flow 4000000"),
        (&["prefer", "--clear", "77"], "no order 77"),
        (&["prefer", "delay", "--cgroup", "/etc"], "not a directory of cgroup v2"),
    ] {
        let (done, said) = place.remuda(arguments);
        assert!(!done && said.contains(part) && said.contains("fix:"), "{said}");
    }
    agent.stop().expect("it ends");
}

/// Waits for the flow of another user's program, and lets the program end.
fn program_wants(place: &Place, agent: &AgentChild, command: &mut Command, wants: &str) {
    let to = sink(Ipv4Addr::LOCALHOST);
    command.args([&to.ip().to_string(), &to.port().to_string(), &place.name]);
    command.env(remuda_client::SOCKET_VARIABLE, door(place));
    let command = of_other_user(command).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&[7; 4_096]).expect("it reads");
    wait_for_one(agent, wants, |row| row.remote == to.to_string());
    drop(stdin);
    let out = child.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
}

#[test]
fn programs_in_c_and_python_say_it_as_well() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let client = root().join("ccp-agent/client");
    let built = door(&place).with_file_name("prefer");
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-I"])
        .arg(client.join("include"))
        .arg(client.join("examples/prefer.c"))
        .arg("-o")
        .arg(&built)
        .status();
    assert!(compiled.expect("there is a C compiler").success());
    program_wants(&place, &agent, &mut Command::new(built), "delay");
    // The only module of the package that this test needs, copied to where the other user can read
    // it.
    let module = root().join("python/remuda/preference.py");
    let module = fs::read_to_string(module).expect("it is there");
    let example = fs::read_to_string(client.join("examples/prefer.py")).expect("it is there");
    let script = place.file("prefer.py", &example);
    let package = script.with_file_name("remuda");
    fs::create_dir(&package).expect("mkdir");
    fs::write(package.join("__init__.py"), module).expect("it is written");
    let mut python = Command::new("/usr/bin/python3");
    python.arg(script); // whose folder is where it looks for packages first
    program_wants(&place, &agent, &mut python, "throughput=0.25,delay=1");
    agent.stop().expect("it ends");
}

fn descriptors(agent: &AgentChild) -> usize {
    fs::read_dir(format!("/proc/{}/fd", agent.pid())).expect("it lives").count()
}

/// A hostile client of the socket for applications.
fn knock(path: &PathBuf) -> Option<OwnedFd> {
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).ok()?;
    let address = nix::sys::socket::UnixAddr::new(path).ok()?;
    connect(fd.as_raw_fd(), &address).ok().map(|()| fd)
}

fn send(fd: &OwnedFd, bytes: &[u8]) {
    // A hostile client ignores errors of sending.
    // SAFETY: an open descriptor, copied so that both close their own.
    let copy = unsafe { OwnedFd::from_raw_fd(libc::dup(fd.as_raw_fd())) };
    let _ = UnixDatagram::from(copy).send(bytes);
}

#[test]
fn hostile_applications_cost_themselves_alone() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let (door, to) = (door(&place), sink(Ipv4Addr::LOCALHOST));
    let mut stream = connected(unconnected(&place.name), to);
    wait_for(&agent, &stream, "default");
    let before = descriptors(&agent);
    let over = AtomicBool::new(false);
    let knocks = thread::scope(|scope| {
        let hostile = scope.spawn(|| {
            as_other_user(|| {
                let silent: Vec<_> = (0..64).map(|_| knock(&door)).collect();
                let mut knocks = 0;
                while !over.load(Ordering::Relaxed) {
                    if let Some(client) = knock(&door) {
                        let garbage = [&b"prefer 1 1"[..], &[0xff; 60_000], b"", b"prefer 9999 1"];
                        send(&client, garbage[knocks % garbage.len()]);
                    }
                    knocks += 1;
                }
                drop(silent);
                knocks
            })
        });
        for turn in 0..30 {
            stream.write_all(&[7; 50_000]).expect("the flow goes on");
            let wants = if turn % 2 == 0 { Preference::DELAY } else { Preference::THROUGHPUT };
            prefer_at(&door, &stream, wants).expect("who is honest is served");
            wait_for(&agent, &stream, if turn % 2 == 0 { "delay" } else { "throughput" });
            thread::sleep(TURN);
        }
        over.store(true, Ordering::Relaxed);
        hostile.join().expect("it has had its fun")
    });
    println!("{knocks} knocks of a hostile user while 30 requests of another were served");
    assert!(knocks > 100, "{knocks}");
    let events = agent.events().expect("the event log");
    assert!(events.iter().all(|event| event["event"] != "fell_back"), "no flow fell back");
    let after = (0..TURNS).find(|_| {
        thread::sleep(TURN);
        descriptors(&agent) <= before
    });
    assert!(after.is_some(), "{before} descriptors have become {}", descriptors(&agent));
    agent.stop().expect("it ends");
}
