//! Collects on a Ray cluster: a Python process distributes files to workers, and stores them.
//!
//! `python/remuda/training/ray_collect.py` is that process, and describes its input and output.
//! This module decides which files are missing, and whether a stored file is complete.

use crate::Failure;
use crate::train::python::module;
use remuda_matrix::BUILD;
use remuda_samples::{Collection, Progress};
use serde::Deserialize;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// How often the loop checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// The number of checks before a process that does not end is killed.
const END_LOOKS_MAX: u32 = 20 * 20;
/// The most lines that wait here; others wait in the pipe.
const LINES_WAITING_MAX: usize = 1_024;

/// The Ray cluster that makes the files.
pub struct Cluster<'a> {
    pub python: &'a Path,
    /// `None`: a new local cluster.
    pub address: Option<&'a str>,
    /// How many files at a time; `None`: as many as fit.
    pub jobs: Option<usize>,
}

/// A line of the process's output.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Message {
    Build(String),
    Done((u64, u64)),
    Broken(String),
}

impl Cluster<'_> {
    /// Collects the missing files; `None` if it was stopped. Calls `show` with the progress.
    pub fn collect(
        &self,
        collection: &Collection,
        stopped: &AtomicBool,
        show: impl Fn(Progress),
    ) -> Result<Option<Progress>, Failure> {
        let missing = collection.missing();
        let left: u64 = missing.iter().map(|seeds| seeds.end - seeds.start).sum();
        let all = collection.environments;
        let mut progress = Progress { done: all - left, kept: all - left, all };
        show(progress);
        if missing.is_empty() {
            return Ok(Some(progress));
        }
        let folder = std::path::absolute(&collection.folder)?;
        let seeds: Vec<_> = missing.iter().map(|seeds| [seeds.start, seeds.end]).collect();
        let (plans, about) = (collection.plans, &collection.about);
        let task = json!({ "folder": folder, "plans": plans, "about": about, "seeds": seeds });
        let process = self.start(&task.to_string())?;
        while let Some(message) = process.receive(stopped)? {
            match message {
                Message::Build(theirs) if theirs == BUILD => {}
                Message::Build(theirs) => {
                    let fix = "fix: build and install both from the same source tree";
                    let both = format!("{theirs}, and this command is {BUILD}");
                    return Err(format!("{}: it is {both}\n{fix}", self.python.display()).into());
                }
                Message::Done((first, end)) => {
                    progress.done += end.saturating_sub(first);
                    show(progress);
                }
                Message::Broken(why) => return Err(why.into()),
            }
        }
        drop(process);
        let missing = collection.missing();
        match missing.first() {
            None => Ok(Some(progress)),
            Some(_) if stopped.load(Ordering::Relaxed) => Ok(None),
            Some(seeds) => {
                let which = format!("environments {} to {}", seeds.start, seeds.end - 1);
                let fix = "see above; the same command goes on where it was";
                Err(format!("Ray ended without a file of {which}\nfix: {fix}").into())
            }
        }
    }

    fn start(&self, task: &str) -> Result<Process, Failure> {
        let mut command = module(self.python, "remuda.training.ray_collect");
        if let Some(address) = self.address {
            command.args(["--address", address]);
        }
        if let Some(jobs) = self.jobs {
            command.args(["--jobs", &jobs.to_string()]);
        }
        // The process gets its own group: Ctrl-C goes to us, and the end of its input ends it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let fix = "fix: pip install remuda[ray], or name another Python with --python";
        let named = |error| format!("{}: {error}\n{fix}", self.python.display());
        let mut child = command.spawn().map_err(named)?;
        let output = child.stdout.take().expect("it was piped");
        let (sender, lines) = sync_channel(LINES_WAITING_MAX);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut process = Process { child, lines };
        if let Some(input) = &mut process.child.stdin {
            // If the process has ended, `receive` finds that.
            let _ = writeln!(input, "{task}");
        }
        Ok(process)
    }
}

/// The process. Dropping it ends the process.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// The next line of output; `None` once the process has ended or `stopped` is set.
    fn receive(&self, stopped: &AtomicBool) -> Result<Option<Message>, Failure> {
        while !stopped.load(Ordering::Relaxed) {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    let shown: String = line.chars().take(200).collect();
                    let message = serde_json::from_str(&line);
                    return message.map(Some).map_err(|error| format!("`{shown}`: {error}").into());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
        Ok(None)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        for _ in 0..END_LOOKS_MAX {
            // Its output is no longer needed, but the process may wait for a reader.
            while self.lines.try_recv().is_ok() {}
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK);
        }
        // The child has not been waited for, so its process id is still its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
