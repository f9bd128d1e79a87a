//! An agent of this process, whose flows all run CUBIC and use what is remembered of destinations.

use ccp_agent::Error;
use ccp_agent::config::Config;
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::iw::Report;
use ccp_agent::iw::records::{self, RecordFiles};
use ccp_agent::{clock, run_dir};
use remuda_bench::only;
use remuda_selector::antelope::memory::Network;
use remuda_selector::tcp_rl::config::IwConfig;
use remuda_selector::tcp_rl::record::Record;
use remuda_tests::Fallible;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often an agent is asked at most whether it is ready, and how long after each other.
const READY_TRIES: u32 = 600;
const READY_AFTER: Duration = Duration::from_millis(50);
/// This process also runs nine links and their users, so a late heartbeat is no failure.
const HEARTBEAT_TIMEOUT_MS: u64 = 2_000;

/// What an agent is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    pub iw: IwConfig,
    /// Flows jump by what is remembered of their destination.
    pub jumps: bool,
}

/// A running agent. Its files are in the folder that it was started in.
#[derive(Debug)]
pub struct Agent {
    /// What a socket asks for with `TCP_CONGESTION`.
    pub name: String,
    run_dir: PathBuf,
    state_dir: PathBuf,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Error>>,
}

fn private(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Copies the files of a state directory, and those of the folder `iw` in it.
pub fn copy_state(from: &Path, to: &Path) -> std::io::Result<()> {
    for folder in ["", "iw"] {
        private(&to.join(folder))?;
        let Ok(entries) = fs::read_dir(from.join(folder)) else { continue };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), to.join(folder).join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

impl Agent {
    /// Starts an agent in `folder`, with what an agent before it has left in `state`, and waits
    /// until it serves flows.
    pub fn start(folder: &Path, settings: &Settings, state: Option<&Path>) -> Fallible<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let (run_dir, state_dir) = (folder.join("run"), folder.join("state"));
        private(&run_dir)?;
        private(&state_dir)?;
        state.map(|state| copy_state(state, &state_dir)).transpose()?;
        let mut config = Config::default();
        config.agent.default = only::CUBIC.to_owned();
        config.agent.name = format!("iw{}x{}", std::process::id(), number % 10_000);
        config.agent.run_dir.clone_from(&run_dir);
        config.agent.state_dir = Some(state_dir.clone());
        config.agent.module = false;
        config.agent.heartbeat_timeout_ms = HEARTBEAT_TIMEOUT_MS;
        config.iw = settings.iw.clone();
        if !settings.jumps {
            config.memory.resumed_cwnd_pkts_max = 0;
        }
        let name = config.agent.name.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || ccp_agent::agent::run_until(config, stopped, || {}).map(drop);
        let agent = Self { name, run_dir, state_dir, stop, thread: thread::spawn(run) };
        for _ in 0..READY_TRIES {
            if ask(&agent.run_dir, &Request::Status {}).is_ok() {
                return Ok(agent);
            }
            if agent.thread.is_finished() {
                break;
            }
            thread::sleep(READY_AFTER);
        }
        agent.stop()?;
        Err("the agent did not become ready within 30 s".into())
    }

    /// Gives flows to these addresses that initial window.
    pub fn set_window(&self, to: Ipv4Addr, bits: u8, pkts: u32) -> Fallible<()> {
        let of: Network = format!("{to}/{bits}").parse()?;
        ask(&self.run_dir, &Request::InitialCwnd { of, pkts })?;
        Ok(())
    }

    /// The groups and their windows.
    pub fn report(&self) -> Fallible<Report> {
        match ask(&self.run_dir, &Request::Iw {})? {
            Answer::Iw(report) => Ok(*report),
            other => Err(format!("not an answer to `iw`: {other:?}").into()),
        }
    }

    /// Stops the agent, which saves what it knows. Returns its state directory.
    pub fn stop(self) -> Fallible<PathBuf> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the agent panicked")??;
        Ok(self.state_dir)
    }
}

/// The first responses of connections that ended from that wall-clock second on, as an agent has
/// recorded them in its state directory.
pub fn records_since(state_dir: &Path, unix_s: u64) -> Fallible<Vec<(Ipv4Addr, Record)>> {
    let mut all = Vec::new();
    for (_, path, _) in RecordFiles::new(&run_dir::iw_dir(state_dir), u64::MAX).all()? {
        records::read(&path, clock::wall().as_secs(), |record| {
            if let (IpAddr::V4(peer), true) = (record.peer, record.ended_unix_s >= unix_s) {
                all.push((peer, record));
            }
        })?;
    }
    Ok(all)
}
