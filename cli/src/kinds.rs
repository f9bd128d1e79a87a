//! Recognises a suite file given as a scenario, and a scenario file given as a suite.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use toml::Table;

/// A longer file is not checked here; the parser's error for the given kind must do.
const BYTES_MAX: u64 = 1 << 20;

/// Keys that only a suite has, and keys that only a scenario has.
const OF_SUITES: [&str; 2] = ["families", "pick"];
const OF_SCENARIOS: [&str; 2] = ["links", "flows"];

fn key_of(path: &Path, keys: [&'static str; 2]) -> Option<&'static str> {
    let mut text = String::new();
    File::open(path).ok()?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    let table: Table = text.parse().ok()?;
    keys.into_iter().find(|key| table.contains_key(*key))
}

/// The error for a file that is no scenario, if it is a suite.
pub fn suite_for_scenario(path: &Path) -> Option<String> {
    let key = key_of(path, OF_SUITES)?;
    let file = path.display();
    Some(format!(
        "{file}: is a suite of environments, as it has `{key}`, and not a scenario\n\
         fix: remuda matrix --suite {file}"
    ))
}

/// The error for a file that is no suite, if it is a scenario.
pub fn scenario_for_suite(path: &Path) -> Option<String> {
    let key = key_of(path, OF_SCENARIOS)?;
    let file = path.display();
    Some(format!(
        "--suite {file}: is a scenario, as it has `{key}`, and not a suite of environments\n\
         fix: remuda sim {file}"
    ))
}
