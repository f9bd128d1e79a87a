//! Printing, and the end of the command if it cannot print.
//!
//! This crate replaces `println!` and `print!`, because those of the standard library panic on a
//! full disk or a closed pipe. Here the command ends as others do: on a full disk with an error;
//! after the reader has closed the pipe, as `head` does, silently by SIGPIPE. It unwinds first, so
//! that agents, authors' processes and locks end properly.
//!
//! It also replaces `eprintln!` and `eprint!`: a closed standard error does not end the command.
//!
//! All of them print control characters as JSON escapes them (see [`visible`]): names of
//! algorithms, datapaths and files come from peers, and could otherwise rewrite what the terminal
//! shows, or make it send keys. JSON that a command prints keeps its meaning.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

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
        out.write_all(visible(&text.to_string()).as_bytes())?;
        out.flush()
    };
    printed(write());
}

/// Empties the terminal, and moves the cursor to its upper left corner.
pub fn clear_screen() {
    let write = || stdout().lock().write_all(b"\x1b[2J\x1b[H");
    printed(write());
}

/// The text with every control character but newline and tab, and every character that changes the
/// direction of text, as JSON escapes it: `\u001b`.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_control(letter) && !matches!(letter, '\n' | '\t'))
}

/// The same for a name, which has one line: newlines and tabs are escaped too.
pub fn visible_name(name: &str) -> Cow<'_, str> {
    escaped(name, is_control)
}

fn is_control(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let one = |letter: char| match letter {
        letter if is_hidden(letter) => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    Cow::Owned(text.chars().map(one).collect())
}

/// Standard error for the events of `tracing`, with control characters escaped, and in the journal
/// with the priority of each (`man sd-daemon`).
#[derive(Clone, Copy, Debug)]
pub struct VisibleStderr {
    in_journal: bool,
}

impl VisibleStderr {
    /// systemd says by this variable which file is the journal (`man systemd.exec`); children may
    /// have another one.
    pub fn new() -> Self {
        let about = rustix::fs::fstat(stderr()).ok();
        let own = about.map(|it| format!("{}:{}", it.st_dev, it.st_ino));
        let journal = std::env::var("JOURNAL_STREAM").ok();
        Self { in_journal: journal.is_some() && journal == own }
    }
}

impl<'a> MakeWriter<'a> for VisibleStderr {
    type Writer = VisibleEvent;

    fn make_writer(&'a self) -> VisibleEvent {
        VisibleEvent { prefix: "" }
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> VisibleEvent {
        let prefix = match *about.level() {
            Level::ERROR => "<3>",
            Level::WARN => "<4>",
            Level::INFO => "<6>",
            Level::DEBUG | Level::TRACE => "<7>",
        };
        VisibleEvent { prefix: if self.in_journal { prefix } else { "" } }
    }
}

/// Writes one event of `tracing`.
pub struct VisibleEvent {
    prefix: &'static str,
}

impl Write for VisibleEvent {
    /// `tracing` writes each event whole.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = visible(&text);
        // Each line of the journal has a priority of its own.
        let lines: String = text.lines().map(|line| format!("{}{line}\n", self.prefix)).collect();
        stderr().write_all(lines.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
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
    let _ = stderr().lock().write_all(visible(&text.to_string()).as_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_as_json_escapes_them() {
        for (text, want) in [
            ("a\tb\nc", "a\tb\nc"),
            ("\x1b[2J\x07", "\\u001b[2J\\u0007"),
            ("a\rb\x08\x7f\0", "a\\u000db\\u0008\\u007f\\u0000"),
            // The control sequence introducer in one character.
            ("\u{9b}2J", "\\u009b2J"),
            ("abc\u{202e}fdp.exe\u{2066}", "abc\\u202efdp.exe\\u2066"),
            ("größer → 漢字", "größer → 漢字"),
        ] {
            assert_eq!(visible(text), want, "{text:?}");
        }
        assert_eq!(visible_name("a\n\tb"), "a\\u000a\\u0009b");
        let json = serde_json::to_string("\x1b\x7f\u{9b}\n").expect("it is a text");
        let back: String = serde_json::from_str(&visible(&json)).expect("it is still JSON");
        assert_eq!(back, "\x1b\x7f\u{9b}\n");
    }
}
