//! Another user of the host takes a share of the flows, of the event log and of what is learned,
//! and leaves the rest to the others.

use ccp_agent::admission::RefusedRow;
use ccp_agent::child::AgentChild;
use ccp_agent::config::Config;
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::host::NotLearned;
use remuda_live::transfer::{algorithm, set_algorithm};
use remuda_selector::antelope::memory::{Row, WhyNot};
use remuda_tests::believer::with_believer;
use remuda_tests::other_user::{
    UID, add_to_loopback, as_other_user, as_user, enter_new_namespace, in_own_user_namespace,
};
use remuda_tests::{Place, binary, exclusive, skip, wait_for};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::Duration;

const SLOTS: usize = 64;
/// A busy machine takes this long at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// An address that leads nowhere on this host (RFC 5737).
const MADE_UP: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

fn agent(place: &Place, more: &str) -> AgentChild {
    let text = format!("[agent]\nflows_max = {SLOTS}\n{more}");
    let config = place.file("config.toml", &text);
    place.agent(&["--config", config.to_str().expect("a path"), "--arm", "cubic"])
}

fn algorithm_of(stream: &TcpStream) -> String {
    algorithm(stream.as_raw_fd()).expect("an open socket")
}

/// Both ends of a connection over loopback. The connecting end asks for `name`.
fn connect(listener: &TcpListener, name: &str) -> (TcpStream, TcpStream) {
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("it connects");
    set_algorithm(near.as_raw_fd(), name).expect("any user may ask");
    (near, listener.accept().expect("it accepts").0)
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port of loopback")
}

/// `count` connections of that user, and how many of them run `name`.
fn open(uid: u32, name: &str, count: usize) -> (Vec<(TcpStream, TcpStream)>, usize) {
    let work = || {
        let listener = listen();
        (0..count).map(|_| connect(&listener, name)).collect::<Vec<_>>()
    };
    let connections = if uid == 0 { work() } else { as_user(uid, work) };
    let ours = connections.iter().filter(|(near, _)| algorithm_of(near) == name).count();
    (connections, ours)
}

fn refused(agent: &AgentChild) -> Vec<RefusedRow> {
    match ask(agent.run_dir(), &Request::Flows {}).expect("it answers") {
        Answer::Flows { refused, .. } => refused,
        other => panic!("{other:?}"),
    }
}

fn wait_for_flows(agent: &AgentChild, count: usize) {
    wait_for(&format!("{count} flows"), PATIENCE, || {
        agent.flows().expect("it answers").len() == count
    });
}

fn events(agent: &AgentChild, name: &str) -> Vec<serde_json::Value> {
    let events = agent.events().expect("the event log");
    events.into_iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn a_user_has_half_of_the_slots_that_others_leave_and_gets_them_back() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = agent(&place, "");
    let (hoard, ours) = open(UID, &place.name, 2 * SLOTS);
    assert_eq!(ours, SLOTS / 2, "half of all");
    let other = hoard.iter().map(|(near, _)| algorithm_of(near)).find(|it| *it != place.name);
    assert_eq!(other.as_deref(), Some("cubic"), "refused sockets run the kernel's own algorithm");
    let (next, ours) = open(UID - 1, &place.name, SLOTS);
    assert_eq!(ours, SLOTS / 4, "the next user has half of the rest");
    let (root, ours) = open(0, &place.name, SLOTS / 4);
    assert_eq!(ours, SLOTS / 4, "root is held to no share");
    wait_for_flows(&agent, SLOTS);
    wait_for("what the table of flows says", PATIENCE, || !refused(&agent).is_empty());
    wait_for("all refusals", PATIENCE, || {
        refused(&agent).iter().map(|row| row.sockets as usize).sum::<usize>()
            == 2 * SLOTS - SLOTS / 2 + SLOTS - SLOTS / 4
    });
    let rows = refused(&agent);
    let first = rows.iter().find(|row| row.uid == UID).expect("a row");
    assert!(first.reason.contains("admission.user_percent"), "{first:?}");
    assert_eq!(first.sockets as usize, 2 * SLOTS - SLOTS / 2);
    let mut command = Command::new(binary());
    let output = command.arg("flows").arg("--refused").arg("--run-dir").arg(place.run_dir());
    let output = output.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in ["nobody (65534)", "admission.user_percent", "96", "144 sockets were refused"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    wait_for("the event", PATIENCE, || {
        events(&agent, "sockets_refused").iter().any(|event| event["uid"] == UID)
    });
    agent.kill().expect("kill -9");
    let agent = self::agent(&place, "");
    wait_for_flows(&agent, SLOTS);
    assert_eq!(refused(&agent), [], "the next agent has room for each flow of the former one");
    for connections in [hoard, next, root] {
        drop(connections);
    }
    wait_for_flows(&agent, 0);
    for _ in 0..3 {
        let (again, ours) = open(UID, &place.name, SLOTS);
        assert_eq!(ours, SLOTS / 2, "every slot is given back, each time");
        drop(again);
        wait_for_flows(&agent, 0);
    }
    agent.stop().expect("it ends");
}

#[test]
fn connections_that_a_listener_accepts_count_for_its_owner() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = agent(&place, "");
    let listener = as_other_user(|| {
        let listener = listen();
        set_algorithm(listener.as_raw_fd(), &place.name).expect("any user may ask");
        listener
    });
    let to = listener.local_addr().expect("an address");
    let mut pairs = Vec::new();
    for _ in 0..SLOTS {
        // Root connects and accepts; the connection counts for the listener's owner.
        let near = TcpStream::connect(to).expect("it connects");
        pairs.push((near, listener.accept().expect("it accepts").0));
    }
    let ours = pairs.iter().filter(|(_, far)| algorithm_of(far) == place.name).count();
    assert_eq!(ours, SLOTS / 2);
    wait_for_flows(&agent, SLOTS / 2);
    let rows = agent.flows().expect("it answers");
    assert!(rows.iter().all(|row| row.uid == UID), "{rows:?}");
    agent.stop().expect("it ends");
}

#[test]
fn a_full_table_is_an_event_and_the_socket_runs_the_kernels_own_algorithm() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = agent(&place, "");
    let (_held, ours) = open(0, &place.name, SLOTS + 3);
    assert_eq!(ours, SLOTS);
    wait_for("the event", PATIENCE, || !events(&agent, "table_full").is_empty());
    let full = &events(&agent, "table_full")[0];
    assert_eq!(full["flows_max"], SLOTS);
    wait_for("who was refused", PATIENCE, || {
        refused(&agent).iter().any(|row| row.uid == 0 && row.reason.contains("flows_max"))
    });
    agent.stop().expect("it ends");
}

#[test]
fn a_name_that_is_restricted_takes_root_and_the_users_it_names() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = agent(&place, &format!("[admission]\nusers = ['{}']\n", UID - 1));
    for (uid, want) in [(UID, 0), (UID - 1, 4), (0, 4)] {
        let (_held, ours) = open(uid, &place.name, 4);
        assert_eq!(ours, want, "uid {uid}");
    }
    wait_for("who was refused", PATIENCE, || {
        let rows = refused(&agent);
        rows.iter().any(|row| row.uid == UID && row.reason.contains("admission.users"))
    });
    assert!(refused(&agent).iter().all(|row| row.uid == UID));
    agent.stop().expect("it ends");
}

#[test]
fn a_users_churn_leaves_the_log_to_others() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = agent(&place, "");
    // A slow agent does not see every flow that lasts so shortly.
    wait_for("what was left out", PATIENCE, || {
        as_other_user(|| {
            let listener = listen();
            (0..500).for_each(|_| drop(connect(&listener, &place.name)));
        });
        !events(&agent, "events_left_out").is_empty()
    });
    let (held, ours) = open(0, &place.name, 10);
    assert_eq!(ours, 10, "{:?}", refused(&agent));
    wait_for_flows(&agent, 10);
    drop(held);
    wait_for_flows(&agent, 0);
    let created = events(&agent, "created");
    let of = |uid: u32| created.iter().filter(|event| event["uid"] == uid).count();
    assert_eq!(of(0), 10, "root's events are all there");
    let lines = of(UID) + events(&agent, "closed").len();
    // 2,000 at once, 20 a second, and root's own ten.
    assert!(lines < 2_000 + 20 * 60, "{lines} lines");
    // One line a while: a slow agent says of flows in another line that they came than that they
    // went.
    let left_out = || events(&agent, "events_left_out");
    assert!(left_out().iter().all(|event| event["uid"] == UID), "{:?}", left_out());
    let count = |name: &str| {
        left_out().iter().filter_map(|event| event["events"][name].as_u64()).sum::<u64>()
    };
    wait_for("both kinds of lines", PATIENCE, || count("created") > 0 && count("closed") > 0);
    agent.stop().expect("it ends");
}

/// A window with which no kernel would begin.
const PKTS: u32 = 37;

/// Runs `work` beside an agent that believes the users in `trusted`.
fn with_trusting_agent(place: &Place, trusted: &[u32], work: impl FnOnce() + Send) {
    let configure = |config: &mut Config| {
        config.memory.initial_cwnd_pkts = PKTS;
        config.learning.trusted_users = trusted.iter().map(u32::to_string).collect();
    };
    with_believer(place, configure, work);
}

/// Loopback's segments are as long as the peer's first receive window, which bounds an initial
/// window.
fn fix_segment_size(listener: &TcpListener) {
    let bytes: libc::c_int = 1_448;
    let (fd, value) = (listener.as_raw_fd(), (&raw const bytes).cast());
    let length = size_of::<libc::c_int>() as u32;
    // SAFETY: a valid integer of that length.
    let done = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, value, length) };
    assert_eq!(done, 0, "TCP_MAXSEG: {}", std::io::Error::last_os_error());
}

/// Sends data to [`MADE_UP`], an address of the caller's namespace. Returns the window with which
/// the sender began.
fn send_to_made_up(name: &str) -> u32 {
    let listener = TcpListener::bind((MADE_UP, 0)).expect("the address is there");
    fix_segment_size(&listener);
    set_algorithm(listener.as_raw_fd(), name).expect("any user may ask");
    let to: SocketAddr = listener.local_addr().expect("an address");
    let mut receiver = TcpStream::connect(to).expect("it connects");
    let (mut sender, _) = listener.accept().expect("it accepts");
    let began_with = cwnd_pkts(&sender);
    for _ in 0..10 {
        sender.write_all(&[7; 50_000]).expect("it sends");
        receiver.read_exact(&mut [0; 50_000]).expect("it arrives");
        thread::sleep(Duration::from_millis(5));
    }
    began_with
}

fn cwnd_pkts(stream: &TcpStream) -> u32 {
    // SAFETY: all zeros is a valid value of a struct of integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as u32;
    let (fd, to) = (stream.as_raw_fd(), (&raw mut info).cast());
    // SAFETY: the buffer is valid for `length`; the kernel writes no more.
    let result =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut length) };
    assert_eq!(result, 0, "TCP_INFO: {}", std::io::Error::last_os_error());
    info.tcpi_snd_cwnd
}

fn memory(place: &Place) -> (Vec<Row>, NotLearned) {
    match ask(&place.run_dir(), &Request::Memory {}).expect("it answers") {
        Answer::Memory { destinations, not_learned } => (destinations, not_learned),
        other => panic!("{other:?}"),
    }
}

/// Runs `work` as root, in a network namespace that root has made and that has the address.
fn in_container<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            enter_new_namespace();
            add_to_loopback(MADE_UP);
            work()
        });
        worker.join().expect("it ends well")
    })
}

#[test]
fn a_user_in_its_own_user_namespace_teaches_nothing_and_is_counted() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    with_trusting_agent(&place, &[], || {
        for _ in 0..3 {
            let done = in_own_user_namespace(MADE_UP, || send_to_made_up(&place.name) != PKTS);
            assert!(done, "the flow runs and begins as the kernel has it");
        }
        wait_for("the count", PATIENCE, || {
            let (_, not_learned) = memory(&place);
            not_learned
                .destinations
                .iter()
                .any(|row| (row.uid, row.why) == (UID, WhyNot::Untrusted) && row.count >= 3)
        });
        assert_eq!(memory(&place).0, [], "nothing is remembered");
        let mut command = Command::new(binary());
        let command = command.arg("memory").arg("--run-dir").arg(place.run_dir());
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("findings of flows of user nobody (65534)"), "{text}");
    });
}

#[test]
fn what_a_container_of_root_teaches_holds_for_that_container_alone() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    with_trusting_agent(&place, &[], || {
        in_container(|| {
            assert_ne!(send_to_made_up(&place.name), PKTS, "nothing is known");
            wait_for("what one flow taught", PATIENCE, || {
                memory(&place).0.len() == 2 && send_to_made_up(&place.name) == PKTS
            });
        });
        assert!(memory(&place).0.iter().all(|row| row.netns != 0));
        let elsewhere = in_container(|| send_to_made_up(&place.name));
        assert_ne!(elsewhere, PKTS, "the same address of another namespace is another one");
        let done = in_own_user_namespace(MADE_UP, || send_to_made_up(&place.name) != PKTS);
        assert!(done, "and of a namespace that a user has made");
    });
}

#[test]
fn a_user_that_the_configuration_names_teaches_its_own_namespace() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    with_trusting_agent(&place, &[UID], || {
        let done = in_own_user_namespace(MADE_UP, || {
            let first = send_to_made_up(&place.name);
            let began = |_| {
                thread::sleep(Duration::from_millis(100));
                send_to_made_up(&place.name)
            };
            first != PKTS && (0..100).map(began).any(|pkts| pkts == PKTS)
        });
        assert!(done, "the next flow there begins as remembered");
        let rows = memory(&place).0;
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows.iter().all(|row| row.netns != 0 && row.uid == UID), "{rows:?}");
        let container = in_container(|| send_to_made_up(&place.name));
        assert_ne!(container, PKTS, "nobody else gets it");
    });
}
