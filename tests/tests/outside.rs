//! A crate outside the workspace adds an arm: it builds, its own tests pass, and its arm is listed,
//! simulated and switched to.

use remuda_tests::root;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds and tests the crate, with this project's target folder and versions of dependencies.
fn build() -> PathBuf {
    let folder = root().join("tests/example-arm");
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("a lock file");
    let cargo = |what: &str| {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(program);
        command.args([what, "--quiet", "--offline", "--target-dir"]).arg(root().join("target"));
        let status = command.arg("--manifest-path").arg(folder.join("Cargo.toml")).status();
        assert!(status.expect("cargo runs").success(), "cargo {what}");
    };
    cargo("build");
    cargo("test");
    root().join("target/debug/remuda-scalable")
}

fn run(binary: &Path, arguments: &[&str]) -> Output {
    Command::new(binary).args(arguments).current_dir(root()).output().expect("it runs")
}

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(text).expect("it writes UTF-8")
}

#[test]
fn an_arm_of_another_crate_is_listed_simulated_and_switched_to() {
    let binary = build();
    let programs = said(&run(&binary, &["programs"]));
    assert!(programs.contains("scalable/report"), "{programs}");
    let out = tempfile::tempdir().expect("a folder");
    let scenario = "emulation/scenarios/examples/one-cubic.toml";
    let folder = out.path().to_str().expect("a path of UTF-8");
    let short = ["sim", scenario, "--out", folder, "--set", "duration_s=5", "--set"];
    let simulated = run(&binary, &[&short[..], &["flows.*.driver=scalable"]].concat());
    assert!(simulated.status.success(), "{}", said(&simulated));
    assert!(said(&simulated).contains("scalable"), "{}", said(&simulated));
    let switched = "flows.*.switches=[{ at_s = 2, to = 'scalable' }]";
    let switched = run(&binary, &[&short[..], &[switched, "--json", "--quiet"]].concat());
    assert!(switched.status.success(), "{}", said(&switched));
    let outcome: serde_json::Value = serde_json::from_slice(&switched.stdout).expect("one object");
    let made = &outcome["flows"][0]["switches"][0];
    assert_eq!((&made["from"], &made["to"]), (&"cubic".into(), &"scalable".into()), "{made}");
    let unknown =
        run(&remuda_tests::binary(), &[&short[..], &["flows.*.driver=scalable"]].concat());
    assert!(said(&unknown).contains("native:CCA"), "ours does not know it: {}", said(&unknown));
}
