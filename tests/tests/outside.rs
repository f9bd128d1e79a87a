//! A crate outside the workspace adds an arm: it builds, its own tests pass, and its arm is listed,
//! simulated and switched to. It builds every dependency again, which takes two minutes.

use remuda_tests::{example_arm, root};
use std::path::PathBuf;
use std::process::Command;

/// Builds and tests the crate, with this project's target folder and versions of dependencies.
fn build() -> PathBuf {
    let folder = root().join("tests/example-arm");
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("a lock file");
    let cargo = |what: &str| {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(program);
        // Nobody debugs it, and debug information is a quarter of the time of this build.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.args([what, "--quiet", "--offline", "--target-dir"]).arg(root().join("target"));
        let status = command.arg("--manifest-path").arg(folder.join("Cargo.toml")).status();
        assert!(status.expect("cargo runs").success(), "cargo {what}");
    };
    cargo("build");
    cargo("test");
    root().join("target/debug/remuda-scalable")
}

#[test]
fn an_arm_of_another_crate_is_listed_simulated_and_switched_to() {
    example_arm::check(&build());
}
