//! What this was built from.

use std::process::Command;

/// The commit of the tree this was built from, if it is still there.
pub fn commit() -> Option<String> {
    let tree = env!("CARGO_MANIFEST_DIR");
    let arguments = ["-C", tree, "describe", "--always", "--dirty", "--abbrev=12"];
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
