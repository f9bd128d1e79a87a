//! Keeps what a command starts from outliving it.
//!
//! A process that dies takes its children along only if they asked for it, and never its
//! grandchildren. A process namespace does: when its first process ends, the kernel kills all the
//! others. So `remuda link` forks; the child is that first process, does all the work, and dies
//! with its parent.

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

/// Which of the two processes this is.
pub(crate) enum Side {
    /// The parent, once the child has ended.
    Outside { status: i32 },
    /// The child, which has the work to do.
    Inside,
}

/// Splits the process in two; returns in both.
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
    // Whether the parent died before the line above: it alone holds the other end.
    lifeline.set_nonblocking(true).map_err(Error::doing("use a socket pair"))?;
    if lifeline.read(&mut [0]).is_ok() {
        std::process::exit(SIGNALLED + Signal::KILL.as_raw());
    }
    show_own_processes();
    Ok(Side::Inside)
}

/// Gives this side a `/proc` with its own process numbers, seen by nobody else. Without it (some
/// containers refuse) everything works but `ps` and its like.
fn show_own_processes() {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    if mount_change("/", private).is_ok() {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let _ = mount("proc", "/proc", "proc", flags, None);
    }
}

/// Waits for the child, asking it to end when a signal asks this process to.
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
            // It may just have ended; the next round finds out.
            let _ = kill_process(child, Signal::TERM);
        }
    }
}
