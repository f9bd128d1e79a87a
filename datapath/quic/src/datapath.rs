//! The datapath of one process: its flows, behind one lock, and the thread that hears the agent.

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

/// An agent that has come is found within this.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Messages taken in before ACKs have their turn again.
const MESSAGES_A_TURN: usize = 64;

/// What noq lets it do. noq says that an ACK brought marks, not how many, and not what the
/// application has written.
pub const CAPABILITIES: u32 = capability::SIGNALS | capability::PACING | capability::PACKETS;

/// How a datapath is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name in the agent's log: 1 to 31 printable characters.
    pub name: String,
    /// The agent's run directory; `remuda agent --run-dir`.
    pub run_dir: PathBuf,
    /// Connections at once, 1 to 2^20; further ones run without an agent. One takes 1.3 kB here.
    pub flows_max: u32,
    /// An agent that is silent for longer has lost its flows. It speaks each 100 ms.
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

/// Why there is no datapath. That there is no agent is no reason.
#[derive(Debug, Error)]
pub enum Error {
    /// A setting breaks a rule.
    #[error("the datapath: {0}\nfix: see remuda_quic::Settings")]
    Settings(#[from] remuda_vm::Error),
    /// The system gives no thread or descriptor.
    #[error("the datapath: {0}\nfix: raise the limits on processes or open files (ulimit -u, -n)")]
    System(#[from] io::Error),
}

/// What a flow is to do after an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// A new window, in bytes.
    pub cwnd_bytes: Option<u64>,
    /// A new rate, in bytes per second; 0: none.
    pub rate: Option<u64>,
    /// The flow is its own from here.
    pub fell_back: bool,
    /// The flow is its own.
    pub is_own: bool,
}

/// What the VM's datapath calls. Only the flow whose ACK it is has an outcome.
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
    /// The agent was there when it was last looked for.
    has_agent: bool,
    /// A byte more than the longest message, so that a longer one is refused.
    buffer: Vec<u8>,
}

impl State {
    /// A call at that moment. If the agent turns out to be gone, so are its orders.
    fn at<T>(&mut self, now_ns: u64, call: impl FnOnce(&mut remuda_vm::Datapath<Agent>) -> T) -> T {
        self.vm.ops_mut().now_ns = now_ns;
        let result = call(&mut self.vm);
        if self.has_agent && !self.vm.ops().socket.is_connected() {
            self.has_agent = false;
            self.vm.detach();
        }
        result
    }

    /// Whether nothing of the agent has been taken in for so long that it would lose its flows.
    fn is_silent(&self, now_ns: u64) -> bool {
        self.has_agent && now_ns.saturating_sub(self.heard_ns) > self.heartbeat_timeout_ns
    }

    /// Takes in one message of the agent; false: none waits. It is received under the lock, so that
    /// messages are taken in as they were sent, whichever thread does it.
    fn hear(&mut self, now_ns: u64) -> bool {
        let Some(end) = self.vm.ops().socket.end() else { return false };
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = end.recv(&mut buffer);
        if let Ok(bytes) = received {
            // A message that breaks a rule is counted, changes nothing, and is no sign of life.
            if self.at(now_ns, |vm| vm.handle(&buffer[..bytes])).is_ok() {
                self.heard_ns = now_ns;
            }
        }
        self.buffer = buffer;
        received.is_ok()
    }

    /// One ACK of a flow. Silence may be ours: on a busy host the thread that hears the agent comes
    /// late, and what the agent has said waits in the socket. So that is taken in before a verdict.
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

    /// Takes in what waits, within bounds.
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

/// A process's QUIC connections as one CCP datapath. Cheap to clone; it ends with its last clone
/// and its last connection.
///
/// It needs no agent: one that comes, or comes again, is found within a fifth of a second, and
/// until then, and when it is gone, each connection runs NewReno from the window it has.
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
    /// Starts it, with a thread of its own, and looks for the agent.
    pub fn start(settings: Settings) -> Result<Self, Error> {
        Self::start_with(settings, CAPABILITIES)
    }

    /// For another stack than noq, which lets it do this (bits of `remuda_wire::capability`).
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

    /// Where its agent is, or would be.
    pub fn run_dir(&self) -> &Path {
        &self.shared.run_dir
    }

    /// Whether there is an agent.
    pub fn has_agent(&self) -> bool {
        self.shared.lock().has_agent
    }

    /// What it has counted: messages, reports, fallbacks.
    pub fn counters(&self) -> Counters {
        *self.shared.lock().vm.counters()
    }

    /// The clock by which moments become numbers.
    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The process's cgroup, for the agent's rules; 0 if unknown.
    pub(crate) fn cgroup_id(&self) -> u64 {
        self.shared.cgroup_id
    }

    /// A flow starts. None: the table is full, and it runs without an agent.
    pub(crate) fn start_flow(&self, start: &FlowStart, now_ns: u64) -> Option<u32> {
        self.shared.lock().at(now_ns, |vm| vm.start(0, start).ok())
    }

    pub(crate) fn stop_flow(&self, sid: u32) {
        let now_ns = self.shared.clock.now_ns();
        self.shared.lock().at(now_ns, |vm| vm.stop(sid));
    }

    /// One ACK of a flow.
    pub(crate) fn ack(&self, sid: u32, ack: &Ack, now_ns: u64) -> Outcome {
        self.shared.lock().ack(sid, ack, now_ns)
    }
}

impl Shared {
    /// A panic of another connection's thread does not end this one's.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for an agent where there is none, or where there is one that is silent.
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

    /// What to wait for: our end of the socket, and whether messages wait for room.
    fn end(&self) -> (Option<Arc<UnixDatagram>>, bool) {
        let state = self.lock();
        let socket = &state.vm.ops().socket;
        (socket.end(), socket.has_waiting())
    }

    /// Sends what waits, and takes in what the agent has sent. ACKs have their turn between two
    /// messages.
    fn exchange(&self) {
        let now_ns = || self.clock.now_ns();
        self.lock().at(now_ns(), |vm| vm.ops_mut().socket.flush());
        for _ in 0..MESSAGES_A_TURN {
            // The lock first: waiting for it is not the agent's silence.
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

/// The thread: it hears the agent, and looks for one.
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
