//! The C structures and functions, declared by hand. `ffi.c` asserts the same sizes; a test
//! compares the rest.

use crate::datapath::Ack;
use crate::machine::Primitives;
use std::ffi::c_void;

pub(crate) const REPORT: usize = 0;
pub(crate) const CONTROL: usize = 32;
pub(crate) const IMPLICIT: usize = 64;
pub(crate) const CWND: usize = IMPLICIT + 4;
pub(crate) const RATE: usize = IMPLICIT + 5;
pub(crate) const TEMPORARY: usize = 72;
pub(crate) const LOCAL: usize = 80;
pub(crate) const PRIMITIVE: usize = 88;
pub(crate) const REGISTERS: usize = 104;
pub(crate) const RAN_REPORT: u32 = 1;
pub(crate) const RAN_CWND: u32 = 2;
pub(crate) const RAN_RATE: u32 = 4;
pub(crate) const REASONS: usize = 17;
pub(crate) const NAME_BYTES: usize = 32;
pub(crate) const ALGORITHM_BYTES: usize = 16;
pub(crate) const FLOWS_MAX: u32 = 1 << 20;
pub(crate) const CWND_MIN_PKTS: u32 = 2;
const PROGRAM_BYTES: usize = 6_152;
const PROGRAM_HEAD_BYTES: usize = 20;

/// `struct remuda_program`. Only C reads what follows the head.
#[repr(C, align(8))]
#[derive(Clone)]
pub(crate) struct Program {
    version: u64,
    stale: u32,
    pub uid: u32,
    pub fields: u32,
    rest: [u8; PROGRAM_BYTES - PROGRAM_HEAD_BYTES],
}

impl Program {
    pub const EMPTY: Self = Self {
        version: 0,
        stale: 0,
        uid: 0,
        fields: 0,
        rest: [0; PROGRAM_BYTES - PROGRAM_HEAD_BYTES],
    };
}

/// `struct remuda_machine`.
#[repr(C)]
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub r: [u64; REGISTERS],
    pub time_zero_ns: u64,
    pub spent: u64,
}

/// `struct remuda_config`.
#[repr(C)]
pub(crate) struct Config {
    pub name: [u8; NAME_BYTES],
    pub id: u32,
    pub capabilities: u32,
    pub flows_max: u32,
    pub programs_max: u32,
    pub cwnd_pkts_max: u32,
    pub attaches: u32,
    pub rate_bytes_per_sec_max: u64,
    pub heartbeat_timeout_ns: u64,
}

/// `struct remuda_flow_info`.
#[repr(C)]
pub(crate) struct FlowInfo {
    pub local: [u8; 16],
    pub remote: [u8; 16],
    pub local_port: u16,
    pub remote_port: u16,
    pub family: u16,
    pub ecn: u16,
    pub mark: u32,
    pub mss_bytes: u32,
    pub cgroup_id: u64,
    pub cookie: u64,
    pub cwnd_bytes: u64,
    pub ssthresh_bytes: u64,
    pub srtt_us: u32,
    pub rtt_min_us: u32,
    pub requested: [u8; ALGORITHM_BYTES],
}

/// `struct remuda_flow`. Only C reads what precedes `sid`.
#[repr(C)]
#[derive(Clone)]
pub(crate) struct Flow {
    before: [u64; 161],
    pub sid: u32,
    generation: u32,
    announced: u32,
    pub state: u32,
    signals: u32,
    next_free: u32,
}

impl Flow {
    pub const EMPTY: Self = Self {
        before: [0; 161],
        sid: 0,
        generation: 0,
        announced: 0,
        state: 0,
        signals: 0,
        next_free: 0,
    };
}

/// Counters of a datapath.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that took effect.
    pub messages: u64,
    /// Refused messages, by [`crate::Reason`]; see [`Counters::refused_for`].
    pub refused: [u64; REASONS],
    /// Messages sent to the agent.
    pub sent: u64,
    /// Messages that could not be sent.
    pub not_sent: u64,
    /// Reports sent to the agent.
    pub reports: u64,
    /// Reports that could not be sent.
    pub reports_lost: u64,
    /// Flows that were not started because the table was full.
    pub flows_refused: u64,
    /// Programs of a former agent that were replaced because the table was full.
    pub programs_evicted: u64,
    /// How often a flow fell back.
    pub fallbacks: u64,
    /// How often the agent took a flow back.
    pub restores: u64,
    /// Windows and rates that were beyond their bounds.
    pub clamped: u64,
}

/// `struct remuda_ops`. Only C calls these functions, with its own arguments.
#[repr(C)]
pub(crate) struct Ops {
    pub now_ns: extern "C" fn(*mut c_void) -> u64,
    pub send: extern "C" fn(*mut c_void, *const u8, u32) -> i32,
    pub set_cwnd: extern "C" fn(*mut c_void, *mut c_void, u64),
    pub set_rate: extern "C" fn(*mut c_void, *mut c_void, u64),
    pub fell_back: extern "C" fn(*mut c_void, *mut c_void),
    pub restored: extern "C" fn(*mut c_void, *mut c_void),
}

/// `struct remuda_datapath`. Only C reads what follows `context`.
#[repr(C)]
pub(crate) struct Datapath {
    pub counters: Counters,
    pub config: Config,
    pub ops: *const Ops,
    pub context: *mut c_void,
    rest: [u64; 9],
}

impl Datapath {
    /// All zero, like a static in C.
    pub const EMPTY: Self = Self {
        counters: Counters {
            messages: 0,
            refused: [0; REASONS],
            sent: 0,
            not_sent: 0,
            reports: 0,
            reports_lost: 0,
            flows_refused: 0,
            programs_evicted: 0,
            fallbacks: 0,
            restores: 0,
            clamped: 0,
        },
        config: Config {
            name: [0; NAME_BYTES],
            id: 0,
            capabilities: 0,
            flows_max: 0,
            programs_max: 0,
            cwnd_pkts_max: 0,
            attaches: 0,
            rate_bytes_per_sec_max: 0,
            heartbeat_timeout_ns: 0,
        },
        ops: std::ptr::null(),
        context: std::ptr::null_mut(),
        rest: [0; 9],
    };
}

const _: () = assert!(size_of::<usize>() == 8, "a 64-bit machine");
const _: () = assert!(size_of::<Primitives>() == 120);
const _: () = assert!(size_of::<Program>() == PROGRAM_BYTES);
const _: () = assert!(size_of::<Machine>() == 848);
const _: () = assert!(size_of::<Config>() == 72);
const _: () = assert!(size_of::<FlowInfo>() == 104);
const _: () = assert!(size_of::<Ack>() == 160);
const _: () = assert!(size_of::<Flow>() == 1_312);
const _: () = assert!(size_of::<Counters>() == 216);
const _: () = assert!(size_of::<Ops>() == 48);
const _: () = assert!(size_of::<Datapath>() == 376);

// SAFETY: declared as in ffi.c; the sizes of what the pointers refer to are asserted on both sides.
unsafe extern "C" {
    pub(crate) fn remuda_decode(
        program: *mut Program,
        message: *const u8,
        bytes: usize,
        at: *mut u32,
    ) -> u32;
    pub(crate) fn remuda_settle(program: *const Program, machine: *mut Machine);
    pub(crate) fn remuda_define(program: *const Program, machine: *mut Machine, now_ns: u64);
    pub(crate) fn remuda_run(
        program: *const Program,
        machine: *mut Machine,
        primitives: *const Primitives,
        cwnd_bytes: u64,
        rate: u64,
        now_ns: u64,
    ) -> u32;
    pub(crate) fn remuda_init(
        datapath: *mut Datapath,
        config: *const Config,
        ops: *const Ops,
        context: *mut c_void,
        flows: *mut Flow,
        programs: *mut Program,
    ) -> bool;
    pub(crate) fn remuda_attach(datapath: *mut Datapath);
    pub(crate) fn remuda_detach(datapath: *mut Datapath);
    pub(crate) fn remuda_message(datapath: *mut Datapath, message: *const u8, bytes: usize) -> u32;
    pub(crate) fn remuda_flow_find(datapath: *const Datapath, sid: u32) -> *mut Flow;
    pub(crate) fn remuda_flow_start(
        datapath: *mut Datapath,
        context: *mut c_void,
        info: *const FlowInfo,
    ) -> *mut Flow;
    pub(crate) fn remuda_flow_stop(datapath: *mut Datapath, flow: *mut Flow);
    pub(crate) fn remuda_flow_ack(
        datapath: *mut Datapath,
        flow: *mut Flow,
        ack: *const Ack,
    ) -> bool;
    pub(crate) fn remuda_flow_timeout(datapath: *mut Datapath, flow: *mut Flow);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;
    use std::mem::offset_of;

    // SAFETY: constants of ffi.c.
    unsafe extern "C" {
        static remuda_layout: u64;
        static remuda_layout_count: u64;
    }

    #[test]
    fn c_and_rust_share_one_layout() {
        let ours = [
            offset_of!(Program, uid),
            offset_of!(Program, fields),
            offset_of!(Machine, r),
            offset_of!(Machine, time_zero_ns),
            offset_of!(Machine, spent),
            offset_of!(Primitives, was_timeout),
            offset_of!(Config, id),
            offset_of!(Config, cwnd_pkts_max),
            offset_of!(Config, heartbeat_timeout_ns),
            offset_of!(FlowInfo, local_port),
            offset_of!(FlowInfo, ecn),
            offset_of!(FlowInfo, mss_bytes),
            offset_of!(FlowInfo, ssthresh_bytes),
            offset_of!(FlowInfo, requested),
            offset_of!(Ack, cwnd_bytes),
            offset_of!(Ack, mss_bytes),
            offset_of!(Ack, signals),
            offset_of!(Flow, sid),
            offset_of!(Flow, state),
            offset_of!(Counters, refused),
            offset_of!(Counters, sent),
            offset_of!(Counters, clamped),
            offset_of!(Datapath, config),
            offset_of!(Datapath, ops),
            offset_of!(Datapath, context),
            REPORT,
            CONTROL,
            IMPLICIT,
            CWND,
            RATE,
            TEMPORARY,
            LOCAL,
            PRIMITIVE,
            REGISTERS,
            RAN_REPORT as usize,
            RAN_CWND as usize,
            RAN_RATE as usize,
            REASONS,
            Reason::ProgramsFull as usize,
            crate::datapath::PROGRAMS as usize,
            crate::datapath::FLOWS as usize,
            FLOWS_MAX as usize,
            CWND_MIN_PKTS as usize,
        ];
        // SAFETY: the array has as many words as its count says, and nothing writes it.
        let theirs = unsafe {
            std::slice::from_raw_parts(&raw const remuda_layout, remuda_layout_count as usize)
        };
        assert_eq!(ours.map(|word| word as u64), theirs);
    }
}
