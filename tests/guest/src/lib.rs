//! Programs of this workspace in a virtual machine whose clock counts instructions.
//!
//! A [`Guest`] is QEMU's own processor (TCG) with `-icount`: each instruction takes a nanosecond of
//! the guest's time, and while nothing is to be done its clock leaps to what comes next. So a late
//! or busy host, or a hypervisor that takes its processors away, changes nothing in it: real
//! kernel, real TCP, real BPF. Two runs are alike, but not the same: the kernel draws numbers of
//! its own. What that costs: there is one processor, of 1 GHz, and a second of its work takes the
//! host about ten. `tools/guest.sh` fetches the kernel, one of Debian's.
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::Duration;
//!
//! let guest = remuda_guest::Guest::new(
//!     Path::new("target/guest"),
//!     &[Path::new("target/release/remuda")],
//! )?;
//! let ended = guest.run(&["remuda", "doctor"], Duration::from_secs(60))?;
//! print!("{}", ended.output);
//! # Ok::<(), remuda_guest::Error>(())
//! ```

mod error;
mod image;

pub use error::Error;

use image::Image;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The kernel in the folder that `tools/guest.sh` makes.
const KERNEL: &str = "vmlinuz";
/// `init.sh` says so when the command has ended.
const ENDED: &str = "guest: ended with status ";
/// How much of a console an error shows.
const LAST_LINES: usize = 60;
const TURN: Duration = Duration::from_millis(100);
/// One instruction a nanosecond; idle time takes none of the host's.
const CLOCK: &str = "shift=0,sleep=off";
/// Without its sources of randomness.
const PROCESSOR: &str = "max,-rdrand,-rdseed";
/// Its date is not the host's.
const DATE: &str = "base=2026-01-01,clock=vm";
const PARAMETERS: &str = "console=ttyS0 quiet nokaslr panic=-1 panic_on_oops=1";
const MEMORY_MIB: &str = "1024";

/// In which a guest boots, by its own clock, and more.
const BOOT_MAX: Duration = Duration::from_secs(10);
/// A guest that takes longer than this for each of its own seconds hangs.
const SLOWNESS_MAX: u32 = 100;

/// What a guest may take by the host's clock for a command that takes it so long by its own.
pub fn limit(own: Duration) -> Duration {
    (BOOT_MAX + own) * SLOWNESS_MAX
}

/// So many guests run at once: one for each processor.
pub fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// A virtual machine with programs, started anew for each command.
#[derive(Debug)]
pub struct Guest {
    kernel: PathBuf,
    image: Vec<u8>,
}

/// A command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status.
    pub status: i32,
    /// What it printed.
    pub output: String,
    /// What the kernel, and the command's errors, said.
    pub console: String,
}

impl Guest {
    /// With the kernel of a folder that `tools/guest.sh` made, and programs of this host, each
    /// under its name in `/bin`.
    ///
    /// # Errors
    ///
    /// [`Error::NoKernel`] with the fix, and what reading a program said.
    pub fn new(folder: &Path, programs: &[&Path]) -> Result<Self, Error> {
        let kernel = folder.join(KERNEL);
        let name = || folder.display().to_string();
        fs::metadata(&kernel).map_err(|source| Error::NoKernel { folder: name(), source })?;
        let mut image = Image::bootable(folder)?;
        for program in programs {
            image.add_program(program)?;
        }
        Ok(Self { kernel, image: image.into_bytes()? })
    }

    /// The same with one more file.
    ///
    /// # Errors
    ///
    /// A file of 4 GiB or more does not fit.
    pub fn with_file(&self, at: &Path, content: &[u8]) -> Result<Self, Error> {
        let mut more = Image::default();
        more.add(at, content)?;
        let image = [&self.image[..], &more.into_bytes()?].concat();
        Ok(Self { kernel: self.kernel.clone(), image })
    }

    /// Its kernel's release, as `uname -r` says it.
    ///
    /// # Errors
    ///
    /// Those of [`Guest::run`]: it boots.
    pub fn kernel_release(&self) -> Result<String, Error> {
        Ok(self.run(&["uname", "-r"], limit(Duration::ZERO))?.output.trim().to_owned())
    }

    /// Runs a command that takes it so long by its own clock, and prints JSON: what that says.
    ///
    /// # Errors
    ///
    /// Those of [`Guest::run`]; a status other than zero; an output that is not of this type.
    pub fn run_json<T: DeserializeOwned>(
        &self,
        command: &[impl AsRef<str>],
        own: Duration,
    ) -> Result<T, Error> {
        let Ended { status, output, console } = self.run(command, limit(own))?;
        if status != 0 {
            return Err(Error::Failed { status, console: last_lines(&console) });
        }
        serde_json::from_str(&output).map_err(|source| Error::Output { source, output })
    }

    /// Boots it, runs a command, and waits for its end, by the host's clock for about so long at
    /// most.
    ///
    /// # Errors
    ///
    /// That of QEMU; and where the command did not come to its end, with the console's last lines.
    pub fn run(&self, command: &[impl AsRef<str>], limit: Duration) -> Result<Ended, Error> {
        let folder = tempfile::tempdir().map_err(Error::doing("make a folder"))?;
        let at = |name: &str| folder.path().join(name);
        let [image, console, output, said] = ["image", "console", "output", "said"].map(at);
        let told = self.with_file(Path::new("command"), shell_words(command).as_bytes())?;
        fs::write(&image, &told.image).map_err(Error::doing("write a guest's image"))?;
        let mut machine = Machine::start(&self.kernel, &image, [&console, &output], &said)?;
        let ended = machine.wait(limit)?;
        let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if ended.is_some_and(|status| !status.success()) {
            let said = read(said).map_err(Error::doing("read what QEMU said"))?;
            return Err(Error::Qemu { said: said.trim().to_owned() });
        }
        let console = read(console).map_err(Error::doing("read a guest's console"))?;
        let console = console.replace('\r', "");
        if ended.is_none() {
            return Err(Error::Late { limit, console: last_lines(&console) });
        }
        let Some(status) = status(&console) else {
            return Err(Error::Died { console: last_lines(&console) });
        };
        let output = read(output).map_err(Error::doing("read a guest's output"))?;
        Ok(Ended { status, output, console })
    }
}

/// QEMU, for as long as this lives.
#[derive(Debug)]
struct Machine(Child);

impl Machine {
    fn start(kernel: &Path, image: &Path, ports: [&Path; 2], said: &Path) -> Result<Self, Error> {
        let said = fs::File::create(said).map_err(Error::doing("make a file for a guest"))?;
        // It dies with us, however we end.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        command.args(["-accel", "tcg,thread=single", "-icount", CLOCK, "-cpu", PROCESSOR]);
        command.args(["-smp", "1", "-m", MEMORY_MIB, "-rtc", DATE, "-append", PARAMETERS]);
        command.args(["-display", "none", "-monitor", "none", "-net", "none", "-no-reboot"]);
        command.arg("-kernel").arg(kernel).arg("-initrd").arg(image);
        for port in ports {
            command.arg("-serial").arg(format!("file:{}", port.display()));
        }
        let child = command
            .stdin(Stdio::null())
            .stderr(said)
            .spawn()
            .map_err(Error::doing("start setpriv"))?;
        Ok(Self(child))
    }

    /// How it ended, if it did in time.
    fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, Error> {
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
        // It may have ended; there is no other use for either error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// For a shell: each word as it is.
fn shell_words(command: &[impl AsRef<str>]) -> String {
    let quoted = command.iter().map(|word| format!("'{}'", word.as_ref().replace('\'', r"'\''")));
    quoted.collect::<Vec<_>>().join(" ")
}

fn status(console: &str) -> Option<i32> {
    console.lines().rev().find_map(|line| line.strip_prefix(ENDED)?.trim().parse().ok())
}

fn last_lines(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_sees_each_word_as_it_is() {
        assert_eq!(shell_words(&["echo", "a b", "it's $HOME"]), r"'echo' 'a b' 'it'\''s $HOME'");
    }

    #[test]
    fn the_status_is_in_the_consoles_last_lines() {
        assert_eq!(status("boot\nguest: ended with status 3\n[ 2.0] Power down\n"), Some(3));
        assert_eq!(status("boot\nKernel panic\n"), None);
    }

    #[test]
    fn without_a_kernel_the_fix_is_said() {
        let error = Guest::new(Path::new("/nowhere"), &[]).expect_err("there is none");
        assert!(error.to_string().contains("tools/guest.sh"), "{error}");
    }
}
