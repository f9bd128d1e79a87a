//! What is driven again after a restart of an agent with root's privileges.

use crate::Shared;
use crate::web::{self, CGROUP, CGROUP_FOLDER, LISTENER, NAMESPACE, Web};
use remuda_live::Clock;
use std::path::Path;

/// Downloads of each service that run while the agent restarts.
const DOWNLOADS: usize = 14;
const WEBS: [Web; 3] = [LISTENER, CGROUP, NAMESPACE];
/// Starts the agent of `/usr/bin/remuda`, again at its end, on the configuration [`CONFIG`].
const AGENT: &str = "systemd-run --unit=test-agent --property=Restart=always \
                     --property=RestartSec=1 remuda agent --arm cubic --config";
const CONFIG: &str = "/run/test-agent.toml";
/// A restart leaves flows to the next agent; the last stop gives them to the host's default.
const RESTARTS: &str = "[agent]\nnative = \"default\"\nat_stop = \"hand_over\"\n";
const LAST: &str = "[agent]\nnative = \"default\"\n";
/// The host's default. No setting of the agent names it, nor does the agent without any.
const DEFAULT: &str = "reno";
const CLEAN: &str = "systemctl restart test-agent";
const KILL: &str = "systemctl kill --signal=KILL test-agent";
/// Replace the agent by the tested build and by the other one, as a package's upgrade does.
const UPGRADE: &str = "cp /usr/bin/remuda-tested /usr/bin/new && mv /usr/bin/new /usr/bin/remuda \
                       && systemctl restart test-agent";
const ROLL_BACK: &str = "cp /usr/bin/remuda-other /usr/bin/new && mv /usr/bin/new /usr/bin/remuda \
                         && systemctl restart test-agent";
const WAYS: [&str; 5] = [UPGRADE, CLEAN, KILL, ROLL_BACK, UPGRADE];

/// Starts the agent of the test as a unit that systemd starts again, and waits until it answers.
fn start_agent(guest: &mut Shared) {
    guest.put(Path::new(CONFIG), RESTARTS.as_bytes(), "644").expect("it is written");
    guest.sh(&format!("{AGENT} {CONFIG} --cgroup {CGROUP_FOLDER}"));
    wait_for_agent(guest);
}

fn wait_for_agent(guest: &mut Shared) {
    guest.sh("until remuda flows; do sleep 0.2; done >/dev/null 2>&1");
}

#[test]
fn services_are_driven_again_after_each_restart_of_the_agent_and_their_own() {
    let Some(mut guest) = Shared::boot() else { return };
    let builds = "cp /usr/bin/remuda /usr/bin/remuda-tested; sha256sum </usr/bin/remuda-tested; \
                  sha256sum </usr/bin/remuda-other; cp /usr/bin/remuda-other /usr/bin/remuda";
    let builds = guest.sh(builds);
    let (tested, other) = builds.trim().split_once('\n').expect("two lines");
    assert_ne!(tested, other, "the two builds are one\nfix: make test-long");
    guest.sh(&format!("sysctl net.ipv4.tcp_congestion_control={DEFAULT}"));
    // The cgroup does not exist yet.
    start_agent(&mut guest);
    web::start(&mut guest, &WEBS);
    let clock = Clock::start();
    for how in WAYS {
        web::download(&mut guest, &WEBS, DOWNLOADS);
        guest.replace_process("test-agent", how);
        wait_for_agent(&mut guest);
        web::expect_driven(&mut guest, &WEBS, DOWNLOADS);
        web::expect_algorithm(&mut guest, &WEBS, DOWNLOADS, "remuda");
        web::expect_exact(&mut guest, &WEBS);
        web::download(&mut guest, &WEBS, 2);
        web::expect_exact(&mut guest, &WEBS);
        guest.sh("systemctl restart test-cgroup");
        CGROUP.wait(&mut guest);
        web::download(&mut guest, &[CGROUP], 2);
        web::expect_exact(&mut guest, &[CGROUP]);
        println!("driven again after {how:?}, {:.0} s", clock.elapsed().as_secs_f64());
    }
    // What a stop leaves is read at the start.
    guest.put(Path::new(CONFIG), LAST.as_bytes(), "644").expect("it is written");
    guest.replace_process("test-agent", CLEAN);
    wait_for_agent(&mut guest);
    web::download(&mut guest, &WEBS, 2);
    guest.sh("systemctl stop test-agent");
    web::expect_algorithm(&mut guest, &WEBS, 2, DEFAULT);
    web::expect_exact(&mut guest, &WEBS);
    let flows = WAYS.len() * WEBS.len() * DOWNLOADS;
    println!("{flows} downloads during {} restarts, all of them byte-exact", WAYS.len());
    guest.expect_no_complaint();
}
