//! The datapath of one process: its flows behind one lock, and the thread that reads the agent's
//! messages.

use crate::clock::Clock;
use crate::socket::{AgentSocket, Bell, Found};
use remuda_vm::{Ack, Control, Counters, FLOWS, FlowStart, Ops};
use remuda_wire::{MESSAGE_BYTES_MAX, capability};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// How often the datapath looks for an agent that has started.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Messages of the agent handled in a row before ACKs can get the lock again.
const MESSAGES_A_TURN: usize = 64;

/// What a datapath with noq can do. noq reports that an ACK had ECN marks, but not how many, and
/// not how much the application has written.
pub const CAPABILITIES: u32 = capability::SIGNALS | capability::PACING | capability::PACKETS;

#[derive(Clone, Debug)]
pub struct Settings {
    /// The name in the agent's log: 1 to 31 printable characters.
    pub name: String,
    /// The agent's run directory, as in `remuda agent --run-dir`.
    pub run_dir: PathBuf,
    /// The most connections at once with an agent, 1 to 2^20; further ones run without. Each takes
    /// 1.3 kB here.
    pub flows_max: u32,
    /// If the agent is silent for longer, flows fall back. The agent sends a heartbeat every 100
    /// ms.
    pub heartbeat_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "quic".to_owned(),
            run_dir: PathBuf::from("/run/remuda"),
            flows_max: FLOWS,
            heartbeat_timeout: Duration::from_millis(500),
        }
    }
}

/// Why a datapath could not start. A missing agent is no error.
#[derive(Debug, Error)]
pub enum Error {
    #[error("the datapath: {0}\nfix: see remuda_quic::Settings")]
    Settings(#[from] remuda_vm::Error),
    /// The system refused a thread or a descriptor.
    #[error("the datapath: {0}\nfix: raise the limits on processes or open files (ulimit -u, -n)")]
    System(#[from] io::Error),
}

/// The result of an ACK for its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// A new window, in bytes; `None` keeps the old one.
    pub cwnd_bytes: Option<u64>,
    /// A new rate, in bytes per second; 0 removes the rate, `None` keeps the old one.
    pub rate: Option<u64>,
    /// With this ACK the flow falls back to its own control.
    pub fell_back: bool,
    /// The flow runs its own control.
    pub is_own: bool,
}

/// The callbacks of the VM's datapath. Only the flow of the present ACK has an outcome.
#[derive(Debug)]
struct Agent {
    now_ns: u64,
    socket: AgentSocket,
    outcome: Outcome,
}

impl Ops for Agent {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn send(&mut self, message: &[u8]) -> bool {
        self.socket.send(message)
    }

    fn set_cwnd(&mut self, _flow: usize, cwnd_bytes: u64) {
        self.outcome.cwnd_bytes = Some(cwnd_bytes);
    }

    fn set_rate(&mut self, _flow: usize, rate: u64) {
        self.outcome.rate = Some(rate);
    }

    fn fell_back(&mut self, _flow: usize) {
        self.outcome.fell_back = true;
    }

    fn restored(&mut self, _flow: usize) {}
}

struct State {
    vm: remuda_vm::Datapath<Agent>,
    heard_ns: u64,
    heartbeat_timeout_ns: u64,
    /// Whether the agent was present at the last look.
    has_agent: bool,
    /// One byte longer than the longest message, so that a longer message is noticed and refused.
    buffer: Vec<u8>,
}

impl State {
    /// Calls the VM's datapath at time `now_ns`. If the agent turns out to be gone, its orders end.
    fn at<T>(&mut self, now_ns: u64, call: impl FnOnce(&mut remuda_vm::Datapath<Agent>) -> T) -> T {
        self.vm.ops_mut().now_ns = now_ns;
        let result = call(&mut self.vm);
        if self.has_agent && !self.vm.ops().socket.is_connected() {
            self.has_agent = false;
            self.vm.detach();
        }
        result
    }

    /// Whether no valid message of the agent has been read for so long that flows must fall back.
    fn is_silent(&self, now_ns: u64) -> bool {
        self.has_agent && now_ns.saturating_sub(self.heard_ns) > self.heartbeat_timeout_ns
    }

    /// Reads one message of the agent. Returns false if none is waiting. The caller holds the lock,
    /// so messages are handled in the order in which they were sent, by whichever thread.
    fn hear(&mut self, now_ns: u64) -> bool {
        let Some(end) = self.vm.ops().socket.end() else { return false };
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = end.recv(&mut buffer);
        if let Ok(bytes) = received {
            // An invalid message is counted and changes nothing. It does not count as a sign of
            // life.
            if self.at(now_ns, |vm| vm.handle(&buffer[..bytes])).is_ok() {
                self.heard_ns = now_ns;
            }
        }
        self.buffer = buffer;
        received.is_ok()
    }

    /// Handles one ACK of a flow. If the agent seems silent, this first reads the messages that
    /// wait in the socket, because on a busy host the reading thread may be late.
    fn ack(&mut self, sid: u32, ack: &Ack, now_ns: u64) -> Outcome {
        if self.is_silent(now_ns) {
            self.hear_all(now_ns);
        }
        self.at(now_ns, |vm| {
            vm.ops_mut().outcome = Outcome::default();
            let control = vm.ack(sid, ack);
            Outcome { is_own: control == Control::Own, ..vm.ops().outcome }
        })
    }

    /// Reads waiting messages, up to a limit.
    fn hear_all(&mut self, now_ns: u64) {
        for _ in 0..MESSAGES_A_TURN {
            if !self.hear(now_ns) {
                return;
            }
        }
    }
}

struct Shared {
    state: Mutex<State>,
    clock: Clock,
    bell: Arc<Bell>,
    run_dir: PathBuf,
    cgroup_id: u64,
    stop: Arc<AtomicBool>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bell.ring();
    }
}

/// The QUIC connections of a process as one CCP datapath. Clones are cheap. The datapath ends with
/// its last clone and its last connection.
///
/// A datapath works without an agent. Until one starts, and after one ends, each connection runs
/// NewReno from its present window. An agent that starts is found within a fifth of a second.
#[derive(Clone)]
pub struct Datapath {
    shared: Arc<Shared>,
}

impl fmt::Debug for Datapath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datapath").field("run_dir", &self.shared.run_dir).finish_non_exhaustive()
    }
}

impl Datapath {
    /// Starts the datapath and its thread, and looks for the agent.
    pub fn start(settings: Settings) -> Result<Self, Error> {
        Self::start_with(settings, CAPABILITIES)
    }

    /// Starts a datapath for a stack other than noq; `capabilities` are the bits of
    /// `remuda_wire::capability` that the stack allows.
    pub fn start_with(settings: Settings, capabilities: u32) -> Result<Self, Error> {
        let clock = Clock::start();
        let bell = Arc::new(Bell::new()?);
        let socket = AgentSocket::new(&settings.run_dir, Arc::clone(&bell));
        let vm_settings = remuda_vm::Settings {
            name: settings.name,
            id: std::process::id(),
            capabilities,
            flows_max: settings.flows_max,
            heartbeat_timeout: settings.heartbeat_timeout,
            attaches: true,
            ..remuda_vm::Settings::default()
        };
        let agent = Agent { now_ns: clock.now_ns(), socket, outcome: Outcome::default() };
        let mut vm = remuda_vm::Datapath::new(&vm_settings, agent)?;
        vm.detach();
        let stop = Arc::new(AtomicBool::new(false));
        let timeout = settings.heartbeat_timeout.as_nanos();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                vm,
                heard_ns: 0,
                heartbeat_timeout_ns: u64::try_from(timeout).unwrap_or(u64::MAX),
                has_agent: false,
                buffer: vec![0; MESSAGE_BYTES_MAX + 1],
            }),
            clock,
            bell: Arc::clone(&bell),
            run_dir: settings.run_dir,
            cgroup_id: own_cgroup().unwrap_or(0),
            stop: Arc::clone(&stop),
        });
        shared.look();
        let weak = Arc::downgrade(&shared);
        thread::Builder::new()
            .name("remuda-quic".to_owned())
            .spawn(move || hear(&weak, &bell, &stop))?;
        Ok(Self { shared })
    }

    /// The agent's run directory. No agent need run there.
    pub fn run_dir(&self) -> &Path {
        &self.shared.run_dir
    }

    /// Whether an agent is connected.
    pub fn has_agent(&self) -> bool {
        self.shared.lock().has_agent
    }

    /// Counts of messages, reports and fallbacks.
    pub fn counters(&self) -> Counters {
        *self.shared.lock().vm.counters()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The id of the process's cgroup, for the agent's rules; 0 if unknown.
    pub(crate) fn cgroup_id(&self) -> u64 {
        self.shared.cgroup_id
    }

    /// Starts a flow. Returns `None` if the table is full; the flow then runs without an agent.
    pub(crate) fn start_flow(&self, start: &FlowStart, now_ns: u64) -> Option<u32> {
        self.shared.lock().at(now_ns, |vm| vm.start(0, start).ok())
    }

    pub(crate) fn stop_flow(&self, sid: u32) {
        let now_ns = self.shared.clock.now_ns();
        self.shared.lock().at(now_ns, |vm| vm.stop(sid));
    }

    pub(crate) fn ack(&self, sid: u32, ack: &Ack, now_ns: u64) -> Outcome {
        self.shared.lock().ack(sid, ack, now_ns)
    }
}

impl Shared {
    /// A panic in another connection's thread does not affect this one.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for an agent if none is connected, or if the connected one is silent.
    fn look(&self) {
        let now_ns = self.clock.now_ns();
        let mut state = self.lock();
        if state.has_agent && !state.is_silent(now_ns) {
            return;
        }
        let found = state.vm.ops_mut().socket.look();
        if found == Found::New {
            (state.has_agent, state.heard_ns) = (true, now_ns);
            state.at(now_ns, remuda_vm::Datapath::attach);
        } else {
            state.at(now_ns, |_| ());
        }
    }

    /// What the thread waits for: messages on this end of the socket, and room if messages wait.
    fn end(&self) -> (Option<Arc<UnixDatagram>>, bool) {
        let state = self.lock();
        let socket = &state.vm.ops().socket;
        (socket.end(), socket.has_waiting())
    }

    /// Sends waiting messages, and reads those of the agent. The lock is released between two
    /// messages, so that ACKs can get it.
    fn exchange(&self) {
        let now_ns = || self.clock.now_ns();
        self.lock().at(now_ns(), |vm| vm.ops_mut().socket.flush());
        for _ in 0..MESSAGES_A_TURN {
            // Take the lock before reading the time: waiting for the lock must not count as
            // silence.
            let mut state = self.lock();
            if !state.hear(now_ns()) {
                return;
            }
        }
    }
}

/// The inode of this process's directory in cgroup version 2, which is the cgroup's id.
fn own_cgroup() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let root = Path::new("/sys/fs/cgroup");
    fs::metadata(root.join(path.trim_start_matches('/'))).ok().map(|meta| meta.ino())
}

/// The thread that reads the agent's messages and looks for an agent.
fn hear(shared: &Weak<Shared>, bell: &Bell, stop: &AtomicBool) {
    loop {
        let Some((end, to_send)) = shared.upgrade().map(|shared| shared.end()) else { return };
        bell.wait(end.as_deref(), to_send, LOOK_INTERVAL);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let Some(shared) = shared.upgrade() else { return };
        shared.exchange();
        shared.look();
    }
}

#[cfg(test)]
mod tests;
