//! Runs code as another user of the host, without any privilege.

use std::io::Error;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

/// The user `nobody`, which every host has.
pub const UID: u32 = 65_534;

/// Runs `work` as that user.
pub fn as_other_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    as_user(UID, work)
}

/// Runs `work` as the user with that uid, in a thread of its own. In the kernel credentials belong
/// to a thread; only libc's wrappers change them for a whole process.
pub fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for call in [libc::SYS_setresgid, libc::SYS_setresuid] {
                // SAFETY: three plain numbers; it changes this thread alone, which gains nothing.
                let done = unsafe { libc::syscall(call, uid, uid, uid) };
                assert_eq!(done, 0, "{}", Error::last_os_error());
            }
            work()
        });
        worker.join().expect("the other user's work ends well")
    })
}

/// Moves the calling thread into a new network namespace, with loopback up.
pub fn enter_new_namespace() {
    // SAFETY: plain numbers; it changes this thread alone.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(done, 0, "{}", Error::last_os_error());
    let any = UdpSocket::bind("0.0.0.0:0").expect("a socket of the new namespace");
    // SAFETY: a plain struct, for which all zeros is a value.
    let mut loopback: libc::ifreq = unsafe { std::mem::zeroed() };
    loopback.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
    loopback.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: an open descriptor, and a request of that type.
    let done = unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const loopback) };
    assert_eq!(done, 0, "{}", Error::last_os_error());
}

/// The capabilities that the README names for an agent without root, by their numbers.
pub const AGENT_CAPABILITIES: [u32; 3] = [12, 38, 39];

/// Makes a command run as that user with capabilities that the program's own start keeps.
pub fn of_other_user_with<'a>(
    command: &'a mut Command,
    capabilities: &'static [u32],
) -> &'a mut Command {
    // SAFETY: the closure makes system calls alone, which are allowed between fork and exec.
    unsafe { command.pre_exec(|| become_other_user(capabilities)) }
}

/// The arguments of capset(2): a header of version 3, and two words of each set.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn become_other_user(capabilities: &[u32]) -> std::io::Result<()> {
    let done = |done: libc::c_long| if done < 0 { Err(Error::last_os_error()) } else { Ok(()) };
    let prctl = |option: libc::c_int, value: libc::c_ulong, other: libc::c_ulong| {
        // SAFETY: plain numbers.
        done(unsafe { libc::prctl(option, value, other, 0, 0) }.into())
    };
    prctl(libc::PR_SET_KEEPCAPS, 1, 0)?;
    // SAFETY: no groups are read, because there are none.
    done(unsafe { libc::setgroups(0, std::ptr::null()) }.into())?;
    // SAFETY: three plain numbers each.
    done(unsafe { libc::setresgid(UID, UID, UID) }.into())?;
    // SAFETY: as before.
    done(unsafe { libc::setresuid(UID, UID, UID) }.into())?;
    let mut data = [CapabilityData::default(); 2];
    for capability in capabilities {
        let (word, bit) = (*capability as usize / 32, 1 << (capability % 32));
        data[word].effective |= bit;
        data[word].permitted |= bit;
        data[word].inheritable |= bit;
    }
    let header = CapabilityHeader { version: 0x2008_0522, pid: 0 };
    // SAFETY: a header of version 3 and two words of data, both alive during the call.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) })?;
    let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
    capabilities
        .iter()
        .try_for_each(|capability| prctl(libc::PR_CAP_AMBIENT, raise, (*capability).into()))
}

/// Makes a command run as that user.
pub fn of_other_user(command: &mut Command) -> &mut Command {
    command.uid(UID).gid(UID)
}

/// Runs `work` as that user in a child process, inside a user namespace and a network namespace
/// that the user has made itself. There the user is root: `work` begins with loopback up, and with
/// `address` as an address of loopback. Returns whether `work` returned true.
pub fn in_own_user_namespace(address: Ipv4Addr, work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child has this thread alone; it runs `work` and ends without returning.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", Error::last_os_error());
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // SAFETY: plain numbers.
            let done = unsafe {
                libc::setresgid(UID, UID, UID) == 0
                    && libc::setresuid(UID, UID, UID) == 0
                    && libc::unshare(libc::CLONE_NEWUSER) == 0
            };
            assert!(done, "{}", Error::last_os_error());
            enter_new_namespace();
            add_to_loopback(address);
            work()
        }));
        // SAFETY: ends the child at once, without what the parent's exit would do.
        unsafe { libc::_exit(if done.is_ok_and(|done| done) { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our own child, and room for its status.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "{}", Error::last_os_error());
    status == 0
}

/// Gives loopback a further address of IPv4, in the calling thread's network namespace.
pub fn add_to_loopback(address: Ipv4Addr) {
    let any = UdpSocket::bind("0.0.0.0:0").expect("a socket of the namespace");
    // SAFETY: a plain struct, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo:1") {
        *to = *from as libc::c_char;
    }
    // `sockaddr_in` after its family: two bytes of port, then the address.
    let mut bytes = [0; 14];
    bytes[2..6].copy_from_slice(&address.octets());
    request.ifr_ifru.ifru_addr = libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: bytes.map(|byte| byte as libc::c_char),
    };
    // SAFETY: an open descriptor, and a request of that type.
    let done = unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCSIFADDR, &raw const request) };
    assert_eq!(done, 0, "{}", Error::last_os_error());
}
