//! Errors of running a guest.

use std::io;
use std::time::Duration;

/// Why a guest gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's folder lacks the files that `tools/guest.sh` makes.
    #[error("{folder}: no kernel for guests ({source})\nfix: bash tools/guest.sh")]
    NoKernel {
        folder: String,
        /// The error of reading the folder.
        source: io::Error,
    },
    /// The folder of the guest with systemd lacks a file that `tools/systemd-guest.sh` makes.
    #[error("{file}: no guest with systemd ({source})\nfix: bash tools/systemd-guest.sh")]
    NoSystemd {
        file: String,
        /// The error of looking for the file.
        source: io::Error,
    },
    /// An operation on the host failed.
    #[error("cannot {doing}: {source}")]
    Host { doing: String, source: io::Error },
    /// A tool that prepares the image failed.
    #[error("{tool} {file}: {said}")]
    Tool {
        tool: &'static str,
        /// The file that the tool worked on.
        file: String,
        said: String,
    },
    /// QEMU cannot be started, or fails.
    #[error("no guest: {said}\nfix: bash tools/guest.sh")]
    Qemu { said: String },
    /// The command in the guest failed.
    #[error("the guest's command ended with status {status}; its console ends:\n{console}")]
    Failed {
        status: i32,
        /// The console's last lines.
        console: String,
    },
    /// A command in a guest with systemd failed.
    #[error("in the guest, {script:?} ended with status {status}:\n{output}{errors}")]
    Command { script: String, status: i32, output: String, errors: String },
    /// A command in a guest with systemd printed something else than it should.
    #[error("in the guest, {script:?} printed no {missing}:\n{output}")]
    Missing { script: String, missing: &'static str, output: String },
    /// A folder of systemd's files has a file whose name says no place for it.
    #[error(
        "{file}: cannot install this file in a guest: name it like a unit, as `remuda.service`, or \
         with `sysusers` or `tmpfiles` and the ending `.conf`"
    )]
    NoUnit { file: String },
    /// The command in the guest printed something other than the expected JSON.
    #[error("the guest's command did not print what it should ({source}): {output}")]
    Output {
        /// The error of parsing the output.
        source: serde_json::Error,
        output: String,
    },
    /// The guest ran longer than its limit.
    #[error("the guest has not ended after {} s; its console ends:\n{console}", limit.as_secs())]
    Late {
        /// The limit, by the host's clock.
        limit: Duration,
        /// The console's last lines.
        console: String,
    },
    /// The guest's kernel ended before its first process ran, at every attempt.
    #[error("the guest's kernel did not boot, {boots} times; its console ends:\n{console}")]
    Boot {
        /// How often it was tried.
        boots: u32,
        /// The console's last lines.
        console: String,
    },
    /// The guest ended before its command did.
    #[error("the guest ended before its command did; its console ends:\n{console}")]
    Died {
        /// The console's last lines.
        console: String,
    },
}

impl Error {
    /// For `map_err`: an operation on the host that failed.
    pub fn doing(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |source| Self::Host { doing, source }
    }
}
