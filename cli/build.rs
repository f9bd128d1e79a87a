//! Stores the commit of the build, which the command writes into its results.

use std::path::Path;
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // These files change with every commit and checkout. Uncommitted changes do not change them; a
    // matrix distinguishes such builds by the hash of their sources.
    for file in [".git/HEAD", ".git/logs/HEAD"] {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }
    let arguments = ["describe", "--always", "--dirty", "--abbrev=12"];
    let output = Command::new("git").arg("-C").arg(&root).args(arguments).output();
    let output = output.ok().filter(|output| output.status.success());
    let commit = output.and_then(|output| String::from_utf8(output.stdout).ok());
    if let Some(commit) = commit.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        println!("cargo::rustc-env=REMUDA_COMMIT={commit}");
    }
}
