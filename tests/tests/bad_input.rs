//! Bad flags, names, configurations and traces: the error names the input and the rule, the status
//! is not 0, and nothing is changed. These errors need no root.

use remuda_tests::{Place, binary, exclusive, skip};
use std::process::Command;

/// Runs `remuda`; returns whether it succeeded, and its output.
fn remuda(arguments: &[&str]) -> (bool, String) {
    let out = Command::new(binary()).args(arguments).output().expect("the command runs");
    let said = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn refused(arguments: &[&str], parts: &[&str]) {
    let (success, said) = remuda(arguments);
    assert!(!success, "{arguments:?} is accepted: {said}");
    for part in parts {
        assert!(said.contains(part), "{arguments:?} does not say {part:?}: {said}");
    }
}

#[test]
fn unknown_flags_names_and_flows() {
    refused(&["agent", "--polcy", "rein"], &["--polcy"]);
    refused(&["agent", "--arm", "renno"], &["\"renno\"", "fix: one of", "reno"]);
    refused(&["agent", "--policy", "cubic"], &["is an arm", "--arm cubic"]);
    refused(&["agent", "--arm", "rein"], &["is a policy", "--policy rein"]);
    refused(&["set", "fast", "bbr"], &["a flow's number"]);
    refused(&["flows", "--run-dir", "/nonexistent"], &["no agent answers", "fix:"]);
    refused(&["flows", "--interval-s", "1"], &["--watch"]);
    refused(&["programs", "--text", "renno"], &["renno", "fix:"]);
    refused(&["no-such-command"], &["no-such-command"]);
    refused(&["prefer", "fast", "--flow", "1"], &["\"fast\"", "0 to 1"]);
    refused(&["prefer", "delay"], &["--flow", "--destination"]);
    refused(&["prefer", "delay", "--mark", "x"], &["mark = \"x\"", "32-bit number"]);
}

#[test]
fn configurations() {
    let place = Place::new();
    for (text, parts) in [
        ("[agent]\nhart_beat = 1\n", &["hart_beat"][..]),
        ("[agent]\nheartbeat_timeout_ms = 7\n", &["agent.heartbeat_timeout_ms = 7", "100..=60000"]),
        ("[guard]\nsettle_rate_percent = 5000\n", &["guard.settle_rate_percent = 5000"]),
        ("[policy.rein]\nwifi_rtt_cov_ratio = -1\n", &["rein.wifi_rtt_cov_ratio"]),
        (
            "[[prefer]]\nmark = 1\nwants = 'delay'\n[[prefer]]\nmark = 'x'\nwants = 'delay'\n",
            &["bad.toml", "prefer rule 2: mark = \"x\"", "0x10/0xff"],
        ),
        (
            "[[prefer]]\ncgroup = '/proc'\nwants = 'delay'\n",
            &["prefer rule 1: cgroup = \"/proc\"", "not a directory of cgroup v2", "fix:"],
        ),
        ("[agent]\ndefault = \"renno\"\n", &["renno", "fix:"]),
        ("agent = 3\n", &["agent"]),
        ("\u{0}", &["bad.toml"]),
    ] {
        let file = place.file("bad.toml", text);
        let file = file.to_str().expect("a path");
        refused(&["agent", "--config", file, "--run-dir", "/nonexistent/x"], parts);
    }
    refused(&["agent", "--config", "/nonexistent.toml"], &["/nonexistent.toml"]);
}

#[test]
fn names_that_the_kernel_would_cut() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let run_dir = place.run_dir();
    let run_dir = run_dir.to_str().expect("a path");
    for name in ["", "a-name-too-long-x", "with space"] {
        refused(&["agent", "--run-dir", run_dir, "--name", name], &["15 printable characters"]);
    }
    let rule = ["\"with-dash\"", "letters, digits, _ and . only", "fix: "];
    refused(&["agent", "--run-dir", run_dir, "--name", "with-dash"], &rule);
    let config = place.file("agent.toml", "[agent]\nnative = 'no-such-cca'");
    let config = config.to_str().expect("a path");
    let parts = [
        "\"no-such-cca\"",
        "fix: for agent.native and for native arms, name one of these: ",
        "reno",
    ];
    refused(&["agent", "--run-dir", run_dir, "--config", config, "--name", &place.name], &parts);
    let parts = ["/etc is not a cgroup v2 directory", "findmnt"];
    refused(&["agent", "--run-dir", run_dir, "--name", &place.name, "--cgroup", "/etc"], &parts);
}

#[test]
fn traces() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    for (text, parts) in [
        ("1\n-2\n", &["bad.trace:2:", "-2"][..]),
        ("5\n4\n", &["bad.trace:2:"]),
        ("", &["bad.trace"]),
        ("0\n0\n", &["bad.trace"]),
        ("1\n\n2\n", &["bad.trace:2:"]),
        ("1\ntwo\n", &["bad.trace:2:", "two"]),
        ("99999999999999999999999\n", &["bad.trace:1:"]),
    ] {
        let file = place.file("bad.trace", text);
        let file = file.to_str().expect("a path");
        refused(&["link", "--up-trace", file, "--", "true"], parts);
    }
    refused(&["link", "--rate", "-3", "--", "true"], &["-3"]);
    refused(&["link", "--rate", "nan", "--", "true"], &["rate"]);
    refused(&["link", "--loss-percent", "101", "--", "true"], &["101"]);
}

#[test]
fn a_link_ends_with_its_commands_status() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let status = |script: &str| {
        let out = Command::new(binary())
            .args(["link", "--rate", "12", "--delay-ms", "1", "--", "sh", "-c", script])
            .status()
            .expect("the command runs");
        out.code()
    };
    assert_eq!(status("exit 0"), Some(0));
    assert_eq!(status("exit 7"), Some(7));
}

#[test]
fn doctor_says_how_the_host_is() {
    let (_, said) = remuda(&["doctor", "--run-dir", "/nonexistent"]);
    for part in ["kernel", "capabilities", "native algorithms", "TUN devices"] {
        assert!(said.contains(part), "{said}");
    }
}
