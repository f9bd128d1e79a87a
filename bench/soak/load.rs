//! Transfers that come and go: several at a time, of mixed sizes, each compared byte by byte.

use crate::Fallible;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_live::transfer::Transfer;
use remuda_live::{Clock, Testbed};
use remuda_quic::transfer::{Fingerprint, Get, Target};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Sizes, drawn with equal probability: from one that fits a first window to one that lasts through
/// several faults.
const SIZES: [u64; 8] = [1, 4_000, 16_000, 64_000, 250_000, 1_000_000, 2_000_000, 6_000_000];
/// The longest pause between two transfers of a slot.
const PAUSE_MS_MAX: u64 = 500;
/// A killed agent is back within this time; meanwhile a transfer asks for its name again at this
/// interval.
const ABSENT_MAX: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(100);
/// A transfer that takes longer is lost. In this time one of the largest transfers is complete even
/// with a tenth of its share of the link.
pub const LIMIT: Duration = Duration::from_secs(180);

/// The datapath that carries a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Linux TCP under the BPF datapath.
    Bpf,
    /// QUIC, from `remuda quic-serve`.
    Quic,
}

/// A file of the server.
struct Served {
    bytes: u64,
    sha256: String,
}

/// The server's files: one of each size.
pub struct Files(Vec<Served>);

impl Files {
    pub fn write(folder: &Path, seed: u64) -> Fallible<Self> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut written = Vec::new();
        for bytes in SIZES {
            let mut content = vec![0; usize::try_from(bytes)?];
            random.fill(content.as_mut_slice());
            fs::write(folder.join(bytes.to_string()), &content)?;
            let mut sha256 = String::new();
            for byte in Sha256::digest(&content) {
                write!(sha256, "{byte:02x}")?;
            }
            written.push(Served { bytes, sha256 });
        }
        Ok(Self(written))
    }
}

/// The transfers of all slots so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Complete transfers: over BPF, over QUIC.
    done: [AtomicU64; 2],
    /// Bytes of the complete transfers.
    bytes: AtomicU64,
    failed: Mutex<Vec<String>>,
}

impl Tally {
    /// The number of complete transfers over a datapath.
    pub fn done(&self, kind: Kind) -> u64 {
        self.done[kind as usize].load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of lost transfers.
    pub fn failed(&self) -> usize {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn note(&self, kind: Kind, of: Result<u64, String>) {
        match of {
            Ok(bytes) => {
                self.done[kind as usize].fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Err(why) => {
                eprintln!("soak: LOST over {kind:?}: {why}");
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(why);
            }
        }
    }
}

/// The state that all slots share.
pub struct Load<'a> {
    pub testbed: &'a Testbed,
    /// The server's files. `server` has its `HOST:PORT` and its certificate.
    pub files: &'a Files,
    pub server: Option<(String, Fingerprint)>,
    /// The agent's name for `TCP_CONGESTION`.
    pub algorithm: String,
    pub tally: &'a Tally,
    /// Set when no more transfers may begin.
    pub over: &'a AtomicBool,
    /// Runs since the start.
    pub clock: Clock,
}

/// Runs one transfer at a time.
pub struct Slot {
    kind: Kind,
    seed: u64,
    /// When the current transfer began, in milliseconds of the load's clock; `u64::MAX` if there is
    /// none.
    began_ms: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Slot {
    pub fn new(kind: Kind, seed: u64) -> Self {
        Self { kind, seed, began_ms: u64::MAX.into(), stop: Arc::default() }
    }

    /// Stops a QUIC transfer that takes too long. TCP's ends by itself when no data comes.
    pub fn watch(&self, clock: &Clock) {
        let began = Duration::from_millis(self.began_ms.load(Ordering::Relaxed));
        if clock.elapsed() > began.saturating_add(LIMIT) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Runs one transfer after the other until the run is over.
    pub fn run(&self, load: &Load<'_>) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        while !load.over.load(Ordering::Relaxed) {
            let file = &load.files.0[random.random_range(0..SIZES.len())];
            let began_ms = u64::try_from(load.clock.elapsed().as_millis()).unwrap_or(0);
            self.stop.store(false, Ordering::Relaxed);
            self.began_ms.store(began_ms, Ordering::Relaxed);
            let came = match self.kind {
                Kind::Bpf => send(load, file.bytes, random.random()),
                Kind::Quic => fetch(load, file, &self.stop),
            };
            self.began_ms.store(u64::MAX, Ordering::Relaxed);
            load.tally.note(self.kind, came.map_err(|why| format!("{} bytes: {why}", file.bytes)));
            thread::sleep(Duration::from_millis(random.random_range(0..PAUSE_MS_MAX)));
        }
    }
}

/// A transfer over TCP from the server's side to the client's; each byte is compared. While no
/// agent runs, the kernel refuses the name and the socket keeps its algorithm; the loop then
/// tries again.
fn send(load: &Load<'_>, bytes: u64, ipv6: bool) -> Result<u64, String> {
    let algorithm = Some(load.algorithm.clone());
    let transfer = Transfer { bytes: Some(bytes), algorithm, ipv6, ..Transfer::default() };
    let (asked, say) = (Clock::start(), |error: remuda_live::Error| error.to_string());
    let running = loop {
        match transfer.start(load.testbed.server(), load.testbed.client()) {
            Err(_) if asked.elapsed() < ABSENT_MAX => thread::sleep(AGAIN),
            started => break started.map_err(say)?,
        }
    };
    match running.join().map_err(say)?.bytes {
        came if came == bytes => Ok(bytes),
        came => Err(format!("{came} bytes came")),
    }
}

/// A transfer over QUIC, compared by hash.
fn fetch(load: &Load<'_>, file: &Served, stop: &Arc<AtomicBool>) -> Result<u64, String> {
    let (authority, pin) = load.server.as_ref().ok_or("there is no server")?;
    let get = || {
        let target = Target::parse(&format!("{authority}/{}", file.bytes))?;
        let get = Get { target, pin: *pin, output: None, connections: 1 };
        get.run(&Arc::default(), Arc::clone(stop))
    };
    let fetched = load.testbed.client().run(get).map_err(|error| error.to_string())?;
    match fetched.map_err(|error| error.to_string())? {
        fetched if (fetched.bytes, &fetched.sha256) == (file.bytes, &file.sha256) => Ok(file.bytes),
        fetched => Err(format!("{} bytes came, SHA-256 {}", fetched.bytes, fetched.sha256)),
    }
}
