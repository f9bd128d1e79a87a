//! A disk of a few pages, and how to fill it.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

/// Runs `work` with a disk of 64 KiB at `at`, which only `work` and the processes it starts can
/// see.
///
/// # Panics
///
/// Without root, or if `work` panics.
pub fn with_small_disk(at: &Path, work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let run = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).expect("mounts of its own");
            let (nothing, private) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
            mount(nothing, "/", nothing, private, nothing).expect("nobody sees them");
            fs::create_dir_all(at).expect("a folder");
            let options = Some("size=64k,mode=700");
            mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), options).expect("a disk");
            work();
        });
        run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Fills the disk with a file; returns the path of the file.
///
/// # Panics
///
/// If the disk has no room for another file.
pub fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut filler = File::create(&path).expect("there is room yet");
    while filler.write_all(&[0; 4_096]).is_ok() {}
    path
}
