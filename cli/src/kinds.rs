//! Scenario files and suite files: who gives one to the command that takes the other is told so.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use toml::Table;

/// A longer file is not looked into: what is wrong with it is said of the kind it was given as.
const BYTES_MAX: u64 = 1 << 20;

/// What only a suite has, and what only a scenario.
const OF_SUITES: [&str; 2] = ["families", "pick"];
const OF_SCENARIOS: [&str; 2] = ["links", "flows"];

fn key_of(path: &Path, keys: [&'static str; 2]) -> Option<&'static str> {
    let mut text = String::new();
    File::open(path).ok()?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    let table: Table = text.parse().ok()?;
    keys.into_iter().find(|key| table.contains_key(*key))
}

/// Of a file that is no scenario: that it is a suite, if it is one.
pub fn suite_for_scenario(path: &Path) -> Option<String> {
    let key = key_of(path, OF_SUITES)?;
    let file = path.display();
    Some(format!(
        "{file}: is a suite of environments, as it has `{key}`, and not a scenario\n\
         fix: remuda matrix --suite {file}"
    ))
}

/// Of a file that is no suite: that it is a scenario, if it is one.
pub fn scenario_for_suite(path: &Path) -> Option<String> {
    let key = key_of(path, OF_SCENARIOS)?;
    let file = path.display();
    Some(format!(
        "--suite {file}: is a scenario, as it has `{key}`, and not a suite of environments\n\
         fix: remuda sim {file}"
    ))
}
