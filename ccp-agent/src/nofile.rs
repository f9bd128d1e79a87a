//! The limit on this process's file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::OnceLock;

/// The limit that this process was started with.
static INHERITED: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit as far as this process may: from the soft limit, often 1024, to the hard one.
/// Returns the limit in force; `None` means unlimited.
pub fn raise() -> Option<u64> {
    let inherited = getrlimit(Resource::Nofile);
    let _ = INHERITED.set(inherited.clone());
    let raised = Rlimit { current: inherited.maximum, maximum: inherited.maximum };
    if let Err(errno) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%errno, limit = inherited.current, "the limit on descriptors stays");
        return inherited.current;
    }
    inherited.maximum
}

/// The limit for a child of this process, if it differs from this process's own. A program that
/// waits by `select` must not get descriptors beyond 1023.
pub fn of_children() -> Option<Rlimit> {
    INHERITED.get().cloned()
}

/// Gives this process the limit of a child. It makes one system call, so it may be called between
/// fork and exec.
pub fn set(limit: &Rlimit) -> io::Result<()> {
    setrlimit(Resource::Nofile, limit.clone()).map_err(Into::into)
}
