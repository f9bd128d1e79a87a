//! `remuda datapath`: agents of plain portus drive this kernel's TCP.

use portus::ipc::{BackendBuilder, Blocking, Ipc, unix};
use portus::lang::Scope;
use portus::{CCPHandle, CongAlg, DatapathInfo, DatapathTrait, Flow, Report, RunBuilder};
use remuda_live::transfer::Transfer;
use remuda_tests::peers::{Copa, Nimbus, Pulses, Reno};
use remuda_tests::{binary, exclusive, root, skip, wait_for, wired};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// As portus' documentation has one: it asks for reports, and sets the window at each.
struct Fixed {
    window_pkts: u32,
    /// Flows that it was told of.
    created: Arc<AtomicU32>,
    /// Flows whose end it was told of.
    closed: Arc<AtomicU32>,
}

struct FixedFlow<I: Ipc> {
    control: portus::Datapath<I>,
    scope: Scope,
    window_bytes: u32,
    closed: Arc<AtomicU32>,
}

impl<I: Ipc> CongAlg<I> for Fixed {
    type Flow = FixedFlow<I>;

    fn name() -> &'static str {
        "fixed"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        let program = "(def (Report (volatile acked 0)))
            (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
            (when (> Micros 10000) (:= Micros 0) (report))";
        HashMap::from([("fixed", program.to_owned())])
    }

    fn new_flow(&self, mut control: portus::Datapath<I>, info: DatapathInfo) -> Self::Flow {
        self.created.fetch_add(1, Ordering::SeqCst);
        let scope = control.set_program("fixed", None).expect("it is installed");
        let closed = Arc::clone(&self.closed);
        FixedFlow { control, scope, window_bytes: self.window_pkts * info.mss, closed }
    }
}

impl<I: Ipc> Flow for FixedFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        // As portus' own algorithms do: a report of another program ends the agent.
        report.get_field("Report.acked", &self.scope).expect("it is a field");
        let window = [("Cwnd", self.window_bytes)];
        self.control.update_field(&self.scope, &window).expect("the datapath listens");
    }

    fn close(&mut self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

/// One name for the socket and the algorithm, no other test's.
fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("pp{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn at(name: &str) -> PathBuf {
    PathBuf::from("/tmp/ccp").join(name)
}

struct Agent {
    handle: CCPHandle,
    created: Arc<AtomicU32>,
    closed: Arc<AtomicU32>,
}

impl Agent {
    fn start(name: &str, window_pkts: u32) -> Self {
        let (created, closed) = Default::default();
        let fixed =
            Fixed { window_pkts, created: Arc::clone(&created), closed: Arc::clone(&closed) };
        let sock = unix::Socket::<Blocking>::new(name).expect("the agent binds");
        let agent = RunBuilder::new(BackendBuilder { sock }).default_alg(fixed).spawn_thread();
        Self { handle: agent.run().expect("portus starts"), created, closed }
    }

    fn stop(self) {
        self.handle.kill();
        self.handle.wait().expect("no panic, and portus ends as it was told");
    }
}

/// `remuda datapath`; what it says is in a file.
struct Datapath {
    child: Child,
    log: PathBuf,
}

impl Datapath {
    /// With an agent whose socket has the name of the algorithm.
    fn start(name: &str, folder: &tempfile::TempDir) -> Self {
        Self::at(name, &at(name), folder)
    }

    fn at(name: &str, socket: &Path, folder: &tempfile::TempDir) -> Self {
        let log = folder.path().join("stderr");
        let file = std::fs::File::create(&log).expect("a file");
        let mut command = Command::new(binary());
        command.args(["datapath", "--name", name, "--socket"]).arg(socket);
        let child = command.stdout(Stdio::null()).stderr(file).spawn().expect("it starts");
        let datapath = Self { child, log };
        datapath.wait_for("is for the agent");
        datapath
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).expect("the file")
    }

    fn wait_for(&self, text: &str) {
        wait_for(text, LIMIT, || self.said().contains(text));
    }

    fn stop(mut self) -> String {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
        let status = self.child.wait().expect("it ends");
        let said = self.said();
        assert!(status.success(), "{said}");
        said
    }
}

impl Drop for Datapath {
    fn drop(&mut self) {
        // A test that fails leaves none behind; one that has ended is no harm.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_unmodified_portus_agent_drives_a_live_transfer_leaves_and_comes_back() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (name, folder) = (name(), tempfile::tempdir().expect("a folder"));
    let datapath = Datapath::start(&name, &folder);
    datapath.wait_for("no agent listens at");
    let path = wired(50.0, 5.0, 1.0);
    let transfer = Transfer { algorithm: Some(name.clone()), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    let has_window = |pkts: u32| {
        wait_for("the agent's window", LIMIT, || running.window().is_some_and(|it| it.0 == pkts));
    };
    let agent = Agent::start(&name, 33);
    has_window(33);
    assert_eq!(agent.created.load(Ordering::SeqCst), 1);
    agent.stop();
    datapath.wait_for("has ended: flows run Reno");
    let left = running.received_bytes();
    wait_for("Reno's bytes", LIMIT, || running.received_bytes() > left + 500_000);
    let agent = Agent::start(&name, 44);
    has_window(44);
    assert_eq!(agent.created.load(Ordering::SeqCst), 1, "the live flow is announced again");
    running.stop();
    running.join().expect("every byte arrives as it was sent");
    wait_for("the flow's end", LIMIT, || agent.closed.load(Ordering::SeqCst) == 1);
    let said = datapath.stop();
    assert!(said.contains(" 0 refused"), "{said}");
    agent.stop();
    let _ = std::fs::remove_file(at(&name));
}

#[test]
fn at_its_end_flows_are_back_with_the_kernel_s_own_algorithm() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (name, folder) = (name(), tempfile::tempdir().expect("a folder"));
    let agent = Agent::start(&name, 20);
    let datapath = Datapath::start(&name, &folder);
    let path = wired(50.0, 5.0, 1.0);
    let transfer = Transfer { algorithm: Some(name.clone()), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    wait_for("the agent's window", LIMIT, || running.window().is_some_and(|it| it.0 == 20));
    let said = datapath.stop();
    assert!(said.contains("1 flows are back"), "{said}");
    assert_eq!(running.algorithm().as_deref(), Some("cubic"));
    assert!(!at(&format!("{name}.datapath")).exists(), "it leaves no socket behind");
    running.stop();
    running.join().expect("every byte arrives as it was sent");
    agent.stop();
    let _ = std::fs::remove_file(at(&name));
}

#[test]
fn a_second_datapath_is_refused_with_the_fix() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (name, folder) = (name(), tempfile::tempdir().expect("a folder"));
    let datapath = Datapath::start(&name, &folder);
    let again = |arguments: [&str; 2]| {
        let output = Command::new(binary()).arg("datapath").args(arguments).output();
        let output = output.expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = again(["--name", &name]);
    assert!(said.contains("fix:") && said.contains("--name"), "{said}");
    let said = again(["--socket", &at(&name).display().to_string()]);
    assert!(said.contains("fix:") && said.contains("--own"), "{said}");
    datapath.stop();
}

/// Goodput of a transfer that an agent drives, in Mbit/s of 24, from its third second on.
fn goodput(name: &str) -> f64 {
    let path = wired(24.0, 10.0, 1.0);
    let transfer = Transfer { algorithm: Some(name.to_owned()), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    std::thread::sleep(Duration::from_secs(6));
    running.stop();
    let outcome = running.join().expect("every byte arrives as it was sent");
    outcome.goodput_mbit_per_sec(Duration::from_secs(3), Duration::from_secs(6))
}

#[test]
fn peers_like_ccp_s_reno_bbr_copa_and_nimbus_drive_this_kernel_s_tcp() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = name();
    let datapath = Datapath::start(&name, &folder);
    // A busy host delays packets, and copa and nimbus yield to that, even for a whole transfer. So
    // they have three transfers, and one of these must have more than the least goodput.
    let peers = [("reno", 14.0, 1), ("bbr", 14.0, 1), ("copa", 3.0, 3), ("nimbus", 3.0, 3)];
    for (coming, (peer, least, tries)) in peers.into_iter().enumerate() {
        let sock = unix::Socket::<Blocking>::new(&name).expect("the agent binds");
        let run = RunBuilder::new(BackendBuilder { sock });
        let agent = match peer {
            "reno" => run.default_alg(Reno).spawn_thread().run(),
            "bbr" => run.default_alg(Pulses).spawn_thread().run(),
            "copa" => run.default_alg(Copa).spawn_thread().run(),
            _ => run.default_alg(Nimbus).spawn_thread().run(),
        };
        let agent = agent.expect("portus starts");
        let came = || datapath.said().matches("drives").count() == coming + 1;
        wait_for("the agent", LIMIT, came);
        let mut transfers = (0..tries).map(|_| {
            let got = goodput(&name);
            println!("{peer}: {got:.1} Mbit/s of 24");
            got
        });
        assert!(transfers.any(|got| got > least), "{peer}: {least} Mbit/s at least");
        agent.kill();
        agent.wait().expect("no panic");
    }
    let said = datapath.stop();
    assert!(said.contains(" 0 refused"), "{said}");
    let _ = std::fs::remove_file(at(&name));
}

/// Builds the newest release of CCP's own reno and cubic that a registry has, unchanged, once. It
/// is of portus 0.7, which speaks the same messages, but writes /tmp/ccp/ before every address.
fn generic_cong_avoid() -> Option<PathBuf> {
    let place = root().join("target/peers");
    if !place.join("bin/cubic").exists() {
        let mut cargo = Command::new("cargo");
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.args(["install", "--debug", "--features", "bin", "--version", "0.4.0", "--root"]);
        cargo.arg(&place).arg("generic_cong_avoid");
        if !cargo.status().is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: generic_cong_avoid 0.4.0 cannot be built: no registry?");
            return None;
        }
    }
    Some(place.join("bin"))
}

/// An agent in a process of its own; it ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ccp_s_own_reno_and_cubic_drive_this_kernel_s_tcp() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let Some(bin) = generic_cong_avoid() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let name = name();
    // portus 0.7 sends to /tmp/ccp//tmp/ccp/...: with this link that is the datapath's own socket.
    let link = at("tmp");
    if !link.exists() {
        std::fs::create_dir_all("/tmp/ccp").expect("a folder");
        std::os::unix::fs::symlink("/tmp", &link).expect("a link");
    }
    // Its own socket has no other name.
    let datapath = Datapath::at(&name, &at("portus"), &folder);
    for (coming, program) in ["reno", "cubic"].into_iter().enumerate() {
        let agent = Command::new(bin.join(program)).stdout(Stdio::null()).spawn();
        let agent = Process(agent.expect("it starts"));
        let came = || datapath.said().matches("drives").count() == coming + 1;
        wait_for("the agent", LIMIT, came);
        let got = goodput(&name);
        println!("CCP's {program}: {got:.1} Mbit/s of 24");
        assert!(got > 14.0, "{program}: {got}");
        drop(agent);
    }
    let said = datapath.stop();
    assert!(said.contains(" 0 refused"), "{said}");
    let _ = std::fs::remove_file(at("portus"));
    let _ = std::fs::remove_file(link);
}
