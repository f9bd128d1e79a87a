//! QEMU, with its own processor (TCG): no KVM.

use crate::{Error, Options, Processors};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const TURN: Duration = Duration::from_millis(100);
/// An instruction takes a nanosecond; idle time takes no time of the host.
const CLOCK: &str = "shift=0,sleep=off";
/// Without the processor's sources of randomness; and without five-level page tables, on which a
/// kernel with KASAN can report a false access to wild memory when an interrupt comes during boot.
const PROCESSOR: &str = "max,-rdrand,-rdseed,-la57";
/// A fixed date, independent of the host's.
const DATE: &str = "base=2026-01-01,clock=vm";
/// The console shows the kernel's warnings and worse. An emulated timer may be late where the host
/// is busy, so the kernel does not check it.
const PARAMETERS: &str = "console=ttyS0 loglevel=5 nokaslr no_timer_check panic=-1 panic_on_oops=1";

/// A virtual machine that runs until this value is dropped.
#[derive(Debug)]
pub(crate) struct Machine(Child);

/// The files from which a machine boots and to which it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) image: &'a Path,
    pub(crate) console: &'a Path,
    pub(crate) output: &'a Path,
    pub(crate) said: &'a Path,
}

impl Machine {
    pub(crate) fn start(files: Files<'_>, options: &Options) -> Result<Self, Error> {
        Self::spawn(arguments(files, options), files.said)
    }

    fn spawn(arguments: Vec<OsString>, said: &Path) -> Result<Self, Error> {
        let said = fs::File::create(said).map_err(Error::doing("make a file for a guest"))?;
        // The machine dies with this thread, whatever ends it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(said)
            .spawn()
            .map_err(Error::doing("start setpriv"))?;
        Ok(Self(child))
    }

    /// The machine's exit status, if it ends within the limit.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, Error> {
        let turns = limit.as_millis() / TURN.as_millis();
        for _ in 0..=turns {
            let ended = self.0.try_wait().map_err(Error::doing("wait for a guest"))?;
            if ended.is_some() {
                return Ok(ended);
            }
            thread::sleep(TURN);
        }
        Ok(None)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The machine may have ended already, so both errors are ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A machine with a thread of its own, so that it outlives the thread that started it. It ends when
/// this value is dropped, or with this process.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// The limit for which the thread is to wait until the machine ends.
    wait: Option<Sender<Duration>>,
    ended: Receiver<Result<Option<ExitStatus>, Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts QEMU with these arguments; what it says goes to the file.
    pub(crate) fn start(arguments: Vec<OsString>, said: &Path) -> Result<Self, Error> {
        let (wait, waits) = mpsc::channel::<Duration>();
        let (answers, ended) = mpsc::channel();
        let said = said.to_owned();
        let thread = thread::spawn(move || {
            let mut machine = match Machine::spawn(arguments, &said) {
                Ok(machine) => machine,
                Err(error) => return drop(answers.send(Err(error))),
            };
            // An answer that nobody waits for is dropped.
            let mut answer = |limit| answers.send(machine.wait(limit)).is_ok();
            let _ = answer(Duration::ZERO);
            while waits.recv().is_ok_and(&mut answer) {}
        });
        let keeper = Self { wait: Some(wait), ended, thread: Some(thread) };
        keeper.answer()?;
        Ok(keeper)
    }

    /// The machine's exit status, if it ends within the limit.
    pub(crate) fn wait(&self, limit: Duration) -> Result<Option<ExitStatus>, Error> {
        if let Some(wait) = &self.wait {
            // If the thread has ended, the answer is an error.
            let _ = wait.send(limit);
        }
        self.answer()
    }

    fn answer(&self) -> Result<Option<ExitStatus>, Error> {
        let gone = |_| Error::doing("keep a guest")(std::io::Error::other("its thread ended"));
        self.ended.recv().map_err(gone)?
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The thread ends the machine once there is nobody to wait for.
        self.wait = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn arguments(files: Files<'_>, options: &Options) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |flag: &str, value: OsString| arguments.extend([flag.into(), value]);
    match options.processors {
        Processors::Counted => {
            add("-accel", "tcg,thread=single".into());
            add("-icount", CLOCK.into());
            add("-smp", "1".into());
        }
        Processors::Parallel(number) => {
            add("-accel", "tcg,thread=multi".into());
            add("-smp", number.to_string().into());
        }
    }
    let parameters = [&[PARAMETERS.to_owned()], &options.parameters[..]].concat().join(" ");
    add("-cpu", PROCESSOR.into());
    add("-rtc", DATE.into());
    add("-m", options.memory_mib.to_string().into());
    add("-append", parameters.into());
    add("-kernel", files.kernel.into());
    add("-initrd", files.image.into());
    for device in ["-display", "-monitor", "-net"] {
        add(device, "none".into());
    }
    for port in [files.console, files.output] {
        let mut file = OsString::from("file:");
        file.push(port);
        add("-serial", file);
    }
    arguments.push("-no-reboot".into());
    arguments
}
