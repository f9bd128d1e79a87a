//! Rules that were added at run time outlive a restart: they lie in the state directory.

use super::rule::Rule;
use crate::Error;
use crate::error::on;
use crate::state_file;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const BYTES_MAX: u64 = 1 << 20;

/// More rules than this cannot be added.
pub const ADDED_MAX: usize = 256;

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Added {
    number: u32,
    rule: Rule,
}

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("rules.json")
}

/// The rules that were added, with their numbers, the newest first. The error says why the file is
/// not used.
pub fn read(state_dir: &Path) -> Result<Vec<(u32, Rule)>, String> {
    let path = file(state_dir);
    let named = |rule: String| format!("{}: {rule}", path.display());
    let text = state_file::read(&path, "list of rules", BYTES_MAX).map_err(named)?;
    let Some(text) = text else { return Ok(Vec::new()) };
    let added: Vec<Added> = serde_json::from_str(&text).map_err(|it| named(it.to_string()))?;
    if added.len() > ADDED_MAX {
        return Err(named(format!("{} rules; there are at most {ADDED_MAX}", added.len())));
    }
    Ok(added.into_iter().map(|it| (it.number, it.rule)).collect())
}

/// Renames a file that cannot be read, so that the next rule does not overwrite it. Returns its new
/// path; `None` if it stays.
pub fn set_aside(state_dir: &Path) -> Option<PathBuf> {
    let aside = state_dir.join("rules.refused.json");
    fs::rename(file(state_dir), &aside).ok().map(|()| aside)
}

/// Replaces the file by one with these rules; without rules there is no file.
pub fn write(state_dir: &Path, added: Vec<(u32, Rule)>) -> Result<(), Error> {
    let path = file(state_dir);
    if added.is_empty() {
        return match state_file::absent_is_none(fs::remove_file(&path)) {
            Ok(_) => Ok(()),
            Err(error) => Err(on(path.display())(error)),
        };
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(state_dir);
    made.map_err(on(state_dir.display()))?;
    let added: Vec<Added> =
        added.into_iter().map(|(number, rule)| Added { number, rule }).collect();
    let text = serde_json::to_string(&added).map_err(|error| Error::Refused(error.to_string()))?;
    state_file::write(&path, &text)
}
