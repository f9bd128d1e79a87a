//! What the command prints, and its end if that cannot be printed.
//!
//! `println!` and `print!` are ours in this crate, as the standard library's panic on a full disk
//! or a pipe whose reader is gone. Here the command ends as others do: on a full disk with an error
//! that says so; with a reader that has had enough, as `head`, silently by SIGPIPE. It unwinds
//! first, so that agents, authors' processes and locks end as at any other end.
//!
//! `eprintln!` and `eprint!` are ours as well: what nobody can read any more ends nothing.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}
macro_rules! println {
    ($($text:tt)*) => {
        $crate::output::print(format_args!("{}\n", format_args!($($text)*)))
    };
}
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::eprint(format_args!($($text)*)) };
}
macro_rules! eprintln {
    ($($text:tt)*) => {
        $crate::output::eprint(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Why standard output takes nothing more. No panic: it is unwound to [`ending`], and no further.
struct Unwritable(io::Error);

/// As of `print!`.
pub fn print(text: Arguments<'_>) {
    let write = || {
        let mut out = stdout().lock();
        out.write_fmt(text)?;
        out.flush()
    };
    printed(write());
}

/// Of what somebody else has printed to standard output: ends the command if it could not be.
pub fn printed(done: io::Result<()>) {
    if let Err(error) = done {
        resume_unwind(Box::new(Unwritable(error)));
    }
}

/// As of `eprint!`.
pub fn eprint(text: Arguments<'_>) {
    // There is nowhere to say that this cannot be said.
    let _ = stderr().lock().write_fmt(text);
}

/// Runs a command; it ends with that status if its output cannot be written.
pub fn ending(unwritable: ExitCode, command: impl FnOnce() -> ExitCode) -> ExitCode {
    // Nothing of the command is looked at after it.
    let ended = catch_unwind(AssertUnwindSafe(command));
    match ended.map_err(|thrown| thrown.downcast::<Unwritable>()) {
        Ok(status) => status,
        Err(Ok(why)) if why.0.kind() == ErrorKind::BrokenPipe => {
            end_with_reader();
            ExitCode::FAILURE
        }
        Err(Ok(why)) => {
            eprintln!("remuda: cannot write to standard output: {}", why.0);
            unwritable
        }
        Err(Err(panic)) => resume_unwind(panic),
    }
}

/// What a shell expects of a command before `head`. Rust ignores that signal from the start.
fn end_with_reader() {
    // SAFETY: to the default action, which is the end of this process.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::raise(libc::SIGPIPE);
    }
}
