//! The cgroups whose new sockets the datapath takes over.
//!
//! A service manager removes the directory of a service that ends, and makes another of the same
//! name when the service starts again. The kernel detaches our program with the old directory, so
//! the program is attached again when a directory with another inode is found.

use crate::Error;
use crate::error::tried;
use crate::kernel::is_on;
use libbpf_rs::{Link, ProgramMut};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What has become of a cgroup since the last look.
#[derive(Debug)]
pub enum CgroupChange {
    /// The directory has come, or another one has replaced it.
    Attached(PathBuf),
    /// There is no directory.
    Gone(PathBuf),
    /// There is a directory, and its sockets cannot be taken over. Each look tries again.
    Refused(PathBuf, Error),
}

impl fmt::Display for CgroupChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attached(path) => {
                write!(f, "the cgroup {}: new sockets are taken over", path.display())
            }
            Self::Gone(path) => {
                let rule = "new sockets are taken over when the directory is made";
                write!(f, "there is no cgroup {}: {rule}", path.display())
            }
            Self::Refused(path, error) => {
                write!(f, "the cgroup {} is not taken over: {error}", path.display())
            }
        }
    }
}

#[derive(Debug)]
struct Wanted {
    path: PathBuf,
    /// The inode of the directory at the last look; `None` if there was no directory.
    inode: Option<u64>,
    link: Option<Link>,
}

#[derive(Debug, Default)]
pub struct Cgroups {
    wanted: Vec<Wanted>,
}

fn inode_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|about| about.ino())
}

/// Attaches `program` to the directory at `path`. Returns the directory's inode and the link.
fn attach(path: &Path, program: &ProgramMut<'_>) -> Result<(u64, Link), Error> {
    let name = path.display().to_string();
    let no_cgroup = || Error::NoCgroup(name.clone());
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::NotADirectory => no_cgroup(),
        _ => Error::File { path: name.clone(), source },
    };
    let flags = libc::O_DIRECTORY | libc::O_CLOEXEC;
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    if !is_on(&folder, libc::CGROUP2_SUPER_MAGIC) {
        return Err(no_cgroup());
    }
    let inode = folder.metadata().map_err(failed)?.ino();
    let what = format!("attaching to the cgroup {name}");
    Ok((inode, program.attach_cgroup(folder.as_raw_fd()).map_err(tried(what))?))
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::File { source, .. } if source.kind() == ErrorKind::NotFound)
}

impl Cgroups {
    /// Adds a directory and attaches `program` if the directory exists. A path that exists and is
    /// no cgroup is an error.
    pub fn add(&mut self, path: &Path, program: &ProgramMut<'_>) -> Result<CgroupChange, Error> {
        let path = path.to_owned();
        let (inode, link, change) = match attach(&path, program) {
            Ok((inode, link)) => (Some(inode), Some(link), CgroupChange::Attached(path.clone())),
            Err(error) if is_missing(&error) => (None, None, CgroupChange::Gone(path.clone())),
            Err(error) => return Err(error),
        };
        self.wanted.push(Wanted { path, inode, link });
        Ok(change)
    }

    /// What keeps the program attached.
    pub fn links(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.wanted.iter().filter_map(|wanted| wanted.link.as_ref().map(AsFd::as_fd))
    }

    /// Attaches to directories that have come, and lets go of those that are gone. Returns each
    /// change once.
    pub fn follow(&mut self, program: &ProgramMut<'_>) -> Vec<CgroupChange> {
        self.wanted.iter_mut().filter_map(|wanted| wanted.follow(program)).collect()
    }
}

impl Wanted {
    fn follow(&mut self, program: &ProgramMut<'_>) -> Option<CgroupChange> {
        let inode = inode_of(&self.path);
        let is_same = inode == self.inode;
        if is_same && self.link.is_some() {
            return None;
        }
        (self.inode, self.link) = (inode, None);
        match attach(&self.path, program) {
            Ok((inode, link)) => {
                (self.inode, self.link) = (Some(inode), Some(link));
                Some(CgroupChange::Attached(self.path.clone()))
            }
            Err(_) if is_same => None,
            Err(error) if is_missing(&error) => Some(CgroupChange::Gone(self.path.clone())),
            Err(error) => Some(CgroupChange::Refused(self.path.clone(), error)),
        }
    }
}
