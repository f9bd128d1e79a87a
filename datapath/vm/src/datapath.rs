//! A CCP datapath: flows, programs, messages in both directions, and fallback.

use crate::ffi::{self, ALGORITHM_BYTES, Counters, NAME_BYTES};
use crate::machine::Primitives;
use crate::refusal::Refusal;
use remuda_wire::capability;
use remuda_wire::to_agent::FlowInfo;
use std::ffi::c_void;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;
use thiserror::Error;

/// The default number of programs that a datapath has room for.
pub const PROGRAMS: u32 = 64;
/// The default number of flows that a datapath has room for.
pub const FLOWS: u32 = 4_096;
/// A bit of [`Ack::signals`]: the application limited a rate sample.
pub const SIGNAL_APP_LIMITED: u32 = 1;
/// A bit of [`Ack::signals`]: the sender is retransmitting after losses or a timeout.
pub const SIGNAL_IN_RECOVERY: u32 = 2;
/// A bit of [`Ack::signals`]: the window limited the sender.
pub const SIGNAL_CWND_FULL: u32 = 4;
/// A bit of [`Ack::signals`]: a flight used at least half of the window.
pub const SIGNAL_CWND_HALF: u32 = 8;
/// A bit of [`Ack::signals`]: the last recovery was spurious, and has been undone.
pub const SIGNAL_UNDONE: u32 = 16;
/// A bit of [`Ack::signals`]: the flow was idle, and its window is a restart window (RFC 5681
/// section 4.1).
pub const SIGNAL_RESTARTED: u32 = 32;
/// A bit of [`Ack::signals`]: the peer's receive window held the sender back.
pub const SIGNAL_RWND_LIMITED: u32 = 64;
/// A bit of [`Ack::signals`]: a full send buffer held the application back.
pub const SIGNAL_SNDBUF_LIMITED: u32 = 128;

/// The callbacks of a datapath: its effects on flows, and sending to the agent. They run inside the
/// methods of [`Datapath`]; a panic in one ends the process. `flow` is the number given to
/// [`Datapath::start`].
pub trait Ops {
    /// A monotonic clock, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// Sends one datagram to the agent, whole or not at all. Returns false if it was not sent.
    fn send(&mut self, message: &[u8]) -> bool;
    /// Sets a flow's window, in bytes; the value is within its bounds.
    fn set_cwnd(&mut self, flow: usize, cwnd_bytes: u64);
    /// Sets a flow's rate, in bytes per second, within its bounds; 0 means that there is no rate to
    /// keep.
    fn set_rate(&mut self, flow: usize, rate: u64);
    /// From this ACK on the caller controls the flow, starting with the window in force.
    fn fell_back(&mut self, flow: usize);
    /// From this ACK on the agent controls the flow again.
    fn restored(&mut self, flow: usize);
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// The name, for display: 1 to 31 printable characters.
    pub name: String,
    /// The datapath's number of itself, sent in `READY`.
    pub id: u32,
    /// Bits of [`remuda_wire::capability`]. Without any bit of `SIGNALS`, no `SIGNALS` are sent.
    pub capabilities: u32,
    /// The most flows at once: 1 to 2^20. Each takes 1.3 kB.
    pub flows_max: u32,
    /// The most programs at once: 1 to 65,536. Each takes 6 kB.
    pub programs_max: u32,
    /// The largest window, in segments: 2 or more.
    pub cwnd_pkts_max: u32,
    /// The largest rate, in bytes per second.
    pub rate_bytes_per_sec_max: u64,
    /// If the agent is silent for longer, flows fall back.
    pub heartbeat_timeout: Duration,
    /// True if the transport reports when an agent comes and goes ([`Datapath::attach`]). False:
    /// the datapath sends a `HELLO` now and then to a silent agent, to find out whether there is a
    /// new one.
    pub attaches: bool,
}

const PROGRAMS_MAX: u32 = 65_536;

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "vm".to_owned(),
            id: 0,
            capabilities: capability::SIGNALS | capability::CCP,
            flows_max: FLOWS,
            programs_max: PROGRAMS,
            cwnd_pkts_max: 100_000,
            rate_bytes_per_sec_max: 12_500_000_000,
            heartbeat_timeout: Duration::from_millis(500),
            attaches: false,
        }
    }
}

/// Why a datapath could not be built, or a flow could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The name does not fit into `HELLO`.
    #[error("{0:?} is no name of a datapath: 1 to 31 printable characters")]
    Name(String),
    /// A number is out of its bounds.
    #[error("{key} = {value}: it must be {rule}")]
    Bound { key: &'static str, value: u32, rule: &'static str },
    /// There is no room for another flow; the caller runs it without an agent.
    #[error("all {0} flows are taken")]
    FlowsFull(u32),
}

/// A flow at its start.
#[derive(Clone, Debug)]
pub struct FlowStart {
    /// Addresses and marks, and what the host knows about the path.
    pub info: FlowInfo,
    /// The window in force, in bytes.
    pub cwnd_bytes: u64,
    /// Maximum segment size, in bytes.
    pub mss_bytes: u32,
}

/// One ACK of a flow: what was measured, and what is in force.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The input of the flow's program.
    pub primitives: Primitives,
    /// The window in force, in bytes.
    pub cwnd_bytes: u64,
    /// The rate in force, in bytes per second; 0 means none was set.
    pub rate: u64,
    /// Maximum segment size, in bytes.
    pub mss_bytes: u32,
    /// Smoothed RTT, in microseconds; 0 if unknown.
    pub srtt_us: u32,
    /// Minimum RTT, in microseconds; 0 if unknown.
    pub rtt_min_us: u32,
    /// Segments delivered since the flow began, modulo 2^32.
    pub delivered_pkts: u32,
    /// Segments marked lost since the flow began, modulo 2^32.
    pub lost_pkts: u32,
    /// The `SIGNAL_` bits, such as [`SIGNAL_APP_LIMITED`].
    pub signals: u32,
}

/// Which side controls a flow at an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The agent; its program has handled the ACK.
    Agent,
    /// The caller, because there is no agent, no program, or no such flow.
    Own,
}

/// A CCP datapath with the callbacks `O`.
pub struct Datapath<O: Ops> {
    raw: ffi::Datapath,
    /// Vectors that never grow, because C holds pointers into them.
    _flows: Vec<ffi::Flow>,
    _programs: Vec<ffi::Program>,
    ops: O,
}

// SAFETY: the pointers in `raw` point into the vectors beside it, and to `ops` during a call.
unsafe impl<O: Ops + Send> Send for Datapath<O> {}

/// The C callbacks for one implementation of [`Ops`].
struct Table<O>(std::marker::PhantomData<O>);

impl<O: Ops> Table<O> {
    const OPS: &'static ffi::Ops = &ffi::Ops {
        now_ns: Self::now_ns,
        send: Self::send,
        set_cwnd: Self::set_cwnd,
        set_rate: Self::set_rate,
        fell_back: Self::fell_back,
        restored: Self::restored,
    };

    extern "C" fn now_ns(context: *mut c_void) -> u64 {
        // SAFETY: `Datapath::enter` has set the pointer for the present call.
        unsafe { &*context.cast::<O>() }.now_ns()
    }

    extern "C" fn send(context: *mut c_void, message: *const u8, bytes: u32) -> i32 {
        // SAFETY: C passes a message of its own with its length.
        let message = unsafe { std::slice::from_raw_parts(message, bytes as usize) };
        // SAFETY: as in now_ns; there is no other reference during the call.
        let sent = unsafe { &mut *context.cast::<O>() }.send(message);
        i32::from(!sent)
    }

    extern "C" fn set_cwnd(context: *mut c_void, flow: *mut c_void, cwnd_bytes: u64) {
        // SAFETY: as in send.
        unsafe { &mut *context.cast::<O>() }.set_cwnd(flow.addr(), cwnd_bytes);
    }

    extern "C" fn set_rate(context: *mut c_void, flow: *mut c_void, rate: u64) {
        // SAFETY: as in send.
        unsafe { &mut *context.cast::<O>() }.set_rate(flow.addr(), rate);
    }

    extern "C" fn fell_back(context: *mut c_void, flow: *mut c_void) {
        // SAFETY: as in send.
        unsafe { &mut *context.cast::<O>() }.fell_back(flow.addr());
    }

    extern "C" fn restored(context: *mut c_void, flow: *mut c_void) {
        // SAFETY: as in send.
        unsafe { &mut *context.cast::<O>() }.restored(flow.addr());
    }
}

/// `name` in a field that ends with a NUL, cut to fit.
fn fixed<const N: usize>(name: &str) -> [u8; N] {
    let mut field = [0; N];
    let kept = name.len().min(N - 1);
    field[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    field
}

fn bound(key: &'static str, value: u32, holds: bool, rule: &'static str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Bound { key, value, rule }) }
}

impl Settings {
    fn check(&self) -> Result<(), Error> {
        let printable = self.name.bytes().all(|b| b.is_ascii_graphic());
        if self.name.is_empty() || self.name.len() >= NAME_BYTES || !printable {
            return Err(Error::Name(self.name.clone()));
        }
        let flows = self.flows_max;
        bound("flows_max", flows, (1..=ffi::FLOWS_MAX).contains(&flows), "1 to 2^20")?;
        let programs = self.programs_max;
        let holds = (1..=PROGRAMS_MAX).contains(&programs);
        bound("programs_max", programs, holds, "1 to 65536")?;
        let cwnd = self.cwnd_pkts_max;
        bound("cwnd_pkts_max", cwnd, cwnd >= ffi::CWND_MIN_PKTS, "2 or more")
    }

    fn config(&self) -> ffi::Config {
        let timeout = self.heartbeat_timeout.as_nanos();
        ffi::Config {
            name: fixed(&self.name),
            id: self.id,
            capabilities: self.capabilities,
            flows_max: self.flows_max,
            programs_max: self.programs_max,
            cwnd_pkts_max: self.cwnd_pkts_max,
            attaches: self.attaches.into(),
            rate_bytes_per_sec_max: self.rate_bytes_per_sec_max,
            heartbeat_timeout_ns: u64::try_from(timeout).unwrap_or(u64::MAX),
        }
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&v4.octets());
            octets
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl FlowStart {
    fn raw(&self) -> ffi::FlowInfo {
        let info = &self.info;
        ffi::FlowInfo {
            local: octets(info.local.0),
            remote: octets(info.remote.0),
            local_port: info.local.1,
            remote_port: info.remote.1,
            family: if info.local.0.is_ipv4() { 4 } else { 6 },
            ecn: info.ecn.into(),
            mark: info.mark,
            mss_bytes: self.mss_bytes,
            cgroup_id: info.cgroup_id,
            cookie: info.cookie,
            cwnd_bytes: self.cwnd_bytes,
            ssthresh_bytes: info.ssthresh_bytes.into(),
            srtt_us: info.srtt_us,
            rtt_min_us: info.rtt_min_us,
            requested: fixed::<ALGORITHM_BYTES>(&info.requested),
        }
    }
}

impl<O: Ops> Datapath<O> {
    /// An empty datapath. It sends nothing before [`Datapath::attach`].
    pub fn new(settings: &Settings, ops: O) -> Result<Self, Error> {
        settings.check()?;
        let mut flows = vec![ffi::Flow::EMPTY; settings.flows_max as usize];
        let mut programs = vec![ffi::Program::EMPTY; settings.programs_max as usize + 1];
        let mut raw = ffi::Datapath::EMPTY;
        // SAFETY: there are as many flows as the configuration says and one program more, all of
        // them zero, and they live as long as `raw`. The context is set at each call.
        let built = unsafe {
            ffi::remuda_init(
                &raw mut raw,
                &settings.config(),
                Table::<O>::OPS,
                std::ptr::null_mut(),
                flows.as_mut_ptr(),
                programs.as_mut_ptr(),
            )
        };
        assert!(built, "Settings::check refuses whatever remuda_init() does");
        Ok(Self { raw, _flows: flows, _programs: programs, ops })
    }

    /// Prepares one call of C: its callbacks find `ops` at its present address.
    fn enter(&mut self) -> *mut ffi::Datapath {
        self.raw.context = (&raw mut self.ops).cast();
        &raw mut self.raw
    }

    /// Call this when an agent has connected. Sends `HELLO`, `READY` and every live flow.
    pub fn attach(&mut self) {
        let raw = self.enter();
        // SAFETY: initialised by new(), and used by one thread at a time, as in all calls below.
        unsafe { ffi::remuda_attach(raw) };
    }

    /// Call this when the agent has gone. Each flow falls back at its next ACK.
    pub fn detach(&mut self) {
        let raw = self.enter();
        // SAFETY: see attach().
        unsafe { ffi::remuda_detach(raw) };
    }

    /// Handles one datagram of the agent, or refuses it as a whole.
    pub fn handle(&mut self, message: &[u8]) -> Result<(), Refusal> {
        let raw = self.enter();
        // SAFETY: see attach(); C reads the message within its length.
        let code = unsafe { ffi::remuda_message(raw, message.as_ptr(), message.len()) };
        Refusal::of(code, message, None).map_or(Ok(()), Err)
    }

    /// Starts and announces a flow; `flow` is passed to the callbacks of [`Ops`]. Returns the sid.
    pub fn start(&mut self, flow: usize, start: &FlowStart) -> Result<u32, Error> {
        let context = std::ptr::without_provenance_mut(flow);
        let raw = self.enter();
        // SAFETY: see attach(); the context is a number that is never dereferenced.
        let started = unsafe { ffi::remuda_flow_start(raw, context, &start.raw()) };
        // SAFETY: the pointer is null or points to a flow of our vector.
        let started = unsafe { started.as_ref() };
        started.map(|flow| flow.sid).ok_or(Error::FlowsFull(self.raw.config.flows_max))
    }

    /// Ends a flow. Returns false if there is no flow with this sid.
    pub fn stop(&mut self, sid: u32) -> bool {
        let raw = self.enter();
        // SAFETY: see attach(); a flow found is one of our vector.
        unsafe {
            let flow = ffi::remuda_flow_find(raw, sid);
            if flow.is_null() {
                return false;
            }
            ffi::remuda_flow_stop(raw, flow);
        }
        true
    }

    /// Handles one ACK of a flow.
    pub fn ack(&mut self, sid: u32, ack: &Ack) -> Control {
        let raw = self.enter();
        // SAFETY: see stop().
        let obeyed = unsafe {
            let flow = ffi::remuda_flow_find(raw, sid);
            !flow.is_null() && ffi::remuda_flow_ack(raw, flow, ack)
        };
        if obeyed { Control::Agent } else { Control::Own }
    }

    /// Reports a retransmission timeout of a flow, because without ACKs nothing would notice that
    /// the agent is silent.
    pub fn timeout(&mut self, sid: u32) {
        let raw = self.enter();
        // SAFETY: see stop().
        unsafe {
            let flow = ffi::remuda_flow_find(raw, sid);
            if !flow.is_null() {
                ffi::remuda_flow_timeout(raw, flow);
            }
        }
    }

    pub fn counters(&self) -> &Counters {
        &self.raw.counters
    }

    pub fn ops(&self) -> &O {
        &self.ops
    }

    pub fn ops_mut(&mut self) -> &mut O {
        &mut self.ops
    }
}

impl<O: Ops> fmt::Debug for Datapath<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datapath").field("counters", self.counters()).finish_non_exhaustive()
    }
}
