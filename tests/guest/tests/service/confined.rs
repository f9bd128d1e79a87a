//! The units of `packaging/`: an agent without privileges, and its broker.

use crate::web::{self, LISTENER, NAMESPACE, Web};
use crate::{Shared, WAIT_MAX};
use remuda_live::Clock;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const DOUBLE: &str = include_str!("double.py");
/// Runs the double in the agent's place, as confined as the agent is.
const IN_ITS_PLACE: &str = "[Service]\nType=oneshot\nExecStart=\nExecStart=python3 /run/double.py\n\
                            Restart=no\nWatchdogSec=0\nStandardOutput=file:/run/double.log\n\
                            StandardError=inherit\n";
/// The services of which the broker finds sockets: in its own network namespace and in another one.
const WEBS: [Web; 2] = [LISTENER, NAMESPACE];
/// The most exposure that `docs/operating.md` allows each unit.
const EXPOSURE_MAX: [(&str, f64); 2] = [("remuda.service", 2.0), ("remuda-broker.service", 4.0)];
/// CHOWN, DAC_READ_SEARCH, NET_ADMIN, SYS_PTRACE, SYS_ADMIN, PERFMON and BPF: their numbers in
/// `linux/capability.h`.
const BROKERS_CAPABILITIES: [u32; 7] = [0, 2, 12, 19, 21, 38, 39];

/// Installs what `packaging/` has, as a package would.
fn install(guest: &mut Shared) {
    let packaging = remuda_tests::root().join("packaging");
    let config = fs::read(packaging.join("remuda.toml")).expect("it is there");
    guest.put(Path::new("/etc/remuda/remuda.toml"), &config, "644").expect("it is written");
    for folder in ["sysusers.d", "tmpfiles.d", "systemd"] {
        guest.install_units(&packaging.join(folder)).expect("the guest takes them");
    }
}

fn start(guest: &mut Shared) {
    let clock = Clock::start();
    let started = guest.run("systemctl start remuda", WAIT_MAX).expect("it answers");
    let journal = "journalctl --no-pager --boot -u remuda -u remuda-broker | tail -n 60";
    assert_eq!(started.status, 0, "{}{}", started.errors, guest.sh(journal));
    println!("remuda.service is ready after {:.1} s", clock.elapsed().as_secs_f64());
}

fn property(guest: &mut Shared, unit: &str, property: &str) -> String {
    let value = guest.sh(&format!("systemctl show --property={property} --value {unit}"));
    value.trim().to_owned()
}

/// The lines of `/proc/PID/task/TID/status` for each thread of a unit's main process.
fn threads(guest: &mut Shared, unit: &str) -> Vec<BTreeMap<String, String>> {
    let pid = property(guest, unit, "MainPID");
    let all = guest.sh(&format!("for task in /proc/{pid}/task/*; do cat $task/status; echo; done"));
    let lines = |status: &str| {
        let line = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        status.lines().filter_map(line).collect()
    };
    all.split("\n\n").filter(|status| !status.trim().is_empty()).map(lines).collect()
}

#[test]
fn the_agent_has_no_privilege_and_drives_flows() {
    let Some(mut guest) = Shared::boot() else { return };
    install(&mut guest);
    start(&mut guest);
    let agent = threads(&mut guest, "remuda");
    assert!(!agent.is_empty());
    for thread in &agent {
        assert!(!thread["Uid"].split_whitespace().any(|uid| uid == "0"), "{}", thread["Uid"]);
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(thread[set], "0000000000000000", "{set} of {}", thread["Name"]);
        }
        assert_eq!((&*thread["NoNewPrivs"], &*thread["Seccomp"]), ("1", "2"));
    }
    let mask = BROKERS_CAPABILITIES.iter().fold(0_u64, |mask, number| mask | (1 << number));
    for thread in threads(&mut guest, "remuda-broker") {
        assert_eq!(thread["CapBnd"], format!("{mask:016x}"), "{}", thread["Name"]);
        assert_eq!((&*thread["NoNewPrivs"], &*thread["Seccomp"]), ("1", "2"));
    }
    for (unit, most) in EXPOSURE_MAX {
        let rating = guest.rate(unit, most).expect("it is rated");
        println!("{unit}: exposure {}", rating.exposure);
        assert!(rating.passes && rating.exposure <= most, "{}", rating.table);
    }
    web::start(&mut guest, &WEBS);
    web::download(&mut guest, &WEBS, 5);
    println!("{}", guest.sh("remuda flows"));
    web::expect_exact(&mut guest, &WEBS);
    guest.expect_no_complaint();
}

#[test]
fn no_flow_is_lost_if_the_agent_hangs_or_either_part_dies() {
    let Some(mut guest) = Shared::boot() else { return };
    install(&mut guest);
    start(&mut guest);
    web::start(&mut guest, &WEBS);
    let clock = Clock::start();
    for (unit, how) in [
        ("remuda", "systemctl kill --kill-whom=main --signal=STOP remuda"),
        ("remuda", "systemctl kill --signal=KILL remuda"),
        ("remuda-broker", "systemctl kill --signal=KILL remuda-broker"),
        ("remuda-broker", "systemctl restart remuda-broker"),
        ("remuda", "systemctl restart remuda"),
    ] {
        web::download(&mut guest, &WEBS, 5);
        let other = if unit == "remuda" { "remuda-broker" } else { "remuda" };
        let pid = property(&mut guest, other, "MainPID");
        let before = clock.elapsed();
        guest.replace_process(unit, how);
        let took = (clock.elapsed() - before).as_secs_f64();
        println!("{how:?}: {took:.1} s until another process runs");
        guest.sh("until systemctl is-active remuda; do sleep 0.2; done");
        assert_eq!(property(&mut guest, other, "MainPID"), pid, "{other} goes on");
        web::expect_driven(&mut guest, &WEBS, 5);
        web::expect_exact(&mut guest, &WEBS);
        web::download(&mut guest, &WEBS, 2);
        web::expect_exact(&mut guest, &WEBS);
        println!("driven again after {how:?}, {:.0} s", clock.elapsed().as_secs_f64());
    }
    let watchdog = guest.sh("journalctl --no-pager --boot -u remuda | grep -i 'watchdog timeout'");
    println!("{watchdog}");
    guest.expect_no_complaint();
}

#[test]
fn a_double_in_the_agents_place_gets_nothing_else_from_the_broker() {
    let Some(mut guest) = Shared::boot() else { return };
    install(&mut guest);
    guest.put(Path::new("/run/double.py"), DOUBLE.as_bytes(), "644").expect("it is written");
    let drop_in = Path::new("/etc/systemd/system/remuda.service.d/double.conf");
    guest.put(drop_in, IN_ITS_PLACE.as_bytes(), "644").expect("it is written");
    guest.sh("systemctl daemon-reload && rm -f /run/double.log");
    guest.run("systemctl start remuda", WAIT_MAX).expect("it answers");
    assert_eq!(guest.sh("cat /run/double.log"), "all tried\n");
    let stranger = "setpriv --reuid nobody --regid nogroup --clear-groups python3 -c \
                    'import socket as s; s.socket(s.AF_UNIX, s.SOCK_SEQPACKET).connect(\
                    \"/run/remuda-broker/agent.sock\")'";
    let stranger = guest.run(stranger, WAIT_MAX).expect("it answers");
    assert!(stranger.errors.contains("PermissionError"), "{}", stranger.errors);
    assert_eq!(property(&mut guest, "remuda-broker", "NRestarts"), "0");
    guest.sh("rm -r /etc/systemd/system/remuda.service.d && systemctl daemon-reload");
    start(&mut guest);
    web::start(&mut guest, &WEBS);
    web::download(&mut guest, &WEBS, 2);
    web::expect_exact(&mut guest, &WEBS);
    guest.expect_no_complaint();
}
