//! Collecting on a Ray cluster: a process in Python hands files out, and puts them into place.
//!
//! `python/remuda/training/ray_collect.py` is that process, and says what it is
//! told and what it says. Which files are missing, and whether what came is whole, is decided here.

use crate::Failure;
use crate::train::module;
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

/// How often Ctrl-C is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A cluster of one's own ends within seconds; then it is ended.
const END_LOOKS_MAX: u32 = 20 * 20;
/// So many answers wait here, and the rest in the pipe.
const LINES_WAITING_MAX: usize = 1_024;

/// Where files are made.
pub struct Cluster<'a> {
    pub python: &'a Path,
    /// None: one of its own.
    pub address: Option<&'a str>,
    /// How many files at a time; none: as many as fit.
    pub jobs: Option<usize>,
}

/// What the process says.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Said {
    Build(String),
    Done((u64, u64)),
    Broken(String),
}

impl Cluster<'_> {
    /// Collects what is not there yet; `None` if it was stopped. `show` is told how far it is.
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
        while let Some(said) = process.hear(stopped)? {
            match said {
                Said::Build(theirs) if theirs == BUILD => {}
                Said::Build(theirs) => {
                    let fix = "fix: build and install both from one tree";
                    let both = format!("{theirs}, and this command is {BUILD}");
                    return Err(format!("{}: it is {both}\n{fix}", self.python.display()).into());
                }
                Said::Done((first, end)) => {
                    progress.done += end.saturating_sub(first);
                    show(progress);
                }
                Said::Broken(why) => return Err(why.into()),
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
        // A group of its own: Ctrl-C is for us, and the end of its input tells it.
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
            // If it is gone, that shows when it is heard.
            let _ = writeln!(input, "{task}");
        }
        Ok(process)
    }
}

/// The process; it ends with this.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// What it says next; nothing once it has ended, or `stopped` is set.
    fn hear(&self, stopped: &AtomicBool) -> Result<Option<Said>, Failure> {
        while !stopped.load(Ordering::Relaxed) {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    let shown: String = line.chars().take(200).collect();
                    let said = serde_json::from_str(&line);
                    return said.map(Some).map_err(|error| format!("`{shown}`: {error}").into());
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
            // What it says now nobody waits for, but it may wait for a reader.
            while self.lines.try_recv().is_ok() {}
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK);
        }
        // It is ours, and not waited for yet: the number is its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
