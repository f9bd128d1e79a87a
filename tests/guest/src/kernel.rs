//! Tests the kernel module in virtual machines: builds it for a machine's kernel, adds it to the
//! machine's image, and runs scenarios there with `remuda-kernel`.

use crate::{Ended, Error, Guest, Options, Processors, limit};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Modules that a machine loads.
const LOADED: [&str; 1] = ["tun"];
/// A warning of the kernel ends the machine.
const PARAMETERS: [&str; 2] = ["panic_on_warn=1", "softlockup_panic=1"];

/// Parallel processors use the host's clock; this factor leaves time for waiting and booting.
const PARALLEL_SLOWNESS_MAX: u32 = 3;

/// A kernel under test, and the programs that run on it.
#[derive(Debug)]
pub struct Machine {
    guest: Guest,
    processors: Processors,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of a kernel with headers; prints a message and returns `None` if it does not exist.
pub fn with_headers(name: &str) -> Option<PathBuf> {
    let folder = root().join("target/guest").join(name);
    if folder.join("headers").exists() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no kernel {name} to build for; `make test-kernel` fetches it");
    None
}

/// Builds the module of a folder of this repository for a kernel; returns the module's path.
pub fn build(kernel: &Path, folder: &str) -> Result<PathBuf, String> {
    let kernel = kernel.canonicalize().map_err(|error| {
        let name = kernel.display();
        format!("{name}: {error}\nfix: bash tools/guest.sh --headers 6.1 6.12")
    })?;
    let script = root().join("tools/module.sh");
    let output = Command::new("bash").arg(script).arg(kernel).arg(folder).output();
    let output = output.map_err(|error| format!("bash: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

impl Machine {
    /// A machine with a kernel's folder, `remuda`, `remuda-kernel`, and modules.
    ///
    /// # Errors
    ///
    /// One of the files cannot be read.
    pub fn new(
        kernel: &Path,
        processors: Processors,
        (remuda, program): (&Path, &Path),
        modules: &[PathBuf],
    ) -> Result<Self, Error> {
        let options = Options {
            processors,
            parameters: PARAMETERS.map(String::from).to_vec(),
            modules: LOADED.map(String::from).to_vec(),
            ..Options::default()
        };
        let mut guest = Guest::new(kernel, &[remuda, program])?.with_options(options);
        for module in modules {
            guest = guest.with_module(module)?;
        }
        Ok(Self { guest, processors })
    }

    /// A machine for a program that measures, with the `remuda` and `remuda-kernel` in that
    /// program's folder.
    ///
    /// # Errors
    ///
    /// One of the files cannot be read.
    pub fn beside_this_program(
        kernel: &Path,
        processors: Processors,
        modules: &[PathBuf],
    ) -> Result<Self, Error> {
        let own = std::env::current_exe().map_err(Error::doing("find this program"))?;
        let programs = ["remuda", "remuda-kernel"].map(|name| own.with_file_name(name));
        Self::new(kernel, processors, (&programs[0], &programs[1]), modules)
    }

    /// The release of the machine's kernel, as `uname -r` prints it.
    ///
    /// # Errors
    ///
    /// Those of [`Guest::run`].
    pub fn kernel_release(&self) -> Result<String, Error> {
        self.guest.kernel_release()
    }

    /// Runs scenarios, one after the other, which take at most `own` by the machine's clock.
    ///
    /// # Errors
    ///
    /// Those of [`Guest::run`].
    pub fn run(&self, scenarios: &[&str], own: Duration) -> Result<Ended, Error> {
        self.run_script(r#"remuda-kernel "$@""#, scenarios, own)
    }

    /// The same on a kernel of `tools/debug-kernel.sh`, followed by a search for leaked memory; the
    /// status is not 0 if there is any.
    ///
    /// # Errors
    ///
    /// Those of [`Guest::run`].
    pub fn run_and_find_leaks(&self, scenarios: &[&str], own: Duration) -> Result<Ended, Error> {
        self.run_script(r#"remuda-kernel "$@" && leaks"#, scenarios, own)
    }

    fn run_script(&self, script: &str, words: &[&str], own: Duration) -> Result<Ended, Error> {
        let head = ["env", "REMUDA_BIN=/bin/remuda", "sh", "-c", script, "sh"];
        let limit = match self.processors {
            Processors::Counted => limit(own),
            Processors::Parallel(_) => own * PARALLEL_SLOWNESS_MAX,
        };
        self.guest.run(&[&head, words].concat(), limit)
    }
}
