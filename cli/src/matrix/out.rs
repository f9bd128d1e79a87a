//! The output folder of a matrix. Only one matrix at a time may write there.
//!
//! Two of them would replace each other's table and report, and would mix their writes to one file.
//! Completed runs (--keep) may be shared by any number.

use crate::Failure;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// The lock's owner writes its process id here. The file is never removed: another process may have
/// it open already.
const LOCK: &str = ".lock";
/// The length of a process id; a longer text is not read.
const PID_BYTES_MAX: u64 = 20;

/// An output folder that is locked until this is dropped, or the process ends in any way.
#[derive(Debug)]
pub struct Out {
    _lock: File,
}

impl Out {
    /// Creates the folder, writes there before hours of work might fail on a wrong name, and locks
    /// it.
    pub fn take(folder: &Path) -> Result<Self, Failure> {
        let doing = |error| {
            let fix = "fix: give an --out DIR that you can write to";
            format!("cannot write to --out {}: {error}\n{fix}", folder.display())
        };
        fs::create_dir_all(folder).map_err(doing)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = options.open(folder.join(LOCK)).map_err(doing)?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        // A file system without locks returns another error: then there is no protection.
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
    let is_pid = read.is_ok() && pid.parse::<u32>().is_ok();
    let owner = if is_pid { format!(" (process {pid})") } else { String::new() };
    let folder = folder.display();
    let rule = format!("--out {folder}: another matrix{owner} writes there");
    let keep = "with --keep DIR both can share their runs";
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
        let start = format!(
            "--out {}: another matrix (process {}) writes there\nfix: ",
            path.display(),
            std::process::id()
        );
        assert!(error.starts_with(&start), "{error}");
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
        assert!(error.ends_with("fix: give an --out DIR that you can write to"), "{error}");
    }
}
