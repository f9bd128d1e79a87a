//! Wrong arguments of `mm-link`, `mm-delay` and `mm-loss`, called through links of those names.
//! Needs no root; `tests/tests/mahimahi.rs` tests what the commands do.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// The binary, called by another name from this folder.
fn called(folder: &Path, line: &str) -> Command {
    let mut words = line.split_whitespace();
    let path = folder.join(words.next().unwrap());
    let _ = fs::remove_file(&path);
    symlink(env!("CARGO_BIN_EXE_remuda"), &path).unwrap();
    let mut command = Command::new(path);
    command.args(words).env_remove("SEED").current_dir(folder);
    command
}

#[track_caller]
fn refused(command: &mut Command, part: &str) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains(part), "{part} in {stderr}");
    assert!(output.stdout.is_empty(), "nothing runs");
}

#[test]
fn a_mistake_is_named_and_nothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (line, part) in [
        ("mm-delay x echo ran", "must be a whole number of milliseconds"),
        ("mm-loss uplink 2 echo ran", "must be a share from 0 to 1"),
        ("mm-link 12.trace", "<DOWN.trace>"),
        (
            "mm-link a b --uplink-queue=droptail echo ran",
            "mm-link: `--uplink-queue-args` is ``: droptail needs packets=N or bytes=N",
        ),
        (
            "remuda mm-link a b --downlink-queue-args=packets=5 echo ran",
            "mm-link: `--downlink-queue-args` is `packets=5`: an infinite queue takes none",
        ),
    ] {
        refused(&mut called(folder, line), part);
    }
    let mut command = called(folder, "mm-delay 1 echo ran");
    command.env("MAHIMAHI_PASSTHROUGH_UNTIL_SIGNAL", "1");
    refused(&mut command, "mm-delay: `MAHIMAHI_PASSTHROUGH_UNTIL_SIGNAL` is `1`: not supported");
}
