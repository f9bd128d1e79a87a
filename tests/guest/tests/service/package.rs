//! The Debian package: installed, upgraded under load, and purged.

use crate::web::{self, SLOW, Web};
use crate::{Shared, WAIT_MAX};
use remuda_live::Clock;
use std::path::Path;

/// The packages of the tested build and of the other one, which has a lower version.
pub const TESTED: &str = "/var/tmp/remuda-tested.deb";
pub const OTHER: &str = "/var/tmp/remuda-other.deb";

/// Eight senders of a busy host. Each sends 400 kB over a connection, then opens the next one. The
/// connections name the agent's algorithm as soon as the kernel has it.
const BUSY: &str = r#"
import socket, threading, time
listener = socket.create_server(("127.0.0.1", 8010), backlog=64)
def receive(connection):
    while connection.recv(65536):
        pass
def accept():
    while True:
        threading.Thread(target=receive, args=listener.accept()[:1], daemon=True).start()
def send():
    while True:
        with socket.socket() as sender:
            try:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"remuda")
            except OSError:
                pass
            sender.connect(listener.getsockname())
            for _ in range(20):
                sender.sendall(bytes(20000))
                time.sleep(0.05)
for _ in range(8):
    threading.Thread(target=send, daemon=True).start()
accept()
"#;
/// From the end of the installation to the first words of `remuda advise` about a destination, in
/// seconds of the guest's clock. The installation itself is not limited: an emulated processor
/// takes 20 seconds to two minutes for it, by what else the host computes.
const FIRST_WORDS_S_MAX: f64 = 60.0;

/// Downloads during the upgrade.
const DOWNLOADS: usize = 200;
const WEBS: [Web; 1] = [SLOW];

/// What the host has: files, users, settings of TCP, and what of BPF is ours. Files that dpkg and
/// the user tools keep of every change are not the package's.
const HOST: &str = "
find /etc /opt /usr /var/lib -xdev ! -path '/var/lib/dpkg/*' ! -path '/etc/*-' \
    ! -path '/etc/.pwd.lock' ! -path '/var/lib/nginx/*' ! -path '/usr/bin/remuda-tested' | sort
cat /etc/passwd /etc/group
sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_available_congestion_control
systemctl list-unit-files --no-legend
for kind in prog map; do bpftool -j $kind show | grep -o '\"name\":\"[^\"]*' || true; done |
    sed -n '/remuda/p; /ccp_/p' | sort
bpftool link show | grep struct_ops || true
ls -d /run/remuda* /var/log/remuda 2>/dev/null || true";

/// Removes the units and files that tests before have put where the package's would be.
const CLEAR: &str = "
rm -rf /etc/systemd/system/remuda*.service /etc/sysusers.d/remuda.conf \
    /etc/tmpfiles.d/remuda.conf /etc/remuda /var/lib/remuda /var/log/remuda /run/remuda*
userdel remuda 2>/dev/null
systemctl daemon-reload
true";

const ACTIVE: &str = "systemctl is-active remuda remuda-broker";

/// Waits until the host is as `before` says; returns the difference if it does not become so.
fn difference(guest: &mut Shared, before: &str) -> String {
    // The kernel frees BPF objects some time after the last socket that used them.
    let differs = |now: &str| -> Vec<String> {
        let gone = before.lines().filter(|line| !now.lines().any(|it| it == *line));
        let new = now.lines().filter(|line| !before.lines().any(|it| it == *line));
        gone.map(|line| format!("- {line}")).chain(new.map(|line| format!("+ {line}"))).collect()
    };
    let mut left = Vec::new();
    for _ in 0..20 {
        left = differs(&guest.sh(HOST));
        if left.is_empty() {
            break;
        }
        guest.sh("sleep 1");
    }
    left.join("\n")
}

/// The first `remuda advise` after the installation says something about a destination.
fn expect_advice(guest: &mut Shared) {
    let script = "date +%s.%N; remuda advise >/run/test-advice; date +%s.%N
        cat /run/test-began /run/test-advice";
    let output = guest.check(script, WAIT_MAX).expect("advise succeeds");
    let mut lines = output.lines();
    let mut seconds = || lines.next().and_then(|line| line.parse::<f64>().ok()).expect("a time");
    let [installed, advised, began] = [seconds(), seconds(), seconds()];
    let (install_s, advise_s) = (installed - began, advised - installed);
    println!("{output}installed after {install_s:.1} s, first words {advise_s:.1} s later");
    assert!(output.contains("\n127.0.0.0/24: "), "advise says nothing of the flows:\n{output}");
    assert!(advise_s <= FIRST_WORDS_S_MAX, "advise is silent for {advise_s:.1} s");
}

#[test]
fn the_package_is_installed_upgraded_under_load_and_purged_without_a_trace() {
    let Some(mut guest) = Shared::boot() else { return };
    // The next test finds the tested build where it was: see CLEAN_UP.
    guest.sh("mv /usr/bin/remuda /usr/bin/remuda-tested");
    guest.sh(CLEAR);
    let before = guest.sh(HOST);
    guest.put(Path::new("/run/busy.py"), BUSY.as_bytes(), "644").expect("it is written");
    guest.sh("systemd-run --unit=test-busy python3 /run/busy.py; sleep 2");
    guest.sh("date +%s.%N >/run/test-began");
    let clock = Clock::start();
    guest.check(&format!("dpkg --install {OTHER}"), WAIT_MAX).expect("it is installed");
    expect_advice(&mut guest);
    guest.sh("systemctl stop test-busy");
    assert_eq!(guest.sh(ACTIVE), "active\nactive\n");
    for file in [
        "/usr/share/man/man1/remuda-agent.1.gz",
        "/usr/share/bash-completion/completions/remuda",
        "/etc/remuda/remuda.toml",
        "/var/log/remuda/events.jsonl",
    ] {
        guest.sh(&format!("test -s {file}"));
    }
    let of = "--since=@$(cat /run/test-began) --unit=remuda --unit=remuda-broker";
    let journal = guest.sh(&format!("journalctl {of} --output=cat"));
    println!("{journal}");
    assert!(journal.lines().count() < 20, "a start says little:\n{journal}");
    guest.sh("echo '# An operator has changed it.' >>/etc/remuda/remuda.toml");
    web::start(&mut guest, &WEBS);
    web::download(&mut guest, &WEBS, DOWNLOADS);
    guest.check(&format!("dpkg --install {TESTED}"), WAIT_MAX).expect("it is upgraded");
    assert_eq!(guest.sh(ACTIVE), "active\nactive\n");
    guest.sh("until remuda flows; do sleep 0.2; done >/dev/null 2>&1");
    guest.sh("grep -q 'An operator' /etc/remuda/remuda.toml");
    web::expect_driven(&mut guest, &WEBS, DOWNLOADS);
    web::expect_algorithm(&mut guest, &WEBS, DOWNLOADS, "remuda");
    web::expect_exact(&mut guest, &WEBS);
    println!("{DOWNLOADS} downloads, exact after {:.0} s", clock.elapsed().as_secs_f64());
    web::download(&mut guest, &WEBS, 2);
    let purged = guest.check("dpkg --purge remuda", WAIT_MAX).expect("it is purged");
    println!("{purged}");
    web::expect_algorithm(&mut guest, &WEBS, 2, "cubic");
    web::expect_exact(&mut guest, &WEBS);
    guest.sh("systemctl stop test-slow");
    // A namespace that had the agent's name as default: see web::start.
    let of_namespace = "ip netns exec test sysctl -n net.ipv4.tcp_congestion_control";
    assert_eq!(guest.sh(of_namespace), "cubic\n");
    let left = difference(&mut guest, &before);
    assert_eq!(left, "", "the host is not as it was");
    guest.expect_no_complaint();
}
