//! Every refusal names the cause and the fix: to root, to a user with the capabilities that the
//! README names, and to a user without.

use ccp_agent::child::AgentChild;
use ccp_agent::control::{Request, ask};
use nix::sys::signal::Signal;
use remuda_tests::other_user::{AGENT_CAPABILITIES, UID, of_other_user_with};
use remuda_tests::{Place, binary, exclusive, skip};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Clone, Copy, Debug, PartialEq)]
enum User {
    Root,
    Capable,
    Plain,
}

const USERS: [User; 3] = [User::Root, User::Capable, User::Plain];

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
        command.args(arguments).stdin(Stdio::null()).current_dir("/");
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
    let set = |name: &str| {
        let run_dir = host.place.run_dir();
        let run_dir = ["--run-dir", run_dir.to_str().expect("a path")];
        host.run(User::Root, &[&["set", "new", &format!("native:{name}")], &run_dir[..]].concat())
    };
    for name in [&host.place.name, &other.name] {
        let (is_good, said) = set(name);
        assert!(!is_good && said.contains("of an agent or of another BPF program"), "{said}");
        let (_, fix) = said.split_once("fix:").expect("a fix");
        assert!(fix.contains("reno") && !fix.contains(name.as_str()), "{said}");
    }
    assert!(set("reno").0, "{:?}", set("reno"));
    let (is_good, shown) = host.run(User::Root, &["programs"]);
    let loaded = shown.lines().find(|line| line.contains("loaded here")).expect("a line");
    assert!(is_good && !loaded.contains(&other.name), "{loaded}");
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
    agent.signal(Signal::SIGSTOP).expect("it stops");
    let hangs = format!("(process {}) has not answered within 10 s", agent.pid());
    let (is_good, said) = host.run(User::Root, &[&["flows"], &run_dir[..]].concat());
    assert!(!is_good && said.contains(&hangs) && said.contains("fix:"), "{said}");
    let (is_good, doctor) = host.run(User::Root, &[&["doctor"], &run_dir[..]].concat());
    assert!(!is_good && doctor.contains("has not answered within 10 s"), "{doctor}");
    agent.signal(Signal::SIGCONT).expect("it goes on");
    ask(agent.run_dir(), &Request::Status {}).expect("an answer");
    agent.stop().expect("it ends");
    let (is_good, said) = host.run(User::Root, &[&["flows"], &run_dir[..]].concat());
    assert!(!is_good && said.contains("no agent answers") && said.contains("fix:"), "{said}");
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
