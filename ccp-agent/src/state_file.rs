//! Files of the state directory. Reading trusts nothing; writing replaces a file whole or leaves it
//! as it was.

use crate::Error;
use crate::error::on;
use nix::unistd::geteuid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Turns the error `NotFound` into `None`.
pub fn absent_is_none<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(it) => Ok(Some(it)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file that belongs to the agent's own user or to root; `None` if it is absent. An error
/// names the rule that the file breaks; `what` names the content in it.
pub fn read(path: &Path, what: &str, bytes_max: u64) -> Result<Option<String>, String> {
    let reason = |error: io::Error| error.to_string();
    let mut options = OpenOptions::new();
    // O_NOFOLLOW refuses a symbolic link; O_NONBLOCK because opening a pipe would wait for a
    // writer.
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let opened = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link"),
        _ => error,
    });
    let Some(file) = absent_is_none(opened).map_err(reason)? else { return Ok(None) };
    let about = file.metadata().map_err(reason)?;
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let uid = about.uid();
    if uid != geteuid().as_raw() && uid != 0 {
        return Err(format!("it belongs to user {uid}: it must be the agent's own or root's"));
    }
    let mut text = String::new();
    file.take(bytes_max + 1).read_to_string(&mut text).map_err(reason)?;
    if text.len() as u64 > bytes_max {
        return Err(format!("it is larger than {bytes_max} bytes; a {what} is never so large"));
    }
    Ok(Some(text))
}

/// Replaces a file: writes a new one beside it that ends in `.new`, syncs it, and renames it. After
/// an error the file has the old text or the new one, each whole. The new one is there only if the
/// folder could not be synced after the rename.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    write_bytes(path, text.as_bytes())
}

/// As [`write`], of a file that is no text.
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let written = write_through(&new, bytes).and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&new); // it may be incomplete
        return Err(on(path.display())(error));
    }
    sync_folder(path.parent().unwrap_or(path))
}

/// Renames a file that breaks a rule, so that its content is not lost, and returns the new path.
pub fn set_aside(path: &Path) -> Result<PathBuf, Error> {
    let is_free = |path: &PathBuf| {
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let names = (1..=u32::MAX).map(|n| path.with_extension(format!("refused.{n}")));
    let exhausted = || on(path.display())(io::Error::from(ErrorKind::AlreadyExists));
    let to = names.into_iter().find(is_free).ok_or_else(exhausted)?;
    fs::rename(path, &to).map_err(on(path.display()))?;
    Ok(to)
}

/// Waits until renames in a directory are on disk.
pub fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|open| open.sync_all()).map_err(on(folder.display()))
}

fn write_through(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults;
    use tempfile::TempDir;

    #[test]
    fn whatever_fails_the_file_is_whole_and_can_be_written_again() {
        let folder = || tempfile::tempdir().expect("a folder");
        let path = |folder: &TempDir| folder.path().join("file.json");
        let begin = || {
            let folder = folder();
            write(&path(&folder), "old text").expect("it is written");
            folder
        };
        let act = |folder: &mut TempDir| write(&path(folder), "the new text");
        let failures = faults::each(begin, act, |folder, done, failure| {
            let text = read(&path(&folder), "file", 100).expect("it can be read");
            let text = text.expect("it is there");
            let is_new = text == "the new text";
            assert!(is_new || done.is_err() && text == "old text", "{failure:?}: {text:?}");
            write(&path(&folder), "a third one").expect("nothing is in the way");
            let names = fs::read_dir(folder.path()).expect("a folder").count();
            assert_eq!(names, 1, "{failure:?}: nothing stays behind");
        });
        println!("a state file: {failures} failures");
        assert!(failures >= 20, "{failures}");
    }
}
