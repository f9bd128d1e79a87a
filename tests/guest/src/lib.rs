//! Programs of this workspace in a virtual machine whose clock counts instructions.
//!
//! A [`Guest`] is QEMU's own processor (TCG) with `-icount`: each instruction takes a nanosecond of
//! the guest's time, and when the guest is idle its clock jumps to the next event. So a slow or
//! busy host, or a hypervisor that takes its processors away, changes nothing in the guest: real
//! kernel, real TCP, real BPF. Two runs are alike but not the same, because the kernel draws random
//! numbers. The price: the guest has one processor of 1 GHz, and a second of its work takes the
//! host about ten. [`Options`] offers other processors, for races. `tools/guest.sh` fetches
//! Debian's kernels, and `tools/debug-kernel.sh` builds a kernel that detects its own faults.
//! [`kernel`] tests the kernel module in such machines; [`systemd`] boots a Debian with systemd.
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::Duration;
//!
//! let guest = remuda_guest::Guest::new(
//!     Path::new("target/guest/6.12"),
//!     &[Path::new("target/release/remuda")],
//! )?;
//! let ended = guest.run(&["remuda", "doctor"], Duration::from_secs(60))?;
//! print!("{}", ended.output);
//! # Ok::<(), remuda_guest::Error>(())
//! ```

mod console;
mod error;
mod image;
pub mod kernel;
mod machine;
mod options;
mod pool;
pub mod systemd;

pub use error::Error;
pub use options::{Options, Processors};
pub use pool::{at_once, each};

use console::last_words;
use image::Image;
use machine::{Files, Machine};
use serde::de::DeserializeOwned;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the kernel in the folder that `tools/guest.sh` makes.
const KERNEL: &str = "vmlinuz";

/// More than the time in which a guest boots, by the guest's clock.
const BOOT_MAX: Duration = Duration::from_secs(10);
/// A guest is booted this many times at most, if its kernel ends in boot. A kernel of two emulated
/// processors was seen to stop at a breakpoint of its own patching (`Oops: int3`).
const BOOTS_MAX: u32 = 3;
/// A guest that takes longer than this for each second of its clock hangs.
const SLOWNESS_MAX: u32 = 100;

/// The limit by the host's clock for a command that takes `own` by the guest's clock.
pub fn limit(own: Duration) -> Duration {
    (BOOT_MAX + own) * SLOWNESS_MAX
}

/// A virtual machine with programs; it boots anew for each command.
#[derive(Debug)]
pub struct Guest {
    kernel: PathBuf,
    image: Vec<u8>,
    options: Options,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: i32,
    pub output: String,
    /// The messages of the kernel, and the command's standard error.
    pub console: String,
}

impl Ended {
    /// The console's lines in which the kernel reports a fault. A test passes only if there are
    /// none.
    pub fn console_complaints(&self) -> Vec<&str> {
        console::complaints(&self.console)
    }
}

impl Guest {
    /// A guest with the kernel of a folder that `tools/guest.sh` made, and programs of this host,
    /// each under its name in `/bin`.
    ///
    /// # Errors
    ///
    /// [`Error::NoKernel`], which contains the fix, or an error of reading a program.
    pub fn new(folder: &Path, programs: &[&Path]) -> Result<Self, Error> {
        let kernel = folder.join(KERNEL);
        let name = || folder.display().to_string();
        fs::metadata(&kernel).map_err(|source| Error::NoKernel { folder: name(), source })?;
        let mut image = Image::bootable(folder)?;
        for program in programs {
            image.add_program(program)?;
        }
        Ok(Self { kernel, image: image.into_bytes()?, options: Options::default() })
    }

    /// The same guest with other options.
    pub fn with_options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// The same guest with one more file.
    ///
    /// # Errors
    ///
    /// The file has 4 GiB or more.
    pub fn with_file(&self, at: &Path, content: &[u8]) -> Result<Self, Error> {
        let mut more = Image::default();
        more.add(at, content)?;
        self.with(more)
    }

    /// The same guest with a kernel module of this host under its name in `/modules`, beside the
    /// modules of the kernel's folder. It is loaded if [`Options::modules`] names it, or by the
    /// command.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn with_module(&self, module: &Path) -> Result<Self, Error> {
        let mut more = Image::default();
        more.add_module(module)?;
        self.with(more)
    }

    fn with(&self, more: Image) -> Result<Self, Error> {
        let image = [&self.image[..], &more.into_bytes()?].concat();
        Ok(Self { kernel: self.kernel.clone(), image, options: self.options.clone() })
    }

    /// The release of the guest's kernel, as `uname -r` prints it.
    ///
    /// # Errors
    ///
    /// Those of [`Guest::run`], because the guest boots.
    pub fn kernel_release(&self) -> Result<String, Error> {
        Ok(self.run(&["uname", "-r"], limit(Duration::ZERO))?.output.trim().to_owned())
    }

    /// Runs a command that takes at most `own` by the guest's clock and prints JSON; returns the
    /// parsed output.
    ///
    /// # Errors
    ///
    /// Those of [`Guest::run`]; a status other than zero; an output that does not have this type.
    pub fn run_json<T: DeserializeOwned>(
        &self,
        command: &[impl AsRef<str>],
        own: Duration,
    ) -> Result<T, Error> {
        let Ended { status, output, console } = self.run(command, limit(own))?;
        if status != 0 {
            return Err(Error::Failed { status, console: last_words(&console) });
        }
        serde_json::from_str(&output).map_err(|source| Error::Output { source, output })
    }

    /// Boots the guest, runs a command and waits until it ends, for about `limit` by the host's
    /// clock. A kernel that ends before its first process runs is booted again, as nothing of ours
    /// is in it yet.
    ///
    /// # Errors
    ///
    /// An error of QEMU; or the command did not end, with the console's last lines.
    pub fn run(&self, command: &[impl AsRef<str>], limit: Duration) -> Result<Ended, Error> {
        let mut boots = 1;
        loop {
            match self.boot(command, limit) {
                Err(Error::Boot { console, .. }) if boots < BOOTS_MAX => {
                    eprintln!("guest: boots again, as its kernel ended in boot:\n{console}");
                    boots += 1;
                }
                Err(Error::Boot { console, .. }) => return Err(Error::Boot { boots, console }),
                ended => return ended,
            }
        }
    }

    fn boot(&self, command: &[impl AsRef<str>], limit: Duration) -> Result<Ended, Error> {
        let folder = tempfile::tempdir().map_err(Error::doing("make a folder"))?;
        let at = |name: &str| folder.path().join(name);
        let [image, console, output, said] = ["image", "console", "output", "said"].map(at);
        let mut told = Image::default();
        told.add("command", shell_words(command).as_bytes())?;
        told.add("load", self.options.modules.join("\n").as_bytes())?;
        fs::write(&image, self.with(told)?.image).map_err(Error::doing("write a guest's image"))?;
        let files = Files {
            kernel: &self.kernel,
            image: &image,
            console: &console,
            output: &output,
            said: &said,
        };
        let ended = Machine::start(files, &self.options)?.wait(limit)?;
        let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if ended.is_some_and(|status| !status.success()) {
            let said = read(said).map_err(Error::doing("read what QEMU said"))?;
            return Err(Error::Qemu { said: said.trim().to_owned() });
        }
        let console = read(console).map_err(Error::doing("read a guest's console"))?;
        let console = console.replace('\r', "");
        if ended.is_none() {
            return Err(Error::Late { limit, console: last_words(&console) });
        }
        if !console::has_begun(&console) {
            return Err(Error::Boot { boots: 1, console: last_words(&console) });
        }
        let Some(status) = console::status(&console) else {
            return Err(Error::Died { console: last_words(&console) });
        };
        let output = read(output).map_err(Error::doing("read a guest's output"))?;
        Ok(Ended { status, output, console })
    }
}

/// Quotes each word for a shell.
fn shell_words(command: &[impl AsRef<str>]) -> String {
    let quoted = command.iter().map(|word| format!("'{}'", word.as_ref().replace('\'', r"'\''")));
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_sees_each_word_as_it_is() {
        assert_eq!(shell_words(&["echo", "a b", "it's $HOME"]), r"'echo' 'a b' 'it'\''s $HOME'");
    }

    #[test]
    fn without_a_kernel_the_fix_is_said() {
        let error = Guest::new(Path::new("/nowhere"), &[]).expect_err("there is none");
        assert!(error.to_string().contains("tools/guest.sh"), "{error}");
    }
}
