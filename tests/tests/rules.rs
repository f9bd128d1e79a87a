//! Rules on real TCP and on QUIC: which arm drives which flow, from its start and in mid-flow.

use ccp_agent::child::AgentChild;
use ccp_agent::clock::monotonic_us;
use ccp_agent::flow::Row;
use ccp_agent::host::Target;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
};
use remuda_tests::cgroup::Cgroup;
use remuda_tests::other_user::{UID, as_other_user, enter_new_namespace};
use remuda_tests::quic::{Server, file, same};
use remuda_tests::{Place, binary, exclusive, sink, skip};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

const TURNS: u32 = 500;
const TURN: Duration = Duration::from_millis(10);

/// A socket to make, and what is to drive it.
#[derive(Clone, Copy)]
struct Case {
    local_port: u16,
    mark: u32,
    /// The last byte of the address of loopback that it connects to.
    to: u8,
    of_other_user: bool,
    in_cgroup: bool,
    driver: &'static str,
    rule: Option<&'static str>,
}

impl Case {
    const fn of(local_port: u16, driver: &'static str, rule: Option<&'static str>) -> Self {
        let (of_other_user, in_cgroup) = (false, false);
        Self { local_port, mark: 0, to: 9, of_other_user, in_cgroup, driver, rule }
    }

    const fn marked(self, mark: u32) -> Self {
        Self { mark, ..self }
    }

    const fn to(self, to: u8) -> Self {
        Self { to, ..self }
    }

    const fn of_other_user(self) -> Self {
        Self { of_other_user: true, ..self }
    }

    const fn in_cgroup(self) -> Self {
        Self { in_cgroup: true, ..self }
    }

    /// A flow that sends and stays.
    fn connect(self, name: &str, port: u16) -> TcpStream {
        let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
            .expect("a socket");
        setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(name)).expect("any user may");
        if self.mark != 0 {
            setsockopt(&fd, sockopt::Mark, &self.mark).expect("root marks");
        }
        let local = SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.local_port);
        bind(fd.as_raw_fd(), &SockaddrIn::from(local)).expect("the port is free");
        let remote = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, self.to), port);
        connect(fd.as_raw_fd(), &SockaddrIn::from(remote)).expect("it connects");
        let mut stream = TcpStream::from(fd);
        stream.write_all(&[7; 10_000]).expect("it is sent");
        stream
    }
}

const PORT: u16 = 21_700;

/// The table. `RULES` has the rules.
const CASES: [Case; 20] = [
    Case::of(PORT, "cubic", None),
    Case::of(PORT + 1, "vegas", Some("rule 1")).marked(0x7a),
    Case::of(PORT + 2, "vegas", Some("rule 1")).marked(0x70),
    Case::of(PORT + 3, "cubic", None).marked(0x6a),
    Case::of(PORT + 4, "copa", Some("rule 2")).to(2),
    Case::of(PORT + 5, "vegas", Some("rule 1")).to(2).marked(0x75),
    Case::of(PORT + 6, "westwood", Some("rule 3")).to(3),
    Case::of(PORT + 7, "copa", Some("rule 2")).to(2).of_other_user(),
    Case::of(PORT + 8, "westwood", Some("rule 3")).to(1).of_other_user(),
    Case::of(PORT + 9, "bbr", Some("others")).of_other_user(),
    Case::of(PORT + 10, "cubic", None),
    Case::of(PORT + 20, "cubic", Some("rule 5")),
    Case::of(PORT + 21, "illinois", Some("range")),
    Case::of(PORT + 29, "illinois", Some("range")),
    Case::of(PORT + 30, "cubic", None),
    Case::of(PORT + 31, "native:cubic", Some("rule 7")),
    Case::of(PORT + 32, "rein", Some("rule 8")),
    Case::of(PORT + 33, "bbr3", Some("rule 9")).in_cgroup(),
    Case::of(PORT + 34, "vegas", Some("rule 1")).in_cgroup().marked(0x70),
    Case::of(PORT + 35, "illinois", Some("rule 10")).in_cgroup(),
];

fn rules(cgroup: &str) -> String {
    let [p10, p20, p21, p29, p31, p32, p35] = [10, 20, 21, 29, 31, 32, 35].map(|n| PORT + n);
    let before = PORT;
    format!(
        "[[rule]]\nmark = '0x70/0xf0'\nuse = 'vegas'\n\
         [[rule]]\ndestination = '127.0.0.2'\nuse = 'copa'\n\
         [[rule]]\ndestination = '127.0.0.0/30'\nlocal_port = '{before}-{p10}'\nuse = 'westwood'\n\
         [[rule]]\nuid = {UID}\nuse = 'bbr'\nname = 'others'\n\
         [[rule]]\nlocal_port = {p20}\nuse = 'reno'\nshare = 0\n\
         [[rule]]\nlocal_port = '{p21}-{p29}'\nuse = 'illinois'\nname = 'range'\n\
         [[rule]]\nlocal_port = {p31}\nuse = 'native:cubic'\n\
         [[rule]]\nlocal_port = {p32}\nnetns = 'own'\nuse = 'rein'\n\
         [[rule]]\ncgroup = '{cgroup}'\nmark = 0\nlocal_port = '{p32}-{}'\nuse = 'bbr3'\n\
         [[rule]]\nlocal_port = {p35}\ncgroup = '{cgroup}'\nuse = 'illinois'\n",
        PORT + 34
    )
}

/// The agent's row of the flow from this port, once it is driven so.
fn wait_for(agent: &AgentChild, local_port: u16, driver: &str) -> Row {
    let end = format!(":{local_port}");
    for _ in 0..TURNS {
        let rows = agent.flows().expect("the agent answers");
        let found = rows.into_iter().find(|row| row.local.ends_with(&end));
        if let Some(row) = found.filter(|row| row.driver == driver) {
            return row;
        }
        thread::sleep(TURN);
    }
    panic!("no flow of port {local_port} is driven by {driver}: {:?}", agent.flows());
}

#[test]
fn each_flow_has_the_driver_of_the_first_rule_that_matches_it() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let cgroup = Cgroup::new(&place.name);
    let absent = PathBuf::from("/sys/fs/cgroup/remuda-no-such-group");
    let directory = cgroup.as_ref().map_or(absent, |it| it.path().to_owned());
    let config = place.file("remuda.toml", &rules(directory.to_str().expect("a path")));
    let agent = place.agent(&["--arm", "cubic", "--config", config.to_str().expect("a path")]);
    let port = sink(Ipv4Addr::UNSPECIFIED).port();
    let mut streams = Vec::new();
    let mut driven = 0;
    for case in CASES {
        let connect = || case.connect(&place.name, port);
        let stream = match &cgroup {
            _ if case.of_other_user => as_other_user(connect),
            Some(cgroup) if case.in_cgroup => cgroup.run(connect),
            None if case.in_cgroup => {
                println!("SKIPPED: port {}: this host lets nobody make cgroups", case.local_port);
                continue;
            }
            _ => connect(),
        };
        streams.push(stream);
        // An agent that may not run the kernel's own algorithm drives the flow by its default.
        let row = wait_for_any(&agent, case);
        let is_driven = row.driver == case.driver;
        if !is_driven {
            assert_eq!((case.driver, &*row.driver), ("native:cubic", "cubic"), "{row:?}");
            assert!(row.why.contains("cannot drive this flow"), "{row:?}");
            println!("SKIPPED: port {}: {}", case.local_port, row.why);
        }
        // A rule whose driver cannot drive the flow does not count.
        assert_eq!(row.rule.as_deref(), case.rule.filter(|_| is_driven), "{row:?}");
        driven += 1;
    }
    println!("{driven} flows have the driver of their rule");
    let events = agent.events().expect("the event log");
    let switched = events.iter().filter(|event| event["event"] == "switched");
    let by_rules = switched.filter(|event| event.to_string().contains("rule")).count();
    assert_eq!(by_rules, 0, "each had it from its start");
    let (done, said) = place.remuda(&["rule", "list"]);
    assert!(done && said.contains("others") && said.contains("other flows: cubic"), "{said}");
    assert!(said.contains("reaches only sockets that ask for") || cgroup.is_none(), "{said}");
    agent.stop().expect("it ends");
}

/// The agent's row of a case's flow, once it has a driver that fits.
fn wait_for_any(agent: &AgentChild, case: Case) -> Row {
    let end = format!(":{}", case.local_port);
    for _ in 0..TURNS {
        let rows = agent.flows().expect("the agent answers");
        if let Some(row) = rows.into_iter().find(|row| row.local.ends_with(&end)) {
            let is_without_native = case.driver == "native:cubic" && row.driver == "cubic";
            assert!(row.driver == case.driver || is_without_native, "{row:?}");
            return row;
        }
        thread::sleep(TURN);
    }
    panic!("there is no flow of port {}: {:?}", case.local_port, agent.flows());
}

#[test]
fn a_running_flow_follows_within_a_second_and_a_rule_outlives_a_restart() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let config = place.file("remuda.toml", "[agent]\nat_stop = 'hand_over'\n");
    let arguments = ["--arm", "cubic", "--config", config.to_str().expect("a path")];
    let agent = place.agent(&arguments);
    let port = sink(Ipv4Addr::UNSPECIFIED).port();
    let local = PORT + 40;
    let mut stream = Case::of(local, "cubic", None).connect(&place.name, port);
    wait_for(&agent, local, "cubic");
    let pinned = local + 1;
    let _pinned = Case::of(pinned, "cubic", None).connect(&place.name, port);
    let row = wait_for(&agent, pinned, "cubic");
    agent.set(Target::Flow(row.id), "vegas").expect("it is pinned");

    let started_us = monotonic_us();
    let (done, said) = place.remuda(&["rule", "add", "bbr", "--destination", "127.0.0.9"]);
    assert!(done && said.starts_with("added rule 1; 1 running flows"), "{said}");
    let row = wait_for(&agent, local, "bbr");
    let followed = Duration::from_micros(monotonic_us() - started_us);
    println!("a running flow followed a rule after {followed:?}");
    assert!(followed < Duration::from_secs(1), "{followed:?}");
    assert_eq!((row.rule.as_deref(), &*row.why), (Some("added rule 1"), "added rule 1"));
    wait_for(&agent, pinned, "vegas");
    stream.write_all(&[7; 100_000]).expect("the flow goes on");

    let (done, said) = place.remuda(&["rule", "test", "127.0.0.9:443"]);
    assert!(done && said.contains("added rule 1 wins: bbr"), "{said}");
    let (done, said) = place.remuda(&["rule", "test", "127.0.0.8"]);
    assert!(done && said.contains("no rule matches: cubic"), "{said}");
    assert!(said.contains("does not match by destination"), "{said}");

    agent.stop().expect("it ends");
    let agent = place.agent(&arguments);
    wait_for(&agent, local, "bbr");
    let started_us = monotonic_us();
    fs::write(&config, "[agent]\nat_stop = 'hand_over'\n[[rule]]\nmark = 0\nuse = 'copa'\n")
        .expect("it is written");
    let (done, said) = place.remuda(&["rule", "remove", "1"]);
    assert!(done && said.starts_with("rules removed: 1"), "{said}");
    agent.signal(nix::sys::signal::Signal::SIGHUP).expect("it is told");
    wait_for(&agent, local, "copa");
    let followed = Duration::from_micros(monotonic_us() - started_us);
    println!("a running flow followed a reload after {followed:?}");
    assert!(followed < Duration::from_secs(1), "{followed:?}");

    fs::write(&config, "[[rule]]\nmark = 0\nuse = 'brr'\n").expect("it is written");
    agent.signal(nix::sys::signal::Signal::SIGHUP).expect("it is told");
    let refused = (0..TURNS).find_map(|_| {
        thread::sleep(TURN);
        let events = agent.events().ok()?;
        events.into_iter().find(|event| event["event"] == "reload_refused")
    });
    let reason = refused.expect("an event")["reason"].to_string();
    assert!(reason.contains("rule 1: use = ") && reason.contains("brr"), "{reason}");
    wait_for(&agent, local, "copa");
    agent.stop().expect("it ends");
}

#[test]
fn the_same_addresses_in_another_namespace_are_told_apart() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let text = "[[rule]]\nnetns = 'own'\nuse = 'reno'\n[[rule]]\ndestination = '127.0.0.0/8'\n\
                use = 'vegas'\n";
    let config = place.file("remuda.toml", text);
    let agent = place.agent(&["--arm", "cubic", "--config", config.to_str().expect("a path")]);
    let local = PORT + 50;
    let _own =
        Case::of(local, "reno", None).connect(&place.name, sink(Ipv4Addr::UNSPECIFIED).port());
    wait_for(&agent, local, "reno");
    let elsewhere = local + 1;
    let _theirs = thread::scope(|scope| {
        let connect = || {
            enter_new_namespace();
            Case::of(elsewhere, "vegas", None)
                .connect(&place.name, sink(Ipv4Addr::UNSPECIFIED).port())
        };
        scope.spawn(connect).join().expect("the other namespace")
    });
    wait_for(&agent, elsewhere, "vegas");
    agent.stop().expect("it ends");
}

#[test]
fn a_rule_drives_quic_as_well() {
    let _one = exclusive();
    let folder = tempfile::tempdir().expect("a folder");
    let whole = file(folder.path(), "whole", 1_000_000);
    let place = Place::new();
    let served = PORT + 60;
    let text = format!(
        "[agent]\nbpf = false\n[[rule]]\nlocal_port = {served}\ndestination = '127.0.0.0/8'\n\
         use = 'bbr'\n"
    );
    let config = place.file("remuda.toml", &text);
    let agent = place.agent(&["--arm", "cubic", "--config", config.to_str().expect("a path")]);
    for (at, driver, rule) in [
        (format!("127.0.0.1:{served}"), "bbr", Some("rule 1")),
        ("127.0.0.1:0".to_owned(), "cubic", None),
    ] {
        let run_dir = place.run_dir();
        let arguments = (at.as_str(), "agent", run_dir.as_path());
        let server = Server::start(Command::new(binary()), folder.path(), arguments);
        let to = folder.path().join("got");
        let output = server.get(Command::new(binary()), "whole", &to).output().expect("it runs");
        assert!(output.status.success() && same(&whole, &to), "{output:?}");
        let events = agent.events().expect("the event log");
        let created = events.iter().rfind(|event| event["event"] == "created").expect("a flow");
        assert_eq!(created["controller"], driver, "{created}");
        assert_eq!(created["rule"].as_str(), rule, "{created}");
    }
    agent.stop().expect("it ends");
}
