//! One run: a server at one end of an emulated path, a client at the other.

use crate::quinn_server;
use remuda_live::{LinkSpec, PathSpec, QueueSpec, Testbed};
use remuda_quic::transfer::{
    Controller, Error as Transfer, Fingerprint, Get, Serve, Server, Target,
};
use std::fmt;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path as FsPath;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// More than any run sends; the file is sparse and takes no space on the disk.
const FILE_BYTES: u64 = 64 << 30;
const PORT: u16 = 4_433;

/// Why a run failed.
#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Path(#[from] remuda_live::Error),
    #[error(transparent)]
    Transfer(#[from] Transfer),
    #[error("quinn: {0}")]
    Quinn(String),
    /// The file to send cannot be created.
    #[error("the file to send: {0}")]
    File(#[from] std::io::Error),
}

/// The algorithm that drives the flow, and the QUIC stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// noq with its own algorithm.
    Noq(Controller),
    /// noq under the agent, with this arm.
    Ours(String),
    /// quinn under the agent, with this arm.
    Quinn(String),
}

impl Side {
    /// The arm that the agent gives to its flows, if the agent drives the flow.
    pub fn arm(&self) -> Option<&str> {
        match self {
            Self::Noq(_) => None,
            Self::Ours(arm) | Self::Quinn(arm) => Some(arm),
        }
    }
}

impl FromStr for Side {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("noq", "cubic")) => Ok(Self::Noq(Controller::Cubic)),
            Some(("noq", "newreno")) => Ok(Self::Noq(Controller::NewReno)),
            Some(("noq", "bbr")) => Ok(Self::Noq(Controller::Bbr)),
            Some(("ours", arm)) => Ok(Self::Ours(arm.to_owned())),
            Some(("quinn", arm)) => Ok(Self::Quinn(arm.to_owned())),
            _ => Err("noq:cubic, noq:newreno, noq:bbr, ours:ARM or quinn:ARM".to_owned()),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noq(Controller::Cubic) => f.write_str("noq's own CUBIC"),
            Self::Noq(Controller::NewReno) => f.write_str("noq's own NewReno"),
            Self::Noq(_) => f.write_str("noq's own BBR (version 3)"),
            Self::Ours(arm) => write!(f, "`{arm}`, noq"),
            Self::Quinn(arm) => write!(f, "`{arm}`, quinn: window only"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    rate_mbit_per_sec: f64,
    delay_ms: f64,
    buffer_bdp: f64,
    loss_percent: f64,
}

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<f64>> = text.split(':').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[rate_mbit_per_sec, delay_ms, buffer_bdp, loss_percent]) => {
                Ok(Self { rate_mbit_per_sec, delay_ms, buffer_bdp, loss_percent })
            }
            _ => Err("four numbers, such as 24:20:1:0".to_owned()),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate_mbit_per_sec, delay_ms, buffer_bdp, loss_percent } = self;
        write!(f, "{rate_mbit_per_sec} Mbit/s, {delay_ms} ms, {buffer_bdp} BDP")?;
        if *loss_percent > 0.0 { write!(f, ", {loss_percent} % loss") } else { Ok(()) }
    }
}

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Bytes of the file that arrived, over the whole run.
    pub goodput_mbit_per_sec: f64,
    /// 95th percentile over the packets at the bottleneck, from the link's log.
    pub queueing_p95_ms: f64,
    /// Share of the packets arriving at the bottleneck that it dropped.
    pub dropped_percent: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { goodput_mbit_per_sec, queueing_p95_ms, dropped_percent } = self;
        write!(f, "{goodput_mbit_per_sec:.2} Mbit/s, ")?;
        write!(f, "queue {queueing_p95_ms:.1} ms, {dropped_percent:.2} % dropped")
    }
}

/// A server that runs in a thread until this value is dropped.
struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
    pin: Fingerprint,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has printed its panic.
            let _ = thread.join();
        }
    }
}

fn serve(
    side: &Side,
    address: SocketAddr,
    (folder, run_dir): (&FsPath, &FsPath),
) -> Result<Running, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let controller = match side {
        Side::Noq(controller) => *controller,
        Side::Ours(_) => Controller::Agent,
        Side::Quinn(_) => {
            let server = quinn_server::Server::bind(address, run_dir).map_err(Error::Quinn)?;
            let pin = Fingerprint::parse(server.fingerprint())?;
            let thread = Some(thread::spawn(move || server.run(&stopped)));
            return Ok(Running { stop, thread, pin });
        }
    };
    let folder = folder.to_owned();
    let run_dir = run_dir.to_owned();
    let serve = Serve { folder, listen: address, controller, run_dir, user: None };
    let server = Server::bind(&serve, |_| ())?;
    let pin = server.fingerprint();
    let thread = Some(thread::spawn(move || server.run(stopped)));
    Ok(Running { stop, thread, pin })
}

/// The number of bytes received in `seconds`.
fn fetch(address: SocketAddr, pin: Fingerprint, seconds: Duration) -> Result<u64, Error> {
    let target = Target::parse(&format!("{address}/file"))?;
    let get = Get { target, pin, output: None, connections: 1 };
    let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let timer = Arc::clone(&stop);
    thread::spawn(move || {
        thread::sleep(seconds);
        timer.store(true, Ordering::Relaxed);
    });
    match get.run(&received, stop) {
        Ok(_) | Err(Transfer::Stopped) => Ok(received.load(Ordering::Relaxed)),
        Err(error) => Err(error.into()),
    }
}

pub fn run(
    side: &Side,
    path: &Path,
    seed: u64,
    (seconds, run_dir): (Duration, &FsPath),
) -> Result<Figures, Error> {
    let up = LinkSpec {
        rate_mbit_per_sec: Some(path.rate_mbit_per_sec),
        delay_ms: path.delay_ms,
        queue: QueueSpec::droptail_bdp(path.buffer_bdp),
        seed,
        ..LinkSpec::default()
    };
    let down = LinkSpec { loss_percent: path.loss_percent, ..up.clone() };
    let testbed = Testbed::new(&PathSpec { up, down, ..PathSpec::default() })?;
    let folder = tempfile::tempdir()?;
    File::create(folder.path().join("file"))?.set_len(FILE_BYTES)?;
    let address = SocketAddr::new(testbed.server().ipv4().into(), PORT);
    let running = testbed.server().run(|| serve(side, address, (folder.path(), run_dir)))??;
    let bytes = testbed.client().run(|| fetch(address, running.pin, seconds))??;
    let link = testbed.stats()?.down.link;
    let dropped = link.dropped.total() as f64 * 100.0 / link.packets_in.max(1) as f64;
    Ok(Figures {
        goodput_mbit_per_sec: bytes as f64 * 8e-6 / seconds.as_secs_f64(),
        queueing_p95_ms: link.queueing_delay.p95_ms,
        dropped_percent: dropped,
    })
}
