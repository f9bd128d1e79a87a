//! Stores the commit of the build, which the command writes into its results.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // These files of git change with every commit and checkout, but not with uncommitted changes: a
    // matrix distinguishes such builds by the hash of their sources. In a worktree, .git is a file
    // that names the folder, so git is asked for the folder.
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        for file in ["HEAD", "logs/HEAD"] {
            println!("cargo::rerun-if-changed={}", Path::new(&folder).join(file).display());
        }
    }
    if let Some(commit) = git(&["describe", "--always", "--dirty", "--abbrev=12"]) {
        println!("cargo::rustc-env=REMUDA_COMMIT={commit}");
    }
}

/// The output of a git command in the workspace; `None` without git, or outside a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
