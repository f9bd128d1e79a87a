//! The kernel module in virtual machines, from outside: it is built for a machine's kernel, put
//! into it, and told by `remuda-kernel` what to do there.

use remuda_guest::{Ended, Error, Guest, Options, Processors, limit};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where a machine has modules.
const LOADED: [&str; 1] = ["tun"];
/// A machine that warns has failed.
const PARAMETERS: [&str; 2] = ["panic_on_warn=1", "softlockup_panic=1"];

/// The clock of parallel processors is the host's, on which they may wait, and boot.
const PARALLEL_SLOWNESS_MAX: u32 = 3;

/// A kernel of tests, and what runs on it.
#[derive(Debug)]
pub struct Machine {
    guest: Guest,
    processors: Processors,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of a kernel that modules can be built for; `None`, said loudly, if it is not there.
pub fn kernel(name: &str) -> Option<PathBuf> {
    let folder = root().join("target/guest").join(name);
    if folder.join("headers").exists() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no kernel {name} to build for; `make test-kernel` fetches it");
    None
}

/// Builds the module of a folder of this repository for a kernel; where it is.
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
    /// With a kernel's folder, `remuda`, `remuda-kernel`, and modules.
    ///
    /// # Errors
    ///
    /// What reading one of them said.
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

    /// For a program that measures: with `remuda` and `remuda-kernel` that lie beside it.
    ///
    /// # Errors
    ///
    /// What reading one of them said.
    pub fn beside_this_program(
        kernel: &Path,
        processors: Processors,
        modules: &[PathBuf],
    ) -> Result<Self, Error> {
        let own = std::env::current_exe().map_err(Error::doing("find this program"))?;
        let programs = ["remuda", "remuda-kernel"].map(|name| own.with_file_name(name));
        Self::new(kernel, processors, (&programs[0], &programs[1]), modules)
    }

    /// Its kernel's release, as `uname -r` says it.
    ///
    /// # Errors
    ///
    /// Those of [`Guest::run`].
    pub fn kernel_release(&self) -> Result<String, Error> {
        self.guest.kernel_release()
    }

    /// Runs scenarios, which take it so long by its own clock, one after the other.
    ///
    /// # Errors
    ///
    /// Those of [`Guest::run`].
    pub fn run(&self, scenarios: &[&str], own: Duration) -> Result<Ended, Error> {
        self.run_script(r#"remuda-kernel "$@""#, scenarios, own)
    }

    /// The same on a kernel of `tools/debug-kernel.sh`, and the search for lost memory: its status
    /// is not 0 if there is any.
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
