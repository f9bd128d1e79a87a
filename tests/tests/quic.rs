//! Files over QUIC on loopback, driven by the agent: no root, no BPF.

use ccp_agent::child::AgentChild;
use ccp_agent::host::Target;
use nix::sys::signal::Signal;
use remuda_tests::quic::{Server, file, same};
use remuda_tests::{Place, binary, exclusive, wait_for};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

/// Limit for each wait.
const LIMIT: Duration = Duration::from_secs(60);

/// An agent without BPF needs no root.
fn agent(place: &Place, arm: &str) -> AgentChild {
    let config = place.file("remuda.toml", "[agent]\nbpf = false\n");
    place.agent(&["--config", config.to_str().expect("a path"), "--arm", arm])
}

fn remuda() -> Command {
    Command::new(binary())
}

/// A server on loopback.
fn serve(folder: &Path, run_dir: &Path, controller: &str) -> Server {
    Server::start(remuda(), folder, ("127.0.0.1:0", controller, run_dir))
}

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn files_are_fetched_by_each_arm_and_the_hashes_agree() {
    let _one = exclusive();
    let folder = tempfile::tempdir().expect("a folder");
    // A fast host may send 2 MB after the flow's last report.
    let whole = file(folder.path(), "whole", 30_000_000);
    for arm in ["cubic", "bbr"] {
        let place = Place::new();
        let agent = agent(&place, arm);
        let server = serve(folder.path(), &place.run_dir(), "agent");
        let to = folder.path().join("got");
        let output = server.get(remuda(), "whole", &to).output().expect("it runs");
        assert!(output.status.success() && same(&whole, &to), "{arm}: {}", said(&output));
        let events = agent.events().expect("the event log");
        let created = events.iter().find(|event| event["event"] == "created").expect("a flow");
        assert_eq!(created["arm"], arm);
        assert!(created["remote"].as_str().expect("text").starts_with("127.0.0.1:"), "{created}");
        wait_for("the flow's end", LIMIT, || agent.flows().is_ok_and(|flows| flows.is_empty()));
        let closed = agent.events().expect("the event log");
        let closed = closed.iter().find(|event| event["event"] == "closed").expect("its end");
        assert!(closed["reports"].as_u64() > Some(0), "{closed}");
        assert!(closed["acked_bytes"].as_u64() > Some(20_000_000), "{closed}");
        let hash =
            said(&output).lines().find_map(|line| line.strip_prefix("sha256 ").map(str::to_owned));
        let log = fs::read_to_string(folder.path().join("serve.log")).expect("the log");
        assert!(log.contains(&hash.expect("a hash")), "{log}");
        agent.stop().expect("it ends");
    }
}

#[test]
fn what_cannot_be_fetched_is_said_and_leaves_no_file() {
    let _one = exclusive();
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "whole", 10);
    let server = serve(folder.path(), &folder.path().join("absent"), "cubic");
    let to = folder.path().join("got");
    let mut pinned = remuda();
    pinned.arg("quic-get").arg(format!("{}/whole", server.address)).arg("-o").arg(&to);
    pinned.args(["--pin", &"00".repeat(32)]);
    let rows = [
        (server.get(remuda(), "absent", &to), "no such file"),
        (server.get(remuda(), "../etc/passwd", &to), "no such file"),
        (pinned, "fix: give --pin"),
        (server.get(remuda(), "whole", Path::new("/nowhere/got")), "/nowhere/got"),
    ];
    for (mut command, want) in rows {
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(want), "{}", said(&output));
        assert!(!to.exists() && !folder.path().join("got.part").exists());
    }
}

/// The arm changes while a transfer runs; then the agent dies; then a new agent starts.
#[test]
fn an_arm_is_changed_live_and_a_transfer_outlives_its_agent() {
    let _one = exclusive();
    let place = Place::new();
    let folder = tempfile::tempdir().expect("a folder");
    let whole = file(folder.path(), "whole", 400_000_000);
    let first = agent(&place, "cubic");
    let server = serve(folder.path(), &place.run_dir(), "agent");
    let to = folder.path().join("got");
    let mut get = server.get(remuda(), "whole", &to).spawn().expect("it starts");
    let arms = |agent: &AgentChild| -> Vec<(String, u64)> {
        let rows = agent.flows().unwrap_or_default();
        rows.into_iter().map(|row| (row.arm, row.reports)).collect()
    };
    wait_for("reports", LIMIT, || {
        arms(&first).iter().any(|(arm, reports)| arm == "cubic" && *reports > 0)
    });
    assert_eq!(first.set(Target::All, "bbr").expect("it is set"), 1);
    wait_for("the switch", LIMIT, || arms(&first).iter().any(|(arm, _)| arm == "bbr"));
    first.signal(Signal::SIGSTOP).expect("it stops");
    thread::sleep(Duration::from_millis(900));
    first.signal(Signal::SIGCONT).expect("it continues");
    thread::sleep(Duration::from_millis(300)); // what was queued has been read
    let before = arms(&first);
    wait_for("reports after a pause", LIMIT, || {
        arms(&first).iter().zip(&before).any(|(now, before)| now.1 > before.1 + 2)
    });
    assert_eq!(first.set(Target::All, "cubic").expect("it is set"), 1);
    wait_for("a switch after a pause", LIMIT, || {
        arms(&first).iter().any(|(arm, _)| arm == "cubic")
    });
    first.kill().expect("kill -9");
    thread::sleep(Duration::from_millis(700));
    assert!(get.try_wait().expect("it runs").is_none(), "too quick to tell anything");
    let second = agent(&place, "cubic");
    wait_for("the flow is taken back", LIMIT, || {
        arms(&second).iter().any(|(arm, reports)| arm == "cubic" && *reports > 0)
    });
    second.kill().expect("kill -9");
    let output = get.wait_with_output().expect("it ends");
    assert!(output.status.success() && same(&whole, &to), "{}", said(&output));
}

#[test]
fn strangers_on_the_datapaths_socket_change_nothing() {
    let _one = exclusive();
    let place = Place::new();
    let folder = tempfile::tempdir().expect("a folder");
    let whole = file(folder.path(), "whole", 20_000_000);
    let agent = agent(&place, "cubic");
    let server = serve(folder.path(), &place.run_dir(), "agent");
    let own = |entry: fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with("quic-").then(|| entry.path())
    };
    let mut entries = fs::read_dir(place.run_dir()).expect("the run directory").flatten();
    let socket = entries.find_map(own).expect("the datapath's socket");
    let to = folder.path().join("got");
    let get = server.get(remuda(), "whole", &to).spawn().expect("it starts");
    let stranger = UnixDatagram::unbound().expect("a socket");
    for length in 0..2_000 {
        assert!(stranger.send_to(&vec![3; length], &socket).is_err(), "only the agent is heard");
    }
    let output = get.wait_with_output().expect("it ends");
    assert!(output.status.success() && same(&whole, &to), "{}", said(&output));
    agent.stop().expect("it ends");
}

/// Started as root, the server has no right of root left in any thread, and it serves. What that
/// user cannot do is said at the start.
#[test]
fn root_is_given_up_once_the_socket_and_the_folder_are_open() {
    if remuda_tests::skip() {
        return;
    }
    let _one = exclusive();
    let outer = tempfile::tempdir().expect("a folder");
    // The folder is opened before root is given up, so only the folder itself must be open to
    // others: the one around it stays private.
    let folder = outer.path().join("served");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("chmod");
    let whole = file(&folder, "whole", 100_000);
    let closed = file(&folder, "closed", 10);
    fs::set_permissions(&closed, Permissions::from_mode(0o600)).expect("chmod");
    let settings = ("127.0.0.1:0", "cubic", outer.path());
    let server = Server::start_as("nobody", remuda(), &folder, settings);
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("its threads");
    let mut threads = 0;
    for task in tasks.flatten() {
        let status = fs::read_to_string(task.path().join("status")).expect("a thread");
        let field = |key: &str| -> Vec<String> {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a field");
            line.split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(field("Uid:"), ["65534"; 4], "{status}");
        assert!(!field("Gid:").contains(&"0".to_owned()), "{status}");
        assert!(!field("Groups:").contains(&"0".to_owned()), "{status}");
        for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(field(set), ["0000000000000000"], "{status}");
        }
        threads += 1;
    }
    assert!(threads > 1, "the runtime has threads");
    let to = outer.path().join("got");
    let output = server.get(remuda(), "whole", &to).output().expect("it runs");
    assert!(output.status.success() && same(&whole, &to), "{}", said(&output));
    let output = server.get(remuda(), "closed", &to).output().expect("it runs");
    assert!(said(&output).contains("cannot read the file"), "{}", said(&output));
}

#[test]
fn a_server_that_cannot_serve_as_its_user_says_so_at_the_start() {
    if remuda_tests::skip() {
        return;
    }
    let _one = exclusive();
    let place = Place::new();
    let agent = agent(&place, "cubic");
    let (private, open) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let open = open.expect("a folder");
    fs::set_permissions(open.path(), Permissions::from_mode(0o755)).expect("chmod");
    fs::set_permissions(private.path(), Permissions::from_mode(0o700)).expect("chmod");
    let rows: [(&Path, &[&str], &str); 4] = [
        (private.path(), &["--controller", "cubic"], "user nobody may not open files"),
        (private.path(), &["--controller", "cubic", "--user", "no such"], "no such user"),
        (open.path(), &[], "hears only root and its own user"),
        (open.path(), &["--user", "nobody"], "fix: add \"nobody\" to agent.datapath_users"),
    ];
    for (folder, extra, want) in rows {
        // A server that starts in spite of this would run for ever.
        let mut command = Command::new("timeout");
        command.arg("20").arg(binary()).arg("quic-serve").arg(folder);
        command.args(["--listen", "127.0.0.1:0", "--run-dir"]);
        let output = command.arg(place.run_dir()).args(extra).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{extra:?}: {}", said(&output));
        assert!(said(&output).contains(want), "{extra:?}: {}", said(&output));
        assert!(said(&output).contains("fix:"), "{}", said(&output));
    }
    agent.stop().expect("it ends");
}

/// The agent is root's, the server is not, and the agent lists the server's user: the agent drives
/// the connections, also one that is started anew.
#[test]
fn a_server_that_is_not_root_is_driven_by_an_agent_that_lists_its_user() {
    if remuda_tests::skip() {
        return;
    }
    let _one = exclusive();
    let place = Place::new();
    let run_dir = place.run_dir();
    let open = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
    };
    open(run_dir.parent().expect("a folder"), 0o711);
    let text = "[agent]\nbpf = false\ndatapath_users = ['nobody']\n";
    let config = place.file("remuda.toml", text);
    let agent = || place.agent(&["--config", config.to_str().expect("a path"), "--arm", "cubic"]);
    let created = |agent: &AgentChild| {
        let events = agent.events().expect("the event log");
        events.iter().filter(|event| event["event"] == "created").count()
    };
    let first = agent();
    let folder = tempfile::tempdir().expect("a folder");
    open(folder.path(), 0o755);
    let whole = file(folder.path(), "whole", 1_000_000);
    let name = run_dir.file_name().expect("a name").to_string_lossy().into_owned();
    let own_dir = run_dir.with_file_name(format!("{name}.65534"));
    let settings = ("127.0.0.1:0", "agent", own_dir.as_path());
    let server = Server::start_as("nobody", remuda(), folder.path(), settings);
    let out = tempfile::tempdir().expect("a folder");
    let to = out.path().join("got");
    let get = || {
        let output = server.get(remuda(), "whole", &to).output().expect("it runs");
        assert!(output.status.success() && same(&whole, &to), "{}", said(&output));
    };
    get();
    assert_eq!(created(&first), 1, "the agent hears the server");
    first.stop().expect("it ends");
    assert!(!own_dir.join("datapath.sock").exists(), "the name goes with the agent");
    get();
    let second = agent();
    let before = created(&second);
    wait_for("the new agent", LIMIT, || {
        get();
        created(&second) > before
    });
    second.stop().expect("it ends");
}
