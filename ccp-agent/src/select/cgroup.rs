//! The cgroup (v2) that a selector names, by directory or by id.

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A cgroup. It matches flows whose socket was created in exactly this cgroup, not in one below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cgroup {
    /// The inode number of the cgroup's directory.
    Id(u64),
    /// The cgroup that has this directory now. A service gets a new cgroup, with a new id, at each
    /// start.
    Path(PathBuf),
}

impl Cgroup {
    /// Parses an absolute path or an id.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text.parse() {
            Ok(0) => Err("no cgroup has the id 0"),
            Ok(id) => Ok(Self::Id(id)),
            Err(_) if text.starts_with('/') => Ok(Self::Path(PathBuf::from(text))),
            Err(_) => Err("it must be the absolute path of a cgroup v2 directory, or a cgroup id"),
        }
    }

    /// Checks that the directory exists and belongs to cgroup v2.
    pub fn check(&self) -> Result<(), String> {
        let Self::Path(path) = self else { return Ok(()) };
        match statfs(path) {
            Ok(about) if about.filesystem_type() == CGROUP2_SUPER_MAGIC => Ok(()),
            Ok(_) => Err("it is not a directory of cgroup v2\nfix: `findmnt -t cgroup2` shows \
                          where cgroup v2 is mounted"
                .to_owned()),
            Err(errno) => Err(errno.desc().to_owned()),
        }
    }

    /// The directory, if it is named by one.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Id(_) => None,
            Self::Path(path) => Some(path),
        }
    }

    /// The id at this moment; `None` if there is no such directory.
    pub fn id(&self) -> Option<u64> {
        match self {
            Self::Id(id) => Some(*id),
            Self::Path(path) => fs::metadata(path).ok().map(|about| about.ino()),
        }
    }
}

impl fmt::Display for Cgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_absolute_and_an_id_is_a_number() {
        assert_eq!(Cgroup::parse("77"), Ok(Cgroup::Id(77)));
        assert_eq!(Cgroup::parse("/a/b"), Ok(Cgroup::Path("/a/b".into())));
        for text in ["", "0", "-1", "a/b", "18446744073709551616"] {
            assert!(Cgroup::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_directory_is_looked_at_when_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("service");
        let cgroup = Cgroup::Path(path.clone());
        assert_eq!(cgroup.id(), None);
        assert!(cgroup.check().is_err_and(|why| why.contains("No such file")));
        fs::create_dir(&path).expect("mkdir");
        assert_eq!(cgroup.id(), Some(fs::metadata(&path).expect("it is there").ino()));
        assert!(cgroup.check().is_err_and(|why| why.contains("not a directory of cgroup v2")));
    }
}
