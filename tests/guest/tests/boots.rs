//! A guest boots Debian's kernel, runs a command and reports its end.

use remuda_guest::{Ended, Error, Guest, Options, Processors};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// The folder that `tools/guest.sh` makes; prints a message and returns `None` if it does not
/// exist.
fn kernel() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest/6.12");
    if folder.join("vmlinuz").exists() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no kernel for guests; `make test-guest` fetches one");
    None
}

fn run(guest: &Guest, script: &str) -> Ended {
    guest.run(&["sh", "-c", script], LIMIT).expect("it boots, and ends")
}

#[test]
fn it_prints_what_the_command_prints_and_has_its_status() {
    let Some(folder) = kernel() else { return };
    let guest = Guest::new(&folder, &[]).expect("there is a kernel");
    let ended = run(&guest, "echo \"it's  here\"; echo to the console >&2; exit 3");
    assert_eq!((ended.output.as_str(), ended.status), ("it's  here\n", 3));
    assert!(ended.console.contains("to the console"), "{}", ended.console);
    assert_eq!(run(&guest, "printf 'no line' >&2; exit 4").status, 4);
    let missing = guest.run(&["no-such-program"], LIMIT).expect("it boots, and ends");
    assert_eq!(missing.status, 127);
}

#[test]
fn a_file_lies_where_it_was_put() {
    let Some(folder) = kernel() else { return };
    let guest = Guest::new(&folder, &[]).expect("there is a kernel");
    let guest = guest.with_file(Path::new("/a/b/c.txt"), b"content").expect("it fits");
    assert_eq!(run(&guest, "cat /a/b/c.txt").output, "content");
}

#[test]
fn it_loads_the_modules_that_it_is_told_to_load() {
    let Some(folder) = kernel() else { return };
    let loading = |modules: &[&str]| {
        let modules = modules.iter().map(ToString::to_string).collect();
        let guest = Guest::new(&folder, &[]).expect("there is a kernel");
        guest.with_options(Options { modules, ..Options::default() })
    };
    let loaded = "cut -d' ' -f1 /proc/modules | sort";
    let default = run(&Guest::new(&folder, &[]).expect("there is a kernel"), loaded);
    assert_eq!(default.output, "tcp_bbr\ntun\nveth\n");
    assert_eq!(default.console_complaints(), [""; 0]);
    let missing = loading(&["other"]).run(&["true"], LIMIT).expect_err("there is no such module");
    assert!(missing.to_string().contains("guest: cannot load other"), "{missing}");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let other = elsewhere.path().join("other.ko");
    std::fs::copy(folder.join("modules/tcp_vegas.ko"), &other).expect("it is there");
    let with = loading(&["other"]).with_module(&other).expect("it is there");
    assert_eq!(run(&with, &format!("insmod /modules/tun.ko; {loaded}")).output, "tcp_vegas\ntun\n");
}

#[test]
fn it_has_processors_memory_and_parameters_as_it_is_told() {
    let Some(folder) = kernel() else { return };
    let options = Options {
        processors: Processors::Parallel(2),
        memory_mib: 512,
        parameters: vec!["panic_on_warn=1".into(), "softlockup_panic=1".into()],
        ..Options::default()
    };
    let guest = Guest::new(&folder, &[]).expect("there is a kernel").with_options(options);
    let asked = "nproc; cat /proc/sys/kernel/panic_on_warn; grep MemTotal /proc/meminfo";
    let ended = run(&guest, asked);
    let lines: Vec<&str> = ended.output.lines().collect();
    assert_eq!(&lines[..2], ["2", "1"]);
    let kib = lines[2].split_whitespace().nth(1).and_then(|number| number.parse::<u32>().ok());
    assert!(kib.is_some_and(|kib| (400..512).contains(&(kib / 1024))), "{}", lines[2]);
    assert_eq!(ended.console_complaints(), [""; 0]);
}

#[test]
fn its_work_takes_as_long_by_its_clock_however_busy_the_host_is() {
    let Some(folder) = kernel() else { return };
    let guest = Guest::new(&folder, &[]).expect("there is a kernel");
    let took = || {
        let work = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
        let ended = run(&guest, &format!("cat /proc/uptime; {work}; cat /proc/uptime"));
        let up = |line: &str| line.split(' ').next()?.parse::<f64>().ok();
        let [before, after] = [0, 1].map(|line| ended.output.lines().nth(line).and_then(up));
        after.expect("a time") - before.expect("a time")
    };
    let idle = took();
    let done = AtomicBool::new(false);
    let busy = thread::scope(|scope| {
        for _ in 0..2 * remuda_guest::at_once() {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let busy = took();
        done.store(true, Ordering::Relaxed);
        busy
    });
    assert!((0.9..1.1).contains(&(busy / idle)), "{idle} s, {busy} s on a busy host");
}

#[test]
fn a_guest_that_dies_or_hangs_is_an_error_with_its_last_words() {
    let Some(folder) = kernel() else { return };
    let guest = Guest::new(&folder, &[]).expect("there is a kernel");
    let panic = "echo c > /proc/sysrq-trigger";
    let died = guest.run(&["sh", "-c", panic], LIMIT).expect_err("the kernel panics");
    assert!(matches!(&died, Error::Died { console } if console.contains("panic")), "{died}");
    let hangs = ["sh", "-c", "while :; do :; done"];
    let late = guest.run(&hangs, Duration::from_secs(20)).expect_err("it is killed");
    assert!(matches!(late, Error::Late { .. }), "{late}");
}
