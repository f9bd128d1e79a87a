//! What can go wrong with a guest.

use std::io;
use std::time::Duration;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder of the kernel is not what `tools/guest.sh` makes.
    #[error("{folder}: no kernel for guests ({source})\nfix: bash tools/guest.sh")]
    NoKernel {
        folder: String,
        /// What reading it said.
        source: io::Error,
    },
    /// Something on this side failed.
    #[error("cannot {doing}: {source}")]
    Host { doing: String, source: io::Error },
    /// A tool that prepares the image failed.
    #[error("{tool} {file}: {said}")]
    Tool {
        tool: &'static str,
        /// What it was to work on.
        file: String,
        said: String,
    },
    /// QEMU does not run, or fails.
    #[error("no guest: {said}\nfix: bash tools/guest.sh")]
    Qemu { said: String },
    /// The command in it failed.
    #[error("the guest's command ended with status {status}; its console ends:\n{console}")]
    Failed {
        status: i32,
        /// The console's last lines.
        console: String,
    },
    /// The command in it printed something else.
    #[error("the guest's command did not print what it should ({source}): {output}")]
    Output {
        /// What is wrong with it.
        source: serde_json::Error,
        output: String,
    },
    /// It ran for longer than it may.
    #[error("the guest has not ended after {} s; its console ends:\n{console}", limit.as_secs())]
    Late {
        /// The limit, by the host's clock.
        limit: Duration,
        /// The console's last lines.
        console: String,
    },
    /// It ended, and the command in it did not.
    #[error("the guest ended before its command did; its console ends:\n{console}")]
    Died {
        /// The console's last lines.
        console: String,
    },
}

impl Error {
    /// For `map_err`: a failure of this host while doing something.
    pub fn doing(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |source| Self::Host { doing, source }
    }
}
