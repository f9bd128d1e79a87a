//! The folder of a matrix's table: one matrix at a time writes there.
//!
//! Two of them would replace each other's table and report, and write one file half by half before
//! it has its name. What is kept of runs, under --keep, any number of them may share.

use crate::Failure;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// Who holds the lock writes its process's number here. It stays behind: to remove it would be to
/// take it from whoever opened it meanwhile.
const LOCK: &str = ".lock";
/// A process's number, and no more of whatever else may lie there.
const PID_BYTES_MAX: u64 = 20;

/// A folder that is ours until this is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub struct Out {
    _lock: File,
}

impl Out {
    /// Makes the folder, tries to write there before hours of work end in a wrong name, and locks
    /// it.
    pub fn take(folder: &Path) -> Result<Self, Failure> {
        let doing = |error| {
            let fix = "fix: an --out DIR that can be written to";
            format!("cannot write to --out {}: {error}\n{fix}", folder.display())
        };
        fs::create_dir_all(folder).map_err(doing)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = options.open(folder.join(LOCK)).map_err(doing)?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        // On a file system without locks nobody can tell.
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(taken(folder, &mut file));
        }
        file.set_len(0).map_err(doing)?;
        file.rewind().map_err(doing)?;
        write!(file, "{}", std::process::id()).map_err(doing)?;
        Ok(Self { _lock: file })
    }
}

fn taken(folder: &Path, lock: &mut File) -> Failure {
    let mut pid = String::new();
    let read = lock.take(PID_BYTES_MAX).read_to_string(&mut pid);
    let is_said = read.is_ok() && pid.parse::<u32>().is_ok();
    let who = if is_said { format!(" (process {pid})") } else { String::new() };
    let folder = folder.display();
    let rule = format!("--out {folder}: another matrix{who} writes there");
    let keep = "with --keep DIR the two share what they run";
    format!("{rule}\nfix: wait for it, or give another --out; {keep}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_matrix_a_folder_and_the_other_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let first = Out::take(&path).unwrap();
        let error = Out::take(&path).unwrap_err().to_string();
        let said = format!(
            "--out {}: another matrix (process {}) writes there\nfix: ",
            path.display(),
            std::process::id()
        );
        assert!(error.starts_with(&said), "{error}");
        drop(first);
        fs::write(path.join(LOCK), "a text that is longer than any process's number").unwrap();
        let again = Out::take(&path).unwrap();
        assert_eq!(fs::read_to_string(path.join(LOCK)).unwrap(), std::process::id().to_string());
        fs::write(path.join(LOCK), "gone").unwrap();
        let error = Out::take(&path).unwrap_err().to_string();
        assert!(error.contains(": another matrix writes there\n"), "{error}");
        drop(again);
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_named_with_its_flag() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::create_dir_all(path.join(LOCK)).unwrap();
        let error = Out::take(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot write to --out {}: ", path.display())));
        assert!(error.ends_with("fix: an --out DIR that can be written to"), "{error}");
    }
}
