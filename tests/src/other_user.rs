//! Runs code as another user of the host, without any privilege.

use std::io::Error;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

/// The user `nobody`, which every host has.
pub const UID: u32 = 65_534;

/// Runs `work` as that user in a thread of its own. In the kernel credentials belong to a thread;
/// only libc's wrappers change them for a whole process.
pub fn as_other_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for call in [libc::SYS_setresgid, libc::SYS_setresuid] {
                // SAFETY: three plain numbers; it changes this thread alone, which gains nothing.
                let done = unsafe { libc::syscall(call, UID, UID, UID) };
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

/// Makes a command run as that user.
pub fn of_other_user(command: &mut Command) -> &mut Command {
    command.uid(UID).gid(UID)
}
