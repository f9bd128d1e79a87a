//! Switches on the kernel's statistics of BPF programs, and reads how often a program has run and
//! how long it took.

use crate::Fallible;
use libbpf_rs::libbpf_sys as sys;
use remuda_bpf::insn::{self, Insn};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The BPF instruction `EXIT`.
const EXIT: u8 = 0x95;
/// The smallest packet that a test run accepts: an Ethernet header.
const PACKET_BYTES: usize = 14;
const EMPTY_RUNS: i32 = 1_000_000;
const MAPS_MAX: usize = 64;

/// The runs of a program so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runs {
    pub count: u64,
    /// The sum of all run times.
    pub time_ns: u64,
}

/// The kernel's facts about a program.
#[derive(Clone, Debug)]
pub struct Info {
    pub id: u32,
    /// Number of BPF instructions, after the verifier.
    pub instructions: usize,
    /// Ids of the maps that the program uses.
    pub maps: Vec<u32>,
    pub runs: Runs,
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

/// Takes over a descriptor that a call has just returned.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    let fd = checked(fd)?;
    // SAFETY: the caller passes a descriptor that libbpf has just returned, and no one else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// While this value lives, the kernel counts run times; each run then reads the clock twice.
#[derive(Debug)]
pub struct Counting {
    _fd: OwnedFd,
}

impl Counting {
    pub fn start() -> Fallible<Self> {
        // SAFETY: no pointers.
        Ok(Self { _fd: owned(unsafe { sys::bpf_enable_stats(sys::BPF_STATS_RUN_TIME) })? })
    }
}

/// Asks the kernel about a program.
pub fn info(program: BorrowedFd<'_>) -> Fallible<Info> {
    let mut maps = vec![0u32; MAPS_MAX];
    let mut info = sys::bpf_prog_info {
        nr_map_ids: MAPS_MAX as u32,
        map_ids: maps.as_mut_ptr() as u64,
        ..Default::default()
    };
    let mut length = size_of::<sys::bpf_prog_info>() as u32;
    // SAFETY: both out-pointers are valid for the lengths given, as is the array in `info`.
    checked(unsafe { sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut length) })?;
    maps.truncate(info.nr_map_ids as usize);
    Ok(Info {
        id: info.id,
        instructions: info.xlated_prog_len as usize / size_of::<Insn>(),
        maps,
        runs: Runs { count: info.run_cnt, time_ns: info.run_time_ns },
    })
}

/// Opens the jump table among a program's maps.
pub fn jump_table(program: &Info) -> Fallible<OwnedFd> {
    for id in &program.maps {
        // SAFETY: no pointers.
        let map = owned(unsafe { sys::bpf_map_get_fd_by_id(*id) })?;
        let mut info = sys::bpf_map_info::default();
        let mut length = size_of::<sys::bpf_map_info>() as u32;
        // SAFETY: both out-pointers are valid for the lengths given.
        checked(unsafe { sys::bpf_map_get_info_by_fd(map.as_raw_fd(), &mut info, &mut length) })?;
        if info.type_ == sys::BPF_MAP_TYPE_PROG_ARRAY {
            return Ok(map);
        }
    }
    Err("the dispatcher has no jump table".into())
}

/// Replaces the program with id `id` in a jump table by `next`.
pub fn replace(table: &OwnedFd, id: u32, next: BorrowedFd<'_>) -> Fallible<()> {
    for index in 0..remuda_bpf::layout::PROGRAMS as u32 {
        let (key, mut found) = ((&raw const index).cast(), 0u32);
        // SAFETY: key and value are 32-bit words, as a jump table's are.
        let missing =
            unsafe { sys::bpf_map_lookup_elem(table.as_raw_fd(), key, (&raw mut found).cast()) };
        if missing == 0 && found == id {
            let fd = next.as_raw_fd();
            // SAFETY: as above; the value is a descriptor.
            checked(unsafe {
                sys::bpf_map_update_elem(table.as_raw_fd(), key, (&raw const fd).cast(), 0)
            })?;
            return Ok(());
        }
    }
    Err(format!("program {id} is not in the jump table").into())
}

/// A program that returns 0.
pub fn empty() -> [Insn; 2] {
    [insn::mov_imm(0, 0), Insn { code: EXIT, ..Insn::default() }]
}

/// The cost of the counting itself, in nanoseconds per run, measured with an empty program.
pub fn overhead_ns() -> Fallible<f64> {
    let insns = empty();
    // SAFETY: all pointers outlive the call; no options.
    let program = owned(unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_SOCKET_FILTER,
            c"empty".as_ptr(),
            c"GPL".as_ptr(),
            insns.as_ptr(),
            insns.len() as u64,
            std::ptr::null_mut(),
        )
    })?;
    let packet = [0u8; PACKET_BYTES];
    let mut options = sys::bpf_test_run_opts {
        sz: size_of::<sys::bpf_test_run_opts>() as u64,
        data_in: packet.as_ptr().cast(),
        data_size_in: PACKET_BYTES as u32,
        repeat: EMPTY_RUNS,
        ..Default::default()
    };
    // SAFETY: the packet outlives the call.
    checked(unsafe { sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) })?;
    let Runs { count, time_ns } = info(program.as_fd())?.runs;
    Ok(time_ns as f64 / count.max(1) as f64)
}
