//! Users and cgroups, as people name them.

use ccp_agent::users;
use std::fs::{self, DirEntry};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

const CGROUPS: &str = "/sys/fs/cgroup";
/// How deep below the root a cgroup is searched for.
const DEPTH_MAX: usize = 5;

/// The user's name and uid, or the uid alone.
pub fn user(uid: u32) -> String {
    users::name_of(uid).map_or_else(|| uid.to_string(), |name| format!("{name} ({uid})"))
}

fn folders(within: &Path) -> impl Iterator<Item = DirEntry> {
    let entries = fs::read_dir(within).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

fn find(within: &Path, id: u64, depth: usize) -> Option<PathBuf> {
    folders(within).find_map(|entry| {
        let path = entry.path();
        if entry.ino() == id {
            return Some(path);
        }
        if depth > 1 { find(&path, id, depth - 1) } else { None }
    })
}

/// The cgroup's path below the mount, or its id if it is deeper or no longer there.
pub fn cgroup(id: u64) -> String {
    match find(Path::new(CGROUPS), id, DEPTH_MAX) {
        Some(path) => path
            .strip_prefix(CGROUPS)
            .map_or_else(|_| path.display().to_string(), |below| format!("/{}", below.display())),
        None => format!("id {id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_and_a_uid_without_a_name_is_a_number() {
        assert_eq!(user(0), "root (0)");
        assert_eq!(user(3_999_999_999), "3999999999");
    }

    #[test]
    fn a_folder_is_found_by_its_number_to_a_bounded_depth() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("a/b/c");
        fs::create_dir_all(&deep).expect("it is made");
        let id = fs::metadata(&deep).expect("it is there").ino();
        assert_eq!(find(folder.path(), id, 3), Some(deep));
        assert_eq!(find(folder.path(), id, 2), None);
        assert_eq!(cgroup(u64::MAX), format!("id {}", u64::MAX));
    }
}
