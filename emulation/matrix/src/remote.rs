//! The protocol with a process that runs jobs elsewhere: one JSON object a line.
//!
//! | request, on the standard input of the process | |
//! |---|---|
//! | `{"text": {"name": N, "text": T}}` | a trace or an author's files, before its first job |
//! | `{"job": {"index": I, "texts": [N, ..], "work": W}}` | runs a job; W is a [`Work`] |
//!
//! | reply, on its standard output | |
//! |---|---|
//! | `{"build": B}` | the first line: the process's [`BUILD`] |
//! | `{"ahead": A}` | the process is ready, and A jobs may be unanswered; a later line changes A |
//! | `{"done": {"index": I, "row": R}}` | the row of a job; jobs end in any order |
//! | `{"failed": {"index": I, "why": T}}` | the job has no row, and why |
//! | `{"broken": T}` | the last line: the process cannot continue, and why |
//!
//! The process ends when its input ends, even if jobs are still running. It has a process group of
//! its own, so that Ctrl-C reaches this program only.

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

/// A longer line of the Python process ends the run. A result row has about 2 kB, a traceback a few
/// kB.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Most lines that wait here; further lines wait in the pipe.
const LINES_WAITING_MAX: usize = 1_024;
/// The same limit as for the runs of a plan.
const AHEAD_MAX: usize = 1_000_000;
/// How often the reader checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// Limit for the start: a cluster may be far away, or be started here on a busy machine.
const START_LOOKS_MAX: u32 = 3 * 60 * 20;
/// Limit for the end, in which the process stops what it has started. Then it is killed.
const END_LOOKS_MAX: u32 = 20 * 20;
/// Most characters of an invalid line that an error shows.
const SHOWN_CHARS_MAX: usize = 200;

/// Why jobs cannot run elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The process cannot be started.
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: std::io::Error },
    #[error("{program} was not ready within {limit_s} s; see its output above")]
    Silent { program: String, limit_s: u32 },
    /// The process ended before its work was done.
    #[error("{program} ended ({how}) with {unanswered} runs unanswered; see above{fix}")]
    Ended {
        program: String,
        /// The exit status, if it is known.
        how: String,
        /// Number of jobs without an answer.
        unanswered: usize,
        /// The fix, which depends on whether the process ended at once.
        fix: &'static str,
    },
    /// The process was built from other sources, so its rows could differ from those of this
    /// program.
    #[error(
        "{program} is {theirs}, and this command is {ours}: their results may differ\n\
         fix: build and install both from the same source tree"
    )]
    Build { program: String, theirs: String, ours: String },
    /// A line of the process is not a message, or breaks a rule of the protocol.
    #[error("{program} wrote `{line}`: {rule}")]
    Odd {
        program: String,
        /// The line, cut to 200 characters.
        line: String,
        /// The rule that the line breaks.
        rule: String,
    },
    /// The process reports that it cannot continue.
    #[error("{program}: {why}")]
    Broken { program: String, why: String },
}

/// A message to the process.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Request<'a> {
    Text { name: &'a str, text: &'a str },
    Job { index: usize, texts: Vec<&'a str>, work: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Reply {
    Build(String),
    Ahead(usize),
    Done { index: usize, row: Box<Row> },
    Failed { index: usize, why: String },
    Broken(String),
}

/// The process. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Remote {
    program: String,
    child: Child,
    /// `None` once the process has been asked to end.
    input: Option<UnixStream>,
    lines: Receiver<String>,
    ahead: usize,
    /// Whether the process has sent the build of this program.
    is_same_build: bool,
    /// How many more times the process is polled after it has been asked to end.
    looks_left: u32,
}

impl Remote {
    /// Starts the process and waits until it is ready; `None` if `stopped` was set before.
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
        // `Command` keeps its copy of our socket until its stdin is set anew. With that copy open
        // the process would never see the socket close.
        command.stdin(Stdio::null());
        let mut child = spawned.map_err(failed)?;
        let output = child.stdout.take().expect("it was piped");
        let (sender, lines) = sync_channel(LINES_WAITING_MAX);
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            // A line without an end within a megabyte is passed on as it is, and refused.
            while let Some(line) = next_line(&mut output) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let (input, looks_left) = (Some(ours), END_LOOKS_MAX);
        let mut remote =
            Self { program, child, input, lines, ahead: 0, is_same_build: false, looks_left };
        for _ in 0..START_LOOKS_MAX {
            if stopped.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match (remote.receive(0)?, remote.is_same_build) {
                (None, _) => {}
                (Some(Reply::Build(build)), false) => remote.check_build(build)?,
                (Some(Reply::Ahead(ahead)), true) => {
                    remote.set_ahead(ahead)?;
                    return Ok(Some(remote));
                }
                (Some(other), _) => {
                    let rule = "the first line must be `build`, and then `ahead`";
                    return Err(remote.invalid(&format!("{other:?}"), rule));
                }
            }
        }
        let limit_s = START_LOOKS_MAX / 20;
        Err(Box::new(RemoteError::Silent { program: remote.program.clone(), limit_s }))
    }

    fn check_build(&mut self, theirs: String) -> Result<(), Box<RemoteError>> {
        self.is_same_build = theirs == BUILD;
        if self.is_same_build {
            return Ok(());
        }
        let (program, ours) = (self.program.clone(), BUILD.to_owned());
        Err(Box::new(RemoteError::Build { program, theirs, ours }))
    }

    /// Most jobs that may be unanswered.
    pub(crate) fn ahead(&self) -> usize {
        self.ahead
    }

    pub(crate) fn set_ahead(&mut self, ahead: usize) -> Result<(), Box<RemoteError>> {
        if !(1..=AHEAD_MAX).contains(&ahead) {
            return Err(self.invalid(&format!("ahead {ahead}"), "must be from 1 to 1000000"));
        }
        self.ahead = ahead;
        Ok(())
    }

    /// Sends a request. If the process has ended, [`Remote::receive`] reports it, after the last
    /// reply.
    pub(crate) fn send(&mut self, request: &Request<'_>) {
        let text = serde_json::to_string(request);
        let text = text.expect("texts, numbers and lists of them can be written") + "\n";
        let mut rest = text.as_bytes();
        while let (Some(input), false) = (&self.input, rest.is_empty()) {
            // A process that has ended must cause an error, not a SIGPIPE.
            match send(input.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => self.close_input(),
            }
        }
    }

    /// The next message, or `None` if none arrives soon. An invalid line is an error.
    pub(crate) fn receive(&mut self, unanswered: usize) -> Result<Option<Reply>, Box<RemoteError>> {
        let line = match self.lines.recv_timeout(LOOK) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if self.input.is_some() => return Ok(None),
            Err(RecvTimeoutError::Timeout) if self.looks_left > 0 => {
                self.looks_left -= 1;
                return Ok(None);
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(self.ended("the process neither reads its input nor ends", unanswered));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let how = self.wait().map_or("still there".to_owned(), |it| it.to_string());
                return Err(self.ended(&how, unanswered));
            }
        };
        if line.len() as u64 >= LINE_BYTES_MAX {
            return Err(self.invalid(&line, "a line has less than 1 MiB"));
        }
        match serde_json::from_str(&line) {
            Ok(Reply::Broken(why)) => {
                let program = self.program.clone();
                Err(Box::new(RemoteError::Broken { program, why }))
            }
            Ok(said) => Ok(Some(said)),
            Err(error) => Err(self.invalid(line.trim_end(), &format!("is not a message: {error}"))),
        }
    }

    fn ended(&self, how: &str, unanswered: usize) -> Box<RemoteError> {
        let (program, how) = (self.program.clone(), how.to_owned());
        let fix = if self.is_same_build {
            "\nfix: run the same command again; it continues with the remaining runs"
        } else {
            "\nfix: use a Python that has the package: `tools/python.sh build`, then \
             --python target/venv/bin/python"
        };
        Box::new(RemoteError::Ended { program, how, unanswered, fix })
    }

    /// The error for a line that breaks a rule of the protocol.
    pub(crate) fn invalid(&self, line: &str, rule: &str) -> Box<RemoteError> {
        let line = line.chars().take(SHOWN_CHARS_MAX).collect();
        Box::new(RemoteError::Odd { program: self.program.clone(), line, rule: rule.to_owned() })
    }

    /// Closes the input, so that the process ends. Its remaining messages can still be read.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Asks the process to end and waits until it has, for a limited time.
    fn wait(&mut self) -> Option<ExitStatus> {
        self.close_input();
        for _ in 0..END_LOOKS_MAX {
            match self.child.try_wait() {
                // Read and drop remaining messages: the process may block on a full pipe.
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
            // The process has not been waited for, so its process id is still its own.
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
