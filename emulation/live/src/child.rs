//! Starts the command behind a link, waits for it, and ends it.

use crate::error::Error;
use crate::namespace::Namespace;
use crate::signals::Signals;
use crate::testbed::Testbed;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};

/// A shell adds the signal's number to 128 for a command that a signal ended.
pub(crate) const SIGNALLED: i32 = 128;

/// A command with its arguments, to run in a namespace. Without words: the user's shell.
pub(crate) fn command(at: &Namespace, words: &[OsString]) -> Command {
    if let Some((program, args)) = words.split_first() {
        let mut command = at.command(program);
        command.args(args);
        return command;
    }
    at.command(std::env::var_os("SHELL").unwrap_or_else(|| "sh".into()))
}

pub(crate) fn start(command: &mut Command) -> Result<Child, Error> {
    command.spawn().map_err(|source| Error::Command {
        command: command.get_program().to_string_lossy().into_owned(),
        source,
    })
}

/// Waits for the command and passes signals on. With `once`, ends the command when the trace ends.
/// Returns the exit status.
pub(crate) fn attend(
    testbed: &Testbed,
    mut child: Child,
    mut signals: Signals,
    once: bool,
) -> Result<i32, Error> {
    let mut is_over = false;
    loop {
        if let Some(status) = child.try_wait().map_err(Error::doing("wait for the command"))? {
            let signalled = status.signal().map(|signal| SIGNALLED + signal);
            return Ok(status.code().or(signalled).unwrap_or(1));
        }
        let was_over = is_over;
        is_over = once && testbed.is_finished();
        if signals.wait(once) || is_over != was_over {
            terminate(&child);
        }
    }
}

pub(crate) fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn terminate(child: &Child) {
    if let Some(pid) = pid_of(child) {
        // The command may have ended, but its process id is not reused before we wait for it.
        let _ = kill_process(pid, Signal::TERM);
    }
}
