//! Helpers that tests of several folders share: the built binary, an agent for one test, and the
//! check for root.

pub mod believer;
pub mod cgroup;
pub mod example_arm;
pub mod message;
pub mod nginx;
pub mod other_user;
pub mod peers;
pub mod quic;
pub mod small_disk;
pub mod survival;
pub mod synthetic;
pub mod tmux;

use ccp_agent::child::AgentChild;
use remuda_live::{Clock, LinkSpec, PathSpec, QueueSpec, Testbed};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The error of a measurement, meant for a person.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The `remuda` command under test: `REMUDA_BIN`, or the one built beside this test.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("REMUDA_BIN") {
        return PathBuf::from(path).canonicalize().expect("REMUDA_BIN names a file");
    }
    let own = std::env::current_exe().expect("a test knows its own path");
    let path = own.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join("remuda");
    assert!(path.exists(), "{} is not built\nfix: make test-live", path.display());
    path
}

/// Returns true, and prints SKIPPED, if this user cannot run live tests.
pub fn skip() -> bool {
    // SAFETY: no arguments, no failure.
    let skip = unsafe { libc::geteuid() } != 0;
    if skip {
        eprintln!("SKIPPED: needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN)");
    }
    skip
}

/// Returns true, and prints SKIPPED, if the agent's BPF datapath cannot run the kernel's own
/// algorithms as arms: a host may refuse the iterator that measures their flows.
pub fn lacks_native_arms(agent: &AgentChild) -> bool {
    let events = agent.events().expect("the event log");
    let native = serde_json::json!("native algorithms");
    let lacks = events.iter().any(|event| {
        event["event"] == "datapath_ready"
            && event["lacks"].as_array().is_some_and(|lacks| lacks.contains(&native))
    });
    if lacks {
        eprintln!("SKIPPED: this host refuses BPF iterators over a map, so it has no native arms");
    }
    lacks
}

/// Live tests run one at a time, because they measure.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens on this IPv4 address at a free port, and reads every connection to its end.
pub fn sink(address: Ipv4Addr) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut connection = connection;
                while connection.read(&mut [0; 65_536]).is_ok_and(|bytes| bytes > 0) {}
            });
        }
    });
    address
}

/// Waits until `done` returns true; returns the time that this took.
///
/// # Panics
///
/// If it takes longer than the limit.
pub fn wait_for(what: &str, limit: Duration, mut done: impl FnMut() -> bool) -> Duration {
    let clock = Clock::start();
    while !done() {
        assert!(clock.elapsed() < limit, "{what} takes longer than {limit:?}");
        thread::sleep(Duration::from_millis(5));
    }
    clock.elapsed()
}

/// The run directory and the name of an agent that belongs to one test.
pub struct Place {
    folder: TempDir,
    /// The datapath's name for `TCP_CONGESTION`.
    pub name: String,
    on_module: bool,
}

impl Place {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rt{}x{count}", std::process::id());
        Self { folder: folder(), name, on_module: false }
    }

    /// A place whose agent uses the kernel module as its only TCP datapath.
    pub fn with_module() -> Self {
        Self { folder: folder(), name: "ccp".to_owned(), on_module: true }
    }

    /// Whether the place's datapath is the kernel module.
    pub fn on_module(&self) -> bool {
        self.on_module
    }

    pub fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Starts an agent in this place.
    pub fn agent(&self, arguments: &[&str]) -> AgentChild {
        let own: &[&str] = if self.on_module { &["--no-bpf"] } else { &["--name", &self.name] };
        let all = [own, arguments].concat();
        AgentChild::start(&binary(), &self.run_dir(), &all).expect("the agent starts")
    }

    /// Runs a command of `remuda` that asks this place's agent. Returns whether it succeeds, and
    /// what it prints.
    pub fn remuda(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(binary());
        let out = command.args(arguments).arg("--run-dir").arg(self.run_dir()).output();
        let out = out.expect("the command runs");
        let said = [out.stdout, out.stderr].concat();
        (out.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Writes a file for the test, such as a configuration.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("the file is written");
        path
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

/// A path of that rate and one-way delay, with a drop-tail buffer in BDPs.
pub fn wired(rate_mbit_per_sec: f64, delay_ms: f64, buffer_bdp: f64) -> Testbed {
    let link = LinkSpec {
        rate_mbit_per_sec: Some(rate_mbit_per_sec),
        delay_ms,
        queue: QueueSpec::droptail_bdp(buffer_bdp),
        ..LinkSpec::default()
    };
    Testbed::new(&PathSpec::symmetric(link)).expect("root can make namespaces and TUN devices")
}

fn folder() -> TempDir {
    TempDir::new().expect("a folder for the run directory")
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the project")
}
