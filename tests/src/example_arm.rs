//! What a command with one more arm, `tests/example-arm`, can do with it.

use crate::{binary, root};
use std::path::Path;
use std::process::{Command, Output};

fn run(binary: &Path, arguments: &[&str]) -> Output {
    Command::new(binary).args(arguments).current_dir(root()).output().expect("it runs")
}

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(text).expect("it writes UTF-8")
}

/// Checks that the arm is listed, simulated and switched to, and that `remuda` does not know it.
///
/// # Panics
///
/// If one of these is not so.
pub fn check(command: &Path) {
    let programs = said(&run(command, &["programs"]));
    assert!(programs.contains("scalable/report"), "{programs}");
    let out = tempfile::tempdir().expect("a folder");
    let scenario = "emulation/scenarios/examples/one-cubic.toml";
    let folder = out.path().to_str().expect("a path of UTF-8");
    let short = ["sim", scenario, "--out", folder, "--set", "duration_s=5", "--set"];
    let simulated = run(command, &[&short[..], &["flows.*.driver=scalable"]].concat());
    assert!(simulated.status.success(), "{}", said(&simulated));
    assert!(said(&simulated).contains("scalable"), "{}", said(&simulated));
    let switched = "flows.*.switches=[{ at_s = 2, to = 'scalable' }]";
    let switched = run(command, &[&short[..], &[switched, "--json", "--quiet"]].concat());
    assert!(switched.status.success(), "{}", said(&switched));
    let outcome: serde_json::Value = serde_json::from_slice(&switched.stdout).expect("one object");
    let made = &outcome["flows"][0]["switches"][0];
    assert_eq!((&made["from"], &made["to"]), (&"cubic".into(), &"scalable".into()), "{made}");
    let unknown = run(&binary(), &[&short[..], &["flows.*.driver=scalable"]].concat());
    assert!(said(&unknown).contains("native:CCA"), "ours does not know it: {}", said(&unknown));
}
