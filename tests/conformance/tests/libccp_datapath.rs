//! Our agent drives a datapath built on the unmodified `libccp` crate: a flow runs `reno`, `cubic`
//! and `bbr`, its window changes as the agent decides, and the flow closes cleanly. So does a flow
//! whose datapath speaks netlink as ccp-kernel does.

use ccp_agent::config::{AgentConfig, Config};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::counts::Counts;
use ccp_agent::events::EventLog;
use ccp_agent::host::Host;
use ccp_agent::ipc::Datapaths;
use ccp_agent::ipc::NetlinkEnd;
use ccp_agent::run_dir::{datapath_socket, event_log};
use ccp_agent::run_loop::RunLoop;
use remuda_conformance::skip;
use remuda_conformance::transport::Transport;
use remuda_wire::to_agent::{Create, encode_measure, encode_ready};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tempfile::TempDir;

/// Bottleneck rate in bytes per second, and lifetime of a flow in milliseconds.
const RATE: u64 = 3_000_000;
const MS: u64 = 3_000;
const TURNS: u32 = 500;
const TURN: Duration = Duration::from_millis(10);

/// The agent, in this process, without BPF.
struct Agent {
    folder: TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ccp_agent::Error>>>,
}

impl Agent {
    fn start(arm: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let stop = Arc::new(AtomicBool::new(false));
        let agent = AgentConfig {
            default: arm.to_owned(),
            run_dir: folder.path().join("run"),
            bpf: false,
            ..AgentConfig::default()
        };
        let config = Config { agent, ..Config::default() };
        let stopped = Arc::clone(&stop);
        let run = move || ccp_agent::agent::run_until(config, stopped, || ()).map(drop);
        let agent = Self { folder, stop, thread: Some(thread::spawn(run)) };
        for turn in 0..TURNS {
            if ask(&agent.run_dir(), &Request::Status {}).is_ok() {
                break;
            }
            assert!(turn + 1 < TURNS, "the agent comes up");
            thread::sleep(TURN);
        }
        agent
    }

    fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn flows(&self) -> Vec<ccp_agent::flow::Row> {
        match ask(&self.run_dir(), &Request::Flows {}).expect("the agent answers") {
            Answer::Flows { flows, .. } => flows,
            other => panic!("{other:?}"),
        }
    }

    fn counts(&self) -> Counts {
        match ask(&self.run_dir(), &Request::Status {}).expect("the agent answers") {
            Answer::Status(status) => status.counts,
            other => panic!("{other:?}"),
        }
    }

    /// Stops the agent and returns its event log.
    fn stop(mut self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("it runs").join().expect("it does not panic");
        ended.expect("it ends as it should");
        std::fs::read_to_string(event_log(&self.run_dir())).expect("the event log")
    }
}

/// Runs the peer's flow to its end and returns the peer's counts.
fn peer(transport: &[&OsStr]) -> HashMap<String, u64> {
    let out = Command::new(env!("CARGO_BIN_EXE_remuda-libccp-peer"))
        .args(["--ms", &MS.to_string(), "--rate", &RATE.to_string()])
        .args(transport)
        .output()
        .expect("the peer runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}: {said}", out.status);
    assert!(said.is_empty(), "{said}");
    let line = String::from_utf8_lossy(&out.stdout).into_owned();
    println!("{}", line.trim());
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').expect("key=value");
        (key.to_owned(), value.parse().expect("a number"))
    };
    line.split_whitespace().map(pair).collect()
}

/// Runs a flow under an arm, from its start to its end, and returns the peer's counts.
fn drive(arm: &str) -> HashMap<String, u64> {
    let agent = Agent::start(arm);
    let (own, socket) = (agent.folder.path().join("libccp"), datapath_socket(&agent.run_dir()));
    let transport = ["--agent".as_ref(), socket.as_os_str(), "--own".as_ref(), own.as_os_str()];
    let watched = thread::scope(|scope| {
        let running = scope.spawn(|| peer(&transport));
        let mut seen = None;
        while !running.is_finished() {
            if let Some(row) = agent.flows().into_iter().next() {
                seen = Some(row);
            }
            thread::sleep(TURN);
        }
        (running.join().expect("the peer's flow"), seen)
    });
    let (counted, seen) = watched;
    let row = seen.expect("the agent lists the flow while it lives");
    assert_eq!((row.arm.as_str(), row.state.as_str()), (arm, "driven"));
    assert!(row.reports > 20 && row.datapath.ends_with("libccp"), "{row:?}");
    for turn in 0..TURNS {
        if agent.flows().is_empty() {
            break;
        }
        assert!(turn + 1 < TURNS, "the flow's end is heard of");
        thread::sleep(TURN);
    }
    let counts = agent.counts();
    assert_eq!((counts.created, counts.closed, counts.refused), (1, 1, 0), "{counts:?}");
    assert!(counts.reports.abs_diff(counted["reports"]) <= 1, "every report is taken in");
    let events = agent.stop();
    assert!(events.contains("\"event\":\"closed\""), "{events}");
    assert!(!events.contains("\"event\":\"refused\""), "{events}");
    counted
}

/// The checks for all arms: libccp set the windows that the agent decided, and the path is used.
fn assert_driven(counted: &HashMap<String, u64>) {
    assert_eq!((counted["mismatched"], counted["errors"]), (0, 0), "{counted:?}");
    let all = ccp_agent::programs::installs().expect("the arms' programs").count() as u64;
    assert_eq!(counted["programs"], all, "libccp has room for the programs: {counted:?}");
    assert!(counted["applied"] > 20, "{counted:?}");
    let most = RATE * MS / 1_000;
    assert!(counted["acked_bytes"] * 100 > most * 40, "{counted:?} of {most}");
}

#[test]
fn reno_on_libccp() {
    let counted = drive("reno");
    assert_driven(&counted);
    assert!(counted["lost_pkts"] > 0 && counted["reductions"] > 0, "{counted:?}");
}

#[test]
fn cubic_on_libccp() {
    let counted = drive("cubic");
    assert_driven(&counted);
    assert!(counted["reductions"] > 0, "{counted:?}");
}

#[test]
fn bbr_on_libccp() {
    let counted = drive("bbr");
    assert_driven(&counted);
    let rate = counted["rate"];
    assert!(rate > RATE / 2 && rate < RATE * 4, "bbr paces at {rate} of {RATE}");
}

/// The netlink ports of the peer on libccp, and of somebody else.
const PEER: u32 = 0x4000_0001;
const STRANGER: u32 = 0x4000_0002;

/// A datapath's start, and the end and the start of the peer's one flow.
fn forged() -> [Vec<u8>; 3] {
    let mut all: [Vec<u8>; 3] = Default::default();
    let [ready, close, create] = &mut all;
    encode_ready(ready, 0);
    encode_measure(close, 1, 0, &[]);
    Create { init_cwnd_bytes: 1_448, mss_bytes: 1_448, ..Create::default() }.encode(create, 1);
    all
}

/// Runs the peer's flow by netlink under the agent's run loop. While it runs, a stranger multicasts
/// forged messages. Returns the peer's counts and the flow as the agent last listed it.
fn drive_by_netlink(host: &Mutex<Host>) -> (HashMap<String, u64>, Option<ccp_agent::flow::Row>) {
    let netlink = Some(NetlinkEnd::with_peer(PEER).expect("it joins the group"));
    let datapaths = Datapaths { netlink, ..Datapaths::default() };
    let stranger = Transport::netlink(STRANGER).expect("every Linux has it");
    let (stop, forged) = (AtomicBool::new(false), forged());
    let port = PEER.to_string();
    thread::scope(|scope| {
        let run_loop = RunLoop::new(datapaths, host).expect("there are descriptors");
        scope.spawn(|| run_loop.run(&stop, || ()));
        let running = scope.spawn(|| peer(&["--netlink".as_ref(), port.as_ref()]));
        let mut seen = None;
        while !running.is_finished() {
            if let Some(row) = host.lock().expect("no panic").rows().into_iter().next() {
                seen = Some(row);
                forged.iter().for_each(|it| stranger.send(it).expect("the group is there"));
            }
            thread::sleep(TURN);
        }
        thread::sleep(Duration::from_millis(500)); // the agent looks at its refusals
        stop.store(true, Ordering::Relaxed);
        (running.join().expect("the peer's flow"), seen)
    })
}

#[test]
fn cubic_on_libccp_by_netlink_as_ccp_kernel_and_a_stranger_changes_nothing() {
    if skip() {
        return;
    }
    // Another agent or module of this host is on the same group of its own network namespace.
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "root may");
    let folder = TempDir::new().expect("a folder");
    let log = folder.path().join("events.jsonl");
    let events = EventLog::open(&log, 1 << 20).expect("a log");
    let agent = AgentConfig { default: "cubic".to_owned(), ..AgentConfig::default() };
    let config = Config { agent, ..Config::default() };
    let host = Mutex::new(Host::new(config, Box::new(events)));
    let (counted, seen) = drive_by_netlink(&host);
    assert_driven(&counted);
    assert!(counted["reductions"] > 0, "{counted:?}");
    let row = seen.expect("the agent lists the flow while it lives");
    assert_eq!((row.arm.as_str(), row.datapath.as_str()), ("cubic", "netlink"), "not reno");
    assert_eq!((row.id, row.remote.as_str()), (1, "10.0.0.2:443"), "in host order");
    let Counts { created, closed, refused, .. } = host.lock().expect("no panic").counts;
    assert_eq!((created, closed), (1, 1), "the stranger's messages started and ended nothing");
    let said = std::fs::read_to_string(log).expect("the event log");
    let of_stranger = format!("messages of other senders, the last of netlink port {STRANGER}");
    assert_eq!(said.matches(&of_stranger).count() as u64, refused, "{said}");
    assert!(refused > 0 && !said.contains("datapath_lost"), "{said}");
}
