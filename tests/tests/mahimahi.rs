//! `mm-link`, `mm-delay` and `mm-loss` as links to the binary, nested, with real TCP. Needs root.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use remuda_live::Clock;
use remuda_results::LinkLog;
use remuda_tests::{binary, exclusive, skip};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Limit for each wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// One opportunity of 1504 bytes each millisecond.
const RATE_MBIT_PER_SEC: f64 = 12.032;

/// A folder with the three commands and a trace.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["mm-link", "mm-delay", "mm-loss", "remuda"] {
        symlink(binary(), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("12.trace"), "1\n").unwrap();
    folder
}

/// A command from the words of `line`; the word `SCRIPT` stands for bash with `script`.
fn called(folder: &Path, line: &str, script: &str) -> Command {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut words = line.split_whitespace();
    let mut command = Command::new(folder.join(words.next().unwrap()));
    for word in words {
        match word {
            "SCRIPT" => command.args(["bash", "-c", script]),
            word => command.arg(word),
        };
    }
    command.env("PATH", path).env_remove("MAHIMAHI_BASE").env_remove("SEED");
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for the process to end within the limit; kills it otherwise.
fn end(mut child: Child) -> Output {
    let clock = Clock::start();
    while child.try_wait().unwrap().is_none() {
        if clock.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it did not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[track_caller]
fn done(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A server on this host; `work` handles the connection.
fn serve<T: Send + 'static>(
    work: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (u16, thread::JoinHandle<T>) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        work(stream)
    });
    (port, server)
}

/// The least of ten round trips to a peer that echoes.
fn round_trip(mut stream: TcpStream) -> Duration {
    let clock = Clock::start();
    let mut trip = || {
        let before = clock.elapsed();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        clock.elapsed() - before
    };
    (0..10).map(|_| trip()).min().unwrap()
}

const ECHO: &str = "exec 3<>/dev/tcp/$MAHIMAHI_BASE/PORT && cat <&3 >&3; echo $MAHIMAHI_BASE";

#[test]
fn nested_delays_add_up_and_the_base_is_the_outermost() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    let folder = folder();
    let nested = "mm-delay 20 mm-loss uplink 0 mm-delay 15 mm-link 12.trace 12.trace -- SCRIPT";
    let (port, server) = serve(round_trip);
    let script = ECHO.replace("PORT", &port.to_string());
    let output = end(called(folder.path(), nested, &script).spawn().unwrap());
    let base = done(&output);
    let trip = server.join().unwrap();
    // Twice 35 ms, and at most a millisecond each way until the next opportunity.
    assert!((70..90).contains(&trip.as_millis()), "{trip:?}");
    // The shells that a host starts are 100.64.0.1, 100.65.0.1 and so on; nested shells end
    // otherwise.
    assert!(base.starts_with("100.") && base.ends_with(".0.1\n"), "{base}");
}

#[test]
fn shells_stand_side_by_side_and_within_a_link_of_ours() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    let folder = folder();
    let line = "remuda mm-delay 10 mm-delay 5 SCRIPT";
    let run = |trip: u64| {
        let (port, server) = serve(round_trip);
        let script = ECHO.replace("PORT", &port.to_string());
        let child = called(folder.path(), line, &script).spawn().unwrap();
        (child, server, trip)
    };
    for (child, server, trip) in [run(30), run(30)] {
        done(&end(child));
        let measured = server.join().unwrap().as_millis() as u64;
        assert!((trip..trip + 15).contains(&measured), "{measured} ms");
    }
    // Behind `remuda link`, the outermost end is the server of that link.
    let script = "echo $MAHIMAHI_BASE; for i in 1 2 3 4 5 6 7 8 9 10; do \
                  iperf3 -n 100K -c $MAHIMAHI_BASE >/dev/null && exit 0; sleep 0.1; done; exit 1";
    let mut command = called(folder.path(), "remuda link --delay-ms 5 --server", "");
    command.args(["iperf3 -s -1 >/dev/null", "--", "mm-delay", "5", "bash", "-c", script]);
    assert_eq!(done(&end(command.spawn().unwrap())).trim(), "10.11.0.2");
}

/// Size of an upload.
const UPLOAD_BYTES: u64 = 3_000_000;

/// Reads an upload and hangs up; returns its rate in Mbit/s, from the first byte on.
fn swallow(mut stream: TcpStream) -> f64 {
    let (mut buffer, mut bytes) = (vec![0; 65_536], 0);
    let mut clock = None;
    while bytes < UPLOAD_BYTES {
        bytes += stream.read(&mut buffer).unwrap() as u64;
        clock.get_or_insert_with(Clock::start);
    }
    bytes as f64 * 8.0 / 1e6 / clock.unwrap().elapsed().as_secs_f64()
}

/// Waits until the other end hangs up, because a shell ends with its command and cuts off packets
/// on the way.
const UPLOAD: &str =
    "exec 3<>/dev/tcp/$MAHIMAHI_BASE/PORT && head -c 3000000 /dev/zero >&3 && cat <&3";

#[test]
fn a_trace_paces_an_upload_and_its_log_tells() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    let folder = folder();
    let (port, server) = serve(swallow);
    let line = "mm-delay 5 mm-link 12.trace 12.trace --uplink-log=up.log \
                --uplink-queue=droptail --uplink-queue-args=packets=20 SCRIPT";
    let script = UPLOAD.replace("PORT", &port.to_string());
    done(&end(called(folder.path(), line, &script).spawn().unwrap()));
    let rate = server.join().unwrap();
    assert!((0.4..1.02).contains(&(rate / RATE_MBIT_PER_SEC)), "{rate} Mbit/s");
    let file = fs::File::open(folder.path().join("up.log")).unwrap();
    let log = LinkLog::read("up.log", BufReader::new(file), 500).unwrap();
    assert_eq!(log.queue.as_deref(), Some("droptail [packets=20]"));
    let capacity = log.capacity_mbit_per_sec().unwrap();
    assert!((capacity / RATE_MBIT_PER_SEC - 1.0).abs() < 0.02, "{capacity} Mbit/s");
    assert!(log.totals.dropped_packets > 0, "slow start fills 20 packets");
    assert!(log.totals.departed_bytes > UPLOAD_BYTES);
    // 20 packets wait for 20 ms, and one more is being sent.
    assert!(log.totals.delay_ms(99).unwrap() <= 22, "{:?}", log.totals.delay_ms(99));
    let names: Vec<&String> = log.flow_names.values().collect();
    assert!(names.iter().any(|name| name.starts_with("tcp 100.")), "{names:?}");
    mahimahis_own_reader_takes_it(&folder.path().join("up.log"));
}

/// mm-delay-graph needs lines whose words are separated by blanks, and reads four of them.
fn mahimahis_own_reader_takes_it(log: &Path) {
    let text = fs::read_to_string(log).unwrap();
    assert_eq!(text.matches("# base timestamp: 0\n").count(), 1);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_number = |at: usize| words.get(at).is_some_and(|word| word.parse::<u64>().is_ok());
        assert!(is_number(0) && is_number(2), "{line}");
        assert!(words[1] != "-" || is_number(3), "{line}");
    }
}

#[test]
fn all_loss_lets_nothing_through_and_the_status_is_the_commands() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    let folder = folder();
    let script = "timeout 1 bash -c 'echo >/dev/tcp/$MAHIMAHI_BASE/9'; echo $?; exit 7";
    for (direction, passed) in [("uplink 1", "124"), ("uplink 0", "1")] {
        let line = format!("mm-loss {direction} SCRIPT");
        let output = end(called(folder.path(), &line, script).spawn().unwrap());
        // Without loss the connection is refused at once, because nothing listens there.
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), passed, "{direction}");
        assert_eq!(output.status.code(), Some(7));
    }
}

/// Whether this namespace has a device of a shell.
fn has_device() -> bool {
    let devices = fs::read_to_string("/proc/net/dev").unwrap();
    devices.lines().any(|line| line.trim_start().starts_with("remuda"))
}

#[test]
fn sigkill_takes_the_device_along() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    assert!(!has_device(), "another shell runs on this host");
    let mut command = Command::new(binary());
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

#[test]
fn a_missing_trace_is_named_and_meters_are_warned_of() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    let folder = folder();
    let line = "mm-link none.trace 12.trace --meter-all SCRIPT";
    let output = end(called(folder.path(), line, "echo ran").spawn().unwrap());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`up.trace`: none.trace") && said.contains("X display"), "{said}");
    assert!(!output.status.success() && output.stdout.is_empty());
}

/// Runs a script of `ip` and shells in a network namespace of its own.
fn in_a_namespace(script: &str) -> Output {
    let folder = folder();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("unshare");
    command.args(["--net", "bash", "-euc", script]).env("PATH", path).env_remove("MAHIMAHI_BASE");
    command.current_dir(folder.path()).stdin(Stdio::null());
    end(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// A host with addresses, routes or a gateway of 100.64.0.0/10 keeps them: a shell takes another
/// block.
#[test]
fn a_shell_takes_a_block_that_the_host_does_not_use() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    const BASE: &str = "ip link set lo up; ip tuntap add d0 mode tun; ip link set d0 up";
    const SHELL: &str = "mm-delay 1 bash -c 'echo $MAHIMAHI_BASE'";
    for (set_up, want) in [
        ("true", "100.64.0.1"),
        ("ip addr add 100.64.7.7/16 dev d0", "100.65.0.1"),
        // As Tailscale has them: an address without a subnet, and peers in a table of their own.
        ("ip addr add 100.64.7.7/32 dev d0", "100.65.0.1"),
        ("ip route add 100.64.9.9/32 dev d0 table 52", "100.65.0.1"),
        ("ip addr add 100.64.0.5/12 dev d0", "100.80.0.1"),
        // The whole range cannot be avoided, but the own address, the broadcast address and the
        // gateway are.
        ("ip addr add 100.64.0.5/10 dev d0", "100.65.0.1"),
        (
            "ip addr add 100.65.0.5/10 dev d0; ip route add default via 100.64.0.1 dev d0",
            "100.66.0.1",
        ),
        ("ip addr add 192.168.1.1/24 dev d0; ip route add default dev d0", "100.64.0.1"),
    ] {
        let output = in_a_namespace(&format!("{BASE}; {set_up}; {SHELL}"));
        assert_eq!(done(&output).trim(), want, "{set_up}");
    }
    // Side by side and nested within: the outer shell's own block is no reason to refuse.
    let nested = "ip addr add 100.64.7.7/16 dev d0; mm-delay 1 mm-delay 1 mm-loss uplink 0 \
                  mm-delay 1 bash -c 'ip -4 -o addr show remuda-in'";
    let output = in_a_namespace(&format!("{BASE}; {nested}"));
    assert!(done(&output).contains("inet 100.65.17.66/26"), "{output:?}");
}

#[test]
fn a_host_that_uses_every_block_is_told_which_and_what_to_do() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    let output = in_a_namespace(
        "ip tuntap add d0 mode tun; ip link set d0 up; ip addr add 10.0.0.1/24 dev d0
         ip route add 100.64.0.0/11 dev d0; ip route add 100.96.0.0/11 dev d0
         mm-delay 1 true",
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for part in ["in 64 blocks, such as 100.64.0.0/11", "shells hold 0; remove such a route"] {
        assert!(said.contains(part), "{said}");
    }
}
