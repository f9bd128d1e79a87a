//! The Debian package: installed, upgraded under load, and purged.

use crate::web::{self, SLOW, Web};
use crate::{Shared, WAIT_MAX};
use remuda_live::Clock;

/// The packages of the tested build and of the other one, which has a lower version.
pub const TESTED: &str = "/var/tmp/remuda-tested.deb";
pub const OTHER: &str = "/var/tmp/remuda-other.deb";

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

#[test]
fn the_package_is_installed_upgraded_under_load_and_purged_without_a_trace() {
    let Some(mut guest) = Shared::boot() else { return };
    // The next test finds the tested build where it was: see CLEAN_UP.
    guest.sh("mv /usr/bin/remuda /usr/bin/remuda-tested");
    guest.sh(CLEAR);
    let before = guest.sh(HOST);
    guest.sh("date +%s >/run/test-began");
    let clock = Clock::start();
    guest.check(&format!("dpkg --install {OTHER}"), WAIT_MAX).expect("it is installed");
    assert_eq!(guest.sh(ACTIVE), "active\nactive\n");
    println!("installed and started after {:.0} s", clock.elapsed().as_secs_f64());
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
