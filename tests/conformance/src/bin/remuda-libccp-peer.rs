//! A datapath on the unmodified `libccp` crate: one flow on a simulated path, in real time, driven
//! by the agent behind a unix datagram socket, or by netlink as ccp-kernel. At the end it prints
//! one line of `key=value`.
//!
//! It is a process of its own because the crate exports C symbols such as `log`, which
//! floating-point code in the same process would then call. It links no crate of Remuda.

#[path = "../path.rs"]
mod path;
#[path = "../transport.rs"]
mod transport;

use clap::Parser;
use libccp::{CongestionOps, Connection, DatapathBuilder, DatapathOps, FlowInfo, Primitives};
use path::{Ack, Link, Path};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use transport::Transport;

const MSS: u32 = 1_448;
const INITIAL_PKTS: u32 = 10;
const TICK: Duration = Duration::from_micros(500);
/// Tries to send a message to the agent: about a second, in case a busy host delays the agent.
const PATIENCE_TURNS: u32 = 2_000;
const MESSAGE_BYTES: usize = 32_768;
const MEASURE: u8 = 1;
const UPDATE_FIELDS: u8 = 3;
const CHANGE_PROG: u8 = 4;
const UPDATE_BYTES: usize = 13;
const IMPLICIT: u8 = 2;
const CWND: u8 = 4;

/// A CCP datapath on libccp, with one flow
#[derive(Debug, Parser)]
struct Args {
    /// Path of the unix datagram socket on which the agent listens
    #[arg(long, value_name = "FILE", requires = "own", required_unless_present = "netlink")]
    agent: Option<PathBuf>,
    /// Path of the unix datagram socket to bind
    #[arg(long, value_name = "FILE", requires = "agent")]
    own: Option<PathBuf>,
    /// Speak netlink as ccp-kernel does, from this port
    #[arg(long, value_name = "PORT", conflicts_with = "agent")]
    netlink: Option<u32>,
    /// Lifetime of the flow, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 3_000)]
    ms: u64,
    /// Rate of the bottleneck, in bytes per second
    #[arg(long, value_name = "N", default_value_t = 3_000_000)]
    rate: u64,
    /// Round trip without a queue, in microseconds
    #[arg(long, value_name = "US", default_value_t = 20_000)]
    rtt_us: u64,
    /// Size of the bottleneck's queue, in packets
    #[arg(long, value_name = "N", default_value_t = 41)]
    buffer_pkts: u64,
}

/// The way to the agent.
struct Wire {
    transport: Arc<Transport>,
    reports: Arc<AtomicU64>,
}

impl DatapathOps for Wire {
    fn send_msg(&mut self, message: &[u8]) {
        let fields = message.get(12..16).is_some_and(|count| count != [0; 4]);
        if message.first() == Some(&MEASURE) && fields {
            self.reports.fetch_add(1, Ordering::Relaxed);
        }
        for turn in 0.. {
            match self.transport.send(message) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && turn < PATIENCE_TURNS => {
                    thread::sleep(TICK);
                }
                Err(error) => return eprintln!("to the agent: {error}"),
                Ok(()) => return,
            }
        }
    }
}

/// The window and the rate that libccp has set.
#[derive(Default)]
struct Controlled {
    cwnd_bytes: u32,
    rate: u32,
}

impl CongestionOps for Controlled {
    fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd_bytes = cwnd;
    }

    fn set_rate_abs(&mut self, rate: u32) {
        self.rate = rate;
    }
}

#[derive(Default)]
struct Counts {
    acks: u64,
    programs: u64,
    decided: u64,
    applied: u64,
    mismatched: u64,
    errors: u64,
    reductions: u64,
    timeouts: u64,
    cwnd_max: u32,
}

/// Microseconds of CLOCK_MONOTONIC, which is libccp's clock.
fn monotonic_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid out-pointer; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// The window that a message of the agent sets.
fn decided(message: &[u8]) -> Option<u32> {
    let body = match *message.first()? {
        UPDATE_FIELDS => message.get(12..)?,
        CHANGE_PROG => message.get(16..)?,
        _ => return None,
    };
    let cwnd = |update: &&[u8]| update[0] == IMPLICIT && update[1] == CWND;
    let update = body.chunks_exact(UPDATE_BYTES).rfind(cwnd)?;
    let value = u64::from_le_bytes(update.get(5..13)?.try_into().ok()?);
    u32::try_from(value).ok()
}

fn primitives(ack: &Ack, flow: &Controlled) -> Primitives {
    let (acked, flying) = (ack.acked_pkts as u32, ack.in_flight_pkts as u32);
    Primitives::default()
        .with_bytes_acked(acked * MSS)
        .with_packets_acked(acked)
        .with_lost_pkts_sample(ack.lost_pkts as u32)
        .with_bytes_in_flight(flying * MSS)
        .with_packets_in_flight(flying)
        .with_rate_incoming(ack.delivery_rate)
        .with_rate_outgoing(ack.delivery_rate)
        .with_rtt_sample_us(ack.rtt_us)
        .with_was_timeout(ack.timed_out)
        .with_snd_cwnd(flow.cwnd_bytes)
        .with_snd_rate(flow.rate.into())
}

/// Passes the agent's messages to libccp; returns the last window that they set.
fn listen(
    datapath: &libccp::Datapath,
    transport: &Transport,
    counts: &mut Counts,
    wanted: &mut Option<u32>,
) {
    let mut room = [0; MESSAGE_BYTES];
    while let Ok(message) = transport.receive(&mut room) {
        counts.programs += u64::from(message.first() == Some(&2));
        if let Some(cwnd) = decided(message) {
            counts.decided += 1;
            *wanted = Some(cwnd);
        }
        // libccp has no heartbeat message.
        if message.first().is_some_and(|kind| *kind <= CHANGE_PROG)
            && let Err(error) = datapath.recv_msg(message)
        {
            eprintln!("libccp refuses a message of type {}: {error:?}", message[0]);
            counts.errors += 1;
        }
    }
}

fn of_process() -> FlowInfo {
    FlowInfo::default().with_mss(MSS).with_init_cwnd(INITIAL_PKTS * MSS).with_four_tuple(
        0x7f00_0001,
        1,
        0x7f00_0001,
        2,
    )
}

/// As ccp-kernel describes every flow: addresses in network order, and a request for reno.
fn of_ccp_kernel() -> Result<FlowInfo, String> {
    let address = |last| u32::from_ne_bytes([10, 0, 0, last]);
    let port = |port: u16| port.to_be().into();
    let info = of_process().with_four_tuple(address(1), port(5_003), address(2), port(443));
    info.with_cong_alg("reno").map_err(|error| format!("libccp: {error:?}"))
}

fn fly(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let transport = Arc::new(match (&args.own, &args.agent, args.netlink) {
        (_, _, Some(port)) => Transport::netlink(port)?,
        (Some(own), Some(agent), None) => Transport::unix(own, agent)?,
        _ => return Err("--own and --agent, or --netlink".into()),
    });
    let reports = Arc::new(AtomicU64::new(0));
    let wire = Wire { transport: Arc::clone(&transport), reports: Arc::clone(&reports) };
    let refused = |error: libccp::LibccpError| format!("libccp: {error:?}");
    let datapath = DatapathBuilder::default().with_ops(wire).init().map_err(refused)?;
    // A connection borrows its datapath, and both live as long as the process.
    let datapath: &'static libccp::Datapath = Box::leak(Box::new(datapath));
    let info = if args.netlink.is_some() { of_ccp_kernel()? } else { of_process() };
    let flow = Controlled { cwnd_bytes: INITIAL_PKTS * MSS, rate: 0 };
    let mut flow = Connection::start(datapath, flow, info).map_err(refused)?;
    let Args { rate, rtt_us, buffer_pkts, .. } = *args;
    let mut path = Path::new(Link { rate, rtt_us, buffer_pkts, mss_bytes: MSS.into() });
    let (mut counts, mut wanted) = (Counts::default(), None);
    let until_us = monotonic_us() + args.ms * 1_000;
    while monotonic_us() < until_us {
        listen(datapath, &transport, &mut counts, &mut wanted);
        let now_us = monotonic_us();
        while let Some(ack) = path.next_ack(now_us) {
            counts.acks += 1;
            counts.timeouts += u64::from(ack.timed_out);
            let before = flow.cwnd_bytes;
            let loaded = primitives(&ack, &flow);
            flow.load_primitives(loaded);
            match flow.invoke() {
                Ok(()) | Err(libccp::LibccpError::LibccpProgIsNull) => {}
                Err(error) => {
                    eprintln!("libccp leaves the program: {error:?}");
                    counts.errors += 1;
                }
            }
            if let Some(cwnd) = wanted.take() {
                let same = flow.cwnd_bytes == cwnd;
                counts.applied += u64::from(same);
                counts.mismatched += u64::from(!same);
            }
            counts.reductions += u64::from(flow.cwnd_bytes < before);
            counts.cwnd_max = counts.cwnd_max.max(flow.cwnd_bytes);
        }
        path.send(now_us, flow.cwnd_bytes.into(), flow.rate.into());
        thread::sleep(TICK);
    }
    print!("acks={} programs={} ", counts.acks, counts.programs);
    print!("decided={} applied={} ", counts.decided, counts.applied);
    print!("mismatched={} errors={} ", counts.mismatched, counts.errors);
    print!("reductions={} timeouts={} ", counts.reductions, counts.timeouts);
    print!("cwnd_bytes_max={} rate={} ", counts.cwnd_max, flow.rate);
    print!("reports={} ", reports.load(Ordering::Relaxed));
    println!("acked_bytes={} lost_pkts={}", path.acked_bytes(), path.lost_pkts);
    Ok(()) // the flow ends with `flow`: libccp tells the agent
}

fn main() -> ExitCode {
    match fly(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
