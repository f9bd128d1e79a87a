//! A cgroup for one test.

use std::fs;
use std::path::{Path, PathBuf};

/// A cgroup v2, which is removed on drop.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates the cgroup; `None` if the host has no cgroup v2.
    pub fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let path = words.next()?;
            (words.next() == Some("cgroup2")).then(|| PathBuf::from(path))
        })?;
        let path = root.join(name);
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Runs `work` so that its sockets belong to the cgroup.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let home = home_of(&self.0);
        move_to(&self.0);
        let value = work();
        move_to(&home);
        value
    }
}

fn home_of(cgroup: &Path) -> PathBuf {
    let own = fs::read_to_string("/proc/self/cgroup").expect("the process has a cgroup");
    let relative = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    cgroup.parent().expect("a mount").join(relative.trim_start_matches('/'))
}

fn move_to(cgroup: &Path) {
    let pid = std::process::id().to_string();
    fs::write(cgroup.join("cgroup.procs"), pid).expect("the process moves");
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
