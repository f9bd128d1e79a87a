//! Services whose sockets are the agent's, and downloads from them.

use crate::Shared;
use std::path::Path;

const SERVER: &str = include_str!("server.py");
const CLIENT: &str = include_str!("client.py");

/// A service whose sockets are the agent's.
#[derive(Clone, Copy)]
pub struct Web {
    /// The name of its unit.
    pub unit: &'static str,
    port: u16,
    /// What its listening socket chooses.
    algorithm: &'static str,
    /// Properties of its unit.
    properties: &'static str,
    /// The words before a command that reaches it.
    reach: &'static str,
}

/// It names the algorithm on its listening socket.
pub const LISTENER: Web =
    Web { unit: "test-listener", port: 8001, algorithm: "remuda", properties: "", reach: "" };
/// It names none; the agent has its cgroup.
pub const CGROUP: Web =
    Web { unit: "test-cgroup", port: 8002, algorithm: "", properties: "", reach: "" };
/// It is in a network namespace with the algorithm as default, like a container with that sysctl.
pub const NAMESPACE: Web = Web {
    unit: "test-namespace",
    port: 8003,
    algorithm: "",
    properties: "--property=NetworkNamespacePath=/run/netns/test",
    reach: "ip netns exec test",
};

/// Where an agent finds [`CGROUP`].
pub const CGROUP_FOLDER: &str = "/sys/fs/cgroup/system.slice/test-cgroup.service";

/// Downloads end once this file exists.
const END: &str = "/run/test-end";

/// Starts services; the kernel must have the algorithm.
pub fn start(guest: &mut Shared, webs: &[Web]) {
    for (at, content) in [("/run/server.py", SERVER), ("/run/client.py", CLIENT)] {
        guest.put(Path::new(at), content.as_bytes(), "644").expect("it is written");
    }
    guest.sh("ip netns add test && ip -n test link set lo up");
    guest.sh("ip netns exec test sysctl net.ipv4.tcp_congestion_control=remuda");
    for web in webs {
        let Web { unit, port, algorithm, properties, .. } = web;
        guest.sh(&format!(
            "systemd-run --unit={unit} {properties} python3 /run/server.py {port} {algorithm}"
        ));
        web.wait(guest);
    }
}

/// Starts downloads from each service and waits until the agent drives all of them.
pub fn download(guest: &mut Shared, webs: &[Web], downloads: usize) {
    guest.sh(&format!("rm -f {END}"));
    webs.iter().for_each(|web| web.download(guest, downloads));
}

/// Ends the downloads from each service, of which every byte must have arrived.
pub fn expect_exact(guest: &mut Shared, webs: &[Web]) {
    guest.sh(&format!("touch {END}"));
    webs.iter().for_each(|web| web.expect_exact(guest));
}

/// Waits until the agent drives this number of downloads from each service, which are under way.
pub fn expect_driven(guest: &mut Shared, webs: &[Web], downloads: usize) {
    for Web { unit, port, .. } in webs {
        let driven = format!("\"local\":\"127.0.0.1:{port}\".*\"state\":\"driven\"");
        let count = format!("$(remuda flows --json | grep -c '{driven}')");
        let over = format!("grep status /run/{unit}.log");
        guest.sh(&format!(
            "until [ {count} -ge {downloads} ]; do {over} && exit 1; sleep 0.2; done"
        ));
    }
}

impl Web {
    /// Waits until it listens.
    pub fn wait(&self, guest: &mut Shared) {
        let Self { port, reach, .. } = self;
        let listens = format!("{reach} ss -tlnH sport = :{port} | grep -q .");
        guest.sh(&format!("until {listens}; do sleep 0.2; done"));
    }

    fn download(&self, guest: &mut Shared, downloads: usize) {
        let Self { unit, port, reach, .. } = self;
        let log = format!("/run/{unit}.log");
        guest.sh(&format!(
            "{{ {reach} python3 /run/client.py {port} {downloads} {END}; echo status $?; }} \
             >{log} 2>&1 &
             until grep -q 'driven\\|status' {log}; do sleep 0.2; done
             grep -qx driven {log} || {{ cat {log}; remuda flows; exit 1; }}"
        ));
    }

    fn expect_exact(&self, guest: &mut Shared) {
        let log = format!("/run/{}.log", self.unit);
        let end = format!("until grep status {log}; do sleep 0.2; done >/dev/null; cat {log}");
        assert_eq!(guest.sh(&end), "driven\nexact\nstatus 0\n", "{}", self.unit);
    }
}
