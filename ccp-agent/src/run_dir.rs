//! The run directory holds the sockets and the event log. The state directory holds what survives a
//! restart. Each is private and locked by one agent.

use crate::Error;
use crate::error::on;
use nix::fcntl::{Flock, FlockArg};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// A private directory, locked by this agent until dropped.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: Flock<File>,
}

pub fn control_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("control.sock")
}

/// The socket that user-space datapaths connect to.
pub fn datapath_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("datapath.sock")
}

/// The socket that authors' processes connect to.
pub fn author_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("author.sock")
}

/// The socket that applications of any user connect to. It lies beside `run_dir`, which other users
/// cannot enter.
pub fn application_socket(run_dir: &Path) -> PathBuf {
    let name = run_dir.file_name().unwrap_or_default();
    run_dir.with_file_name([name, OsStr::new(".sock")].join(OsStr::new("")))
}

/// The file with the memory of destinations.
pub fn memory_file(state_dir: &Path) -> PathBuf {
    state_dir.join("memory.json")
}

/// The directory of the learner of initial windows: records, model and table.
pub fn iw_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("iw")
}

/// The directory of sample files.
pub fn samples_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("samples")
}

/// The directory of trained models and of the trainer's candidate.
pub fn models_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("models")
}

/// The event log, or a link to it if it lies in a folder of its own.
pub fn event_log(run_dir: &Path) -> PathBuf {
    run_dir.join("events.jsonl")
}

fn no_folder(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.display().to_string();
    move |source| match source.kind() {
        ErrorKind::PermissionDenied => Error::NoFolder { path, source },
        _ => on(path)(source),
    }
}

impl RunDir {
    /// Creates the directory if it is absent, checks that it is private, and locks it.
    pub fn take(path: &Path) -> Result<Self, Error> {
        if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(path) {
            return Err(no_folder(path)(error));
        }
        let refuse = |rule| Err(Error::NotPrivate { path: path.display().to_string(), rule });
        let meta = fs::symlink_metadata(path).map_err(no_folder(path))?;
        if !meta.is_dir() {
            return refuse("it is not a directory");
        }
        if meta.uid() != nix::unistd::geteuid().as_raw() {
            return refuse("it belongs to another user");
        }
        if meta.mode() & 0o077 != 0 {
            return refuse("others can enter it; it must have mode 0700");
        }
        let lock = path.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock)
            .map_err(on(lock.display()))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(_) => Err(Error::AlreadyRunning(path.display().to_string())),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the event log in `folder`, to which a link in this directory leads; without a
    /// folder, its path in this directory. A log that an agent without a folder has left here is
    /// renamed.
    pub fn event_log_in(&self, folder: Option<&Self>) -> Result<PathBuf, Error> {
        let here = event_log(&self.path);
        let failed = || on(here.display());
        match fs::symlink_metadata(&here) {
            Ok(about) if about.is_symlink() => fs::remove_file(&here).map_err(failed())?,
            Ok(_) if folder.is_some() => {
                fs::rename(&here, here.with_extension("old.jsonl")).map_err(failed())?;
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed()(error)),
            Ok(_) | Err(_) => {}
        }
        let Some(folder) = folder else { return Ok(here) };
        let log = event_log(&fs::canonicalize(&folder.path).map_err(on(folder.path.display()))?);
        symlink(&log, &here).map_err(failed())?;
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn one_agent_a_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run");
        let first = RunDir::take(&path).expect("it is free");
        assert!(matches!(RunDir::take(&path), Err(Error::AlreadyRunning(_))));
        drop(first);
        RunDir::take(&path).expect("it is free again");
    }

    #[test]
    fn the_socket_for_applications_lies_beside_it() {
        for path in ["/run/remuda", "/run/remuda/"] {
            assert_eq!(application_socket(Path::new(path)), Path::new("/run/remuda.sock"));
        }
    }

    #[test]
    fn an_event_log_in_a_folder_of_its_own_is_found_from_the_run_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = RunDir::take(&folder.path().join("run")).expect("it is free");
        let logs = RunDir::take(&folder.path().join("log")).expect("it is free");
        let here = event_log(run.path());
        assert_eq!(run.event_log_in(None).expect("it is here"), here);
        fs::write(&here, "before").expect("it is written");
        for _ in 0..2 {
            let log = run.event_log_in(Some(&logs)).expect("it is there");
            assert_eq!(log, fs::canonicalize(logs.path()).expect("a folder").join("events.jsonl"));
            fs::write(&log, "now").expect("it is written");
            assert_eq!(fs::read_to_string(&here).expect("the link leads there"), "now");
        }
        let before = here.with_extension("old.jsonl");
        assert_eq!(fs::read_to_string(before).expect("it was kept"), "before");
        assert_eq!(run.event_log_in(None).expect("it is here again"), here);
        assert!(!here.exists());
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let error = RunDir::take(folder.path()).expect_err("it is refused").to_string();
        assert!(error.contains("0700") && error.contains("fix:"), "{error}");
    }
}
