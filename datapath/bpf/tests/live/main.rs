//! The datapath on the running kernel, with sockets on loopback. Without root each test is skipped.
#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]
mod initial_window;
mod responses;
mod words;

use remuda_bpf::{Datapath, RememberedStart, Settings};
use remuda_wire::ToAgent;
use remuda_wire::to_agent::State;
use remuda_wire::to_datapath::encode_native;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

const PROGRAM: &str =
    "(def (Report (volatile acked 0) (volatile lost 0) (cwnd 0)) (every_us 10000))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.cwnd Cwnd)
    (fallthrough))
(when (> Micros every_us) (:= Micros 0) (report))";

const TIMEOUT: Duration = Duration::from_secs(1);
/// Long enough for a loaded machine. A wait ends as soon as its condition holds.
const PATIENCE_TURNS: u32 = 1_000;
const TURN: Duration = Duration::from_millis(5);

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid out-pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The host has one list of registered algorithms, so tests run one at a time.
fn exclusive() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn skip() -> bool {
    // SAFETY: no arguments, no failure.
    let skip = unsafe { libc::geteuid() } != 0;
    if skip {
        eprintln!("SKIPPED: needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)");
    }
    skip
}

/// A message, and the fields if it is a MEASURE.
type Heard = (ToAgent, Vec<u64>);

struct Agent {
    datapath: Datapath,
    heard: Vec<Heard>,
}

impl Agent {
    fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rt{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self::named(&name)
    }

    fn named(name: &str) -> Self {
        let settings =
            Settings { name: name.to_owned(), heartbeat_timeout: TIMEOUT, ..Settings::default() };
        let mut datapath = Datapath::load(settings, monotonic_ns()).expect("the datapath loads");
        datapath.attach().expect("the algorithm registers");
        Self { datapath, heard: Vec::new() }
    }

    fn listen(&mut self) {
        let heard = &mut self.heard;
        let now_ns = monotonic_ns();
        self.datapath.beat(now_ns);
        let mut sink = |message: &[u8]| {
            let parsed = ToAgent::parse(message).expect("our own message");
            let fields = message[16.min(message.len())..]
                .chunks_exact(8)
                .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
                .collect();
            heard.push((parsed, fields));
        };
        self.datapath.drain_messages(&mut sink);
        self.datapath.look_messages(now_ns, &mut sink).expect("the iterators run");
    }

    /// Waits until the flow's native state is `is_native`.
    fn wait_native(&mut self, sid: u32, is_native: bool) {
        for _ in 0..PATIENCE_TURNS {
            self.listen();
            if self.datapath.is_native(sid) == is_native {
                return;
            }
            thread::sleep(TURN);
        }
        panic!("flow {sid:#x}: is_native did not become {is_native}");
    }

    fn go_native(&mut self, sid: u32, name: &str) {
        let mut message = Vec::new();
        encode_native(&mut message, sid, name, 0);
        self.datapath.handle(&message).expect("the order is accepted");
        self.wait_native(sid, true);
    }

    /// Waits until `pick` returns a value for a message from index `from` of `heard` on.
    fn wait<T>(&mut self, from: usize, pick: impl Fn(&Heard) -> Option<T>) -> T {
        for _ in 0..PATIENCE_TURNS {
            self.listen();
            if let Some(found) = self.heard[from.min(self.heard.len())..].iter().find_map(&pick) {
                return found;
            }
            thread::sleep(TURN);
        }
        panic!("not heard: {:?}", &self.heard[self.heard.len().saturating_sub(5)..]);
    }

    fn install(&mut self, uid: u32, source: &str) {
        let (bin, _) = portus::lang::compile(source.as_bytes(), &[]).expect("it compiles");
        let counts = [uid, bin.events.len() as u32, bin.instrs.len() as u32];
        let mut body: Vec<u8> = counts.iter().flat_map(|w| w.to_le_bytes()).collect();
        body.extend(bin.serialize().unwrap());
        self.send(2, 0, &body).expect("the program installs");
    }

    fn send(&mut self, kind: u16, sid: u32, body: &[u8]) -> Result<(), remuda_bpf::Error> {
        let mut message = kind.to_le_bytes().to_vec();
        message.extend(u16::try_from(8 + body.len()).unwrap().to_le_bytes());
        message.extend(sid.to_le_bytes());
        message.extend(body);
        self.datapath.handle(&message)
    }

    fn set_program(&mut self, sid: u32, uid: u32, cwnd_bytes: Option<u64>) {
        let mut body = uid.to_le_bytes().to_vec();
        body.extend(u32::from(cwnd_bytes.is_some()).to_le_bytes());
        body.extend(cwnd_bytes.iter().flat_map(|cwnd| update(2, 4, *cwnd)));
        self.send(4, sid, &body).expect("the flow changes its program");
    }
}

fn update(kind: u8, index: u32, value: u64) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(index.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes
}

/// A sender that keeps a loopback connection busy until it is dropped.
struct Traffic {
    socket: TcpStream,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Traffic {
    fn start(address: &str, algorithm: &str) -> Self {
        let listener = TcpListener::bind(address).expect("a port of loopback");
        fix_segment_size(&listener);
        let stream = TcpStream::connect(listener.local_addr().unwrap()).expect("it connects");
        choose(&stream, algorithm);
        let (peer, _) = listener.accept().unwrap();
        let socket = stream.try_clone().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let send = thread::spawn(move || {
            let block = [0u8; 16_384];
            let mut stream = stream;
            while !stopped.load(Ordering::Relaxed) && stream.write_all(&block).is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        });
        let receive = thread::spawn(move || {
            let mut block = [0u8; 65_536];
            let mut peer = peer;
            while peer.read(&mut block).is_ok_and(|n| n > 0) {}
        });
        Self { socket, stop, threads: vec![send, receive] }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(Shutdown::Write);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Loopback's segment size depends on the peer's window, but tests compare windows in bytes.
fn fix_segment_size(listener: &TcpListener) {
    let bytes: libc::c_int = 1_448;
    // SAFETY: a valid integer of that size.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as u32,
        )
    };
    assert_eq!(result, 0, "TCP_MAXSEG: {}", std::io::Error::last_os_error());
}

fn choose(stream: &TcpStream, algorithm: &str) {
    // SAFETY: the name is a valid buffer of that length.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            algorithm.as_ptr().cast(),
            algorithm.len() as u32,
        )
    };
    assert_eq!(result, 0, "{algorithm}: {}", std::io::Error::last_os_error());
}

/// The socket's `TCP_CONGESTION`.
fn algorithm_of(stream: &TcpStream) -> String {
    let mut name = [0u8; 16];
    let mut length = 16;
    // SAFETY: the buffer is valid for `length`; the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &mut length,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

fn ended((message, _): &Heard) -> Option<u32> {
    match message {
        ToAgent::Measure { sid, fields: 0, .. } => Some(*sid),
        _ => None,
    }
}

fn created((message, _): &Heard) -> Option<u32> {
    match message {
        ToAgent::Create { sid, .. } => Some(*sid),
        _ => None,
    }
}

fn reported(uid: u32) -> impl Fn(&Heard) -> Option<Vec<u64>> {
    move |(message, fields)| match message {
        ToAgent::Measure { uid: from, fields: n, .. } if *from == uid && *n > 0 => {
            Some(fields.clone())
        }
        _ => None,
    }
}

fn name_of(agent: &Agent) -> String {
    let hello = agent.heard.iter().find_map(|(message, _)| match message {
        ToAgent::Hello(hello) => hello.name.split_once('/').map(|(_, name)| name.to_owned()),
        _ => None,
    });
    hello.expect("the datapath greets first")
}

/// Whether the host refuses the iterator that native arms need. If so, prints `SKIPPED`.
fn lacks_native_arms(agent: &Agent) -> bool {
    let lacks = !agent.datapath.runs_native_arms();
    if lacks {
        eprintln!("SKIPPED: this host refuses BPF iterators over a map, so it has no native arms");
    }
    lacks
}

/// An agent that has installed PROGRAM as 7, and one announced flow.
fn one_flow(address: &str) -> (Agent, Traffic, u32) {
    let mut agent = Agent::start();
    agent.listen();
    agent.install(7, PROGRAM);
    let traffic = Traffic::start(address, &name_of(&agent));
    let sid = agent.wait(0, created);
    (agent, traffic, sid)
}

#[test]
fn a_flow_is_announced_reports_obeys_and_ends() {
    let _one = exclusive();
    if skip() {
        return;
    }
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (mut agent, traffic, sid) = one_flow(address);
        let info = agent.wait(0, |(message, _)| match message {
            ToAgent::Flow { info, .. } => Some(info.clone()),
            _ => None,
        });
        assert!(info.local.0.is_loopback() && info.remote.0.is_loopback(), "{info:?}");
        assert_eq!(info.local.0.is_ipv6(), address.starts_with('['));
        agent.set_program(sid, 7, Some(1_000_000));
        let from = agent.heard.len();
        let fields = agent.wait(from, |heard| {
            reported(7)(heard).filter(|fields| fields[0] > 0 && fields[2] > 900_000)
        });
        assert!(fields[2] <= 1_000_000, "the ordered window, in whole segments: {fields:?}");
        let from = agent.heard.len();
        drop(traffic);
        agent.wait(from, |(message, _)| {
            matches!(message, ToAgent::Measure { fields: 0, .. }).then_some(())
        });
        assert!(matches!(agent.send(3, sid, &[0, 0, 0, 0]), Err(remuda_bpf::Error::NoFlow(_))));
    }
}

/// The socket's window, in segments.
fn cwnd_pkts(stream: &TcpStream) -> u32 {
    // SAFETY: all zeros is a valid value of a struct of integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as u32;
    let to = (&raw mut info).cast();
    // SAFETY: the buffer is valid for `length`; the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut length)
    };
    assert_eq!(result, 0, "TCP_INFO: {}", std::io::Error::last_os_error());
    info.tcpi_snd_cwnd
}

#[test]
fn a_flow_that_waited_for_its_agent_is_announced_as_it_stands() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let mut agent = Agent::start();
    agent.listen();
    let traffic = Traffic::start("127.0.0.1:0", &name_of(&agent));
    let grown = (0..PATIENCE_TURNS).find_map(|_| {
        thread::sleep(TURN);
        let pkts = cwnd_pkts(&traffic.socket);
        (pkts > 12).then_some(pkts)
    });
    let grown = grown.expect("it starts without the agent");
    let announced = agent.wait(0, |(message, _)| match message {
        ToAgent::Create { create, .. } => Some(create.init_cwnd_bytes / create.mss_bytes),
        _ => None,
    });
    assert!(announced >= grown, "announced with {announced} segments; the socket had {grown}");
}

#[test]
fn a_flow_changes_its_program_in_mid_flow_and_keeps_its_window() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (mut agent, _traffic, sid) = one_flow("127.0.0.1:0");
    agent.install(
        8,
        "(def (Report (volatile n 0) (cwnd 0)))
        (when true (:= Report.n (+ Report.n 1)) (:= Report.cwnd Cwnd) (fallthrough))
        (when (> Report.n 4) (report))",
    );
    agent.set_program(sid, 7, Some(1_000_000));
    let before = agent.wait(0, |h| reported(7)(h).filter(|fields| fields[2] > 900_000));
    agent.set_program(sid, 8, None);
    let after = agent.wait(0, reported(8));
    assert_eq!(after[0], 5);
    assert_eq!(after[1], before[2], "the window survives the change");
}

#[test]
fn a_late_heartbeat_falls_back_and_a_fresh_one_restores() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (mut agent, _traffic, sid) = one_flow("127.0.0.1:0");
    agent.set_program(sid, 7, Some(1_000_000));
    agent.wait(0, reported(7));
    let from = agent.heard.len();
    thread::sleep(TIMEOUT + Duration::from_millis(200));
    let state = |want| {
        move |(message, _): &Heard| match message {
            ToAgent::State { state, .. } if *state == want => Some(()),
            _ => None,
        }
    };
    agent.wait(from, state(State::FellBack));
    agent.wait(from, state(State::Restored));
    assert_eq!(agent.datapath.counters().fallbacks, 1);
    let from = agent.heard.len();
    agent.wait(from, reported(7));
}

#[test]
fn the_next_agent_adopts_what_a_dead_one_left() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (agent, _traffic, _) = one_flow("127.0.0.1:0");
    let name = name_of(&agent);
    drop(agent); // as a kill would: every descriptor closes, the flow keeps the dead ops
    let mut next = Agent::named(&name);
    assert!(next.datapath.adopt().expect("the iterator runs").changed >= 1);
    next.listen();
    next.install(7, PROGRAM);
    let sid = next.wait(0, created);
    next.set_program(sid, 7, Some(1_000_000));
    next.wait(0, |h| reported(7)(h).filter(|fields| fields[2] > 900_000));
    assert!(next.datapath.let_go().expect("the iterator runs").changed >= 1);
    let from = next.heard.len();
    next.wait(from.saturating_sub(64), |(message, _)| {
        matches!(message, ToAgent::Measure { fields: 0, .. }).then_some(())
    });
}

#[test]
fn messages_that_make_no_sense_change_nothing() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (mut agent, _traffic, sid) = one_flow("127.0.0.1:0");
    agent.set_program(sid, 7, Some(1_000_000));
    agent.wait(0, reported(7));
    let far = update(0, 100_000, u64::MAX);
    for (kind, body) in [
        (2u16, vec![]),
        (2, [7u32, u32::MAX, u32::MAX].iter().flat_map(|w| w.to_le_bytes()).collect()),
        (3, [vec![1, 0, 0, 0], far.clone()].concat()),
        (3, vec![200, 0, 0, 0]),
        (4, [vec![99, 0, 0, 0], vec![0, 0, 0, 0]].concat()),
        (0, vec![0; 88]),
        (255, vec![1, 2, 3]),
    ] {
        assert!(agent.send(kind, sid, &body).is_err(), "type {kind}");
    }
    assert!(agent.datapath.handle(&[]).is_err());
    let from = agent.heard.len();
    let fields = agent.wait(from, reported(7));
    assert!(fields[2] > 900_000, "the flow runs on as it was: {fields:?}");
}

#[test]
fn many_programs_fit_and_one_too_many_is_an_error() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let mut agent = Agent::start();
    for uid in 1..128 {
        agent.install(uid, PROGRAM);
    }
    let error = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        agent.install(128, PROGRAM);
    }));
    assert!(error.is_err(), "the 128th program is refused");
}

#[test]
fn a_flow_that_ends_under_the_kernels_own_is_missed_and_its_slot_is_free() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (mut agent, traffic, sid) = one_flow("127.0.0.1:0");
    if lacks_native_arms(&agent) {
        return;
    }
    agent.set_program(sid, 7, None);
    agent.wait(0, reported(7));
    agent.go_native(sid, "cubic");
    assert_eq!(algorithm_of(&traffic.socket), "cubic");
    let from = agent.heard.len();
    agent.wait(from, reported(7)); // the same program runs on looks
    drop(traffic);
    assert_eq!(agent.wait(from, ended), sid);
    assert!(matches!(agent.send(3, sid, &[0, 0, 0, 0]), Err(remuda_bpf::Error::NoFlow(_))));
    assert!(!agent.datapath.looks());
}

#[test]
fn what_an_application_chooses_under_the_kernels_own_stays_until_it_asks_for_us_again() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (mut agent, traffic, sid) = one_flow("127.0.0.1:0");
    if lacks_native_arms(&agent) {
        return;
    }
    let name = name_of(&agent);
    let from = agent.heard.len();
    let other_traffic = Traffic::start("127.0.0.1:0", &name);
    let other = agent.wait(from, created);
    for flow in [sid, other] {
        agent.set_program(flow, 7, None);
        agent.go_native(flow, "cubic");
    }
    let from = agent.heard.len();
    agent.wait(from, reported(7));
    choose(&traffic.socket, "reno");
    assert_eq!(agent.wait(from, ended), sid, "the datapath reports the flow as closed");
    agent.set_program(other, 7, None); // recalls `other` and leaves `sid` alone
    agent.wait_native(other, false);
    assert_eq!(algorithm_of(&other_traffic.socket), name);
    assert_eq!(algorithm_of(&traffic.socket), "reno");
    let from = agent.heard.len();
    choose(&traffic.socket, &name);
    assert_eq!(agent.wait(from, created), sid, "the flow is announced again");
    let from = agent.heard.len();
    agent.set_program(sid, 7, Some(1_000_000));
    agent.wait(from, |h| reported(7)(h).filter(|fields| fields[2] > 900_000));
    let from = agent.heard.len();
    drop(traffic);
    assert_eq!(agent.wait(from, ended), sid);
}

/// While the agent orders a kernel algorithm, the application cannot set the flow back to ours.
#[test]
fn a_flow_that_asks_for_us_while_it_is_to_run_the_kernels_own_goes_there_again() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (mut agent, traffic, sid) = one_flow("127.0.0.1:0");
    if lacks_native_arms(&agent) {
        return;
    }
    agent.set_program(sid, 7, None);
    agent.go_native(sid, "cubic");
    choose(&traffic.socket, &name_of(&agent));
    agent.wait_native(sid, true);
    let from = agent.heard.len();
    agent.wait(from, reported(7));
    assert!(agent.heard[from..].iter().all(|heard| ended(heard).is_none()));
    for _ in 0..PATIENCE_TURNS {
        if algorithm_of(&traffic.socket) == "cubic" {
            return;
        }
        thread::sleep(TURN);
    }
    panic!("the flow runs {}", algorithm_of(&traffic.socket));
}

#[test]
fn our_own_name_is_no_algorithm_of_the_kernels_own() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (mut agent, _traffic, sid) = one_flow("127.0.0.1:0");
    agent.set_program(sid, 7, None);
    let mut message = Vec::new();
    encode_native(&mut message, sid, &name_of(&agent), 0);
    let error = agent.datapath.handle(&message).expect_err("refused");
    assert!(error.to_string().contains("is the name of an agent"), "{error}");
}

/// The network around `address` whose prefix is `fewer_bits` shorter than an address.
fn around(address: &str, fewer_bits: u8) -> (Ipv6Addr, u8) {
    let socket: std::net::SocketAddr = address.parse().unwrap();
    let bits = 128 - fewer_bits;
    let mask = u128::MAX << fewer_bits;
    let whole = match socket.ip() {
        IpAddr::V4(it) => it.to_ipv6_mapped(),
        IpAddr::V6(it) => it,
    };
    (Ipv6Addr::from_bits(whole.to_bits() & mask), bits)
}

/// Its total is not reset by a report, and its window is one that no other part of the test sets.
const COUNTS: &str = "(def (Report (volatile acked 0) (total 0)) (every_us 2000))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.total (+ Report.total Ack.bytes_acked))
    (:= Cwnd 11584000)
    (fallthrough))
(when (> Micros every_us) (:= Micros 0) (report))";

#[test]
fn a_flow_begins_as_its_destination_is_remembered_and_obeys_from_the_first_word_on() {
    let _one = exclusive();
    if skip() {
        return;
    }
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut agent = Agent::start();
        agent.listen();
        agent.install(7, COUNTS);
        agent.install(8, COUNTS);
        let beginning = RememberedStart { program_uid: Some(7), initial_cwnd_pkts: 33 };
        agent.datapath.set_destination(around(address, 8), beginning).expect("it is set");
        let traffic = Traffic::start(address, &name_of(&agent));
        assert!((33..1_000).contains(&cwnd_pkts(&traffic.socket)), "Reno may have grown it");
        let fields = agent.wait(0, reported(7));
        assert!(fields[1] > 0, "the program measures before the agent's first order: {fields:?}");
        let sid = agent.wait(0, created);
        assert!(cwnd_pkts(&traffic.socket) < 8_000, "the program does not set the window yet");
        assert!(agent.datapath.counters().remembered >= 1);
        let before = agent.wait(agent.heard.len(), reported(7))[1];
        agent.set_program(sid, 7, None);
        let from = agent.heard.len();
        agent.wait(from, |heard| reported(7)(heard).filter(|_| heard.1[1] > before));
        for _ in 0..PATIENCE_TURNS {
            if cwnd_pkts(&traffic.socket) >= 8_000 {
                break;
            }
            thread::sleep(TURN);
        }
        // 8000 segments of 1448 bytes, less what options take of each.
        assert!((8_000..8_100).contains(&cwnd_pkts(&traffic.socket)), "now it sets the window");
        let restarted = |heard: &&Heard| reported(7)(heard).is_some_and(|it| it[1] < before);
        assert!(!agent.heard[from..].iter().any(|heard| restarted(&heard)), "the total grows on");
        agent.wait(from, |heard| reported(7)(heard).filter(|_| heard.1[1] > 5_000_000));
        agent.set_program(sid, 8, None);
        let total = agent.wait(from, reported(8))[1];
        assert!(total < 2_500_000, "another program counts anew: {total}");
        let fell_back = |(message, _): &Heard| matches!(message, ToAgent::State { .. });
        assert!(!agent.heard.iter().any(fell_back), "a flow without a program does not fall back");
    }
}
