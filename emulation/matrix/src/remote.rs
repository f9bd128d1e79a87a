//! A process that has jobs run elsewhere: what it is told and what it says, a JSON object a line.
//!
//! | told, on its standard input | |
//! |---|---|
//! | `{"text": {"name": N, "text": T}}` | a trace or an author's files, before its first job |
//! | `{"job": {"index": I, "texts": [N, ..], "work": W}}` | run it; W is the text of a [`Work`] |
//!
//! | says, on its standard output | |
//! |---|---|
//! | `{"build": B}` | first: its [`BUILD`] |
//! | `{"ahead": A}` | that it is ready, and that A jobs may be unanswered; or now another A |
//! | `{"done": {"index": I, "row": R}}` | what came of a job, in any order |
//! | `{"failed": {"index": I, "why": T}}` | that nothing came of it |
//! | `{"broken": T}` | that it cannot go on, last |
//!
//! Its input ends when it is to end, whatever is still under way. It is in a process group of its
//! own, so that Ctrl-C is for us alone.

use crate::row::Row;
use crate::work::BUILD;
use nix::sys::socket::{MsgFlags, send};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// A row has some 2 kB, and a traceback a few.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// So many answers wait here, and the rest in the pipe.
const LINES_WAITING_MAX: usize = 1_024;
/// As of a plan's runs.
const AHEAD_MAX: usize = 1_000_000;
/// How often Ctrl-C is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A cluster may be far, or start here on a busy machine.
const START_LOOKS_MAX: u32 = 3 * 60 * 20;
/// What it starts it is to end as well; then it is ended.
const END_LOOKS_MAX: u32 = 20 * 20;
/// How much of a line that is none an error shows.
const SHOWN_CHARS_MAX: usize = 200;

/// Why jobs cannot be run elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It does not even begin.
    #[error("cannot start {program}: {source}")]
    Start {
        /// What was to be started.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    #[error("{program} was not ready within {limit_s} s; see above, or stop it and look there")]
    Silent {
        program: String,
        /// How long it was waited for.
        limit_s: u32,
    },
    /// It is gone before its work is done.
    #[error("{program} ended ({how}) with {unanswered} runs unanswered; see above{fix}")]
    Ended {
        program: String,
        /// How, as far as it is known.
        how: String,
        /// What it was given and said nothing of.
        unanswered: usize,
        /// What to do, if it ended at once.
        fix: &'static str,
    },
    /// It is of other sources: its rows would not be ours.
    #[error(
        "{program} is {theirs}, and this command is {ours}: their results may differ\n\
         fix: build and install both from one tree"
    )]
    Build { program: String, theirs: String, ours: String },
    /// It says what is no message.
    #[error("{program} said `{line}`: {rule}")]
    Odd {
        program: String,
        /// What it said, cut to 200 characters.
        line: String,
        /// Which rule that breaks.
        rule: String,
    },
    /// It says itself that it cannot go on.
    #[error("{program}: {why}")]
    Broken { program: String, why: String },
}

/// What it is told.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Told<'a> {
    Text { name: &'a str, text: &'a str },
    Job { index: usize, texts: Vec<&'a str>, work: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Said {
    Build(String),
    Ahead(usize),
    Done { index: usize, row: Box<Row> },
    Failed { index: usize, why: String },
    Broken(String),
}

/// The process; it ends with this.
#[derive(Debug)]
pub(crate) struct Remote {
    program: String,
    child: Child,
    /// Until it is to end.
    input: Option<UnixStream>,
    lines: Receiver<String>,
    ahead: usize,
    /// Whether it is of our build.
    is_ours: bool,
    /// How often it is still looked at once it is to end.
    looks_left: u32,
}

impl Remote {
    /// Starts it, and waits until it is ready; `None` if `stopped` was set before it was.
    pub(crate) fn start(
        command: &mut Command,
        stopped: &AtomicBool,
    ) -> Result<Option<Self>, Box<RemoteError>> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let program = words.map(|it| it.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let failed = |source| RemoteError::Start { program: program.clone(), source };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).process_group(0);
        let spawned = command.spawn();
        // The command has its end until it is told otherwise, and would never see ours close.
        command.stdin(Stdio::null());
        let mut child = spawned.map_err(failed)?;
        let output = child.stdout.take().expect("it was piped");
        let (sender, lines) = sync_channel(LINES_WAITING_MAX);
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            // A line that has no end in a megabyte is handed on as it is, and refused.
            while let Some(line) = next_line(&mut output) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let (input, looks_left) = (Some(ours), END_LOOKS_MAX);
        let mut remote =
            Self { program, child, input, lines, ahead: 0, is_ours: false, looks_left };
        for _ in 0..START_LOOKS_MAX {
            if stopped.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match (remote.hear(0)?, remote.is_ours) {
                (None, _) => {}
                (Some(Said::Build(build)), false) => remote.check_build(build)?,
                (Some(Said::Ahead(ahead)), true) => {
                    remote.set_ahead(ahead)?;
                    return Ok(Some(remote));
                }
                (Some(other), _) => {
                    let rule = "it says `build` first, and then `ahead`";
                    return Err(remote.odd(&format!("{other:?}"), rule));
                }
            }
        }
        let limit_s = START_LOOKS_MAX / 20;
        Err(Box::new(RemoteError::Silent { program: remote.program.clone(), limit_s }))
    }

    fn check_build(&mut self, theirs: String) -> Result<(), Box<RemoteError>> {
        self.is_ours = theirs == BUILD;
        if self.is_ours {
            return Ok(());
        }
        let (program, ours) = (self.program.clone(), BUILD.to_owned());
        Err(Box::new(RemoteError::Build { program, theirs, ours }))
    }

    /// How many jobs may be unanswered.
    pub(crate) fn ahead(&self) -> usize {
        self.ahead
    }

    pub(crate) fn set_ahead(&mut self, ahead: usize) -> Result<(), Box<RemoteError>> {
        if !(1..=AHEAD_MAX).contains(&ahead) {
            return Err(self.odd(&format!("ahead {ahead}"), "must be from 1 to 1000000"));
        }
        self.ahead = ahead;
        Ok(())
    }

    /// Tells it something. That it is gone shows when it is heard, after all it has said.
    pub(crate) fn tell(&mut self, told: &Told<'_>) {
        let text = serde_json::to_string(told);
        let text = text.expect("texts, numbers and lists of them can be written") + "\n";
        let mut rest = text.as_bytes();
        while let (Some(input), false) = (&self.input, rest.is_empty()) {
            // A process that is gone is an error to say, not a signal to die of.
            match send(input.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => self.hang_up(),
            }
        }
    }

    /// What it says next, if it says something soon. What is no message is an error.
    pub(crate) fn hear(&mut self, unanswered: usize) -> Result<Option<Said>, Box<RemoteError>> {
        let line = match self.lines.recv_timeout(LOOK) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if self.input.is_some() => return Ok(None),
            Err(RecvTimeoutError::Timeout) if self.looks_left > 0 => {
                self.looks_left -= 1;
                return Ok(None);
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(self.ended("it neither listens nor ends", unanswered));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let how = self.wait().map_or("still there".to_owned(), |it| it.to_string());
                return Err(self.ended(&how, unanswered));
            }
        };
        if line.len() as u64 >= LINE_BYTES_MAX {
            return Err(self.odd(&line, "a line has less than 1 MiB"));
        }
        match serde_json::from_str(&line) {
            Ok(Said::Broken(why)) => {
                let program = self.program.clone();
                Err(Box::new(RemoteError::Broken { program, why }))
            }
            Ok(said) => Ok(Some(said)),
            Err(error) => Err(self.odd(line.trim_end(), &format!("is no message: {error}"))),
        }
    }

    fn ended(&self, how: &str, unanswered: usize) -> Box<RemoteError> {
        let (program, how) = (self.program.clone(), how.to_owned());
        let fix = if self.is_ours {
            "\nfix: the same command goes on from there"
        } else {
            "\nfix: a Python that has the package: `tools/python.sh build`, then \
             --python target/venv/bin/python"
        };
        Box::new(RemoteError::Ended { program, how, unanswered, fix })
    }

    /// It broke a rule of the head of this file.
    pub(crate) fn odd(&self, line: &str, rule: &str) -> Box<RemoteError> {
        let line = line.chars().take(SHOWN_CHARS_MAX).collect();
        Box::new(RemoteError::Odd { program: self.program.clone(), line, rule: rule.to_owned() })
    }

    /// Tells it to end; what it still says can be heard.
    pub(crate) fn hang_up(&mut self) {
        self.input = None;
    }

    /// Waits until it has ended, as it is told to here; but not for ever.
    fn wait(&mut self) -> Option<ExitStatus> {
        self.hang_up();
        for _ in 0..END_LOOKS_MAX {
            match self.child.try_wait() {
                // What it says now nobody waits for, but it may wait for a reader.
                Ok(None) => while self.lines.try_recv().is_ok() {},
                Ok(status) => return status,
                Err(_) => return None,
            }
            thread::sleep(LOOK);
        }
        None
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if self.wait().is_none() {
            // It is ours, and not waited for yet: the number is its own.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn next_line(output: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let read = output.take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
    let is_some = read.is_ok_and(|bytes| bytes > 0);
    is_some.then(|| String::from_utf8_lossy(&line).into_owned())
}
