//! The Rust mirror of bpf/layout.h: the memory that the kernel side and the agent share. Both files
//! assert the same sizes; change both together.

use std::mem::{offset_of, size_of};

/// A sid is `generation << SLOT_BITS | slot`; the other bits count the flows that a slot has had.
pub const SLOT_BITS: u32 = 17;
/// The largest table of flows that a datapath can be loaded with.
pub const FLOWS_MAX: u32 = 100_000;
/// Entries of the jump table; entry 0 stays empty.
pub const PROGRAMS: usize = 128;
/// Report registers of a program.
pub const REPORT_REGISTERS: usize = 32;
/// Control registers of a program.
pub const CONTROL_REGISTERS: usize = 32;
/// Bits of an address. An IPv4 address is written as a mapped IPv6 address.
pub const ADDRESS_BITS: u32 = 128;
/// Bits of the cookie of a network namespace.
pub const NETNS_BITS: u32 = 64;
/// The most users with flags.
pub const USERS: usize = 4_096;
/// The most users, cgroups and reasons whose refusals are counted apart.
pub const REFUSALS: usize = 1_024;
/// `TCP_CA_NAME_MAX`.
pub const NAME_BYTES: usize = 16;

/// Flag of [`Slot`]: the slot names a program.
pub const SLOT_PROGRAM: u32 = 1;
/// Flag of [`Slot`]: the slot names a window.
pub const SLOT_CWND: u32 = 2;
/// Flag of [`Slot`]: the slot names a rate.
pub const SLOT_RATE: u32 = 4;
/// Flag of [`Slot`]: the slot has values of control registers.
pub const SLOT_CONTROL: u32 = 8;
/// Flag of [`Slot`]: the slot names one of the kernel's own algorithms.
pub const SLOT_NATIVE: u32 = 16;

// Flags of a report, documented in `datapath/tcp/remuda_tcp.h`.
pub const REPORT_APP_LIMITED: u32 = 1;
pub const REPORT_IN_RECOVERY: u32 = 2;
pub const REPORT_CWND_FULL: u32 = 4;
pub const REPORT_CWND_HALF: u32 = 8;
pub const REPORT_UNDONE: u32 = 16;
pub const REPORT_RESTARTED: u32 = 32;
pub const REPORT_RWND_LIMITED: u32 = 64;
pub const REPORT_SNDBUF_LIMITED: u32 = 128;

// `enum remuda_event_kind` of bpf/layout.h.
pub const CREATED: u32 = 1;
pub const CLOSED: u32 = 2;
pub const REPORT: u32 = 3;
pub const FELL_BACK: u32 = 4;
pub const RESTORED: u32 = 5;
pub const NATIVE_REFUSED: u32 = 7;
pub const RECALL_REFUSED: u32 = 8;
pub const RESPONSE: u32 = 9;

// `enum remuda_refusal_reason` of bpf/layout.h.
pub const NOT_ALLOWED: u32 = 1;
pub const USER_QUOTA: u32 = 2;
pub const CGROUP_QUOTA: u32 = 3;
pub const FULL: u32 = 4;

/// Flag of a user: it may run the name while the name is restricted.
pub const USER_ALLOWED: u32 = 1;
/// Flag of a user: its flows are held to no quota.
pub const USER_UNLIMITED: u32 = 2;

/// `struct remuda_owner`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub netns: u64,
    pub quota_cgroup: u64,
    pub uid: u32,
    pub is_of_host: u32,
    pub has_user_quota: u32,
    pub padding: u32,
}

/// `struct remuda_flow_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FlowInfo {
    pub generation: u32,
    pub family: u16,
    pub ecn: u16,
    pub local_port: u16,
    pub remote_port: u16,
    pub local_addr: [u8; 16],
    pub remote_addr: [u8; 16],
    pub mss_bytes: u32,
    pub mark: u32,
    pub cwnd_pkts: u32,
    pub ssthresh_pkts: u32,
    pub srtt_us: u32,
    pub rtt_min_us: u32,
    pub cgroup_id: u64,
    pub created_ns: u64,
    pub cookie: u64,
    pub owner: Owner,
}

/// `struct remuda_slot`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub seq: u32,
    pub generation: u32,
    pub for_generation: u32,
    pub flags: u32,
    pub program: u32,
    pub program_seq: u32,
    pub control_mask: u32,
    pub in_fallback: u32,
    pub cwnd_bytes: u64,
    pub rate_bytes_per_sec: u64,
    pub control: [u64; CONTROL_REGISTERS],
    pub applied_ns: u64,
    pub applied_seq: u32,
    pub native_ssthresh_pkts: u32,
    pub native: [u8; NAME_BYTES],
    pub in_native: u32,
    pub padding: u32,
}

/// `struct remuda_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub kind: u32,
    pub sid: u32,
    pub now_ns: u64,
    pub cwnd_pkts: u32,
    pub mss_bytes: u32,
}

/// The head of `struct remuda_report`, before its fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReportHead {
    pub event: Event,
    pub program_uid: u32,
    pub n_fields: u32,
    pub srtt_us: u32,
    pub rtt_min_us: u32,
    pub delivered_pkts: u32,
    pub lost_pkts: u32,
    pub flags: u32,
    pub padding: u32,
}

/// `struct remuda_response`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Response {
    pub event: Event,
    pub started_ns: u64,
    pub bytes: u64,
    pub srtt_us: u32,
    pub rtt_min_us: u32,
    pub lost_pkts: u32,
    pub rwnd_bytes: u32,
    pub started_cwnd_pkts: u32,
    pub number: u32,
}

/// `struct remuda_response_start`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ResponseStart {
    pub acked_bytes: u64,
    pub received_bytes: u64,
    pub lost_pkts: u32,
    pub padding: u32,
}

/// `struct remuda_look`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub sid: u32,
    pub flags: u32,
    pub now_ns: u64,
    pub bytes_acked: u64,
    pub pending_bytes: u64,
    pub mss_bytes: u32,
    pub cwnd_pkts: u32,
    pub in_flight_pkts: u32,
    pub srtt_us: u32,
    pub rtt_min_us: u32,
    pub rtt_us: u32,
    pub rate_delivered_pkts: u32,
    pub rate_interval_us: u32,
    pub delivered_pkts: u32,
    pub delivered_ce_pkts: u32,
    pub lost_pkts: u32,
    pub sacked_pkts: u32,
    pub ca_state: u32,
    pub netns: u32,
    pub name: [u8; NAME_BYTES],
}

/// `struct remuda_shared`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared {
    pub heartbeat_ns: u64,
    pub lost_reports: u64,
    pub lost_events: u64,
    pub table_full: u64,
    pub fallbacks: u64,
    pub restores: u64,
    pub adopted: u64,
    pub adopt_errors: u64,
    pub assigned: u64,
    pub assign_errors: u64,
    pub last_errno: i64,
    pub remembered: u64,
    pub slots_used: u64,
    pub slots_live: u64,
    pub refused: u64,
}

/// `struct remuda_destination`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    pub prefix_bits: u32,
    pub netns: [u32; 2],
    pub address: [u8; 16],
}

/// `struct remuda_refusal`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    pub cgroup_id: u64,
    pub uid: u32,
    pub reason: u32,
}

/// `struct remuda_vacated`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Vacated {
    pub sid: u32,
}

/// `struct remuda_socket_owner` of bpf/owner.bpf.c.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SocketOwner {
    pub cookie: u64,
    pub owner: u64,
}

/// `struct remuda_remembered`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RememberedStart {
    pub program: u32,
    pub initial_cwnd_pkts: u32,
}

/// `struct remuda_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub heartbeat_timeout_ns: u64,
    pub rate_max_bytes_per_sec: u64,
    pub cwnd_max_pkts: u32,
    pub assign_initial_cwnd_pkts: u32,
    pub flows_max: u32,
    pub is_restricted: u32,
    pub own_netns: u64,
    pub user_percent: u32,
    pub cgroup_percent: u32,
    pub measures_responses: u32,
    pub padding: u32,
    pub name: [u8; NAME_BYTES],
    pub native: [u8; NAME_BYTES],
}

/// `struct remuda_registers`.
#[repr(C)]
pub struct Registers {
    pub report: [u64; REPORT_REGISTERS],
    pub control: [u64; CONTROL_REGISTERS],
    pub implicit: [u64; 8],
    pub temporary: [u64; 8],
    pub local: [u64; 8],
    pub primitive: [u64; 16],
}

/// `struct remuda_tcp` of `datapath/tcp/remuda_tcp.h`. Rust uses only its first word.
#[repr(C)]
pub struct Tcp {
    pub now_ns: u64,
    pub rest: [u64; 9],
}

/// `struct remuda_flow`. Rust uses only its offsets, for compiled programs.
#[repr(C)]
pub struct Flow {
    pub tcp: Tcp,
    pub time_zero_ns: u64,
    pub program_version: u32,
    pub program_seq: u32,
    pub native: u32,
    pub sid: u32,
    pub native_name: [u8; NAME_BYTES],
    pub response: Response,
    pub response_start: ResponseStart,
    pub report: ReportHead,
    pub registers: Registers,
    pub staged: [u64; CONTROL_REGISTERS],
}

const _: () = assert!(size_of::<FlowInfo>() == 128);
const _: () = assert!(size_of::<Slot>() == 344);
const _: () = assert!(size_of::<Look>() == 104);
const _: () = assert!(size_of::<Event>() == 24);
const _: () = assert!(size_of::<ReportHead>() == 56);
const _: () = assert!(size_of::<Tcp>() == 80);
const _: () = assert!(size_of::<Destination>() == 28);
const _: () = assert!(size_of::<RememberedStart>() == 8);
const _: () = assert!(size_of::<Owner>() == 32);
const _: () = assert!(size_of::<Refusal>() == 16);
const _: () = assert!(size_of::<SocketOwner>() == 16);
const _: () = assert!(size_of::<Vacated>() == 4);
const _: () = assert!(size_of::<Shared>() == 120);
const _: () = assert!(size_of::<Config>() == 88);
const _: () = assert!(size_of::<Response>() == 64);
const _: () = assert!(size_of::<ResponseStart>() == 24);
const _: () = assert!(offset_of!(Flow, sid) == 100);
const _: () = assert!(offset_of!(Flow, registers) == offset_of!(Flow, report) + 56);
const _: () = assert!(FLOWS_MAX <= 1 << SLOT_BITS);

/// A plain struct of integers that the kernel side writes: any bytes are a valid value.
pub trait Plain: Copy {}
impl Plain for FlowInfo {}
impl Plain for Event {}
impl Plain for Response {}
impl Plain for ReportHead {}
impl Plain for Look {}
impl Plain for SocketOwner {}
impl Plain for Refusal {}

/// Reads a record from the front of `bytes`; `None` if it is too short.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    (bytes.len() >= size_of::<T>()).then(|| {
        // SAFETY: the bytes are there, T is Plain, and the read does not assume alignment.
        unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
    })
}
