//! `remuda matrix --engine live`: the same suite on real TCP. Needs root.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use remuda_tests::{binary, exclusive, skip};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Two environments that real TCP supports, and one that it does not.
const SUITE: &str = r#"
title = "For tests"
source = "this file"
[scenario]
duration_s = 3
links.down.rate_mbit_per_sec = 12
links.down.delay_ms = 10
links.down.queue = { kind = "droptail", limit_bdp = 2 }
links.up = { delay_ms = 10 }
flows = [{ driver = "tested" }]
[[families]]
name = "alone"
group = "A"
path = "wired"
[[families]]
name = "beside"
group = "K"
path = "wired"
scenario.flows = [{ driver = "cubic", name = "neighbour" }, { driver = "tested" }]
[[families]]
name = "farther"
group = "J"
path = "wired"
scenario.flows = [{ driver = "tested", extra_delay_ms = 5 }]
"#;

fn matrix(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(["matrix", "--engine", "live", "--json", "--out", "out", "--suite", "own.toml"]);
    command.args(arguments).current_dir(folder).output().unwrap()
}

fn rows(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_matrix_runs_on_real_tcp_and_is_not_run_twice() {
    let _alone = exclusive();
    if skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), SUITE).unwrap();
    let first = matrix(folder.path(), &["--arm", "cubic,native:cubic"]);
    let said = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success(), "{said}");
    assert!(said.contains("2 of 6 runs left out that real TCP cannot have"), "{said}");
    assert!(said.contains("extra_delay_ms"), "{said}");
    let all = rows(&first);
    let names: Vec<_> = all.iter().map(|row| (&row["environment"], &row["driver"])).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for row in &all {
        assert_eq!(row["engine"], "live");
        let used = row["utilisation"].as_f64().unwrap();
        assert!((0.7..1.02).contains(&used), "{row}");
        assert!(row["queueing_p95_ms"].as_f64().unwrap() > 5.0, "{row}");
    }
    let again = matrix(folder.path(), &["--arm", "cubic,native:cubic"]);
    assert_eq!(rows(&again), all, "kept, not run again: real TCP does not repeat itself");
}

#[test]
fn what_real_tcp_cannot_have_is_refused_with_the_reason() {
    let _alone = exclusive();
    if skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), SUITE).unwrap();
    for (arguments, reason) in [
        (["--arm", "cubic", "--only", "farther"], "`flows.tested.extra_delay_ms` is 5"),
        (["--arm", "window:9", "--only", "alone"], "must be an arm or policy with an agent"),
        (["--arm", "cubic", "--jobs", "2"], "--jobs cannot be used with --engine live"),
    ] {
        let refused = matrix(folder.path(), &arguments);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(reason), "{said}");
        assert!(!folder.path().join("out").exists(), "nothing is made");
    }
}
