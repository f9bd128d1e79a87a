//! A process of another user that puts a FIFO in the place of a namespace, again and again, while
//! the datapath searches for namespaces. Without root each test prints `SKIPPED`. Run it with
//! `--test-threads=1`: the host has one list of registered algorithms.

use remuda_bpf::{Datapath, Settings};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// `nobody`.
const USER: u32 = 65_534;
const ROUNDS: usize = 25;
const LIMIT: Duration = Duration::from_secs(5);
const NAMESPACES: usize = 32;
/// A reader of the FIFO without a writer: a plain open of the slot waits for ever. The namespaces
/// themselves lie behind the slots, so that a search meets the slots first.
const SWAP: &str = "
import fcntl, os, resource, sys
held, high = int(sys.argv[2]), int(sys.argv[2]) + 200
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, high + 100), hard))
fifo = fcntl.fcntl(os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK), fcntl.F_DUPFD, high)
namespaces = [fcntl.fcntl(int(name), fcntl.F_DUPFD, high) for name in sys.argv[3:]]
os.closerange(3, 200)
pairs = [(10 + n, namespaces[n % len(namespaces)]) for n in range(held)]
for slot, namespace in pairs:
    os.dup2(namespace, slot)
print('ready', flush=True)
pairs = pairs[:len(namespaces)]
while True:
    for slot, namespace in pairs:
        os.dup2(fifo, slot)
    for slot, namespace in pairs:
        os.dup2(namespace, slot)
";

struct Swapper(Child);

impl Drop for Swapper {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A network namespace that no process is in. A child process inherits the descriptor.
fn empty_namespace() -> File {
    let made = thread::spawn(|| {
        // SAFETY: changes this thread only, which ends at once.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let namespace = File::open("/proc/thread-self/ns/net").expect("its namespace");
        // SAFETY: an open descriptor.
        assert_eq!(unsafe { libc::fcntl(namespace.as_raw_fd(), libc::F_SETFD, 0) }, 0);
        namespace
    });
    made.join().expect("the thread ends")
}

fn swapper(fifo: &str, held: usize) -> Swapper {
    let mut command = Command::new("python3");
    command.args(["-c", SWAP, fifo, &held.to_string()]).uid(USER).gid(USER);
    let namespaces: Vec<File> = (0..NAMESPACES).map(|_| empty_namespace()).collect();
    command.args(namespaces.iter().map(|namespace| namespace.as_raw_fd().to_string()));
    command.stdout(Stdio::piped()).current_dir("/");
    let mut swapper = Swapper(command.spawn().expect("python3 runs"));
    let mut line = String::new();
    let output = swapper.0.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    swapper
}

/// Adopts and lets go `ROUNDS` times, and returns how long the slowest of these took.
#[expect(clippy::disallowed_methods, reason = "the test measures how long the host takes")]
fn slowest(mut datapath: Datapath) -> Duration {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for _ in 0..ROUNDS {
            for goes in [false, true] {
                let start = Instant::now();
                let walked = if goes { datapath.let_go() } else { datapath.adopt() };
                if sender.send((walked, start.elapsed())).is_err() {
                    return;
                }
            }
        }
    });
    let mut slowest = Duration::ZERO;
    for round in 0..2 * ROUNDS {
        let walk = receiver.recv_timeout(LIMIT);
        let (walked, took) =
            walk.unwrap_or_else(|_| panic!("walk {round} did not end within {LIMIT:?}"));
        assert!(walked.expect("the iterator runs").missed.is_none(), "every namespace is walked");
        slowest = slowest.max(took);
    }
    slowest
}

#[test]
fn a_user_who_swaps_a_namespace_for_a_fifo_does_not_hang_the_walk() {
    // SAFETY: no arguments, no failure.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED: needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)");
        return;
    }
    let folder = std::env::temp_dir().join(format!("remuda-hostile-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("the mode is set");
    let fifo = folder.join("fifo").display().to_string();
    let made = Command::new("mkfifo").args(["-m", "0666", &fifo]).status().expect("mkfifo runs");
    assert!(made.success());
    for held in [NAMESPACES, 2_000] {
        let swapper = swapper(&fifo, held);
        let name = format!("rh{}", std::process::id());
        let settings = Settings { name, ..Settings::default() };
        let mut datapath = Datapath::load(settings, 1).expect("the datapath loads");
        datapath.attach().expect("the algorithm registers");
        let took = slowest(datapath);
        eprintln!("{held} descriptors held: the slowest of {} walks took {took:?}", 2 * ROUNDS);
        drop(swapper);
    }
    fs::remove_dir_all(folder).expect("the folder goes");
}
