//! The suites that come with the program, one for each file in `suites/`.

use crate::error::Error;
use crate::suite::{Environment, Suite};

/// Name and text of each suite, in the order in which they are listed.
const SUITES: &[(&str, &str)] = &[
    ("smoke", include_str!("../suites/smoke.toml")),
    ("one-flow", include_str!("../suites/one-flow.toml")),
    ("wireless", include_str!("../suites/wireless.toml")),
    ("policers-and-acks", include_str!("../suites/policers-and-acks.toml")),
    ("sharing", include_str!("../suites/sharing.toml")),
    ("short-flows", include_str!("../suites/short-flows.toml")),
    ("aqm", include_str!("../suites/aqm.toml")),
    ("path-change", include_str!("../suites/path-change.toml")),
    ("scale", include_str!("../suites/scale.toml")),
    ("ccbench-solo", include_str!("../suites/ccbench-solo.toml")),
    ("ccbench-friendly", include_str!("../suites/ccbench-friendly.toml")),
    ("pantheon", include_str!("../suites/pantheon.toml")),
    ("ccp", include_str!("../suites/ccp.toml")),
    ("transperf", include_str!("../suites/transperf.toml")),
    ("antelope", include_str!("../suites/antelope.toml")),
    ("anole", include_str!("../suites/anole.toml")),
    ("tcp-rl", include_str!("../suites/tcp-rl.toml")),
    ("rein", include_str!("../suites/rein.toml")),
    ("lingbo", include_str!("../suites/lingbo.toml")),
];

pub fn suite_names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _)| *name)
}

/// The suite of this name; `None` if no such suite comes with the program.
pub fn suite(name: &str) -> Option<Result<Suite, Error>> {
    let (name, text) = SUITES.iter().find(|(known, _)| *known == name)?;
    Some(Suite::parse(text, name))
}

/// The environment `name` of the suite `suite_name`; `None` if either is unknown.
pub(crate) fn environment(suite_name: &str, name: &str) -> Result<Option<Environment>, Error> {
    let Some((known, text)) = SUITES.iter().find(|(known, _)| *known == suite_name) else {
        return Ok(None);
    };
    let all = Suite::unchecked(text, known)?.environments()?;
    Ok(all.into_iter().find(|it| it.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The sources state these numbers.
    #[test]
    fn every_suite_has_as_many_environments_as_its_source() {
        let counts: Vec<(&str, usize)> = suite_names()
            .map(|name| (name, suite(name).unwrap().unwrap().environments().unwrap().len()))
            .collect();
        for (name, count) in
            [("ccbench-solo", 690), ("ccbench-friendly", 125), ("pantheon", 36), ("smoke", 60)]
        {
            assert!(counts.contains(&(name, count)), "{name}: {counts:?}");
        }
        assert!(counts.contains(&("tcp-rl", 288 + 1)), "{counts:?}");
    }

    #[test]
    fn every_file_is_in_the_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/suites");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into())
            .collect();
        assert_eq!(files, suite_names().map(str::to_owned).collect());
    }

    #[test]
    fn all_groups_of_the_matrix_have_environments() {
        let all = suite_names().flat_map(|name| suite(name).unwrap().unwrap().environments());
        let groups: BTreeSet<String> = all.flatten().map(|it| it.group).collect();
        for group in
            ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P"]
        {
            assert!(groups.contains(group), "{group} of {groups:?}");
        }
    }
}
