//! A CCP datapath: flows, programs, messages both ways, fallback.

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

/// Programs a datapath has room for, unless told otherwise.
pub const PROGRAMS: u32 = 64;
/// Flows a datapath has room for, unless told otherwise.
pub const FLOWS: u32 = 4_096;
/// Of [`Ack::signals`]: a rate sample was limited by the application.
pub const SIGNAL_APP_LIMITED: u32 = 1;
/// Of [`Ack::signals`]: losses or a timeout are being repaired.
pub const SIGNAL_IN_RECOVERY: u32 = 2;
/// Of [`Ack::signals`]: the window held the sender back.
pub const SIGNAL_CWND_FULL: u32 = 4;
/// Of [`Ack::signals`]: a flight used at least half of the window.
pub const SIGNAL_CWND_HALF: u32 = 8;
/// Of [`Ack::signals`]: the last recovery was spurious, and has been undone.
pub const SIGNAL_UNDONE: u32 = 16;
/// Of [`Ack::signals`]: the flow was idle, and its window is a restart window (RFC 5681 section 4.1).
pub const SIGNAL_RESTARTED: u32 = 32;

/// What a datapath does to its flows, and how it reaches its agent. Callbacks run inside the
/// methods of [`Datapath`], and a panic in one ends the process. `flow` is the number that
/// [`Datapath::start`] was given.
pub trait Ops {
    /// A monotonic clock, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// One datagram to the agent, all of it or nothing. False: it did not go.
    fn send(&mut self, message: &[u8]) -> bool;
    /// The window of a flow, in bytes, within its bounds.
    fn set_cwnd(&mut self, flow: usize, cwnd_bytes: u64);
    /// The rate of a flow, in bytes per second, within its bounds; 0: pace as you like.
    fn set_rate(&mut self, flow: usize, rate: u64);
    /// From this ACK on, the flow is the caller's, from the window in force.
    fn fell_back(&mut self, flow: usize);
    /// From this ACK on, the flow is the agent's again.
    fn restored(&mut self, flow: usize);
}

/// How a datapath is built.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name, for a person: 1 to 31 printable characters.
    pub name: String,
    /// Its number of itself, in `READY`.
    pub id: u32,
    /// Bits of [`remuda_wire::capability`]. Without those of `SIGNALS`, none are sent.
    pub capabilities: u32,
    /// Flows at once: 1 to 2^20. One takes 1.3 kB.
    pub flows_max: u32,
    /// Programs at once: 1 to 65,536. One takes 6 kB.
    pub programs_max: u32,
    /// The largest window, in segments: 2 or more.
    pub cwnd_pkts_max: u32,
    /// The largest rate, in bytes per second.
    pub rate_bytes_per_sec_max: u64,
    /// An agent that is silent for longer has lost its flows.
    pub heartbeat_timeout: Duration,
    /// The transport says when an agent comes and goes ([`Datapath::attach`]). Without it, a silent
    /// one is said hello to now and then, to see whether there is another.
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

/// Why a datapath could not be built, or a flow not be started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// A name that does not fit `HELLO`.
    #[error("{0:?} is no name of a datapath: 1 to 31 printable characters")]
    Name(String),
    /// A number out of its bounds.
    #[error("{key} = {value}: it must be {rule}")]
    Bound {
        key: &'static str,
        value: u32,
        /// What it must be.
        rule: &'static str,
    },
    /// No room for another flow; it runs without an agent.
    #[error("all {0} flows are taken")]
    FlowsFull(u32),
}

/// Who a flow is when it starts.
#[derive(Clone, Debug)]
pub struct FlowStart {
    /// Addresses, marks, and what the host knows of the path.
    pub info: FlowInfo,
    /// Window in force, in bytes.
    pub cwnd_bytes: u64,
    /// Maximum segment size, in bytes.
    pub mss_bytes: u32,
}

/// One ACK of a flow: what was measured at it, and what is in force.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// What its program reads.
    pub primitives: Primitives,
    /// Window in force, in bytes.
    pub cwnd_bytes: u64,
    /// Rate in force, in bytes per second; 0: none was set.
    pub rate: u64,
    /// Maximum segment size, in bytes.
    pub mss_bytes: u32,
    /// Smoothed RTT, in microseconds; 0: unknown.
    pub srtt_us: u32,
    /// Minimum RTT, in microseconds; 0: unknown.
    pub rtt_min_us: u32,
    /// Segments delivered in the flow's life, modulo 2^32.
    pub delivered_pkts: u32,
    /// Segments marked lost in the flow's life, modulo 2^32.
    pub lost_pkts: u32,
    /// [`SIGNAL_APP_LIMITED`] and so on.
    pub signals: u32,
}

/// Who controls a flow at an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The agent: its program has had the ACK.
    Agent,
    /// The caller: there is no agent, no program, or no such flow.
    Own,
}

/// A CCP datapath over `O`.
pub struct Datapath<O: Ops> {
    raw: ffi::Datapath,
    /// Vectors, as C holds pointers to what is in them; they never grow.
    _flows: Vec<ffi::Flow>,
    _programs: Vec<ffi::Program>,
    ops: O,
}

// SAFETY: the pointers in `raw` are to the vectors beside it, and to `ops` during a call.
unsafe impl<O: Ops + Send> Send for Datapath<O> {}

/// The callbacks of C, for one implementation of [`Ops`].
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
        // SAFETY: `Datapath::enter` has put it there, for the call this is in.
        unsafe { &*context.cast::<O>() }.now_ns()
    }

    extern "C" fn send(context: *mut c_void, message: *const u8, bytes: u32) -> i32 {
        // SAFETY: C passes a message of its own, of that length.
        let message = unsafe { std::slice::from_raw_parts(message, bytes as usize) };
        // SAFETY: as in now_ns; nobody else has a reference to it during the call.
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

/// `name` in a field that ends with a NUL; what does not fit is left out.
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
    /// An empty one. It says nothing before [`Datapath::attach`].
    pub fn new(settings: &Settings, ops: O) -> Result<Self, Error> {
        settings.check()?;
        let mut flows = vec![ffi::Flow::EMPTY; settings.flows_max as usize];
        let mut programs = vec![ffi::Program::EMPTY; settings.programs_max as usize + 1];
        let mut raw = ffi::Datapath::EMPTY;
        // SAFETY: as many flows as the configuration says, and a program more, all of them zero;
        // they live as long as `raw`. The context is set at each call.
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

    /// The datapath for one call of C, whose callbacks find `ops` where it is now.
    fn enter(&mut self) -> *mut ffi::Datapath {
        self.raw.context = (&raw mut self.ops).cast();
        &raw mut self.raw
    }

    /// An agent has connected: `HELLO`, `READY`, and every live flow.
    pub fn attach(&mut self) {
        let raw = self.enter();
        // SAFETY: initialised by new(), and used by one thread at a time, as all calls below.
        unsafe { ffi::remuda_attach(raw) };
    }

    /// The agent has gone: each flow falls back at its next ACK.
    pub fn detach(&mut self) {
        let raw = self.enter();
        // SAFETY: see attach().
        unsafe { ffi::remuda_detach(raw) };
    }

    /// Takes one datagram of the agent: whole, or not at all.
    pub fn handle(&mut self, message: &[u8]) -> Result<(), Refusal> {
        let raw = self.enter();
        // SAFETY: see attach(); the message is read within its length.
        let code = unsafe { ffi::remuda_message(raw, message.as_ptr(), message.len()) };
        Refusal::of(code, message, None).map_or(Ok(()), Err)
    }

    /// A flow starts, and is announced; `flow` is what [`Ops`] will be given. Returns its sid.
    pub fn start(&mut self, flow: usize, start: &FlowStart) -> Result<u32, Error> {
        let context = std::ptr::without_provenance_mut(flow);
        let raw = self.enter();
        // SAFETY: see attach(); the context is a number that nobody follows.
        let started = unsafe { ffi::remuda_flow_start(raw, context, &start.raw()) };
        // SAFETY: null, or a flow of our vector.
        let started = unsafe { started.as_ref() };
        started.map(|flow| flow.sid).ok_or(Error::FlowsFull(self.raw.config.flows_max))
    }

    /// A flow ends. False: there is none of that sid.
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

    /// One ACK of a flow.
    pub fn ack(&mut self, sid: u32, ack: &Ack) -> Control {
        let raw = self.enter();
        // SAFETY: see stop().
        let obeyed = unsafe {
            let flow = ffi::remuda_flow_find(raw, sid);
            !flow.is_null() && ffi::remuda_flow_ack(raw, flow, ack)
        };
        if obeyed { Control::Agent } else { Control::Own }
    }

    /// A retransmission timeout of a flow: no ACK comes that could notice the agent's silence.
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

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        &self.raw.counters
    }

    /// What it was built over.
    pub fn ops(&self) -> &O {
        &self.ops
    }

    /// What it was built over.
    pub fn ops_mut(&mut self) -> &mut O {
        &mut self.ops
    }
}

impl<O: Ops> fmt::Debug for Datapath<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datapath").field("counters", self.counters()).finish_non_exhaustive()
    }
}
