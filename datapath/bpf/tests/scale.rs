//! More flows than a table of the default size holds, and a full table. Without root each test
//! prints `SKIPPED`.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use remuda_bpf::slots::split;
use remuda_bpf::{Datapath, Error, Settings};
use remuda_wire::ToAgent;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

const FLOWS_MAX: u32 = 20_000;
const DESCRIPTORS: u64 = 14_000;
/// More events than the lifecycle ring holds: it has 512 KiB, and an event takes 32 bytes.
const EVENTS_BEYOND_THE_RING: usize = 17_000;
const TURN: Duration = Duration::from_millis(5);
const PATIENCE_TURNS: u32 = 1_000;

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid out-pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn succeeded(what: &str, result: libc::c_int) {
    assert_eq!(result, 0, "{what}: {}", io::Error::last_os_error());
}

fn set<T>(socket: &impl AsRawFd, level: libc::c_int, option: libc::c_int, value: &T) {
    let length = size_of::<T>() as u32;
    // SAFETY: a valid value of that length.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), length)
    };
    succeeded("setsockopt", result);
}

/// Moves this thread to a network namespace of its own, whose loopback is up.
fn enter_own_namespace() {
    // SAFETY: changes this thread only.
    succeeded("unshare", unsafe { libc::unshare(libc::CLONE_NEWNET) });
    // SAFETY: a plain socket.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
    // SAFETY: all zeros is a value of this struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: an open socket, and a valid request with a terminated name.
    succeeded("lo up", unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request) });
    // SAFETY: opened above, closed once.
    unsafe { libc::close(socket) };
}

/// Raises the limit of open files to `DESCRIPTORS`, which must be within the hard limit.
fn allow_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid out-pointer.
    succeeded("getrlimit", unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) });
    assert!(limit.rlim_max >= DESCRIPTORS, "fix: ulimit -Hn {DESCRIPTORS}");
    limit.rlim_cur = limit.rlim_cur.max(DESCRIPTORS);
    // SAFETY: a valid value.
    succeeded("setrlimit", unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) });
}

/// Runs the test in a thread with a network namespace of its own. The host has one list of
/// registered algorithms, so tests run one at a time.
fn in_own_namespace(test: impl FnOnce() + Send) {
    static LOCK: Mutex<()> = Mutex::new(());
    let _one: MutexGuard<'_, ()> = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: no arguments, no failure.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED: needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN)");
        return;
    }
    allow_descriptors();
    let work = || {
        enter_own_namespace();
        test();
    };
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    });
}

/// Connections to one listener. The connecting ends run the datapath's algorithm. The accepted ends
/// are closed at once, so that they need no descriptors.
struct Connections {
    listener: TcpListener,
    algorithm: String,
    open: Vec<TcpStream>,
}

impl Connections {
    fn new(algorithm: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { listener, algorithm: algorithm.to_owned(), open: Vec::new() }
    }

    fn open(&mut self, count: usize) {
        // Closing then resets the connection, so no port stays in TIME_WAIT.
        let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
        let mut name = [0u8; 16];
        name[..self.algorithm.len()].copy_from_slice(self.algorithm.as_bytes());
        for _ in 0..count {
            let stream = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            set(&stream, libc::SOL_SOCKET, libc::SO_LINGER, &at_once);
            set(&stream, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &name);
            drop(self.listener.accept().unwrap());
            self.open.push(stream);
        }
    }

    fn close(&mut self) {
        self.open.clear();
    }

    fn ports(&self) -> HashSet<u16> {
        self.open.iter().map(|stream| stream.local_addr().unwrap().port()).collect()
    }
}

struct Agent {
    datapath: Datapath,
    name: String,
    /// The local port of each announced flow that has not ended, by sid.
    live: HashMap<u32, u16>,
    started: usize,
    ended: usize,
    flows_max_told: Option<u32>,
}

impl Agent {
    fn start(flows_max: u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rs{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let settings = Settings {
            name: name.clone(),
            heartbeat_timeout: Duration::from_secs(60),
            flows_max,
            ..Settings::default()
        };
        let mut datapath = Datapath::load(settings, monotonic_ns()).expect("the datapath loads");
        datapath.attach().expect("the algorithm registers");
        let live = HashMap::new();
        Self { datapath, name, live, started: 0, ended: 0, flows_max_told: None }
    }

    /// Drains the datapath, and reconciles if `reconciles`. Returns whether the caller should call
    /// again at once.
    fn listen(&mut self, reconciles: bool) -> bool {
        let Self { datapath, live, started, ended, flows_max_told, .. } = self;
        let mut sink = |message: &[u8]| match ToAgent::parse(message).expect("our own message") {
            ToAgent::Hello(hello) => *flows_max_told = Some(hello.flows_max),
            ToAgent::Flow { sid, info } => {
                assert_eq!(live.insert(sid, info.local.1), None, "announced twice");
                *started += 1;
            }
            ToAgent::Measure { sid, fields: 0, .. } => {
                live.remove(&sid).expect("it was announced");
                *ended += 1;
            }
            _ => {}
        };
        let more = datapath.drain_messages(&mut sink) > 0;
        let more = reconciles && datapath.reconcile_messages(&mut sink) || more;
        datapath.beat(monotonic_ns());
        more
    }

    /// Waits until the flows with these local ports, and no others, are live.
    fn wait_for(&mut self, ports: &HashSet<u16>, reconciles: bool) {
        for _ in 0..PATIENCE_TURNS {
            while self.listen(reconciles) {}
            if self.live.len() == ports.len() {
                let live: HashSet<u16> = self.live.values().copied().collect();
                assert_eq!(&live, ports);
                return;
            }
            thread::sleep(TURN);
        }
        panic!("{} flows are live, not {}", self.live.len(), ports.len());
    }
}

#[test]
fn flows_beyond_8192_are_announced_and_closed_each() {
    in_own_namespace(|| {
        let mut agent = Agent::start(FLOWS_MAX);
        let mut connections = Connections::new(&agent.name);
        let count = 12_000;
        for _ in 0..count / 500 {
            connections.open(500);
            while agent.listen(false) {}
        }
        agent.wait_for(&connections.ports(), false);
        assert_eq!(agent.flows_max_told, Some(FLOWS_MAX), "HELLO");
        assert!(agent.live.keys().all(|sid| agent.datapath.applied_ns(*sid) == 0));
        let slots: HashSet<usize> = agent.live.keys().map(|sid| split(*sid).0).collect();
        assert_eq!(slots, (0..count).collect(), "slots that never had a flow are used first");
        assert_eq!(agent.datapath.counters().table_full, 0);
        while let Some(last) = connections.open.pop() {
            drop(last);
            if connections.open.len().is_multiple_of(500) {
                while agent.listen(false) {}
            }
        }
        agent.wait_for(&HashSet::new(), false);
        assert_eq!((agent.started, agent.ended), (count, count));
        assert_eq!(agent.datapath.counters().lost_events, 0);
    });
}

#[test]
fn flows_whose_events_the_ring_has_lost_are_found() {
    in_own_namespace(|| {
        let mut agent = Agent::start(FLOWS_MAX);
        let mut connections = Connections::new(&agent.name);
        let fill_the_ring = |connections: &mut Connections| {
            for _ in 0..EVENTS_BEYOND_THE_RING / 1_000 {
                connections.open(500);
                connections.open.truncate(connections.open.len() - 500);
            }
        };
        fill_the_ring(&mut connections);
        assert!(agent.datapath.counters().lost_events > 0);
        connections.open(600);
        agent.wait_for(&connections.ports(), true);
        fill_the_ring(&mut connections);
        connections.close();
        agent.wait_for(&HashSet::new(), true);
        assert_eq!(agent.started, agent.ended);
    });
}

#[test]
fn a_full_table_refuses_a_flow_and_takes_the_next_when_one_has_ended() {
    in_own_namespace(|| {
        let mut agent = Agent::start(3);
        let mut connections = Connections::new(&agent.name);
        connections.open(3);
        let ports = connections.ports();
        agent.wait_for(&ports, false);
        connections.open(1);
        agent.wait_for(&ports, false);
        assert_eq!(agent.datapath.counters().table_full, 1);
        connections.open.remove(3);
        connections.open.remove(1);
        agent.wait_for(&connections.ports(), false);
        connections.open(1);
        agent.wait_for(&connections.ports(), false);
        assert_eq!(agent.datapath.counters().table_full, 1);
        let generations: HashSet<_> = agent.live.keys().map(|sid| split(*sid)).collect();
        assert_eq!(generations, HashSet::from([(0, 1), (1, 2), (2, 1)]));
        assert_eq!(agent.datapath.applied_ns(3 | 1 << 17), 0, "beyond the table");
    });
}

#[test]
fn a_table_of_no_or_too_many_flows_is_refused_by_the_limit() {
    for flows_max in [0, 100_001, u32::MAX] {
        let settings = Settings { flows_max, ..Settings::default() };
        let error = Datapath::load(settings, 0).err().expect("it is refused");
        assert!(matches!(error, Error::FlowsMax(_) | Error::NoBtf(_)), "{error}");
        let want = format!("flows_max = {flows_max}: it must lie in 1..=100000");
        assert!(error.to_string() == want || matches!(error, Error::NoBtf(_)), "{error}");
    }
}
