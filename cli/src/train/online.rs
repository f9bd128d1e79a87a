//! `remuda train antelope --online`: corrects the model in force by live flows, once or repeatedly.

use super::python::{FIX, check, is_help, module};
use crate::Failure;
use ccp_agent::{Config, run_dir};
use clap::Args;
use remuda_selector::antelope::model::Model;
use rustix::process::{Pid, Signal, kill_process, nice};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::NamedTempFile;

/// The exit status of a training that has printed its error and the fix.
const REFUSED: i32 = 2;
/// The training's nice value: live flows have priority.
const NICE: i32 = 10;
/// How often the loop checks for Ctrl-C and for the end of the training.
const LOOK: Duration = Duration::from_millis(50);
/// The number of checks before a training that does not end is killed.
const END_LOOKS_MAX: u32 = 10 * 20;
/// The shortest interval: a training takes seconds, and its data changes by the hour.
const EVERY_LEAST: Duration = Duration::from_secs(10);

/// Where the agent keeps its samples, and how often to train on them.
#[derive(Debug, Args)]
pub struct LiveArgs {
    /// The agent's configuration file, for its state directory and model
    #[arg(long, value_name = "FILE", requires = "online")]
    config: Option<PathBuf>,
    /// The agent's state directory [default: that of the configuration, or /var/lib/remuda]
    #[arg(long, value_name = "DIR", requires = "online")]
    state_dir: Option<PathBuf>,
    /// The agent's samples of live flows [default: samples in the state directory]
    #[arg(long, value_name = "DIR", requires = "online")]
    samples: Option<PathBuf>,
    /// Train again after this time, until Ctrl-C: 90s, 30m, 6h or 1d
    #[arg(long, value_name = "TIME", value_parser = every, requires = "online")]
    every: Option<Duration>,
}

fn every(text: &str) -> Result<Duration, String> {
    let form = "a number and s, m, h or d, such as 30m; at least 10s";
    let unit_s = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        _ => return Err(form.to_owned()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| form)?;
    let time = Duration::from_secs(u64::from(count) * unit_s);
    if time < EVERY_LEAST { Err(form.to_owned()) } else { Ok(time) }
}

/// The settings of an online training.
pub struct Online<'a> {
    pub live: &'a LiveArgs,
    /// The model in force, if it was given.
    pub model: Option<&'a Path>,
    pub python: &'a Path,
    /// Arguments for the training program.
    pub training: &'a [String],
}

/// The files of an agent.
struct Places {
    samples: PathBuf,
    current: PathBuf,
    candidate: PathBuf,
    /// The model in the agent's configuration.
    configured: Option<PathBuf>,
}

impl Online<'_> {
    /// Trains once, or with `--every` until `stopped` is set.
    pub fn run(&self, stopped: &AtomicBool) -> Result<(), Failure> {
        let places = self.places()?;
        nice(NICE)?;
        let Some(every) = self.live.every else {
            let is_whole = self.round(&places, stopped)?;
            return if is_whole { Ok(()) } else { Err("stopped: nothing was written".into()) };
        };
        let mut is_first = true;
        while !stopped.load(Ordering::Relaxed) {
            match self.round(&places, stopped) {
                // An error in the first training is a wrong setting, which time does not repair.
                Err(error) if is_first => return Err(error),
                Err(error) => eprintln!("remuda: {error}\nremuda: trying again in {every:?}"),
                Ok(_) => {}
            }
            is_first = false;
            let mut left = every;
            while !left.is_zero() && !stopped.load(Ordering::Relaxed) {
                thread::sleep(LOOK.min(left));
                left = left.saturating_sub(LOOK);
            }
        }
        Ok(())
    }

    fn places(&self) -> Result<Places, Failure> {
        let config = match &self.live.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        let state_dir = self.live.state_dir.clone().unwrap_or_else(|| config.state_dir());
        let models = state_dir.join("models");
        let kept = || run_dir::samples_dir(&state_dir);
        Ok(Places {
            samples: self.live.samples.clone().unwrap_or_else(kept),
            current: models.join("current.json"),
            candidate: models.join("candidate.json"),
            configured: config.policy.antelope.model,
        })
    }

    /// Trains once. Returns whether it completed.
    fn round(&self, places: &Places, stopped: &AtomicBool) -> Result<bool, Failure> {
        let mut shipped = NamedTempFile::new()?;
        let model = match (self.model, &places.configured) {
            (Some(path), _) => path,
            (None, _) if places.current.exists() => &places.current,
            (None, Some(path)) => path,
            (None, None) => {
                shipped.write_all(Model::shipped_text().as_bytes())?;
                shipped.path()
            }
        };
        let mut command = module(self.python, "remuda.training.online");
        command.arg("--model").arg(model).arg("--samples").arg(&places.samples);
        command.arg("--out").arg(&places.candidate).args(self.training);
        let Some(output) = self.output_of(&mut command, stopped)? else { return Ok(false) };
        print!("{output}");
        if output.starts_with("written: ") && !is_help(self.training) {
            check(&places.candidate)?;
        }
        Ok(true)
    }

    /// Runs the training and returns its output; `None` if it was stopped.
    fn output_of(
        &self,
        command: &mut Command,
        stopped: &AtomicBool,
    ) -> Result<Option<String>, Failure> {
        let python = self.python.display();
        // The training gets its own process group: Ctrl-C goes to us, and we end the training.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("{python}: {error}\n{FIX}"))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if stopped.load(Ordering::Relaxed) {
                end(&mut child);
                return Ok(None);
            }
            thread::sleep(LOOK);
        };
        if status.code() == Some(REFUSED) {
            return Err("nothing was trained: see the error above".into());
        }
        if !status.success() {
            return Err(format!("{python} -m remuda.training.online: {status}\n{FIX}").into());
        }
        let mut text = String::new();
        // The output is one line, which fits into the pipe.
        child.stdout.take().map_or(Ok(0), |mut output| output.read_to_string(&mut text))?;
        Ok(Some(text))
    }
}

/// Ends a training as Ctrl-C would. The training writes its file whole or not at all.
fn end(child: &mut Child) {
    // The child has not been waited for, so its process id is still its own. If it has ended, fine.
    let _ = kill_process(Pid::from_child(child), Signal::INT);
    for _ in 0..END_LOOKS_MAX {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(LOOK);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, want_s) in [("90s", 90), ("30m", 1_800), ("6h", 21_600), ("2d", 172_800)] {
            assert_eq!(every(text), Ok(Duration::from_secs(want_s)), "{text}");
        }
        for text in ["", "s", "90", "1.5h", "-1h", "9s", "0d", "1h ", "99999999999d", "1µ"] {
            assert!(every(text).expect_err(text).contains("such as 30m"), "{text}");
        }
    }
}
