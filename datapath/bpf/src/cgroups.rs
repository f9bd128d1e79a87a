//! The cgroups whose new sockets the datapath takes over.
//!
//! A service manager removes the directory of a service that ends, and makes another of the same
//! name when the service starts again. The kernel detaches our program with the old directory, so
//! the program is attached again when a directory with another inode is found.

use crate::Error;
use crate::error::tried;
use libbpf_rs::{Link, ProgramMut};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory that came, went, or could not be attached to.
#[derive(Debug)]
pub enum CgroupChange {
    /// New sockets of this directory are taken over from now on.
    Attached(PathBuf),
    /// The directory is gone; it is attached again when it comes back.
    Gone(PathBuf),
    /// The kernel or the path refused; tried again when the directory is another one.
    Refused(PathBuf, Error),
}

#[derive(Debug)]
struct Wanted {
    path: PathBuf,
    /// The inode of the directory that was tried last; `None` while there is no directory.
    inode: Option<u64>,
    link: Option<Link>,
}

#[derive(Debug, Default)]
pub struct Cgroups {
    wanted: Vec<Wanted>,
}

fn is_cgroup(folder: &File) -> bool {
    // SAFETY: a plain struct of integers, for which all zeros is a value.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and room for the answer.
    let known = unsafe { libc::fstatfs(folder.as_raw_fd(), &raw mut about) } == 0;
    known && about.f_type == libc::CGROUP2_SUPER_MAGIC
}

/// Attaches `program` to the directory at `path`. Returns the directory's inode and the link.
fn attach(path: &Path, program: &ProgramMut<'_>) -> Result<(u64, Link), Error> {
    let name = || path.display().to_string();
    let file = |source| Error::File { path: name(), source };
    if !fs::metadata(path).map_err(file)?.is_dir() {
        return Err(Error::NoCgroup(name()));
    }
    let folder = File::open(path).map_err(file)?;
    if !is_cgroup(&folder) {
        return Err(Error::NoCgroup(name()));
    }
    let inode = folder.metadata().map_err(file)?.ino();
    let link = program
        .attach_cgroup(folder.as_raw_fd())
        .map_err(tried(format!("attaching to the cgroup {}", name())))?;
    Ok((inode, link))
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::File { source, .. } if source.kind() == ErrorKind::NotFound)
}

impl Cgroups {
    /// Adds a directory. Returns whether it exists and is attached now; a directory that does not
    /// exist yet is attached by a later [`Self::follow`].
    pub fn add(&mut self, path: &Path, program: &ProgramMut<'_>) -> Result<bool, Error> {
        let (inode, link) = match attach(path, program) {
            Ok((inode, link)) => (Some(inode), Some(link)),
            Err(error) if is_missing(&error) => (None, None),
            Err(error) => return Err(error),
        };
        let is_attached = link.is_some();
        self.wanted.push(Wanted { path: path.to_owned(), inode, link });
        Ok(is_attached)
    }

    /// Whether a directory has come, gone, or been replaced since the last look.
    pub fn has_changed(&self) -> bool {
        self.wanted.iter().any(|wanted| inode_of(&wanted.path) != wanted.inode)
    }

    /// Attaches to directories that have come, and lets go of those that are gone.
    pub fn follow(&mut self, program: &ProgramMut<'_>) -> Vec<CgroupChange> {
        let mut changes = Vec::new();
        for wanted in &mut self.wanted {
            let inode = inode_of(&wanted.path);
            if inode == wanted.inode {
                continue;
            }
            let was_attached = wanted.link.take().is_some();
            wanted.inode = inode;
            if inode.is_none() {
                if was_attached {
                    changes.push(CgroupChange::Gone(wanted.path.clone()));
                }
                continue;
            }
            match attach(&wanted.path, program) {
                Ok((inode, link)) => {
                    (wanted.inode, wanted.link) = (Some(inode), Some(link));
                    changes.push(CgroupChange::Attached(wanted.path.clone()));
                }
                Err(error) => {
                    changes.push(CgroupChange::Refused(wanted.path.clone(), error));
                }
            }
        }
        changes
    }
}

fn inode_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|about| about.ino())
}
