//! Errors of a testbed.

use remuda_link::SpecError;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process may not make namespaces or devices.
    #[error(
        "{action}: not permitted; needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run it with sudo"
    )]
    NotPermitted { action: String },
    #[error("cannot open /dev/net/tun: {source}; load the module: sudo modprobe tun")]
    NoTun { source: io::Error },
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("`{option}` is `{value}`: {rule}")]
    Argument {
        option: String,
        value: String,
        /// The rule that the value breaks.
        rule: String,
    },
    /// No address block is free: other shells have taken all, or the outer block cannot be divided.
    #[error(
        "no addresses left for another shell here: they nest {depth} deep, 64 side by side on a \
         host, then 15, 15, 3, 3 and 3; end one, or put several links into one `remuda link`"
    )]
    TooManyShells {
        /// How deep shells may nest.
        depth: usize,
    },
    /// The namespace itself uses addresses of every block that no other shell has.
    #[error(
        "no addresses left for a shell here: each shell takes a block of 100.64.0.0/10; this \
         network namespace has addresses or routes in {used} blocks, such as {example}, and \
         running shells hold {held}; remove such a route, or start the shell in a network \
         namespace without it: unshare --net COMMAND"
    )]
    BlocksInUse {
        /// How many blocks the namespace uses itself.
        used: usize,
        /// How many blocks other shells hold.
        held: usize,
        /// An address or a subnet that the namespace uses.
        example: String,
    },
    #[error("{path}: cannot write the log: {source}", path = .path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error("{path}: cannot write the capture: {source}", path = .path.display())]
    Capture { path: PathBuf, source: io::Error },
    #[error("cannot set {key} to `{value}`: {source}; {fix}")]
    Sysctl {
        /// The key, with dots.
        key: String,
        value: String,
        source: io::Error,
        /// What the user can do instead.
        fix: &'static str,
    },
    #[error("cannot start `{command}`: {source}; is it installed and on PATH?")]
    Command { command: String, source: io::Error },
    /// Any other call that failed.
    #[error("cannot {action}: {source}")]
    System { action: String, source: io::Error },
}

impl Error {
    /// For `map_err`: names the action that failed. A permission error becomes `NotPermitted`.
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
