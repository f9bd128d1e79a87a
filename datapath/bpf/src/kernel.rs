//! The few kernel calls that libbpf-rs has no safe form of: loading raw instructions, mapping maps
//! into memory, asking vmlinux BTF, and the kind of a file system.

use crate::Error;
use crate::insn::Insn;
use libbpf_rs::libbpf_sys as sys;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Holds a whole verifier log; its end names the fault.
const VERIFIER_LOG_BYTES: usize = 1 << 20;
const VERIFIER_LOG_SHOWN: usize = 2_000;

/// A member of `tcp_congestion_ops`, in the numbers that the verifier takes.
#[derive(Clone, Copy, Debug)]
pub struct OpsMember {
    btf_id: u32,
    index: u32,
    /// How many parameters the member's function takes.
    pub parameters: u32,
}

fn member_name(btf: *const sys::btf, offset: u32) -> String {
    // SAFETY: libbpf returns a NUL-terminated string that lives as long as `btf`, or null.
    unsafe {
        let name = sys::btf__name_by_offset(btf, offset);
        if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into() }
    }
}

/// Looks a member of `tcp_congestion_ops` up in the running kernel's BTF.
pub fn ops_member(member: &str) -> Result<OpsMember, Error> {
    const KIND_STRUCT: u32 = 4;
    // SAFETY: every pointer comes from libbpf for this BTF and is checked; members follow their
    // struct in memory, `vlen` of them; the BTF is freed once, after the last use.
    unsafe {
        let btf = sys::btf__load_vmlinux_btf();
        if btf.is_null() {
            return Err(Error::NoBtf(io::Error::last_os_error()));
        }
        let found = (|| {
            let name = c"tcp_congestion_ops";
            let id = sys::btf__find_by_name_kind(btf, name.as_ptr(), KIND_STRUCT);
            let btf_id = u32::try_from(id).ok()?;
            let ops = sys::btf__type_by_id(btf, btf_id);
            if ops.is_null() {
                return None;
            }
            let count = (*ops).info & 0xffff;
            let members = ops.add(1).cast::<sys::btf_member>();
            let index = (0..count)
                .find(|n| member_name(btf, (*members.add(*n as usize)).name_off) == member)?;
            let pointer = sys::btf__type_by_id(btf, (*members.add(index as usize)).type_);
            let function = sys::btf__type_by_id(btf, (*pointer).__bindgen_anon_1.type_);
            Some(OpsMember { btf_id, index, parameters: (*function).info & 0xffff })
        })();
        sys::btf__free(btf);
        found.ok_or_else(|| Error::NoMember(member.to_owned()))
    }
}

/// The error of a program that did not load. `errno` is that of the first try, and `log` what the
/// verifier wrote at the second, which asks for its log.
fn load_error(name: &str, errno: i32, log: &str) -> Error {
    let fix = match errno {
        libc::EMFILE => "raise the limit of open files: LimitNOFILE= in the unit, or `ulimit -n`",
        libc::ENFILE => "raise the host's limit of open files: sysctl fs.file-max",
        libc::ENOMEM => "free memory, or raise the memory limit: MemoryMax= in the unit",
        _ if !log.trim().is_empty() => return Error::Verifier(log.to_owned()),
        libc::EPERM => "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
        _ => "`remuda doctor` says what this host lacks",
    };
    Error::Load { name: name.to_owned(), source: io::Error::from_raw_os_error(errno), fix }
}

/// Loads instructions as a struct_ops program for `member`.
pub fn load_program(name: &str, insns: &[Insn], member: OpsMember) -> Result<OwnedFd, Error> {
    let c_name = CString::new(name).map_err(|_| Error::Template("a NUL in a program's name"))?;
    let mut first_errno = None;
    let mut log = vec![0u8; VERIFIER_LOG_BYTES];
    for verbose in [false, true] {
        let mut opts = sys::bpf_prog_load_opts {
            sz: size_of::<sys::bpf_prog_load_opts>() as u64,
            attach_btf_id: member.btf_id,
            expected_attach_type: member.index,
            ..Default::default()
        };
        if verbose {
            opts.log_buf = log.as_mut_ptr().cast();
            opts.log_size = log.len() as u32;
            opts.log_level = 1;
        }
        // SAFETY: all pointers outlive the call; the descriptor returned is ours alone.
        let fd = unsafe {
            sys::bpf_prog_load(
                sys::BPF_PROG_TYPE_STRUCT_OPS,
                c_name.as_ptr(),
                c"GPL".as_ptr(),
                insns.as_ptr(),
                insns.len() as u64,
                &mut opts,
            )
        };
        if fd >= 0 {
            // SAFETY: as above.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        first_errno.get_or_insert(-fd);
    }
    let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
    let tail = &log[end.saturating_sub(VERIFIER_LOG_SHOWN)..end];
    Err(load_error(name, first_errno.unwrap_or(0), &String::from_utf8_lossy(tail)))
}

/// Whether an open file lies on a file system of this kind, such as `CGROUP2_SUPER_MAGIC`.
pub fn is_on(file: &File, magic: libc::__fsword_t) -> bool {
    // SAFETY: a plain struct of integers, for which all zeros is a value.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and room for the answer.
    let known = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut about) } == 0;
    known && about.f_type == magic
}

/// An mmapable map in memory, as an array of `T`.
#[derive(Debug)]
pub struct Mapped<T> {
    base: NonNull<T>,
    entries: usize,
}

// SAFETY: the memory is shared with the kernel, and only accessed by volatile or atomic operations
// through `entry`; the mapping itself is not tied to a thread.
unsafe impl<T> Send for Mapped<T> {}

impl<T> Mapped<T> {
    /// Maps `entries` of the map behind `fd`, whose value size is `size_of::<T>()`.
    pub fn new(fd: BorrowedFd<'_>, entries: usize) -> Result<Self, Error> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                entries * size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<T>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { base, entries }),
            _ => Err(Error::Mmap(io::Error::last_os_error())),
        }
    }

    /// The address of an entry; panics beyond the end of the map. The address stays valid as long
    /// as `self` does; the kernel writes there too.
    pub fn entry(&self, index: usize) -> *mut T {
        self.get(index).expect("an index of this map")
    }

    /// As [`Self::entry`], but `None` beyond the end of the map.
    pub fn get(&self, index: usize) -> Option<*mut T> {
        // SAFETY: in bounds of the mapping.
        (index < self.entries).then(|| unsafe { self.base.as_ptr().add(index) })
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.entries * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_error_keeps_its_cause() {
        let verified = "processed 12 insns (limit 1000000)";
        for (errno, log, fix) in [
            (libc::EMFILE, "", "LimitNOFILE"),
            // The kernel gives the descriptor after verification, so the log is that of a success.
            (libc::EMFILE, verified, "LimitNOFILE"),
            (libc::ENFILE, verified, "fs.file-max"),
            (libc::ENOMEM, verified, "MemoryMax"),
            (libc::EPERM, "", "CAP_BPF"),
            (libc::EINVAL, " \n", "remuda doctor"),
        ] {
            let error = load_error("ccp_1", errno, log);
            assert!(matches!(error, Error::Load { .. }), "{error:?}");
            let text = error.to_string();
            let cause = io::Error::from_raw_os_error(errno).to_string();
            assert!(text.contains(fix) && text.contains(&cause), "{text}");
        }
        for errno in [libc::EACCES, libc::EPERM, libc::EINVAL] {
            let error = load_error("ccp_1", errno, "R0 !read_ok");
            assert!(matches!(&error, Error::Verifier(log) if log == "R0 !read_ok"), "{error:?}");
        }
    }
}
