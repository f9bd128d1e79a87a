//! The example of portus' own documentation, from cargo's copy of the package, brought as an arm by
//! a program outside the workspace.
//!
//! Its program has `(reset)`, which is no command of portus 0.9 either, and its first rule hides
//! the second, which reports. So there are two parts: unchanged, the example is refused, and the
//! refusal names the place; with these two lines changed, it drives a flow.

use remuda_tests::root;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The first example of portus' documentation, as cargo's copy of the package has it.
fn example() -> String {
    // Packages for other systems need not be there.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--offline", "--filter-platform"]);
    let output = command.arg(platform).current_dir(root()).output().expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    let portus = packages.iter().find(|package| package["name"] == "portus").expect("portus");
    let manifest = Path::new(portus["manifest_path"].as_str().expect("a path"));
    let source = manifest.with_file_name("src").join("lib.rs");
    let text = std::fs::read_to_string(source).expect("portus' source");
    let document = text.lines().map_while(|line| line.strip_prefix("//!"));
    let code = document.skip_while(|line| line.trim() != "```").skip(1);
    code.take_while(|line| line.trim() != "```").map(|line| format!("{line}\n")).collect()
}

/// Behind each of the two examples, in a module of its own.
const BRING: &str = r#"
pub fn bring() -> Result<(), String> {
    let make = MyCongestionControlAlgorithm::default;
    remuda::with_portus("example", make).map_err(|refusal| refusal.to_string())
}
"#;

const MAIN: &str = r#"
fn main() -> std::process::ExitCode {
    let is_changed = std::env::var_os("EXAMPLE_CHANGED").is_some();
    if let Err(refusal) = if is_changed { changed::bring() } else { unchanged::bring() } {
        eprintln!("{refusal}");
        return std::process::ExitCode::FAILURE;
    }
    remuda::main()
}
"#;

/// Builds a program that brings one of the two, in a workspace of its own.
fn build(folder: &Path, unchanged: &str, changed: &str) -> PathBuf {
    let manifest = format!(
        "[package]\nname = 'remuda-portus-example'\nversion = '0.1.0'\nedition = '2024'\n\
         [dependencies]\nportus = '0.9'\nremuda = {{ path = '{}' }}\n[workspace]\n",
        root().join("cli").display()
    );
    let source = format!(
        "#![allow(unused)]\nmod unchanged {{ {unchanged}{BRING} }}\n\
         mod changed {{ {changed}{BRING} }}\n{MAIN}"
    );
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
    std::fs::write(folder.join("src/main.rs"), source).expect("a source");
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("a lock file");
    let own = std::env::current_exe().expect("a test knows its own path");
    let target = own.ancestors().nth(3).expect("TARGET/PROFILE/deps/TEST");
    let mut command = cargo();
    // Nobody debugs it. With the same setting as outside.rs, cargo uses the same libraries.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    command.args(["build", "--quiet", "--offline", "--target-dir"]).arg(target);
    let status = command.arg("--manifest-path").arg(folder.join("Cargo.toml")).status();
    assert!(status.expect("cargo runs").success(), "cargo build");
    target.join("debug/remuda-portus-example")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn portus_own_example_is_refused_where_it_is_outdated_and_drives_a_flow_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let unchanged = example();
    assert!(unchanged.contains("impl<I: Ipc> CongAlg<I> for"), "{unchanged}");
    let minimum = "(min Report.minrtt Flow.rtt_sample_us))";
    let changed = unchanged
        .replace("(reset)", "(:= Micros 0)")
        .replace(minimum, &format!("{minimum} (fallthrough)"));
    let binary = build(folder.path(), &unchanged, &changed);
    let refused = Command::new(&binary).arg("programs").output().expect("it runs");
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(said(&refused).contains("(reset)"), "{}", said(&refused));
    let mut simulation = Command::new(&binary);
    simulation.current_dir(root()).env("EXAMPLE_CHANGED", "1").arg("sim");
    simulation.arg("emulation/scenarios/examples/one-cubic.toml").arg("--out").arg(folder.path());
    simulation.args(["--set", "duration_s=5", "--set", "flows.*.driver=example"]);
    let simulated = simulation.output().expect("it runs");
    assert!(simulated.status.success(), "{}", said(&simulated));
    assert!(said(&simulated).contains("minrtt: "), "its reports: {}", said(&simulated));
}
