//! The training programs of the Python package, and what they write.

use crate::Failure;
use std::path::Path;
use std::process::Command;

/// The fix if a Python cannot train trees.
pub const FIX: &str = "fix: pip install remuda[train], or name another Python with --python";

/// A command that runs a module of the Python package.
pub fn module(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    // -P: a file in the current folder must not replace a module of ours.
    command.args(["-P", "-m", name]);
    command
}

/// Whether the arguments only ask for the help of the training program.
pub fn is_help(training: &[String]) -> bool {
    training.iter().any(|arg| arg == "--help" || arg == "-h")
}

/// Reads a model as the agent does, and prints its size.
pub fn check(path: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let model = remuda_selector::antelope::model::Model::parse(&text);
    let model = model.map_err(|error| format!("{}: {error}", path.display()))?;
    let size_kb = text.len() / 1_000;
    println!("{}: {} arms, {size_kb} kB", path.display(), model.arms().len());
    Ok(())
}
