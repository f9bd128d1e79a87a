//! An agent of another user without any privilege, and the broker that has them.

use ccp_agent::child::AgentChild;
use ccp_agent::clock::monotonic_ns;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use remuda_bpf::Datapath;
use remuda_live::Testbed;
use remuda_live::transfer::{Running, Transfer, set_algorithm};
use remuda_tests::other_user::{UID, as_other_user};
use remuda_tests::{Place, binary, exclusive, skip, wait_for, wired};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);
const FLOWS: usize = 4;

/// A broker with its folder and its log.
struct BrokerChild {
    child: Child,
    log: PathBuf,
}

impl BrokerChild {
    fn start(scene: &Scene, arguments: &[&str]) -> Self {
        let log = scene.place.file("broker.log", "");
        let mut command = Command::new(binary());
        command.arg("broker").arg("--socket").arg(&scene.socket);
        command.arg("--config").arg(&scene.config).args(["--user", &UID.to_string()]);
        command.args(arguments).stderr(File::create(&log).expect("a log"));
        let child = command.stdin(Stdio::null()).spawn().expect("the broker starts");
        let broker = Self { child, log };
        wait_for("the broker's socket", SOON, || broker.says().contains("waits at"));
        broker
    }

    fn says(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it is there");
    }

    fn end(mut self, signal: Signal) {
        self.signal(signal);
        self.child.wait().expect("it ends");
    }
}

impl Drop for BrokerChild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a broker and the agents of another user meet.
struct Scene {
    place: Place,
    binary: PathBuf,
    config: PathBuf,
    socket: PathBuf,
    run_dir: PathBuf,
}

impl Scene {
    fn new(more: &str) -> Self {
        let place = Place::new();
        let folder = place.file("probe", "").parent().expect("a folder").to_owned();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("chmod");
        let socket = folder.join("broker").join("agent.sock");
        let (name, broker) = (&place.name, socket.display());
        let text = format!("[agent]\nname = {name:?}\nbroker = \"{broker}\"\n{more}");
        let config = place.file("remuda.toml", &text);
        let agents = folder.join("agents");
        fs::create_dir(&agents).expect("a folder of the agent's user");
        chown(&agents, Some(UID), Some(UID)).expect("chown");
        // The project's folders may be closed to other users.
        let copy = folder.join("remuda");
        fs::copy(binary(), &copy).expect("a copy of the binary");
        let run_dir = agents.join("run");
        Self { binary: copy, config, socket, run_dir, place }
    }

    fn agent(&self, arm: &str) -> AgentChild {
        let config = self.config.to_str().expect("UTF-8");
        let arguments = ["--config", config, "--arm", arm];
        let agent = AgentChild::start_as(&self.binary, &self.run_dir, &arguments, Some(UID));
        agent.expect("the agent starts")
    }

    fn transfers(&self, path: &Testbed) -> Vec<Running> {
        let start = |_| {
            let algorithm = Some(self.place.name.clone());
            let transfer = Transfer { algorithm, ..Transfer::default() };
            transfer.start(path.server(), path.client()).expect("it starts")
        };
        (0..FLOWS).map(start).collect()
    }
}

fn driven(agent: &AgentChild) -> usize {
    let rows = agent.flows().unwrap_or_default();
    rows.iter().filter(|row| row.state == "driven" && row.reports > 5).count()
}

fn reports(agent: &AgentChild) -> Vec<u64> {
    agent.flows().unwrap_or_default().iter().map(|row| row.reports).collect()
}

fn finish(running: Vec<Running>) {
    running.iter().for_each(Running::stop);
    running.into_iter().for_each(|flow| drop(flow.join().expect("every byte arrives")));
}

/// The sets of capabilities of a process, as its `status` has them.
fn capabilities(pid: u32) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"];
    let of = |line: &str| Some(line.split_once(":\t")?.1.to_owned());
    status
        .lines()
        .filter(|line| sets.iter().any(|set| line.starts_with(set)))
        .filter_map(of)
        .collect()
}

#[test]
fn an_agent_without_a_privilege_drives_flows_and_either_part_may_die() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let scene = Scene::new("");
    let mut broker = BrokerChild::start(&scene, &[]);
    let mut agent = scene.agent("cubic");
    let none = "0".repeat(16);
    assert_eq!(capabilities(agent.pid()), vec![none; 4]);
    let path = wired(24.0, 10.0, 1.0);
    let running = scene.transfers(&path);
    wait_for("reports of each flow", SOON, || driven(&agent) == FLOWS);

    for (signal, what) in [(Signal::SIGKILL, "kill -9"), (Signal::SIGTERM, "a stop")] {
        broker.end(signal);
        assert_eq!(agent.set(ccp_agent::host::Target::All, "reno").expect("it obeys"), FLOWS);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        set_algorithm(listener.as_raw_fd(), &scene.place.name).expect("the agent keeps the name");
        let begun = reports(&agent);
        let all_report = || reports(&agent).iter().zip(&begun).all(|(now, then)| *now > then + 20);
        wait_for("reports of each flow without a broker", SOON, all_report);
        assert_eq!(driven(&agent), FLOWS, "{:?}", agent.flows());
        broker = BrokerChild::start(&scene, &[]);
        let took = wait_for(&format!("the new broker after {what}"), SOON, || {
            broker.says().contains("were taken over") && driven(&agent) == FLOWS
        });
        println!("broker, {what}: all flows driven by the new one after {} ms", took.as_millis());
    }

    agent.kill().expect("kill -9");
    wait_for("the broker's notice", SOON, || broker.says().contains("the agent has gone"));
    agent = scene.agent("bbr");
    let took = wait_for("taking the flows back", SOON, || driven(&agent) == FLOWS);
    println!("agent, kill -9: all flows taken back after {} ms", took.as_millis());

    agent.stop().expect("it gives every flow back");
    assert!(broker.says().contains(&format!("{FLOWS} flows are back")), "{}", broker.says());
    finish(running);
    broker.end(Signal::SIGTERM);
}

#[test]
fn a_stop_may_hand_flows_over_and_nobody_waits_for_ever() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let scene = Scene::new("at_stop = \"hand_over\"\n");
    let broker = BrokerChild::start(&scene, &["--patience", "2"]);
    let path = wired(24.0, 10.0, 1.0);
    let agent = scene.agent("cubic");
    let running = scene.transfers(&path);
    wait_for("reports of each flow", SOON, || driven(&agent) == FLOWS);
    agent.stop().expect("it ends");
    let agent = scene.agent("cubic");
    wait_for("the next agent's reports", SOON, || driven(&agent) == FLOWS);
    agent.stop().expect("it ends");
    wait_for("the end of patience", SOON, || broker.says().contains("within 2 s"));
    wait_for("the flows' return", SOON, || {
        broker.says().contains(&format!("{FLOWS} flows are back"))
    });
    finish(running);
    broker.end(Signal::SIGTERM);
}

/// A broker that does not answer in time is given up. When the broker goes on, it takes the same
/// agent again.
#[test]
fn a_broker_that_hangs_is_given_up_and_met_again() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let scene = Scene::new("");
    let broker = BrokerChild::start(&scene, &[]);
    let (mut datapath, _) = Datapath::connect(&scene.socket).expect("root may ask as well");
    let program = ccp_agent::programs::ours().expect("our own programs").first().expect("one");
    broker.signal(Signal::SIGSTOP);
    let error = datapath.handle(&program.compiled.install).expect_err("nobody answers").to_string();
    assert!(error.contains("no broker answers"), "{error}");
    assert!(datapath.is_orphaned());
    broker.signal(Signal::SIGCONT);
    wait_for("the broker's notice", SOON, || broker.says().contains("the agent has gone"));
    let again = Datapath::reconnect(&scene.socket, datapath.release());
    let (mut datapath, _) = again.map_err(|unreached| unreached.error).expect("it is taken");
    datapath.handle(&program.compiled.install).expect("the broker answers");
    assert!(!datapath.is_orphaned());
    drop(datapath);
    broker.end(Signal::SIGTERM);
}

fn caller(socket: &Path) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let caller = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let caller = caller.expect("a socket");
    connect(&caller, &SocketAddrUnix::new(socket).expect("a path")).expect("it listens");
    caller
}

fn reply(caller: &OwnedFd) -> String {
    let mut packet = vec![0; 1 << 16];
    let (bytes, _) = recv(caller, &mut packet[..], RecvFlags::empty()).expect("a reply");
    String::from_utf8_lossy(&packet[..bytes]).into_owned()
}

/// Stands in the agent's place, and asks for what no agent should get.
#[test]
fn a_hostile_agent_gets_nothing_but_what_the_broker_checks() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let scene = Scene::new("");
    let broker = BrokerChild::start(&scene, &[]);
    let fds = || {
        let folder = format!("/proc/{}/fd", broker.child.id());
        fs::read_dir(folder).expect("it lives").count()
    };
    let before = fds();
    let double = as_other_user(|| caller(&scene.socket));
    let ask = |packet: &[u8]| {
        send(&double, packet, SendFlags::empty()).expect("it is sent");
        reply(&double)
    };
    let install = |body: &[u8]| [&[1][..], body].concat();
    for (packet, rule) in [
        (install(b"not a message"), "must be a start"),
        (vec![2], "must be a start"),
        (vec![9, 1, 2, 3], "no request of kind 9"),
        (b"\x04../../etc/passwd".to_vec(), "too long"),
        (vec![0, 0], "nothing after its kind"),
    ] {
        let said = ask(&packet);
        assert!(said.starts_with('\u{1}') && said.contains(rule), "{said:?}");
    }
    let second = as_other_user(|| caller(&scene.socket));
    assert!(reply(&second).contains("an agent is connected"));
    assert!(ask(&[0]).starts_with('\0'), "a start");
    for body in [&b"not a message"[..], &[0xff; 4_000], &[2, 0, 12, 0, 0, 0, 0, 0, 9, 9, 9, 9]] {
        let said = ask(&install(body));
        assert!(said.starts_with('\u{1}'), "no unchecked program is loaded: {said:?}");
    }
    let said = ask(b"\x04no-such-cca");
    assert!(said.contains("no-such-cca"), "{said:?}");
    // A recall has no reply, and names of namespaces that do not exist open nothing.
    let recall: Vec<u8> =
        [3].into_iter().chain((0..4_096_u32).flat_map(u32::to_ne_bytes)).collect();
    send(&double, &recall, SendFlags::empty()).expect("it is sent");
    assert!(ask(&[9]).contains("kind 9"), "the broker lives");
    drop((double, second));
    wait_for("the broker's notice", SOON, || broker.says().contains("the agent has gone"));
    let error = Datapath::connect(&scene.socket.with_file_name("none")).err().expect("nobody");
    assert!(error.to_string().contains("fix: start it"), "{error}");
    let (datapath, _) = Datapath::connect(&scene.socket).expect("root may ask as well");
    datapath.beat(monotonic_ns());
    drop(datapath);
    println!("descriptors of the broker: {before} before, {} with a loaded datapath", fds());
    broker.end(Signal::SIGTERM);
}
