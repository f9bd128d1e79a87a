//! Printing, and the end of the command if it cannot print.
//!
//! This crate replaces `println!` and `print!`, because those of the standard library panic on a
//! full disk or a closed pipe. Here the command ends as others do: on a full disk with an error;
//! after the reader has closed the pipe, as `head` does, silently by SIGPIPE. It unwinds first, so
//! that agents, authors' processes and locks end properly.
//!
//! It also replaces `eprintln!` and `eprint!`: a closed standard error does not end the command.

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

/// Why standard output cannot be written. Not a panic: it unwinds to [`ending`] and no further.
struct Unwritable(io::Error);

/// Implements `print!`.
pub fn print(text: Arguments<'_>) {
    let write = || {
        let mut out = stdout().lock();
        out.write_fmt(text)?;
        out.flush()
    };
    printed(write());
}

/// Ends the command if output that another function has printed could not be written.
pub fn printed(done: io::Result<()>) {
    if let Err(error) = done {
        resume_unwind(Box::new(Unwritable(error)));
    }
}

/// Implements `eprint!`.
pub fn eprint(text: Arguments<'_>) {
    // This error cannot be reported anywhere.
    let _ = stderr().lock().write_fmt(text);
}

/// Runs a command. Returns `unwritable` if its output cannot be written.
pub fn ending(unwritable: ExitCode, command: impl FnOnce() -> ExitCode) -> ExitCode {
    // Unwind safe: no state of the command is used after it.
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

/// Ends as a shell expects of a command before `head`. Rust ignores this signal from the start.
fn end_with_reader() {
    // SAFETY: sets the default action, which ends this process.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::raise(libc::SIGPIPE);
    }
}
