//! Reads a scenario from a file or a text.

use crate::error::Error;
use crate::overrides::Override;
use crate::scenario::Scenario;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// A scenario of a hundred thousand flows has only a few lines, and so has a suite.
const FILE_BYTES_MAX: u64 = 4 << 20;

impl Scenario {
    /// Reads and checks a file. Relative paths in the file are relative to its folder.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::load_with(path, &[])
    }

    /// Reads a file, applies `overrides` in their order, and checks the result.
    pub fn load_with(path: &Path, overrides: &[Override]) -> Result<Self, Error> {
        let name = path.display().to_string();
        let text = file_text(path).map_err(|source| Error::read(path, source))?;
        let Some(text) = text else {
            let message = "is above 4 MiB, the limit of a scenario file".to_owned();
            return Err(Error::Text { name, message });
        };
        let mut scenario = unchecked(&text, &name, overrides)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for spec in scenario.links.values_mut() {
            spec.trace = spec.trace.take().map(|trace| folder.join(trace));
            if let Some(trace) = &mut spec.delay_trace {
                trace.file = folder.join(&trace.file);
            }
        }
        scenario.validate().map_err(|error| error.within(&name))?;
        Ok(scenario)
    }

    /// Parses and checks a text. Errors use `name` for the file. The stem of `name` is the
    /// scenario's name if the text has none.
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        Self::parse_with(text, name, &[])
    }

    /// Parses a text, applies `overrides`, and checks the result.
    pub fn parse_with(text: &str, name: &str, overrides: &[Override]) -> Result<Self, Error> {
        let scenario = unchecked(text, name, overrides)?;
        scenario.validate().map_err(|error| error.within(name))?;
        Ok(scenario)
    }

    /// Writes the scenario as a TOML file, with every value that has a default.
    ///
    /// Fails if a path is not Unicode, or a number is too large for TOML.
    pub fn to_toml(&self) -> Result<String, Error> {
        toml::to_string(self).map_err(|error| Error::Text {
            name: self.name.clone(),
            message: format!("cannot be written as TOML: {error}"),
        })
    }
}

/// The text of a file; `None` if it is above 4 MiB.
pub(crate) fn file_text(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    Ok((text.len() as u64 <= FILE_BYTES_MAX).then_some(text))
}

fn unchecked(text: &str, name: &str, overrides: &[Override]) -> Result<Scenario, Error> {
    let refuse = |message| Error::Text { name: name.to_owned(), message };
    // Parse the unchanged text first: only then do errors name the line.
    let mut scenario: Scenario =
        toml::from_str(text).map_err(|error| refuse(explained(&error, text)))?;
    if !overrides.is_empty() {
        let mut table: toml::Table =
            toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        for change in overrides {
            change.apply(&mut table).map_err(|error| Error::from(error).within(name))?;
        }
        scenario = table.try_into().map_err(|error: toml::de::Error| {
            let changes: Vec<String> = overrides.iter().map(Override::to_string).collect();
            refuse(format!("with {}: {}", changes.join(" "), explained(&error, "")))
        })?;
    }
    if scenario.name.is_empty() {
        let stem = Path::new(name).file_stem();
        scenario.name = stem.map_or_else(|| name.to_owned(), |it| it.to_string_lossy().into());
    }
    Ok(scenario)
}

/// TOML's message, with the table it is in and the nearest known key.
pub(crate) fn explained(error: &toml::de::Error, text: &str) -> String {
    let mut message = error.to_string().trim_end().to_owned();
    let before = error.span().and_then(|span| text.get(..span.start));
    let header = |line: &&str| line.trim_start().starts_with('[');
    if let Some(table) = before.and_then(|before| before.lines().rev().find(header)) {
        let _ = write!(message, "\nin: {}", table.trim());
    }
    if let Some(meant) = meant(error.message()) {
        let _ = write!(message, "\nfix: `{meant}`?");
    }
    message
}

/// The nearest of the keys that serde's message lists, if one is near.
fn meant(message: &str) -> Option<&str> {
    let (unknown, expected) = message.strip_prefix("unknown ")?.split_once("expected")?;
    let unknown = unknown.split('`').nth(1)?;
    nearest(unknown, expected.split('`').skip(1).step_by(2))
}

/// The known name nearest to `text`, if one is near enough to be meant.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known = known.into_iter();
    let (distance, nearest) = known.map(|key| (distance(text, key), key)).min()?;
    (distance <= text.len().div_ceil(3)).then_some(nearest)
}

/// Levenshtein's distance, except that a missing end counts 1: people forget units.
fn distance(text: &str, key: &str) -> usize {
    if !text.is_empty() && key.starts_with(text) {
        return 1;
    }
    let (text, key): (Vec<char>, Vec<char>) = (text.chars().collect(), key.chars().collect());
    let mut row: Vec<usize> = (0..=key.len()).collect();
    for (at, letter) in text.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in key.iter().enumerate() {
            let change = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[key.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_offered_where_one_is_near() {
        for (unknown, want) in [
            ("delay", Some("delay_ms")),
            ("rate_mbit_per_s", Some("rate_mbit_per_sec")),
            ("rate_mbits_per_sec", Some("rate_mbit_per_sec")),
            ("dealy_ms", Some("delay_ms")),
            ("colour", None),
        ] {
            let message = format!(
                "unknown field `{unknown}`, expected one of `rate_mbit_per_sec`, `delay_ms`"
            );
            assert_eq!(meant(&message), want, "{unknown}");
        }
        assert_eq!(meant("invalid type: string, expected f64"), None);
    }
}
