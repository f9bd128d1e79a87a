//! An unmodified portus agent drives a datapath of ours, and hostile messages cost themselves.
//!
//! The agent is a `portus::RunBuilder` with an AIMD of the test's own. The datapath is the VM's,
//! behind a unix datagram socket; it says all it has to say, also what CCP does not know.

use ccp_agent::clock;
use portus::ipc::{BackendBuilder, Blocking, Ipc, unix};
use portus::lang::Scope;
use portus::{CCPHandle, CongAlg, DatapathInfo, DatapathTrait, Flow, Report, RunBuilder};
use remuda_conformance::path::{self, Link, Path};
use remuda_conformance::source::{
    Operand, Record, Source, Span, close, header, immediate, kind, op, operand, put,
};
use remuda_vm::{Ack, Control, Datapath, FlowStart, Ops, Primitives, RTT_NONE, Reason, Settings};
use remuda_wire::ToDatapath;
use remuda_wire::to_agent::FlowInfo;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const MSS: u32 = 1_448;
const LINK: Link = Link { rate: 1_500_000, rtt_us: 20_000, buffer_pkts: 20, mss_bytes: MSS as u64 };
const INITIAL_PKTS: u32 = 10;
const LEAST_PKTS: u32 = 4;
/// Reports until the agent changes the program.
const RISE_REPORTS: u64 = 20;
const TICK: Duration = Duration::from_micros(500);

const RISE: &str = "(def (Report (volatile acked 0) (volatile lost 0) (rtt 0)) (every_us 1000000))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.rtt Flow.rtt_sample_us)
    (fallthrough))
(when (> Micros every_us) (:= Micros 0) (report))";

const STEADY: &str =
    "(def (Report (volatile lost 0) (volatile acked 0) (cwnd 0)) (wait_us 1000000))
(when true
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.cwnd Cwnd)
    (fallthrough))
(when (&& (> Report.lost 0) (> Micros 20000)) (:= Micros 0) (report))
(when (> Micros wait_us) (:= Micros 0) (report))";

/// What the agent did, for the test to see.
#[derive(Default)]
struct Notes {
    reports: u64,
    /// Of the second program.
    steady_reports: u64,
    /// Windows, in bytes, in order.
    decided: Vec<u64>,
    /// What `Report.cwnd` said.
    seen_cwnd: Vec<u64>,
    closed: bool,
}

type Shared = Arc<Mutex<Notes>>;

fn with<T>(notes: &Shared, look: impl FnOnce(&mut Notes) -> T) -> T {
    look(&mut notes.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Additive increase, multiplicative decrease.
struct Aimd(Shared);

struct AimdFlow<I: Ipc> {
    control: portus::Datapath<I>,
    scope: Scope,
    cwnd_pkts: u32,
    notes: Shared,
}

impl<I: Ipc> CongAlg<I> for Aimd {
    type Flow = AimdFlow<I>;

    fn name() -> &'static str {
        "aimd"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("aimd/rise", RISE.to_owned()), ("aimd/steady", STEADY.to_owned())])
    }

    fn new_flow(&self, mut control: portus::Datapath<I>, info: DatapathInfo) -> Self::Flow {
        assert_eq!(info.mss, MSS);
        let first = [("Cwnd", INITIAL_PKTS * MSS), ("every_us", 10_000)];
        let scope = control.set_program("aimd/rise", Some(&first)).expect("it is installed");
        with(&self.0, |notes| notes.decided.push((INITIAL_PKTS * MSS).into()));
        AimdFlow { control, scope, cwnd_pkts: INITIAL_PKTS, notes: Arc::clone(&self.0) }
    }
}

impl<I: Ipc> Flow for AimdFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        let Ok(lost) = report.get_field("Report.lost", &self.scope) else {
            return; // of the program before
        };
        let less = (self.cwnd_pkts / 2).max(LEAST_PKTS);
        self.cwnd_pkts = if lost > 0 { less } else { self.cwnd_pkts + 1 };
        let cwnd = self.cwnd_pkts * MSS;
        let reports = with(&self.notes, |notes| {
            notes.reports += 1;
            notes.decided.push(cwnd.into());
            if let Ok(seen) = report.get_field("Report.cwnd", &self.scope) {
                notes.steady_reports += 1;
                notes.seen_cwnd.push(seen);
            }
            notes.reports
        });
        if reports == RISE_REPORTS {
            let fields = [("Cwnd", cwnd), ("wait_us", 20_000)];
            let changed = self.control.set_program("aimd/steady", Some(&fields));
            self.scope = changed.expect("it is installed");
        } else {
            self.control.update_field(&self.scope, &[("Cwnd", cwnd)]).expect("it listens");
        }
    }

    fn close(&mut self) {
        with(&self.notes, |notes| notes.closed = true);
    }
}

/// portus insists on /tmp/ccp; from there a name can lead anywhere.
fn start_agent(folder: &FilePath) -> (CCPHandle, PathBuf, Shared) {
    let address = folder.join("agent");
    let name = format!("../..{}", address.display());
    let sock = unix::Socket::<Blocking>::new(&name).expect("the agent binds");
    let notes = Shared::default();
    let run = RunBuilder::new(BackendBuilder { sock }).default_alg(Aimd(Arc::clone(&notes)));
    (run.spawn_thread().run().expect("portus starts"), address, notes)
}

/// What the datapath does to the one flow, and its way to the agent.
struct Host {
    socket: Arc<UnixDatagram>,
    agent: PathBuf,
    cwnd_bytes: u64,
    rate: u64,
    /// Windows set, in order.
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
    /// ACKs that the agent's program had.
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
        let info = FlowInfo {
            local: end(1),
            remote: end(2),
            mark: 0,
            cgroup_id: 0,
            ssthresh_bytes: 0,
            srtt_us: 0,
            rtt_min_us: 0,
            ecn: false,
            requested: "aimd".to_owned(),
        };
        let cwnd_bytes = u64::from(INITIAL_PKTS * MSS);
        let start = FlowStart { info, cwnd_bytes, mss_bytes: MSS };
        let sid = datapath.start(0, &start).expect("there is room");
        Self { datapath, socket, address, sid, path: Path::new(LINK), obeyed: 0 }
    }

    /// Takes the agent's messages; how many were refused.
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

    /// Runs for a while; how many messages were refused.
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

/// Whether the windows set are those decided, in order; a later one may take the place of an
/// earlier one that no ACK has seen.
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
    // The agent may have decided once more since the applied ones were copied.
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

fn define(kind: u8, index: u32) -> Record {
    let register = operand(kind, index);
    Record { op: op::DEF, result: register, left: register, right: immediate(0) }
}

fn assign(result: Operand, right: Operand) -> Record {
    Record { op: op::BIND, result, left: result, right }
}

/// A program with that many initial values, and those instructions in the body of one event.
fn program(defines: u32, body: Vec<Record>) -> Source {
    let mut records: Vec<Record> =
        (0..defines).map(|index| define(kind::VOLATILE_REPORT, index)).collect();
    let start = defines + 1;
    let count = u32::try_from(body.len()).expect("a few");
    records.push(assign(operand(kind::IMPLICIT, 0), immediate(1)));
    records.extend(body);
    Source { uid: 77, spans: vec![Span { condition: (defines, 1), body: (start, count) }], records }
}

fn update(sid: u32, kind: u8, index: u32, count: u32) -> Vec<u8> {
    let mut message = header(3, sid);
    put(&mut message, &[count]);
    message.push(kind);
    put(&mut message, &[index]);
    message.extend(u64::MAX.to_le_bytes());
    close(&mut message);
    message
}

fn change(sid: u32, uid: u32) -> Vec<u8> {
    let mut message = header(4, sid);
    put(&mut message, &[uid, 0]);
    close(&mut message);
    message
}

/// The messages that write over libccp's tables, read beside them or never end
/// (kernel-module.md, section 5), and what else a datapath must not take.
fn attacks(sid: u32) -> Vec<(&'static str, Vec<u8>, Reason)> {
    let report = operand(kind::VOLATILE_REPORT, 0);
    let read = |operand| program(1, vec![assign(report, operand)]).message();
    let many = |count| vec![assign(report, immediate(1)); count];
    let mut huge = read(immediate(1));
    huge[12..20].fill(0xff);
    let mut endless = program(1, many(3));
    endless.spans[0].body = (2, 254);
    let divide = Record { op: op::DIV, result: report, left: report, right: immediate(0) };
    let mut cut = update(sid, kind::CONTROL, 0, 1);
    cut.truncate(20);
    close(&mut cut);
    let mut long = change(sid, 1);
    long.push(0);
    close(&mut long);
    vec![
        ("an update of control register 600", update(sid, 0, 600, 1), Reason::Register),
        ("200 report registers", program(200, many(1)).message(), Reason::Register),
        ("a read of register 90000", read(operand(kind::REPORT, 90_000)), Reason::Register),
        ("256 initial values", program(256, many(1)).message(), Reason::Count),
        ("480 instructions", program(1, many(478)).message(), Reason::Count),
        ("counts of 2^32-1", huge, Reason::Count),
        ("an event beyond the program", endless.message(), Reason::Event),
        ("a read of temporary 8", read(operand(kind::TEMPORARY, 8)), Reason::Register),
        ("a read of primitive 15", read(operand(kind::PRIMITIVE, 15)), Reason::Register),
        ("a kind of register that is not", read(operand(9, 0)), Reason::Register),
        (
            "a write to a primitive",
            program(1, vec![assign(operand(kind::PRIMITIVE, 0), immediate(1))]).message(),
            Reason::Target,
        ),
        ("a division by 0", program(1, vec![divide]).message(), Reason::Division),
        ("an update of Micros", update(sid, kind::IMPLICIT, 3, 1), Reason::Target),
        ("an update of a report register", update(sid, 5, 0, 1), Reason::Target),
        ("200 updates that are one", update(sid, 0, 0, 200), Reason::Count),
        ("an update cut short", cut, Reason::Count),
        ("a change with a byte too many", long, Reason::Count),
        ("a program that is not", change(sid, 4_711), Reason::NoProgram),
        ("a flow that is not", change(sid ^ 1, 1), Reason::NoFlow),
        ("a message for the agent", header_only(0), Reason::Type),
        ("no header", vec![3, 0, 4], Reason::Length),
    ]
}

fn header_only(kind: u16) -> Vec<u8> {
    let mut message = header(kind, 0);
    close(&mut message);
    message
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
