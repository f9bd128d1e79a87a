//! A shell that is killed leaves no device behind. Alone in its file, for it looks at those of the
//! host. Needs root.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use remuda_live::{Clock, Error, PathSpec, Testbed};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// Whether this namespace has a device that a shell made.
fn has_device() -> bool {
    let devices = fs::read_to_string("/proc/net/dev").unwrap();
    devices.lines().any(|line| line.trim_start().starts_with("remuda"))
}

#[test]
fn sigkill_takes_the_device_along() {
    if let Err(error @ (Error::NotPermitted { .. } | Error::NoTun { .. })) =
        Testbed::new(&PathSpec::default())
    {
        eprintln!("SKIPPED: needs root (CAP_NET_ADMIN) and TUN devices: {error}");
        return;
    }
    assert!(!has_device(), "another shell runs on this host");
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda"));
    command.args(["mm-delay", "1", "sh", "-c", "echo up; exec sleep 300"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line == "up\n" && has_device(), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
    let clock = Clock::start();
    while has_device() {
        assert!(clock.elapsed() < PATIENCE, "its device is still there");
        thread::sleep(Duration::from_millis(20));
    }
}
