//! Every refusal names the cause and the fix: to root, to a user with the capabilities that the
//! README names, and to a user without.

use ccp_agent::child::AgentChild;
use ccp_agent::control::{Request, ask};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use remuda_tests::other_user::{AGENT_CAPABILITIES, UID, of_other_user_with};
use remuda_tests::{Place, binary, exclusive, skip};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
enum User {
    Root,
    Capable,
    Plain,
}

const USERS: [User; 3] = [User::Root, User::Capable, User::Plain];

/// How long the test waits for an agent to start, in turns.
const TURN: Duration = Duration::from_millis(100);
const TURNS: usize = 100;

/// The command, where every user can run it.
struct Host {
    place: Place,
    binary: PathBuf,
}

impl Host {
    fn new() -> Self {
        let place = Place::new();
        let path = place.file("remuda", "");
        fs::copy(binary(), &path).expect("there is room for the binary");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("chmod");
        let folder = path.parent().expect("it lies in a folder");
        fs::set_permissions(folder, Permissions::from_mode(0o711)).expect("chmod");
        Self { place, binary: path }
    }

    /// A folder of this user's.
    fn folder(&self, name: &str, user: User) -> PathBuf {
        let path = self.binary.with_file_name(name);
        fs::create_dir_all(&path).expect("a folder");
        let owner = if user == User::Root { 0 } else { UID };
        chown(&path, Some(owner), Some(owner)).expect("root gives it away");
        path
    }

    /// Runs the command as a user until it ends by itself. Returns whether it succeeded, and what
    /// it said.
    fn run(&self, user: User, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(&self.binary);
        command.args(arguments);
        Self::output(user, command)
    }

    /// The same, for an agent that must start, and that is told to end after some seconds.
    fn accepted_agent(&self, user: User, arguments: &[&str]) {
        let mut command = Command::new("timeout");
        command.args(["--preserve-status", "--signal=TERM", "4"]).arg(&self.binary).arg("agent");
        command.args(arguments);
        let (is_good, said) = Self::output(user, command);
        assert!(is_good && !said.contains("error:"), "{user:?}: {said}");
    }

    fn output(user: User, mut command: Command) -> (bool, String) {
        command.stdin(Stdio::null()).current_dir("/");
        match user {
            User::Root => {}
            User::Capable => _ = of_other_user_with(&mut command, &AGENT_CAPABILITIES),
            User::Plain => _ = of_other_user_with(&mut command, &[]),
        }
        let out = command.output().expect("it runs");
        let said = [out.stdout, out.stderr].concat();
        (out.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// An agent that must be refused, in folders of the user's own; returns what it said.
    fn refused_agent(&self, user: User, arguments: &[&str]) -> String {
        let folder = self.folder(&format!("of-{user:?}"), user);
        let run_dir = folder.join("run");
        let run_dir = ["--run-dir", run_dir.to_str().expect("a path")];
        let (is_good, said) = self.run(user, &[&["agent"], &run_dir[..], arguments].concat());
        assert!(!is_good, "{user:?}: {said}");
        let error = said.rsplit_once("error:").map_or(said.as_str(), |(_, error)| error);
        assert!(error.contains("fix:"), "{user:?}: {said}");
        error.to_owned()
    }
}

/// A child that is told to go on and to end, at the latest when this is dropped.
struct Ended(Child);

impl Ended {
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("our own child");
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        for signal in [Signal::SIGCONT, Signal::SIGTERM] {
            self.signal(signal);
        }
        self.0.wait().expect("our own child");
    }
}

fn agent(place: &Place) -> AgentChild {
    place.agent(&["--arm", "cubic"])
}

#[test]
fn a_name_that_is_taken() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let host = Host::new();
    let first = agent(&host.place);
    let reno = host.place.file("reno.toml", "[agent]\nnative = 'reno'\n");
    fs::set_permissions(&reno, Permissions::from_mode(0o644)).expect("chmod");
    let reno = ["--config", reno.to_str().expect("a path")];
    for user in USERS {
        let name = ["--name", &host.place.name];
        let said = host.refused_agent(user, &[&name[..], &reno].concat());
        let (is_taken, is_root) =
            (said.contains("already has an algorithm"), said.contains("root"));
        println!("{user:?}: {said}");
        // Without the capabilities the agent does not come so far.
        assert_eq!((is_taken, is_root), (user != User::Plain, user == User::Plain), "{said}");
    }
    first.stop().expect("it ends");
}

#[test]
fn an_algorithm_of_the_kernel_that_a_user_may_not_use() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    if allowed.is_ok_and(|allowed| allowed.split_whitespace().any(|name| name == "cubic")) {
        eprintln!("SKIPPED: every user of this host may use cubic");
        return;
    }
    let host = Host::new();
    let said = host.refused_agent(User::Plain, &["--name", &host.place.name]);
    assert!(said.contains("CAP_NET_ADMIN") && said.contains("\"cubic\""), "{said}");
    assert!(!said.contains("has no algorithm"), "{said}");
    for user in [User::Root, User::Capable] {
        let folder = host.folder(&format!("cubic-{user:?}"), user);
        let socket = folder.join("applications");
        let text = format!("[agent]\napplication_socket = {socket:?}\n");
        let config = host.place.file("cubic.toml", &text);
        fs::set_permissions(&config, Permissions::from_mode(0o644)).expect("chmod");
        let run_dir = folder.join("run");
        let paths = [&config, &run_dir].map(|path| path.to_str().expect("a path"));
        let arguments = ["--config", paths[0], "--run-dir", paths[1], "--name", &host.place.name];
        host.accepted_agent(user, &arguments);
    }
    let no_such = host.place.file("no.toml", "[agent]\nnative = 'no-such-cca'\n");
    fs::set_permissions(&no_such, Permissions::from_mode(0o644)).expect("chmod");
    let no_such = ["--config", no_such.to_str().expect("a path")];
    for user in USERS {
        let said = host.refused_agent(user, &no_such);
        assert!(said.contains("has no algorithm \"no-such-cca\""), "{user:?}: {said}");
    }
}

#[test]
fn the_name_of_another_agent_is_no_algorithm_of_the_kernel() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let host = Host::new();
    let (first, other) = (agent(&host.place), Place::new());
    let second = agent(&other);
    let set_by = |user: User, name: &str| {
        let run_dir = host.place.run_dir();
        let run_dir = ["--run-dir", run_dir.to_str().expect("a path")];
        host.run(user, &[&["set", "new", &format!("native:{name}")], &run_dir[..]].concat())
    };
    let set = |name: &str| set_by(User::Root, name);
    for name in [&host.place.name, &other.name] {
        let (is_good, said) = set(name);
        assert!(!is_good && said.contains("of an agent or of another BPF program"), "{said}");
        let (_, fix) = said.split_once("fix:").expect("a fix");
        assert!(fix.contains("reno") && !fix.contains(name.as_str()), "{said}");
    }
    let native = host.place.file("native.toml", &format!("[agent]\nnative = {:?}\n", other.name));
    fs::set_permissions(&native, Permissions::from_mode(0o644)).expect("chmod");
    for user in USERS {
        let name = ["--name", "remuda_third", "--config", native.to_str().expect("a path")];
        let said = host.refused_agent(user, &name);
        let due = match user {
            User::Root | User::Capable => "of an agent or of another BPF program",
            User::Plain => "CAP_NET_ADMIN",
        };
        assert!(said.contains(due), "{user:?}: {said}");
        let arm = format!("native:{}", other.name);
        let said = host.refused_agent(user, &["--name", "remuda_third", "--arm", &arm]);
        assert!(said.contains(due), "{user:?}: {said}");
    }
    for user in [User::Capable, User::Plain] {
        let (is_good, said) = set_by(user, &other.name);
        assert!(!is_good && said.contains("only root and the agent's own user"), "{said}");
        assert!(said.contains("fix:"), "{said}");
    }
    assert!(set("reno").0, "{:?}", set("reno"));
    for user in [User::Root, User::Capable] {
        let (is_good, shown) = host.run(user, &["programs"]);
        let loaded = shown.lines().find(|line| line.contains("loaded here")).expect("a line");
        assert!(is_good && loaded.contains("reno"), "{user:?}: {loaded}");
        assert!(!loaded.contains(&other.name), "{user:?}: {loaded}");
    }
    second.stop().expect("it ends");
    first.stop().expect("it ends");
}

#[test]
fn an_arm_on_the_deny_list_that_is_none() {
    if skip() {
        return;
    }
    let host = Host::new();
    let config = host.place.file("deny.toml", "[guard]\ndeny = ['cubik']\n");
    fs::set_permissions(&config, Permissions::from_mode(0o644)).expect("chmod");
    for user in USERS {
        let said = host.refused_agent(user, &["--config", config.to_str().expect("a path")]);
        assert!(said.contains("guard.deny names \"cubik\"") && said.contains("cubic,"), "{said}");
    }
}

#[test]
fn an_agent_that_hangs_and_one_of_another_user() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let host = Host::new();
    let config = host.place.file("remuda.toml", "[agent]\nbpf = false\nmodule = false\n");
    let agent = host.place.agent(&["--config", config.to_str().expect("a path")]);
    let run_dir = host.place.run_dir();
    let run_dir = ["--run-dir", run_dir.to_str().expect("a path")];
    for user in [User::Capable, User::Plain] {
        let (is_good, said) = host.run(user, &[&["flows"], &run_dir[..]].concat());
        assert!(!is_good && said.contains("only root and the agent's own user"), "{said}");
        let (_, doctor) = host.run(user, &[&["doctor"], &run_dir[..]].concat());
        assert!(doctor.contains("another user's"), "{doctor}");
    }
    let (is_good, said) = host.run(User::Root, &[&["flows"], &run_dir[..]].concat());
    assert!(is_good, "{said}");
    agent.signal(Signal::SIGSTOP).expect("it stops");
    let hangs = format!("(process {}) has not answered within 10 s", agent.pid());
    let (is_good, said) = host.run(User::Root, &[&["flows"], &run_dir[..]].concat());
    assert!(!is_good && said.contains(&hangs) && said.contains("fix:"), "{said}");
    let (is_good, doctor) = host.run(User::Root, &[&["doctor"], &run_dir[..]].concat());
    assert!(!is_good && doctor.contains("has not answered within 10 s"), "{doctor}");
    // Whether it hangs is not theirs to see, and they do not wait for it.
    for user in [User::Capable, User::Plain] {
        let (is_good, said) = host.run(user, &[&["flows"], &run_dir[..]].concat());
        assert!(!is_good && said.contains("only root and the agent's own user"), "{said}");
    }
    agent.signal(Signal::SIGCONT).expect("it goes on");
    ask(agent.run_dir(), &Request::Status {}).expect("an answer");
    agent.stop().expect("it ends");
    for user in USERS {
        let (is_good, said) = host.run(user, &[&["flows"], &run_dir[..]].concat());
        // Others may not look into its folder, and so do not see that it has gone.
        let due = match user {
            User::Root => "no agent answers",
            _ => "only root and the agent's own user",
        };
        assert!(!is_good && said.contains(due) && said.contains("fix:"), "{user:?}: {said}");
    }
}

#[test]
fn an_agent_of_another_user_than_root() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let host = Host::new();
    let (roots, folder) = (agent(&host.place), host.folder("own", User::Capable));
    let (run_dir, socket) = (folder.join("run"), folder.join("applications"));
    let text = format!("[agent]\napplication_socket = {socket:?}\n");
    let config = host.place.file("own.toml", &text);
    fs::set_permissions(&config, Permissions::from_mode(0o644)).expect("chmod");
    let [config, run_dir] = [&config, &run_dir].map(|path| path.to_str().expect("a path"));
    let mut command = Command::new(&host.binary);
    command.args(["agent", "--name", "remuda_own", "--config", config, "--run-dir", run_dir]);
    of_other_user_with(&mut command, &AGENT_CAPABILITIES);
    command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/");
    let own = Ended(command.spawn().expect("it starts"));
    let ask =
        |user: User, request: &[&str]| host.run(user, &[request, &["--run-dir", run_dir]].concat());
    let answers = |_| {
        ask(User::Capable, &["flows"]).0 || {
            sleep(TURN);
            false
        }
    };
    assert!((0..TURNS).any(answers), "{:?}", ask(User::Capable, &["flows"]));
    // Root may ask it, and its own user, who needs no capability for that.
    for user in USERS {
        let (is_good, said) = ask(user, &["set", "new", "vegas"]);
        assert!(is_good, "{user:?}: {said}");
        let (is_good, said) = ask(user, &["set", "new", &format!("native:{}", host.place.name)]);
        assert!(!is_good && said.contains("of an agent or of another BPF program"), "{said}");
        assert!(said.contains("fix:"), "{said}");
    }
    own.signal(Signal::SIGSTOP);
    let hangs = format!("(process {}) has not answered within 10 s", own.0.id());
    for user in [User::Root, User::Plain] {
        let (is_good, said) = ask(user, &["flows"]);
        assert!(!is_good && said.contains(&hangs) && said.contains("fix:"), "{user:?}: {said}");
    }
    let (is_good, doctor) = ask(User::Plain, &["doctor"]);
    assert!(!is_good && doctor.contains("has not answered within 10 s"), "{doctor}");
    own.signal(Signal::SIGCONT);
    assert!(ask(User::Root, &["flows"]).0, "{:?}", ask(User::Root, &["flows"]));
    own.signal(Signal::SIGTERM);
    drop(own);
    for user in USERS {
        let (is_good, said) = ask(user, &["flows"]);
        assert!(!is_good && said.contains("no agent answers"), "{user:?}: {said}");
        assert!(said.contains("fix:"), "{user:?}: {said}");
    }
    roots.stop().expect("it ends");
}

#[test]
fn folders_that_a_dedicated_user_cannot_write_to() {
    if skip() {
        return;
    }
    let host = Host::new();
    let config = host.place.file("remuda.toml", "[agent]\nbpf = false\nmodule = false\n");
    fs::set_permissions(&config, Permissions::from_mode(0o644)).expect("chmod");
    let config = ["--config", config.to_str().expect("a path")];
    let path = |path: &Path| path.to_str().expect("a path").to_owned();
    // Root may: in a folder that is private, and in another.
    let private = host.folder("private-Root", User::Root);
    fs::set_permissions(&private, Permissions::from_mode(0o700)).expect("chmod");
    for run_dir in [private, host.folder("other-of-root", User::Root).join("run")] {
        let run_dir = path(&run_dir);
        host.accepted_agent(User::Root, &[&["--run-dir", &run_dir][..], &config].concat());
    }
    for user in [User::Capable, User::Plain] {
        // As systemd makes /run/remuda: the user's own and private, in a folder of root's.
        let private = host.folder(&format!("private-{user:?}"), user);
        fs::set_permissions(&private, Permissions::from_mode(0o700)).expect("chmod");
        let agent = ["agent", "--run-dir", &path(&private)];
        let (is_good, said) = host.run(user, &[&agent[..], &config].concat());
        assert!(!is_good && said.contains("may not make the socket for applications"), "{said}");
        assert!(said.contains("fix:") && said.contains("agent.application_socket"), "{said}");
        let roots = host.folder("of-root", User::Root).join("run");
        let agent = ["agent", "--run-dir", &path(&roots)];
        let (is_good, said) = host.run(user, &[&agent[..], &config].concat());
        assert!(!is_good && said.contains("Permission denied"), "{said}");
        assert!(said.contains("fix:") && said.contains("--run-dir"), "{said}");
    }
}
