//! QEMU, with its own processor (TCG): no KVM.

use crate::{Error, Options, Processors};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

const TURN: Duration = Duration::from_millis(100);
/// An instruction takes a nanosecond; idle time takes no time of the host.
const CLOCK: &str = "shift=0,sleep=off";
/// Without the processor's sources of randomness; and without five-level page tables, on which a
/// kernel with KASAN can report a false access to wild memory when an interrupt comes during boot.
const PROCESSOR: &str = "max,-rdrand,-rdseed,-la57";
/// A fixed date, independent of the host's.
const DATE: &str = "base=2026-01-01,clock=vm";
/// The console shows the kernel's warnings and worse.
const PARAMETERS: &str = "console=ttyS0 loglevel=5 nokaslr panic=-1 panic_on_oops=1";

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
        let said = fs::File::create(files.said).map_err(Error::doing("make a file for a guest"))?;
        // The machine dies with this thread, whatever ends it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(arguments(files, options))
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
            std::thread::sleep(TURN);
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
