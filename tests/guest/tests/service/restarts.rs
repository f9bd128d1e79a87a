//! What is driven again after a restart of an agent with root's privileges.

use crate::Shared;
use crate::web::{self, CGROUP, CGROUP_FOLDER, LISTENER, NAMESPACE, Web};
use remuda_live::Clock;

/// Downloads of each service that run while the agent restarts.
const DOWNLOADS: usize = 14;
const WEBS: [Web; 3] = [LISTENER, CGROUP, NAMESPACE];
const CLEAN: &str = "systemctl restart test-agent";
const KILL: &str = "systemctl kill --signal=KILL test-agent";
/// As a package's upgrade does it.
const REPLACE: &str = "cp /usr/bin/remuda /usr/bin/new && mv /usr/bin/new /usr/bin/remuda && \
                       systemctl restart test-agent";
const WAYS: [&str; 5] = [CLEAN, KILL, REPLACE, CLEAN, KILL];

/// Starts the agent of the test as a unit that systemd starts again, and waits until it answers.
fn start_agent(guest: &mut Shared) {
    guest.sh(&format!(
        "systemd-run --unit=test-agent --property=Restart=always --property=RestartSec=1 \
         remuda agent --arm cubic --cgroup {CGROUP_FOLDER}"
    ));
    guest.sh("until remuda flows; do sleep 0.2; done >/dev/null 2>&1");
}

#[test]
fn services_are_driven_again_after_each_restart_of_the_agent_and_their_own() {
    let Some(mut guest) = Shared::boot() else { return };
    // The cgroup does not exist yet.
    start_agent(&mut guest);
    web::start(&mut guest, &WEBS);
    let clock = Clock::start();
    for how in WAYS {
        web::download(&mut guest, &WEBS, DOWNLOADS);
        guest.replace_process("test-agent", how);
        guest.sh("until remuda flows; do sleep 0.2; done >/dev/null 2>&1");
        if how == KILL {
            // At a clean end, the agent gives its flows to the kernel's algorithm for good.
            web::expect_driven(&mut guest, &WEBS, DOWNLOADS);
        }
        web::expect_exact(&mut guest, &WEBS);
        web::download(&mut guest, &WEBS, 2);
        web::expect_exact(&mut guest, &WEBS);
        guest.sh("systemctl restart test-cgroup");
        CGROUP.wait(&mut guest);
        web::download(&mut guest, &[CGROUP], 2);
        web::expect_exact(&mut guest, &[CGROUP]);
        println!("driven again after {how:?}, {:.0} s", clock.elapsed().as_secs_f64());
    }
    web::download(&mut guest, &WEBS, 2);
    guest.sh("systemctl stop test-agent");
    let left = "ss -tinH state established; ip netns exec test ss -tinH state established";
    let left = guest.sh(left);
    assert!(left.contains("cubic") && !left.contains("remuda"), "flows are given back: {left}");
    web::expect_exact(&mut guest, &WEBS);
    let flows = WAYS.len() * WEBS.len() * DOWNLOADS;
    println!("{flows} downloads during {} restarts, all of them byte-exact", WAYS.len());
    guest.expect_no_complaint();
}
