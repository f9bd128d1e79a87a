//! The agent in a Debian 13 with systemd (`tools/systemd-guest.sh`). All tests but one share a
//! guest, which the first of them boots.

mod agent;
mod confined;
mod package;
mod restarts;
mod units;
mod web;

use remuda_guest::Error;
use remuda_guest::systemd::{Booted, SystemdGuest};
use remuda_live::Clock;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Booting takes half a minute to a minute.
const BOOT_MAX: Duration = Duration::from_secs(600);
const COMMAND_MAX: Duration = Duration::from_secs(120);
/// For commands that wait for something in the guest themselves.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Ends what a former test has left, whatever became of that test.
const CLEAN_UP: &str = "
pkill -f /run/client.py
[ ! -e /var/lib/dpkg/info/remuda.list ] || dpkg --purge remuda
systemctl stop remuda remuda-broker 'test-*' 2>/dev/null
systemctl reset-failed
ip netns del test 2>/dev/null
rm -rf /etc/systemd/system/*.d /run/remuda.sock /run/test-*.log
[ ! -e /usr/bin/remuda-tested ] || mv /usr/bin/remuda-tested /usr/bin/remuda
sysctl net.ipv4.tcp_congestion_control=cubic
systemctl daemon-reload
true";

/// The guest that tests share, once a test has booted it.
static GUEST: Mutex<Option<Booted>> = Mutex::new(None);

/// The shared guest, for one test at a time.
struct Shared(MutexGuard<'static, Option<Booted>>);

impl Deref for Shared {
    type Target = Booted;

    fn deref(&self) -> &Booted {
        self.0.as_ref().expect("Shared::boot has booted it")
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Booted {
        self.0.as_mut().expect("Shared::boot has booted it")
    }
}

impl Shared {
    /// Waits until no other test uses the guest, and boots it if no test has; prints SKIPPED and
    /// returns `None` if there is no Debian for it.
    fn boot() -> Option<Self> {
        let folder = folder()?;
        let mut guest = GUEST.lock().unwrap_or_else(PoisonError::into_inner);
        if guest.is_none() {
            let with = SystemdGuest::new(&folder).and_then(with_builds);
            *guest = Some(boot(&with.expect("the files are there")));
        }
        let mut shared = Self(guest);
        shared.sh(CLEAN_UP);
        Some(shared)
    }

    /// A script that must succeed within the usual limit; returns its output.
    fn sh(&mut self, script: &str) -> String {
        self.check(script, COMMAND_MAX).expect("it succeeds")
    }

    /// Has a script replace the main process of a unit, and waits until there is another one.
    fn replace_process(&mut self, unit: &str, how: &str) {
        let pid = format!("systemctl show --property=MainPID --value {unit}");
        self.sh(&format!(
            "old=$({pid}); {how}; until new=$({pid}) && [ $new != $old ] && [ $new != 0 ]
             do sleep 0.2; done"
        ));
    }

    /// The kernel has reported no fault since the boot.
    fn expect_no_complaint(&self) {
        assert_eq!(self.console_complaints().expect("the console"), [""; 0]);
    }
}

/// The guest with the tested build as `remuda`, another one as `remuda-other`, and the packages of
/// both.
fn with_builds(guest: SystemdGuest) -> Result<SystemdGuest, Error> {
    let other = std::env::var_os("REMUDA_OTHER_BIN");
    let other = PathBuf::from(other.expect("REMUDA_OTHER_BIN names a build\nfix: make test-long"));
    let other = other.canonicalize().expect("REMUDA_OTHER_BIN names a file");
    let folder = tempfile::tempdir().expect("a folder");
    let named = folder.path().join("remuda-other");
    symlink(other, &named).expect("the folder is new");
    let guest = guest.with_program(&remuda_tests::binary())?.with_program(&named)?;
    let guest = guest.with_file(Path::new(package::TESTED), &package_of("REMUDA_DEB"))?;
    guest.with_file(Path::new(package::OTHER), &package_of("REMUDA_OTHER_DEB"))
}

/// The Debian package that a variable names.
fn package_of(variable: &str) -> Vec<u8> {
    let file = std::env::var_os(variable);
    let file = file.unwrap_or_else(|| panic!("{variable} names a package\nfix: make test-long"));
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The folder that `tools/systemd-guest.sh` makes.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest/systemd");
    if folder.join("made-by").exists() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no Debian with systemd for guests; `make test-long` makes one");
    None
}

/// Boots a guest until systemd has started everything, and prints how long that takes.
fn boot(guest: &SystemdGuest) -> Booted {
    let clock = Clock::start();
    let mut booted = guest.boot(BOOT_MAX).expect("it boots");
    let commands = clock.elapsed();
    let state = booted.run("systemctl is-system-running --wait", WAIT_MAX).expect("it answers");
    let running = clock.elapsed();
    let failed = booted.run("systemctl --failed --no-legend --plain", COMMAND_MAX);
    let failed = failed.expect("it answers").output;
    println!(
        "the guest takes commands after {:.1} s, systemd is {} after {:.1} s{}",
        commands.as_secs_f64(),
        state.output.trim(),
        running.as_secs_f64(),
        if failed.is_empty() { String::new() } else { format!("; failed units:\n{failed}") },
    );
    booted
}

#[test]
fn systemd_is_running_and_the_kernel_has_nothing_to_report() {
    let Some(mut guest) = Shared::boot() else { return };
    let failed = guest.sh("systemctl --failed --no-legend --plain");
    let state = guest.run("systemctl is-system-running", COMMAND_MAX).expect("it answers");
    assert_eq!(state.output, "running\n", "failed units:\n{failed}");
    println!(
        "{}",
        guest.sh("systemd-analyze time; systemd-analyze blame | head -n 5; free -m; uname -r")
    );
    guest.expect_no_complaint();
}

#[test]
fn a_command_has_an_input_a_status_and_a_limit() {
    let Some(mut guest) = Shared::boot() else { return };
    let all: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    guest.put(Path::new("/run/a b/c"), &all, "640").expect("it is written");
    assert_eq!(guest.sh("stat -c '%a %s' '/run/a b/c'"), "640 300000\n");
    let sum = guest.run_with_input("sha256sum; sha256sum <'/run/a b/c'", &all, COMMAND_MAX);
    let sum = sum.expect("it answers").output;
    let (sent, put) = sum.trim().split_once('\n').expect("two lines");
    assert_eq!(sent, put);
    let answer = guest.run("echo out; echo \"it's wrong\" >&2; exit 3", COMMAND_MAX);
    let answer = answer.expect("it answers");
    assert_eq!((answer.status, answer.output.as_str()), (3, "out\n"));
    assert_eq!(answer.errors, "it's wrong\n");
    let late = guest.run("echo first; sleep 1000", Duration::from_secs(2)).expect("it answers");
    assert_eq!((late.status, late.output.as_str()), (124, "first\n"));
    let failed = guest.check("echo why; false", COMMAND_MAX).expect_err("it fails");
    assert!(failed.to_string().contains("status 1:\nwhy"), "{failed}");
    // What a command leaves running goes on, and holds up no answer.
    guest.sh("sleep 1000 & echo $! >/run/left");
    guest.sh("kill \"$(cat /run/left)\"");
}

/// This test has guests of its own; the shared one may run beside them.
#[test]
fn each_boot_starts_from_the_same_disk_and_ends_when_told() {
    let Some(folder) = folder() else { return };
    let guest = SystemdGuest::new(&folder).expect("the files are there");
    let guest = guest.with_file(Path::new("/usr/bin/added"), b"#!/bin/sh\necho added\n");
    let guest = guest.expect("it fits");
    let mut first = boot(&guest);
    let script = "added; rm /usr/bin/added /usr/bin/free; touch /etc/changed";
    assert_eq!(first.check(script, COMMAND_MAX).expect("it succeeds"), "added\n");
    let console = first.power_off(WAIT_MAX).expect("it powers off");
    assert!(console.contains("Power down"), "{console}");
    let mut second = boot(&guest);
    let script = "ls /usr/bin/added /usr/bin/free; ls /etc/changed 2>/dev/null || true";
    let found = second.check(script, COMMAND_MAX).expect("it succeeds");
    assert_eq!(found, "/usr/bin/added\n/usr/bin/free\n");
    let panic = second.run("echo c >/proc/sysrq-trigger", COMMAND_MAX).expect_err("it panics");
    assert!(panic.to_string().contains("Kernel panic"), "{panic}");
}
