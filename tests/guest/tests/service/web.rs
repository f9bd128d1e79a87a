//! Web servers, each an nginx of its own, whose sockets are the agent's; and downloads from them.

use crate::Shared;
use std::path::Path;

const LISTEN: &str = include_str!("listen.py");
const CONFIGURATION: &str = include_str!("nginx.conf");
const CLIENT: &str = include_str!("client.py");
/// Words of four bytes in the file that clients download, each of them its own number.
const WORDS: u32 = 64_000;

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
    /// How fast each connection is served, as nginx writes it.
    rate: &'static str,
}

/// A wrapper names the algorithm on its listening socket.
pub const LISTENER: Web = Web {
    unit: "test-listener",
    port: 8001,
    algorithm: "remuda",
    properties: "",
    reach: "",
    rate: "50k",
};
/// The same, so slow that a download lasts for a minute.
pub const SLOW: Web = Web { unit: "test-slow", port: 8004, rate: "4k", ..LISTENER };
/// It names none; the agent has its cgroup.
pub const CGROUP: Web = Web { unit: "test-cgroup", port: 8002, algorithm: "", ..LISTENER };
/// It is in a network namespace with the algorithm as default, like a container with that sysctl.
pub const NAMESPACE: Web = Web {
    unit: "test-namespace",
    port: 8003,
    algorithm: "",
    properties: "--property=NetworkNamespacePath=/run/netns/test",
    reach: "ip netns exec test",
    ..LISTENER
};

/// Where an agent finds [`CGROUP`].
pub const CGROUP_FOLDER: &str = "/sys/fs/cgroup/system.slice/test-cgroup.service";

/// Downloads end once this file exists.
const END: &str = "/run/test-end";

/// Starts services; the kernel must have the algorithm.
pub fn start(guest: &mut Shared, webs: &[Web]) {
    for (at, content) in [("/run/listen.py", LISTEN), ("/run/client.py", CLIENT)] {
        guest.put(Path::new(at), content.as_bytes(), "644").expect("it is written");
    }
    guest.sh("ip netns add test && ip -n test link set lo up");
    guest.sh("ip netns exec test sysctl net.ipv4.tcp_congestion_control=remuda");
    let data: Vec<u8> = (0..WORDS).flat_map(u32::to_le_bytes).collect();
    guest.put(Path::new("/run/www/data"), &data, "644").expect("it is written");
    webs.iter().for_each(|web| web.start(guest));
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

/// The server's ends of the downloads under way from each service have this algorithm, all of them.
pub fn expect_algorithm(guest: &mut Shared, webs: &[Web], downloads: usize, algorithm: &str) {
    for Web { unit, port, reach, .. } in webs {
        let ends = guest.sh(&format!("{reach} ss -tinOH state established sport = :{port}"));
        let has = |line: &str| line.split_whitespace().any(|word| word == algorithm);
        let right = ends.lines().filter(|line| has(line)).count();
        assert_eq!((right, ends.lines().count()), (downloads, downloads), "{unit}:\n{ends}");
    }
}

impl Web {
    fn start(&self, guest: &mut Shared) {
        let Self { unit, port, algorithm, properties, rate, .. } = self;
        let at = format!("/run/nginx-{port}.conf");
        let configuration = CONFIGURATION.replace("PORT", &port.to_string());
        let configuration = configuration.replace("RATE", rate);
        guest.put(Path::new(&at), configuration.as_bytes(), "644").expect("it is written");
        let command = if algorithm.is_empty() {
            format!("/usr/sbin/nginx -c {at}")
        } else {
            format!("python3 /run/listen.py {port} {algorithm} {at}")
        };
        guest.sh(&format!("systemd-run --unit={unit} {properties} {command}"));
        self.wait(guest);
    }

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
