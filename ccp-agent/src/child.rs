//! Starts an agent as a child process, for the demonstration, tests and benchmarks.
//!
//! The child is the real binary with its real sockets. It has its own run directory and its own
//! algorithm name, so it disturbs no other agent on the host. The kernel kills it when the thread
//! that started it ends.

use crate::control::{Answer, Request, ask};
use crate::error::on;
use crate::flow::Row;
use crate::host::Target;
use crate::{Error, run_dir};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Half a minute: an agent in a guest whose processor is emulated takes ten seconds to start.
const READY_TRIES: u32 = 1_500;
const RETRY_AFTER: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct AgentChild {
    child: Child,
    run_dir: PathBuf,
}

impl AgentChild {
    /// Starts `binary agent` in `run_dir` with further arguments, and waits until the agent
    /// answers.
    pub fn start(binary: &Path, run_dir: &Path, arguments: &[&str]) -> Result<Self, Error> {
        Self::start_as(binary, run_dir, arguments, None)
    }

    /// As [`Self::start`]; the agent runs as the user and the group of this number.
    pub fn start_as(
        binary: &Path,
        run_dir: &Path,
        arguments: &[&str],
        user: Option<u32>,
    ) -> Result<Self, Error> {
        let log_path = run_dir.with_extension("stderr");
        let log = File::create(&log_path).map_err(on(log_path.display()))?;
        let mut command = Command::new(binary);
        command.arg("agent").arg("--run-dir").arg(run_dir).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        // SAFETY: the closure makes one system call between fork and exec.
        unsafe { command.pre_exec(|| set_pdeathsig(Signal::SIGKILL).map_err(Into::into)) };
        let child = command.spawn().map_err(on(binary.display()))?;
        let mut agent = Self { child, run_dir: run_dir.to_owned() };
        for _ in 0..READY_TRIES {
            if ask(run_dir, &Request::Status {}).is_ok() {
                return Ok(agent);
            }
            if agent.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                break;
            }
            std::thread::sleep(RETRY_AFTER);
        }
        let stderr = fs::read_to_string(&log_path).unwrap_or_default();
        Err(Error::Refused(format!("the agent did not start; its error output:\n{stderr}")))
    }

    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn flows(&self) -> Result<Vec<Row>, Error> {
        match ask(&self.run_dir, &Request::Flows {})? {
            Answer::Flows { flows, .. } => Ok(flows),
            other => Err(Error::Refused(format!("not an answer to flows: {other:?}"))),
        }
    }

    /// Gives some flows another arm or policy. Returns how many running flows change.
    pub fn set(&self, target: Target, to: &str) -> Result<usize, Error> {
        match ask(&self.run_dir, &Request::Set { target, to: to.to_owned() })? {
            Answer::Set { flows } => Ok(flows),
            other => Err(Error::Refused(format!("not an answer to set: {other:?}"))),
        }
    }

    /// Deletes the memory of destinations. Returns how many addresses and networks were deleted.
    pub fn forget(&self) -> Result<usize, Error> {
        match ask(&self.run_dir, &Request::Forget { of: None })? {
            Answer::Forgot { destinations } => Ok(destinations),
            other => Err(Error::Refused(format!("not an answer to forget: {other:?}"))),
        }
    }

    /// The events so far, one JSON object each.
    pub fn events(&self) -> Result<Vec<serde_json::Value>, Error> {
        let path = run_dir::event_log(&self.run_dir);
        let text = fs::read_to_string(&path).map_err(on(path.display()))?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Sends the child a signal: SIGSTOP freezes it, SIGCONT lets it go on.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = Pid::from_raw(self.child.id() as i32);
        kill(pid, signal).map_err(|errno| on("signalling the agent")(errno.into()))
    }

    /// Kills the child with SIGKILL, as a crash would.
    pub fn kill(mut self) -> Result<(), Error> {
        self.child.kill().map_err(on("killing the agent"))?;
        self.child.wait().map_err(on("waiting for the agent"))?;
        Ok(())
    }

    /// Stops the child with SIGTERM, and waits for it. An exit status other than 0 is an error.
    pub fn stop(mut self) -> Result<(), Error> {
        self.signal(Signal::SIGTERM)?;
        let status = self.child.wait().map_err(on("waiting for the agent"))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Refused(format!("the agent ended with {status}")))
    }
}

impl Drop for AgentChild {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.signal(Signal::SIGCONT);
            let _ = self.signal(Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}
