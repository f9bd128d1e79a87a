//! The origin of figures: the commit, the kernel and the number of processors.

use std::fmt;
use std::process::Command;

/// Printed above figures: `Commit 1f9493fa8a0c, kernel 6.18.44, 2 processors`.
#[derive(Clone, Debug)]
pub struct Origin {
    commit: String,
    kernel: String,
    processors: usize,
}

impl Origin {
    /// The origin of this process. The commit is that of the current folder, with `-dirty` if files
    /// differ from it.
    pub fn here() -> Self {
        let described = ["describe", "--always", "--dirty", "--abbrev=12", "--match="];
        let output = Command::new("git").args(described).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            commit: text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".into()),
            kernel: kernel.trim().to_owned(),
            processors: std::thread::available_parallelism().map_or(0, |cores| cores.get()),
        }
    }

    /// The origin of runs in virtual machines of one processor with this kernel.
    pub fn in_guests(self, kernel: String) -> Self {
        Self { kernel, processors: 1, ..self }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commit, kernel, processors } = self;
        let s = if *processors == 1 { "" } else { "s" };
        write!(f, "Commit {commit}, kernel {kernel}, {processors} processor{s}")
    }
}
