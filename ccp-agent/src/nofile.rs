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
    let _ = INHERITED.set(inherited);
    let raised = Rlimit { current: inherited.maximum, maximum: inherited.maximum };
    if let Err(errno) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%errno, limit = inherited.current, "the limit on descriptors stays");
        return inherited.current;
    }
    inherited.maximum
}

/// The limit for children: the one that this process was started with, because a program that waits
/// by `select` must not get descriptors beyond 1023. `None` if this process has not raised its own.
pub fn of_children() -> Option<Rlimit> {
    INHERITED.get().copied()
}

/// Gives this process the limit of a child. It makes one system call, so it may be called between
/// fork and exec.
pub fn set(limit: &Rlimit) -> io::Result<()> {
    setrlimit(Resource::Nofile, *limit).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn this_process_has_the_hard_limit_and_its_children_the_one_before() {
        let before = getrlimit(Resource::Nofile);
        assert_eq!(raise(), before.maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
        let of_child = of_children().expect("this process has raised its own");
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -Sn"]);
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(move || set(&of_child)) };
        let said = command.output().expect("it runs").stdout;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let want = of_child.current.map_or_else(|| "unlimited".to_owned(), |it| it.to_string());
        assert_eq!(said, want);
    }
}
