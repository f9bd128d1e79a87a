//! The agent in a Debian 13 with systemd (`tools/systemd-guest.sh`). All tests but one share a
//! guest, which the first of them boots.

use remuda_guest::systemd::{Booted, SystemdGuest};
use remuda_live::Clock;
use serde_json::Value;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// On an idle host, booting takes some 30 seconds.
const BOOT_MAX: Duration = Duration::from_secs(600);
const COMMAND_MAX: Duration = Duration::from_secs(120);
/// For commands that wait for something in the guest themselves.
const WAIT_MAX: Duration = Duration::from_secs(300);

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
        // A test that fails leaves the guest in order, so the others go on.
        let mut guest = GUEST.lock().unwrap_or_else(PoisonError::into_inner);
        if guest.is_none() {
            let program = remuda_tests::binary();
            let with = SystemdGuest::new(&folder).and_then(|guest| guest.with_program(&program));
            *guest = Some(boot(&with.expect("the files are there")));
        }
        Some(Self(guest))
    }

    /// A script that must succeed within the usual limit; returns its output.
    fn sh(&mut self, script: &str) -> String {
        self.check(script, COMMAND_MAX).expect("it succeeds")
    }
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
    assert_eq!(guest.console_complaints().expect("the console"), [""; 0]);
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

/// A flow over loopback for 20 seconds at most, with the algorithm `remuda`: a sender of one packet
/// each hundredth of a second.
const FLOW: &str = r#"
import socket, threading, time
listener = socket.create_server(("127.0.0.1", 0))
sender = socket.socket()
sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"remuda")
sender.connect(listener.getsockname())
receiver, _ = listener.accept()
def receive():
    while receiver.recv(65536):
        pass
threading.Thread(target=receive, daemon=True).start()
print(sender.getsockname()[1], flush=True)
for _ in range(2000):
    sender.sendall(bytes(1000))
    time.sleep(0.01)
"#;

#[test]
fn the_agent_that_systemd_starts_drives_a_flow() {
    let Some(mut guest) = Shared::boot() else { return };
    println!("{}", guest.sh("remuda doctor"));
    guest.sh("systemd-run --unit=test-agent --property=Type=exec remuda agent --arm cubic");
    let ready = "until remuda flows --json; do sleep 0.5; done 2>/run/last-error";
    let flows = guest.check(ready, WAIT_MAX).expect("the agent answers");
    assert_eq!(flows, "", "there is no flow yet");
    guest.put(Path::new("/run/flow.py"), FLOW.as_bytes(), "644").expect("it is written");
    guest.sh("systemd-run --unit=test-flow python3 /run/flow.py");
    let seen = "until remuda flows --json | grep .; do sleep 0.5; done";
    let flows = guest.check(seen, WAIT_MAX).expect("a flow is seen");
    let flow: Value = serde_json::from_str(flows.lines().next().expect("one flow")).expect("JSON");
    println!("{flow}\n{}", guest.sh("remuda flows"));
    assert_eq!(flow["arm"], "cubic", "{flow}");
    assert!(flow["remote"].as_str().is_some_and(|to| to.starts_with("127.0.0.1:")), "{flow}");
    let inside = guest.sh("ss -tinH state established dst 127.0.0.1");
    assert!(inside.contains("remuda"), "{inside}");
    guest.sh("systemctl stop test-agent");
    let ended = guest.sh("systemctl show --property=Result,ExecMainStatus test-agent");
    assert_eq!(ended, "Result=success\nExecMainStatus=0\n");
    let left = guest.sh("ss -tinH state established dst 127.0.0.1");
    assert!(!left.contains("remuda"), "the flow is given back: {left}");
    guest.sh("systemctl stop test-flow");
    assert_eq!(guest.console_complaints().expect("the console"), [""; 0]);
}

#[test]
fn units_of_a_folder_are_installed_and_rated() {
    let Some(mut guest) = Shared::boot() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        std::fs::write(file, content).expect("it is written");
    };
    write("test-units.sysusers.conf", "u test-units - \"A test\"\n");
    write("test-units.service", "[Service]\nUser=test-units\nExecStart=sleep 1000\n");
    guest.install_units(folder.path()).expect("they are installed");
    guest.sh("systemctl start test-units");
    let user = "ps -o user:20= -p \"$(systemctl show --property=MainPID --value test-units)\"";
    assert_eq!(guest.sh(user), "test-units\n");
    let open = guest.rate("test-units.service", 2.0).expect("it is rated");
    assert!(!open.passes && open.exposure > 8.0, "{open:?}");
    let confined = "[Service]\nCapabilityBoundingSet=\nPrivateNetwork=yes\nProtectSystem=strict\n\
                    SystemCallFilter=@system-service\nNoNewPrivileges=yes\n";
    write("test-units.service.d/confined.conf", confined);
    guest.install_units(folder.path()).expect("they are installed");
    let better = guest.rate("test-units.service", 8.0).expect("it is rated");
    assert!(better.passes && better.exposure < open.exposure - 1.0, "{better:?}");
    println!("exposure {} without a setting, {} with some", open.exposure, better.exposure);
    guest.sh("systemctl restart test-units");
    // The kernel confines it, so what systemd says is what it has done.
    let status = "cat \"/proc/$(systemctl show --property=MainPID --value test-units)/status\"";
    let status = guest.sh(status);
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t0000000000000000"] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    guest.sh("systemctl stop test-units");
    let missing = guest.rate("no-such.service", 2.0).expect_err("there is none").to_string();
    assert!(missing.contains("no-such.service"), "{missing}");
    write("notes", "");
    let refused = guest.install_units(folder.path()).expect_err("no place for it").to_string();
    assert!(refused.contains("notes: cannot install"), "{refused}");
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

const SERVER: &str = include_str!("service/server.py");
const CLIENT: &str = include_str!("service/client.py");
/// Downloads of each service that run while the agent restarts.
const DOWNLOADS: usize = 14;
/// Where a test's agent finds the service that names no algorithm.
const WEB_CGROUP: &str = "/sys/fs/cgroup/system.slice/test-cgroup.service";

/// A service whose sockets are the agent's.
#[derive(Clone, Copy)]
struct Web {
    /// The name of its unit.
    unit: &'static str,
    port: u16,
    /// What its listening socket chooses.
    algorithm: &'static str,
    /// Properties of its unit.
    properties: &'static str,
    /// The words before a command that reaches it.
    reach: &'static str,
}

/// The three ways in which a service gives the agent its sockets: it names the algorithm on its
/// listening socket; the agent has its cgroup; its network namespace has the algorithm as default.
const WEBS: [Web; 3] = [
    Web { unit: "test-listener", port: 8001, algorithm: "remuda", properties: "", reach: "" },
    Web { unit: "test-cgroup", port: 8002, algorithm: "", properties: "", reach: "" },
    Web {
        unit: "test-namespace",
        port: 8003,
        algorithm: "",
        properties: "--property=NetworkNamespacePath=/run/netns/test",
        reach: "ip netns exec test",
    },
];

impl Web {
    fn start(&self, guest: &mut Shared) {
        let Self { unit, port, algorithm, properties, .. } = self;
        guest.sh(&format!(
            "systemd-run --unit={unit} {properties} python3 /run/server.py {port} {algorithm}"
        ));
        self.wait(guest);
    }

    /// Waits until it listens.
    fn wait(&self, guest: &mut Shared) {
        let Self { port, reach, .. } = self;
        guest
            .sh(&format!("until {reach} ss -tlnH sport = :{port} | grep -q .; do sleep 0.2; done"));
    }

    /// Starts downloads and waits until the agent drives all of them.
    fn download(&self, guest: &mut Shared, downloads: usize, chunks: u32) {
        let Self { unit, port, reach, .. } = self;
        let log = format!("/run/{unit}.log");
        guest.sh(&format!(
            "{{ {reach} python3 /run/client.py {port} {downloads} {chunks}; echo status $?; }} \
             >{log} 2>&1 &
             until grep -q 'driven\\|status' {log}; do sleep 0.2; done
             grep -qx driven {log} || {{ cat {log}; remuda flows; exit 1; }}"
        ));
    }

    /// Waits for the end of the downloads, of which every byte must have arrived.
    fn expect_exact(&self, guest: &mut Shared) {
        let log = format!("/run/{}.log", self.unit);
        let end = format!("until grep status {log}; do sleep 0.2; done >/dev/null; cat {log}");
        assert_eq!(guest.sh(&end), "driven\nexact\nstatus 0\n", "{}", self.unit);
    }
}

/// Starts the agent of the test as a unit that systemd starts again, and waits until it answers.
fn start_agent(guest: &mut Shared) {
    guest.sh(&format!(
        "systemd-run --unit=test-agent --property=Restart=always --property=RestartSec=1 \
         remuda agent --arm cubic --cgroup {WEB_CGROUP}"
    ));
    guest.sh("until remuda flows; do sleep 0.2; done >/dev/null 2>&1");
}

/// Restarts the agent and waits until the new one answers.
fn restart_agent(guest: &mut Shared, how: &str) {
    let main = "systemctl show --property=MainPID --value test-agent";
    let wait = "until [ \"$old\" != \"$(systemctl show --property=MainPID --value test-agent)\" ] \
                && remuda flows; do sleep 0.2; done >/dev/null 2>&1";
    guest.sh(&format!("old=$({main}); {how}; {wait}"));
}

#[test]
fn services_are_driven_again_after_each_restart_of_the_agent_and_their_own() {
    let Some(mut guest) = Shared::boot() else { return };
    for (at, content) in [("/run/server.py", SERVER), ("/run/client.py", CLIENT)] {
        guest.put(Path::new(at), content.as_bytes(), "644").expect("it is written");
    }
    // The cgroup does not exist yet.
    start_agent(&mut guest);
    guest.sh("ip netns add test && ip -n test link set lo up");
    guest.sh("ip netns exec test sysctl net.ipv4.tcp_congestion_control=remuda");
    WEBS.iter().for_each(|web| web.start(&mut guest));
    let replace = "cp /usr/bin/remuda /usr/bin/remuda.new && mv /usr/bin/remuda.new \
                   /usr/bin/remuda && systemctl restart test-agent";
    let kill = "systemctl kill --signal=KILL test-agent";
    let clean = "systemctl restart test-agent";
    let clock = Clock::start();
    let ways = [clean, kill, replace, clean, kill];
    for how in ways {
        WEBS.iter().for_each(|web| web.download(&mut guest, DOWNLOADS, 300));
        restart_agent(&mut guest, how);
        let running = guest.sh("grep -L status /run/test-*.log | wc -l");
        assert_eq!(running, "3\n", "the downloads end after the agent is back");
        WEBS.iter().for_each(|web| web.expect_exact(&mut guest));
        WEBS.iter().for_each(|web| web.download(&mut guest, 2, 50));
        WEBS.iter().for_each(|web| web.expect_exact(&mut guest));
        guest.sh("systemctl restart test-cgroup");
        WEBS[1].wait(&mut guest);
        WEBS[1].download(&mut guest, 2, 50);
        WEBS[1].expect_exact(&mut guest);
        println!("driven again after {how:?}, {:.0} s", clock.elapsed().as_secs_f64());
    }
    WEBS.iter().for_each(|web| web.download(&mut guest, 2, 50));
    guest.sh("systemctl stop test-agent");
    let left = "ss -tinH state established; ip netns exec test ss -tinH state established";
    let left = guest.sh(left);
    assert!(left.contains("cubic") && !left.contains("remuda"), "flows are given back: {left}");
    WEBS.iter().for_each(|web| web.expect_exact(&mut guest));
    let flows = ways.len() * WEBS.len() * DOWNLOADS;
    println!("{flows} downloads during {} restarts, all of them byte-exact", ways.len());
    WEBS.iter().for_each(|web| drop(guest.sh(&format!("systemctl stop {}", web.unit))));
    guest.sh("ip netns del test");
    assert_eq!(guest.console_complaints().expect("the console"), [""; 0]);
}
