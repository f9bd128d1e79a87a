//! `remuda sim --weights`: files that hold no network are refused. A process each, as the list of
//! arms is closed once something has read it.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// What `remuda sim` prints when it refuses these weights.
#[track_caller]
fn refusal(folder: &Path, weights: &str) -> String {
    let scenario = folder.join("one.toml");
    fs::write(&scenario, "duration_s = 1\n[links.down]\n[links.up]\n[[flows]]\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda"));
    command.args(["sim", "one.toml", "--weights", weights]).current_dir(folder);
    let output = command.output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{weights} was taken");
    printed
}

#[test]
fn weights_that_are_none_are_refused_by_file_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let error = refusal(folder, "mine.safetensors");
    assert!(error.contains("mine.safetensors"), "{error}");
    fs::write(folder.join("mine.safetensors"), "x").unwrap();
    fs::write(folder.join("mine.json"), "{").unwrap();
    let error = refusal(folder, "mine.safetensors");
    assert!(error.contains("mine.json") && error.contains("arms.weights.mine"), "{error}");
}

#[test]
fn the_name_of_another_arm_or_policy_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("mine.safetensors"), "x").unwrap();
    fs::write(folder.join("mine.json"), "{").unwrap();
    for name in ["Mine", "cubic", "rein"] {
        let error = refusal(folder, &format!("{name}=mine.safetensors"));
        assert!(error.contains(&format!("arms.weights.{name}")), "{error}");
    }
}
