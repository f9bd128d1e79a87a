//! An unmodified portus agent drives one of our datapaths, and a hostile message costs only itself.
//!
//! The agent is a `portus::RunBuilder` with an AIMD algorithm (`remuda_conformance::aimd`). The
//! datapath is the VM's, behind a unix datagram socket; it sends all its messages, including the
//! types that CCP does not know.

use ccp_agent::clock;
use portus::ipc::{BackendBuilder, Blocking, unix};
use portus::{CCPHandle, RunBuilder};
use remuda_conformance::aimd::{Aimd, INITIAL_PKTS, Shared, with};
use remuda_conformance::attacks::attacks;
use remuda_conformance::path::{self, Link, Path};
use remuda_vm::{Ack, Control, Datapath, FlowStart, Ops, Primitives, RTT_NONE, Reason, Settings};
use remuda_wire::ToDatapath;
use remuda_wire::to_agent::FlowInfo;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const MSS: u32 = 1_448;
const LINK: Link = Link { rate: 1_500_000, rtt_us: 20_000, buffer_pkts: 20, mss_bytes: MSS as u64 };
const TICK: Duration = Duration::from_micros(500);

/// portus always uses /tmp/ccp; a name relative to it can point to any folder.
fn start_agent(folder: &FilePath) -> (CCPHandle, PathBuf, Shared) {
    let address = folder.join("agent");
    let name = format!("../..{}", address.display());
    let sock = unix::Socket::<Blocking>::new(&name).expect("the agent binds");
    let notes = Shared::default();
    let run = RunBuilder::new(BackendBuilder { sock }).default_alg(Aimd(Arc::clone(&notes)));
    (run.spawn_thread().run().expect("portus starts"), address, notes)
}

/// The datapath's callbacks for the one flow, and its socket to the agent.
struct Host {
    socket: Arc<UnixDatagram>,
    agent: PathBuf,
    cwnd_bytes: u64,
    rate: u64,
    /// The windows that were set, in order.
    applied: Vec<u64>,
    not_sent: u64,
    fell_back: u64,
}

impl Ops for Host {
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn send(&mut self, message: &[u8]) -> bool {
        let sent = self.socket.send_to(message, &self.agent).is_ok();
        self.not_sent += u64::from(!sent);
        sent
    }

    fn set_cwnd(&mut self, _: usize, cwnd_bytes: u64) {
        self.cwnd_bytes = cwnd_bytes;
        self.applied.push(cwnd_bytes);
    }

    fn set_rate(&mut self, _: usize, rate: u64) {
        self.rate = rate;
    }

    fn fell_back(&mut self, _: usize) {
        self.fell_back += 1;
    }

    fn restored(&mut self, _: usize) {}
}

/// A datapath on the VM with one flow on a simulated path, in real time.
struct Flying {
    datapath: Datapath<Host>,
    socket: Arc<UnixDatagram>,
    address: PathBuf,
    sid: u32,
    path: Path,
    /// ACKs on which the agent's program ran.
    obeyed: u64,
}

impl Flying {
    fn start(folder: &FilePath, agent: PathBuf) -> Self {
        let address = folder.join("datapath");
        let socket = Arc::new(UnixDatagram::bind(&address).expect("the datapath binds"));
        socket.set_nonblocking(true).expect("it does not block");
        let host = Host {
            socket: Arc::clone(&socket),
            agent,
            cwnd_bytes: u64::from(INITIAL_PKTS * MSS),
            rate: 0,
            applied: Vec::new(),
            not_sent: 0,
            fell_back: 0,
        };
        let mut datapath = Datapath::new(&Settings::default(), host).expect("it is built");
        datapath.attach();
        let end = |port| ([127, 0, 0, 1].into(), port);
        let info = FlowInfo { requested: "aimd".to_owned(), ..FlowInfo::between(end(1), end(2)) };
        let cwnd_bytes = u64::from(INITIAL_PKTS * MSS);
        let start = FlowStart { info, cwnd_bytes, mss_bytes: MSS };
        let sid = datapath.start(0, &start).expect("there is room");
        Self { datapath, socket, address, sid, path: Path::new(LINK), obeyed: 0 }
    }

    /// Reads the agent's messages; returns the number of refused ones.
    fn listen(&mut self) -> u64 {
        let mut message = [0; 32_768];
        let mut refused = 0;
        loop {
            match self.socket.recv(&mut message) {
                Ok(bytes) => {
                    refused += u64::from(self.datapath.handle(&message[..bytes]).is_err());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return refused,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn acknowledge(&mut self, ack: path::Ack) {
        let Host { cwnd_bytes, rate, .. } = *self.datapath.ops();
        let primitives = Primitives {
            bytes_acked: ack.acked_pkts * u64::from(MSS),
            packets_acked: ack.acked_pkts,
            lost_pkts_sample: ack.lost_pkts,
            now_us: clock::monotonic_us(),
            bytes_in_flight: ack.in_flight_pkts * u64::from(MSS),
            packets_in_flight: ack.in_flight_pkts,
            rate_incoming: ack.delivery_rate,
            rate_outgoing: ack.delivery_rate,
            rtt_sample_us: if ack.rtt_us == 0 { RTT_NONE } else { ack.rtt_us },
            was_timeout: ack.timed_out.into(),
            ..Primitives::default()
        };
        let ack = Ack { primitives, cwnd_bytes, rate, mss_bytes: MSS, ..Ack::default() };
        let control = self.datapath.ack(self.sid, &ack);
        self.obeyed += u64::from(control == Control::Agent);
    }

    /// Runs for `span`; returns the number of refused messages.
    fn run(&mut self, span: Duration) -> u64 {
        let until_us = clock::monotonic_us() + span.as_micros() as u64;
        let mut refused = 0;
        while clock::monotonic_us() < until_us {
            refused += self.listen();
            let now_us = clock::monotonic_us();
            while let Some(ack) = self.path.next_ack(now_us) {
                self.acknowledge(ack);
            }
            let Host { cwnd_bytes, rate, .. } = *self.datapath.ops();
            self.path.send(now_us, cwnd_bytes, rate);
            thread::sleep(TICK);
        }
        refused
    }

    /// Runs until `holds`, for ten seconds at most.
    fn run_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..200 {
            if holds(self) {
                return;
            }
            self.run(Duration::from_millis(50));
        }
        panic!("{what}: {:?}", self.datapath);
    }
}

/// Checks that the windows set are those decided, in order. A later window may replace an earlier
/// one before any ACK.
fn assert_applied(applied: &[u64], decided: &[u64]) {
    let mut rest = decided.iter();
    for window in applied {
        assert!(rest.any(|w| w == window), "{window} of {applied:?} was not decided: {decided:?}");
    }
    let missing = decided.len() - applied.len();
    assert!(missing * 4 <= decided.len(), "{missing} of {} were never set", decided.len());
}

fn stop(agent: CCPHandle) {
    agent.kill();
    agent.wait().expect("portus ends as it was told");
}

#[test]
fn an_unmodified_portus_agent_drives_our_datapath() {
    let folder = TempDir::new().expect("a folder");
    let (agent, address, notes) = start_agent(folder.path());
    let mut flying = Flying::start(folder.path(), address);
    flying.run_until("the second program reports", |_| {
        with(&notes, |notes| {
            let fell = |w: &[u64]| w[1] < w[0];
            notes.steady_reports > 40 && notes.decided.windows(2).any(fell)
        })
    });
    flying.run(Duration::from_millis(100));
    let host = flying.datapath.ops();
    let (applied, not_sent, fell_back) = (host.applied.clone(), host.not_sent, host.fell_back);
    let (decided, seen) = with(&notes, |notes| (notes.decided.clone(), notes.seen_cwnd.clone()));
    // The agent may have decided once more since the applied windows were copied.
    assert_applied(&applied, &decided);
    assert_eq!((not_sent, fell_back), (0, 0));
    assert!(seen.iter().all(|cwnd| decided.contains(cwnd)), "{seen:?} of {decided:?}");
    assert!(flying.obeyed > 500, "{} ACKs had the agent's program", flying.obeyed);
    assert_eq!(flying.datapath.counters().refused.iter().sum::<u64>(), 0);
    assert!(flying.datapath.stop(flying.sid));
    for turn in 0..100 {
        if with(&notes, |notes| notes.closed) {
            break;
        }
        assert!(turn < 99, "the agent hears of the flow's end");
        thread::sleep(Duration::from_millis(20));
    }
    println!("{} reports, {} windows decided", with(&notes, |n| n.reports), decided.len());
    stop(agent);
}

#[test]
fn attacks_on_libccp_are_refused_and_harm_no_flow() {
    let folder = TempDir::new().expect("a folder");
    let (agent, address, notes) = start_agent(folder.path());
    let mut flying = Flying::start(folder.path(), address);
    let steady = |least: u64| {
        let notes = Arc::clone(&notes);
        move |_: &Flying| with(&notes, |notes| notes.steady_reports > least)
    };
    flying.run_until("the agent drives", steady(5));
    let hostile = UnixDatagram::unbound().expect("a socket");
    for (what, message, reason) in attacks(flying.sid) {
        let before = flying.datapath.counters().refused_for(reason);
        hostile.send_to(&message, &flying.address).expect("the datapath's socket takes it");
        assert_eq!(flying.run(Duration::from_millis(5)), 1, "{what}");
        let after = flying.datapath.counters().refused_for(reason);
        assert_eq!(after, before + 1, "{what} is not refused as {reason:?}: {:?}", flying.datapath);
        if !matches!(reason, Reason::NoFlow | Reason::NoProgram) {
            assert!(ToDatapath::parse(&message).is_err(), "remuda-wire takes {what}");
        }
    }
    let so_far = with(&notes, |notes| notes.steady_reports);
    flying.run_until("the agent still drives", steady(so_far + 20));
    let refused = flying.datapath.counters().refused.iter().sum::<u64>();
    assert_eq!(refused, attacks(flying.sid).len() as u64);
    let decided = with(&notes, |notes| notes.decided.clone());
    assert_applied(&flying.datapath.ops().applied, &decided);
    assert_eq!(flying.datapath.ops().fell_back, 0);
    println!("{refused} attacks refused");
    stop(agent);
}
