//! What can go wrong with a testbed.

use remuda_link::SpecError;
use std::io;
use std::path::PathBuf;

/// Why a testbed could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process may not make namespaces or devices.
    #[error(
        "{action}: not permitted; needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run it with sudo"
    )]
    NotPermitted { action: String },
    /// The kernel has no TUN devices.
    #[error("cannot open /dev/net/tun: {source}; load the module: sudo modprobe tun")]
    NoTun {
        /// What the system said.
        source: io::Error,
    },
    /// The path's description is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An argument of a command line is wrong.
    #[error("`{option}` is `{value}`: {rule}")]
    Argument {
        option: String,
        value: String,
        /// What it must be.
        rule: String,
    },
    /// Every address that a shell could have is taken, or there is none left to divide.
    #[error(
        "no addresses left for another shell here: they nest {depth} deep, 64 side by side on a \
         host, then 15, 15, 3, 3 and 3; end one, or put several links into one `remuda link`"
    )]
    TooManyShells {
        /// How deep they nest.
        depth: usize,
    },
    /// A log cannot be written.
    #[error("{path}: cannot write the log: {source}", path = .path.display())]
    Log {
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A capture cannot be written.
    #[error("{path}: cannot write the capture: {source}", path = .path.display())]
    Capture {
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A kernel setting cannot be written.
    #[error("cannot set {key} to `{value}`: {source}; {fix}")]
    Sysctl {
        /// Its name, with dots.
        key: String,
        /// The value it was to have.
        value: String,
        /// What the system said.
        source: io::Error,
        /// What to do instead.
        fix: &'static str,
    },
    /// A command cannot be started.
    #[error("cannot start `{command}`: {source}; is it installed and on PATH?")]
    Command {
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused something else.
    #[error("cannot {action}: {source}")]
    System {
        action: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: names the action that failed, and tells a want of rights from the rest.
    pub(crate) fn doing<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> Self {
        let action = action.into();
        move |source| {
            let source = source.into();
            if source.kind() == io::ErrorKind::PermissionDenied {
                Self::NotPermitted { action }
            } else {
                Self::System { action, source }
            }
        }
    }
}
