//! Ends every process that a command started when the command ends.
//!
//! A process that dies ends its children only if they asked for that, and never its grandchildren.
//! A process namespace does more: when its first process ends, the kernel kills all others in it.
//! So `remuda link` forks. The child is that first process, does all the work, and dies with its
//! parent.

use crate::child::SIGNALLED;
use crate::error::Error;
use crate::signals::Signals;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};
use rustix::thread::UnshareFlags;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

/// The process that returns from `enter`.
pub(crate) enum Side {
    /// The parent, once the child has ended.
    Outside { status: i32 },
    /// The child, which does the work.
    Inside,
}

/// Forks; returns in both processes.
pub(crate) fn enter() -> Result<Side, Error> {
    let (mut lifeline, held) = UnixStream::pair().map_err(Error::doing("make a socket pair"))?;
    // SAFETY: gives up sharing of the process namespace of future children, and of mounts.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWPID | UnshareFlags::NEWNS) }
        .map_err(Error::doing("make a process namespace"))?;
    // SAFETY: the contract of `LinkArgs::run` is that no other thread runs, so that the child
    // finds no lock held for ever.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(Error::doing("fork")(io::Error::last_os_error()));
    }
    if let Some(child) = Pid::from_raw(pid) {
        drop(lifeline);
        let status = attend(child)?;
        drop(held);
        return Ok(Side::Outside { status });
    }
    drop(held);
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Error::doing("follow a parent"))?;
    // The parent may have died before the line above. Only the parent holds the other end, so a
    // closed socket shows it.
    lifeline.set_nonblocking(true).map_err(Error::doing("use a socket pair"))?;
    if lifeline.read(&mut [0]).is_ok() {
        std::process::exit(SIGNALLED + Signal::KILL.as_raw());
    }
    show_own_processes();
    Ok(Side::Inside)
}

/// Gives this process and its children a private `/proc` with the new process numbers. Some
/// containers refuse that; then everything works except `ps` and similar tools.
fn show_own_processes() {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    if mount_change("/", private).is_ok() {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let _ = mount("proc", "/proc", "proc", flags, None);
    }
}

/// Waits for the child. Passes a signal that asks this process to end on to the child.
fn attend(child: Pid) -> Result<i32, Error> {
    let mut signals = Signals::catch()?;
    loop {
        let ended = waitpid(Some(child), WaitOptions::NOHANG)
            .map_err(Error::doing("wait for the link's process"))?;
        if let Some((_, status)) = ended {
            let signalled = status.terminating_signal().map(|signal| SIGNALLED + signal);
            return Ok(status.exit_status().or(signalled).unwrap_or(1));
        }
        if signals.wait(false) {
            // If the child has just ended, the next round finds out.
            let _ = kill_process(child, Signal::TERM);
        }
    }
}
