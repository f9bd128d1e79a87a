//! `remuda link`: what its command sees, how it ends, and that nothing is left behind. Needs root.
//!
//! Each test runs this test binary again, as the program under test ([`program`]).

mod common;

use clap::Parser;
use common::{constant, testbed};
use pcap_file::pcapng::{Block, PcapNgReader};
use remuda_live::args::LinkArgs;
use remuda_live::{Clock, LinkSpec, PathSpec};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// If set, this binary acts as `remuda link` with these arguments, one a line.
const LINK: &str = "REMUDA_TEST_LINK";
/// If set, this binary acts as a program that uses a testbed.
const TESTBED: &str = "REMUDA_TEST_TESTBED";

/// How long a program may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    link: LinkArgs,
}

/// Not a test: the program that the tests start. With one test thread it runs on the main thread.
#[test]
fn program() {
    if let Ok(lines) = std::env::var(LINK) {
        let status = match Cli::parse_from(std::iter::once("link").chain(lines.lines())).link.run()
        {
            Ok(status) => status,
            Err(error) => {
                eprintln!("remuda link: {error}");
                1
            }
        };
        std::process::exit(status);
    }
    if std::env::var(TESTBED).is_ok() {
        let testbed = testbed(&PathSpec::symmetric(constant(10.0, 1.0))).expect("checked before");
        let line = "readlink /proc/self/ns/net; exec sleep 300";
        let mut child = testbed.client().command("sh").args(["-c", line]).spawn().expect("sh");
        child.wait().expect("a child to wait for");
    }
}

fn this_program(variable: &str, value: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args(["--exact", "program", "--nocapture", "--test-threads=1"]).env(variable, value);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn link(arguments: &[&str]) -> Command {
    this_program(LINK, &arguments.join("\n"))
}

fn is_root() -> bool {
    let is_root = testbed(&PathSpec::default()).is_some();
    if !is_root {
        eprintln!("SKIPPED: needs root (CAP_NET_ADMIN)");
    }
    is_root
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for the child to end; after `PATIENCE` kills it and panics.
fn end(mut child: Child) -> Output {
    let clock = Clock::start();
    while child.try_wait().expect("a child to wait for").is_none() {
        if clock.elapsed() > PATIENCE {
            child.kill().expect("a child to kill");
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("output to read")
}

/// Reads lines until one names a network namespace, as `readlink` prints it.
fn namespace_of(child: &mut Child) -> String {
    let stdout = child.stdout.as_mut().expect("a pipe");
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let line = lines.filter_map(|it| it.find("net:[").map(|at| it[at..].to_owned())).next();
    line.expect("the program says which namespace it is in")
}

/// The processes in this namespace, or with its file open.
fn users_of(namespace: &str) -> Vec<String> {
    let links = |folder: String| fs::read_dir(folder).into_iter().flatten().flatten();
    let mut users = Vec::new();
    for process in links("/proc".to_owned()) {
        let path = process.path().display().to_string();
        let namespaces = links(format!("{path}/ns")).chain(links(format!("{path}/fd")));
        let mut targets = namespaces.filter_map(|it| fs::read_link(it.path()).ok());
        if targets.any(|target| target.to_string_lossy() == namespace) {
            users.push(path);
        }
    }
    users
}

fn nothing_is_left(namespace: &str) {
    let clock = Clock::start();
    while !users_of(namespace).is_empty() {
        assert!(clock.elapsed() < PATIENCE, "{namespace}: {:?}", users_of(namespace));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).expect("a number");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn the_command_sees_the_addresses_and_its_status_is_returned() {
    if !is_root() {
        return;
    }
    let line = "echo \"<$REMUDA_SERVER $REMUDA_SERVER6 $REMUDA_CLIENT $MAHIMAHI_BASE>\"; exit 7";
    let output = end(link(&["--rate=12", "--seed=5", "--", "sh", "-c", line]).spawn().unwrap());
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    assert!(stdout.contains("<10.11.0.2 fd11::2 10.11.0.1 10.11.0.2>"), "{stdout}");
    assert!(text(&output.stderr).starts_with("remuda link: seed 5\n"), "{}", text(&output.stderr));
}

#[test]
fn the_command_reaches_a_server_and_the_logs_tell() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("up.log");
    let option = format!("--uplink-log={}", log.display());
    let client = "for i in 1 2 3 4 5 6 7 8 9 10; do iperf3 -n 200K -c $REMUDA_SERVER && exit; \
                  sleep 0.1; done; exit 1";
    let output = end(link(&[
        "--rate=20",
        "--delay-ms=5",
        "--queue-bdp=1",
        &option,
        "--server=iperf3 -s -1 >/dev/null; true",
        "--",
        "sh",
        "-c",
        client,
    ])
    .spawn()
    .unwrap());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let log = fs::read_to_string(log).unwrap();
    assert!(log.starts_with("# mahimahi mm-link (uplink) [20 Mbit/s] > "), "{log}");
    assert!(log.contains("\n# queue: droptail [bdp=1]\n"));
    let described = log.lines().find_map(|line| line.strip_prefix("# link: ")).unwrap();
    let spec: LinkSpec = serde_json::from_str(described).unwrap();
    assert_eq!((spec.rate_mbit_per_sec, spec.delay_ms), (Some(20.0), 5.0));
    for kind in [" # 2500\n", " + 1500 ", " - 1500 ", "\n# flow 1: tcp 10.11.0.1:"] {
        assert!(log.contains(kind), "no {kind:?}");
    }
}

#[test]
fn a_capture_has_every_packet_twice_and_each_cut() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("link.pcapng");
    let option = format!("--pcap={}", file.display());
    // Five datagrams of 1000 bytes to a closed port. The server answers with an ICMP error.
    let line = "exec 3>/dev/udp/$REMUDA_SERVER/9; for i in 1 2 3 4 5; do \
                printf '%01000d' 0 >&3; sleep 0.05; done 2>/dev/null; sleep 0.2; true";
    let output = end(link(&[&option, "--pcap-snap=60", "--delay-ms=10", "--", "bash", "-c", line])
        .spawn()
        .unwrap());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut reader = PcapNgReader::new(fs::File::open(&file).unwrap()).unwrap();
    let mut seen: [Vec<(Duration, u32, usize)>; 4] = Default::default();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(it) = block.unwrap() {
            let packet = (it.timestamp, it.original_len, it.data.len());
            seen[it.interface_id as usize].push(packet);
        }
    }
    let datagrams = |at: usize| seen[at].iter().filter(|it| it.1 == 1028).collect::<Vec<_>>();
    let (came, left) = (datagrams(0), datagrams(1));
    assert!(!came.is_empty() && came.len() == left.len(), "{seen:?}");
    assert!(came.iter().chain(&left).all(|it| it.2 == 60), "cut to what --pcap-snap says");
    for (came, left) in came.iter().zip(&left) {
        assert!(left.0 - came.0 >= Duration::from_millis(10), "{came:?} {left:?}");
    }
    assert!(!seen[3].is_empty(), "the server's refusals");
}

#[test]
fn sigterm_and_the_end_of_a_trace_end_the_command() {
    if !is_root() {
        return;
    }
    let mut child =
        link(&["--", "sh", "-c", "readlink /proc/self/ns/net; exec sleep 300"]).spawn().unwrap();
    let namespace = namespace_of(&mut child);
    kill(&child, Signal::TERM);
    assert_eq!(end(child).status.code(), Some(128 + Signal::TERM.as_raw()));
    nothing_is_left(&namespace);

    let mut trace = tempfile::NamedTempFile::new().unwrap();
    trace.write_all(b"1\n200\n").unwrap();
    let option = format!("--up-trace={}", trace.path().display());
    let child = link(&[&option, "--once", "--", "sleep", "300"]).spawn().unwrap();
    assert_eq!(end(child).status.code(), Some(128 + Signal::TERM.as_raw()));
}

#[test]
fn sigkill_of_either_half_leaves_nothing() {
    if !is_root() {
        return;
    }
    for kills_inner in [false, true] {
        // Grandchildren must end too, even in a session of their own.
        let line = "setsid sleep 300 & readlink /proc/self/ns/net; sleep 300; true";
        let mut child =
            link(&["--server=setsid sleep 300; true", "--", "sh", "-c", line]).spawn().unwrap();
        let namespace = namespace_of(&mut child);
        let victim = if kills_inner { inner_half(&child) } else { child.id() };
        let pid = Pid::from_raw(victim as i32).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        let output = end(child);
        assert_eq!(output.status.code(), kills_inner.then_some(128 + Signal::KILL.as_raw()));
        nothing_is_left(&namespace);
    }
}

/// The process that does the work: the only child of the program.
fn inner_half(child: &Child) -> u32 {
    let parent = format!("PPid:\t{}", child.id());
    let numbers = fs::read_dir("/proc").expect("a /proc").flatten();
    let mut numbers = numbers.filter_map(|it| it.file_name().to_string_lossy().parse().ok());
    numbers
        .find(|number: &u32| {
            let status = fs::read_to_string(format!("/proc/{number}/status"));
            status.is_ok_and(|status| status.lines().any(|line| line == parent))
        })
        .expect("a child of the program")
}

#[test]
fn sigkill_of_a_program_with_a_testbed_leaves_nothing() {
    if !is_root() {
        return;
    }
    let mut child = this_program(TESTBED, "1").spawn().unwrap();
    let namespace = namespace_of(&mut child);
    kill(&child, Signal::KILL);
    end(child);
    nothing_is_left(&namespace);
}

#[test]
fn without_root_it_says_what_to_do() {
    if !is_root() {
        return;
    }
    // Any user must be able to run the program, and the build folder may be closed to others: copy
    // it.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), mode).unwrap();
    let mut command = Command::new(copy);
    command.args(["--exact", "program", "--nocapture", "--test-threads=1"]);
    command.env(LINK, "--\ntrue").stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = end(command.uid(65_534).gid(65_534).current_dir("/").spawn().unwrap());
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN)"), "{stderr}");
}

#[test]
fn wrong_options_name_themselves() {
    if !is_root() {
        return;
    }
    let fails = |arguments: &[&str], message: &str| {
        let output = end(link(arguments).spawn().unwrap());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
    };
    fails(&["--rate=0", "--", "true"], "`up.rate_mbit_per_sec` is 0: must be between");
    fails(&["--queue=droptail", "--", "true"], "`up.queue.kind` is droptail: needs limit_packets");
    fails(&["--pcap=/no/such/x", "--", "true"], "/no/such/x: cannot write the capture: No such");
    fails(&["--pcap=/dev/full", "--", "true"], "cannot write the capture of the link: No space");
    fails(&["--", "/no/such/program"], "cannot start `/no/such/program`");
}
