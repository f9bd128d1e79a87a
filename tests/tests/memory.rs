//! The arm that is remembered of a destination is available to the next flow: before the flow's
//! first packet, after a restart, and whatever happens to the agent or its file.

use ccp_agent::child::AgentChild;
use ccp_agent::clock;
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::run_dir;
use nix::sys::signal::Signal;
use remuda_live::Testbed;
use remuda_live::transfer::set_algorithm;
use remuda_selector::antelope::memory::{Memory, MemoryConfig, Network};
use remuda_tests::believer::{add_believer, with_believer};
use remuda_tests::small_disk::{fill, with_small_disk};
use remuda_tests::{Place, binary, exclusive, skip, wired};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A window with which no kernel would begin.
const PKTS: u32 = 37;
const BYTES: usize = 200_000;
const TURNS: u32 = 500;
const TURN: Duration = Duration::from_millis(20);

/// A connection whose sending server end asked for `algorithm` before the connection was made.
struct Connection {
    sender: TcpStream,
    receiver: TcpStream,
}

impl Connection {
    /// A connection from the server's namespace to the client's address of that family.
    fn new(path: &Testbed, algorithm: &str, is_ipv6: bool) -> Self {
        let server: IpAddr = match is_ipv6 {
            true => path.server().ipv6().into(),
            false => path.server().ipv4().into(),
        };
        let listen = || {
            let listener = TcpListener::bind((server, 0)).expect("a port");
            set_algorithm(listener.as_raw_fd(), algorithm).expect("the algorithm is there");
            listener
        };
        let listener = path.server().run(listen).expect("the server's namespace");
        let to = listener.local_addr().expect("an address");
        let connect = || TcpStream::connect(to).expect("it connects");
        let receiver = path.client().run(connect).expect("the client's namespace");
        let (sender, _) = listener.accept().expect("it accepts");
        Self { sender, receiver }
    }

    fn cwnd_pkts(&self) -> u32 {
        // SAFETY: all zeros is a valid value of a struct of integers.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tcp_info>() as u32;
        let (fd, to) = (self.sender.as_raw_fd(), (&raw mut info).cast());
        // SAFETY: the buffer is valid for `length`; the kernel writes no more.
        let result =
            unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut length) };
        assert_eq!(result, 0, "TCP_INFO: {}", std::io::Error::last_os_error());
        info.tcpi_snd_cwnd
    }

    /// Sends `bytes` bytes and checks that all arrive.
    fn send(&mut self, bytes: usize) {
        thread::scope(|scope| {
            let receiver = &mut self.receiver;
            scope.spawn(move || {
                let mut got = vec![0; bytes];
                receiver.read_exact(&mut got).expect("every byte arrives");
            });
            self.sender.write_all(&vec![7; bytes]).expect("it sends");
        });
    }
}

fn client(path: &Testbed, is_ipv6: bool) -> IpAddr {
    if is_ipv6 { path.client().ipv6().into() } else { path.client().ipv4().into() }
}

/// Another address of the same network.
fn neighbour(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(it) => IpAddr::V4((it.to_bits() ^ 0x40).into()),
        IpAddr::V6(it) => IpAddr::V6((it.to_bits() ^ 0x40).into()),
    }
}

/// Writes the file of an earlier agent, with entries for the client's neighbours.
fn seed(state_dir: &Path, path: &Testbed) {
    let mut memory = Memory::new(&MemoryConfig::default());
    for is_ipv6 in [false, true] {
        let of = neighbour(client(path, is_ipv6));
        assert!(memory.note(of, "bbr", 1.0, 0));
        memory.set_initial_cwnd(Network::around(of), PKTS).expect("a window");
    }
    let text = memory.to_json(0, clock::wall().as_secs());
    let private = fs::DirBuilder::new().recursive(true).mode(0o700).create(state_dir);
    private.expect("a private folder");
    fs::write(run_dir::memory_file(state_dir), text).expect("it is written");
}

fn state_dir(place: &Place) -> PathBuf {
    place.run_dir().join("state")
}

/// An agent that may be silent for a minute, and saves each second.
fn agent(place: &Place, more: &[&str]) -> AgentChild {
    let text = "[agent]\nheartbeat_timeout_ms = 60000\n[memory]\nsave_interval_s = 1\n";
    let config = place.file("config.toml", text);
    let own = ["--config", config.to_str().expect("a path"), "--arm", "bbr"];
    place.agent(&[&own, more].concat())
}

/// The fields of the first event of that name; waits for it.
fn event(agent: &AgentChild, name: &str) -> serde_json::Value {
    for _ in 0..TURNS {
        let events = agent.events().expect("there is a log");
        if let Some(found) = events.into_iter().find(|event| event["event"] == name) {
            return found;
        }
        thread::sleep(TURN);
    }
    panic!("no event {name}: {:?}", agent.events());
}

fn command(place: &Place, arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.arg("memory").arg("--run-dir").arg(place.run_dir()).args(arguments);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_flow_begins_as_remembered_before_the_agent_says_a_word() {
    let _one = exclusive();
    if skip() {
        return;
    }
    add_believer();
    let path = wired(24.0, 5.0, 4.0);
    let place = Place::new();
    seed(&state_dir(&place), &path);
    let child = agent(&place, &[]);
    assert_eq!(event(&child, "memory_read")["destinations"], 4);
    child.signal(Signal::SIGSTOP).expect("it hangs");
    let mut connections = Vec::new();
    for is_ipv6 in [false, true] {
        let mut connection = Connection::new(&path, &place.name, is_ipv6);
        assert_eq!(connection.cwnd_pkts(), PKTS, "IPv6: {is_ipv6}");
        connection.send(BYTES);
        assert!(connection.cwnd_pkts() > PKTS, "Reno has it until the agent speaks");
        connections.push(connection);
    }
    child.signal(Signal::SIGCONT).expect("it goes on");
    for of in [false, true].map(|is_ipv6| Network::around(client(&path, is_ipv6))) {
        let of = of.to_string();
        assert!((0..TURNS).any(|_| {
            thread::sleep(TURN);
            let events = child.events().expect("there is a log");
            events.iter().any(|it| {
                it["event"] == "recalled" && it["of"] == of.as_str() && it["arm"] == "bbr"
            })
        }));
    }
    let rows = child.flows().expect("it answers");
    let measured = rows.iter().filter(|row| row.reports > 0).count();
    assert_eq!(measured, 2, "what was measured before its first word counts: {rows:?}");
    drop(connections);
    child.stop().expect("it ends");
}

#[test]
fn a_restart_and_a_kill_forget_nothing_and_leave_flows_alone() {
    let _one = exclusive();
    if skip() {
        return;
    }
    add_believer();
    let path = wired(24.0, 5.0, 4.0);
    let place = Place::new();
    seed(&state_dir(&place), &path);
    let first = agent(&place, &[]);
    let network = Network::around(client(&path, false)).to_string();
    let said = command(&place, &["--initial-cwnd", &format!("{network}=41")]);
    assert!(said.contains("41 segments"), "{said}");
    first.stop().expect("it ends");

    let next = agent(&place, &[]);
    event(&next, "memory_read");
    let mut connection = Connection::new(&path, &place.name, false);
    assert_eq!(connection.cwnd_pkts(), 41, "what was said to the one holds for the next");
    connection.send(BYTES);
    next.kill().expect("kill -9");
    connection.send(BYTES);
    let after = connection.cwnd_pkts();
    assert!(after >= 2, "{after}");

    let last = agent(&place, &[]);
    connection.send(BYTES);
    assert_eq!(Connection::new(&path, &place.name, true).cwnd_pkts(), PKTS);
    let json = command(&place, &["--json"]);
    assert_eq!(json.lines().filter(|line| line.contains("\"bbr\"")).count(), 4, "{json}");
    let said = command(&place, &["--forget", "all"]);
    assert!(said.starts_with("4 destinations"), "{said}");
    for _ in 0..TURNS {
        if Connection::new(&path, &place.name, true).cwnd_pkts() != PKTS {
            break;
        }
        thread::sleep(TURN);
    }
    assert_ne!(Connection::new(&path, &place.name, true).cwnd_pkts(), PKTS, "it is forgotten");
    last.stop().expect("it ends");
}

#[test]
fn a_poisoned_file_is_set_aside_and_the_agent_serves() {
    let _one = exclusive();
    if skip() {
        return;
    }
    add_believer();
    let path = wired(24.0, 5.0, 4.0);
    let place = Place::new();
    seed(&state_dir(&place), &path);
    let file = run_dir::memory_file(&state_dir(&place));
    let text = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, text.replace("\"version\":1", "\"version\":3")).expect("it is written");
    let child = agent(&place, &[]);
    let aside = event(&child, "memory_set_aside");
    assert_eq!(aside["rule"], "version = 3: it must be 1");
    let to = aside["to"].as_str().expect("a path");
    assert!(fs::read_to_string(to).expect("it is kept").contains("\"version\":3"));
    let mut connection = Connection::new(&path, &place.name, false);
    assert_ne!(connection.cwnd_pkts(), PKTS);
    connection.send(BYTES);
    child.stop().expect("it ends");
}

#[test]
fn a_full_disk_costs_no_flow_and_not_the_old_file() {
    let _one = exclusive();
    if skip() {
        return;
    }
    add_believer();
    let path = wired(24.0, 5.0, 4.0);
    let place = Place::new();
    let disk = place.run_dir().with_file_name("disk");
    with_small_disk(&disk, || {
        seed(&disk, &path);
        let child = agent(&place, &["--state-dir", disk.to_str().expect("a path")]);
        event(&child, "memory_read");
        let filler = fill(&disk);
        let file = run_dir::memory_file(&disk);
        let before = fs::read(&file).expect("it is there");
        command(&place, &["--initial-cwnd", "192.0.2.7=41"]);
        let unkept = event(&child, "memory_unkept");
        assert!(unkept["reason"].as_str().is_some_and(|why| why.contains("space")), "{unkept}");
        assert_eq!(fs::read(&file).expect("it is there"), before);
        let mut connection = Connection::new(&path, &place.name, false);
        assert_eq!(connection.cwnd_pkts(), PKTS);
        connection.send(BYTES);
        fs::remove_file(filler).expect("room again");
        event(&child, "memory_kept");
        assert!(fs::read_to_string(&file).expect("it is there").contains("192.0.2.7/32"));
        child.stop().expect("it ends");
    });
}

/// Rounds, bins and intervals of a second, so that a test sees some of them.
const LEARNS: &str = "[agent]\nheartbeat_timeout_ms = 60000\n[iw]\nenabled = true\ninterval_s = 1\n\
                      bin_s = 1\nregroup_s = 10\nsamples_min = 2\njitter_max = 10.0\n\
                      control_share = 0.0\npeer_records_per_min_max = 6000\n";

#[test]
fn flows_to_a_group_begin_with_its_learned_window_and_a_kill_changes_nothing() {
    let _one = exclusive();
    if skip() {
        return;
    }
    add_believer();
    let path = wired(24.0, 5.0, 4.0);
    let place = Place::new();
    let config = place.file("config.toml", LEARNS);
    let arguments = ["--config", config.to_str().expect("a path"), "--arm", "cubic"];
    let child = place.agent(&arguments);
    let began = || {
        let mut connection = Connection::new(&path, &place.name, false);
        let pkts = connection.cwnd_pkts();
        connection.send(BYTES);
        pkts
    };
    assert_eq!(began(), 10, "no group is known");
    let learned = (0..TURNS * 5).find_map(|_| {
        thread::sleep(TURN);
        Some(began()).filter(|pkts| *pkts == 5)
    });
    assert_eq!(learned, Some(5), "the first window of a new group");
    let network = Network::around(client(&path, false)).to_string();
    let ask_iw = |request: &Request| match ask(&place.run_dir(), request) {
        Ok(Answer::Iw(report)) => report,
        other => panic!("{other:?}"),
    };
    let report = ask_iw(&Request::Iw {});
    let names: Vec<&str> = report.groups.iter().map(|group| group.row.name.as_str()).collect();
    assert!(names.contains(&network.as_str()), "{names:?}");
    let pin = Request::IwPin { group: network.clone(), cwnd_pkts: Some(23) };
    ask_iw(&pin);
    let is_pinned = || (0..TURNS).any(|_| began() == 23);
    assert!(is_pinned());
    child.kill().expect("kill -9");
    let next = place.agent(&arguments);
    assert!(is_pinned(), "the next agent knows it");
    command(&place, &["--initial-cwnd", &format!("{network}=17")]);
    assert!((0..TURNS).any(|_| began() == 17), "an operator's window counts first");
    next.stop().expect("it ends");
}

fn arm_of_next(place: &Place, path: &Testbed, is_ipv6: bool) -> (u32, String) {
    let mut connection = Connection::new(path, &place.name, is_ipv6);
    let cwnd_pkts = connection.cwnd_pkts();
    connection.send(BYTES);
    for _ in 0..TURNS {
        let Ok(Answer::Flows { flows, .. }) = ask(&place.run_dir(), &Request::Flows {}) else {
            panic!("the agent answers");
        };
        // Closed flows of earlier connections may still be listed: the last one is this
        // connection's.
        if let Some(row) = flows.iter().rev().find(|row| row.reports > 0) {
            return (cwnd_pkts, row.arm.clone());
        }
        thread::sleep(TURN);
    }
    panic!("no report");
}

#[test]
fn what_one_flow_found_out_the_next_one_begins_with() {
    let _one = exclusive();
    if skip() {
        return;
    }
    add_believer();
    let path = wired(24.0, 5.0, 4.0);
    let place = Place::new();
    with_believer(
        &place,
        |config| config.memory.initial_cwnd_pkts = PKTS,
        || {
            for is_ipv6 in [false, true] {
                let (native, arm) = arm_of_next(&place, &path, is_ipv6);
                assert_eq!(arm, "cubic", "nothing is known");
                assert_ne!(native, PKTS);
                let begins_so = || arm_of_next(&place, &path, is_ipv6) == (PKTS, "bbr".to_owned());
                assert!((0..50).any(|_| begins_so() || {
                    thread::sleep(TURN * 5);
                    false
                }));
                // After the address itself is forgotten, the entry of its network is used.
                let of = Some(Network::host(client(&path, is_ipv6)));
                let forgot = ask(&place.run_dir(), &Request::Forget { of });
                assert!(matches!(forgot, Ok(Answer::Forgot { destinations: 1 })), "{forgot:?}");
                assert!(begins_so());
            }
        },
    );
    let text = fs::read_to_string(run_dir::memory_file(&state_dir(&place))).expect("it is kept");
    assert_eq!(text.matches("\"bbr\"").count(), 4, "{text}");
}

#[test]
fn the_next_flow_jumps_to_half_of_what_one_had() {
    let _one = exclusive();
    if skip() {
        return;
    }
    add_believer();
    let path = wired(48.0, 20.0, 1.0);
    let place = Place::new();
    with_believer(
        &place,
        |config| config.memory.initial_cwnd_pkts = 0,
        || {
            let small = || {
                let mut connection = Connection::new(&path, &place.name, false);
                connection.send(60_000);
                connection.cwnd_pkts()
            };
            // The window begins with 42 segments, and the ACK of each raises it by one at most.
            let slow_start = small();
            assert!((11..=52).contains(&slow_start), "{slow_start}");
            Connection::new(&path, &place.name, false).send(6_000_000);
            let jumped = (0..TURNS).find_map(|_| {
                thread::sleep(TURN);
                Some(small()).filter(|pkts| *pkts > 60)
            });
            // 48 Mbit/s over 40 ms are 166 segments; the window may also have contained a queue.
            let jumped = jumped.expect("what the long flow had is known");
            assert!(jumped < 230, "{jumped}");
            let Ok(Answer::Memory { destinations, .. }) =
                ask(&place.run_dir(), &Request::Memory {})
            else {
                panic!("the agent answers");
            };
            assert!(destinations.iter().all(|row| row.resumed_bytes > 60_000), "{destinations:?}");
        },
    );
}
