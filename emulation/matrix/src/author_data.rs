//! The data files that an author's module declares: `DATA_FILES = ["policy.npz", "table.csv"]`.
//!
//! The list stands at the start of a line of the module, with strings and nothing else, because it
//! is read without running the module. Paths are below the module's folder. In the author's
//! process, `remuda._serve` warns of a file that is opened and not declared.

use std::path::{Component, Path, PathBuf};

const NAME: &str = "DATA_FILES";
const RULE: &str = "it must be a list of strings without escapes, such as \
                    DATA_FILES = [\"policy.npz\"], with paths below the module's folder";

/// The paths that a module declares, none if it declares nothing. The error says which rule the
/// declaration breaks.
pub fn declared(module: &str) -> Result<Vec<PathBuf>, String> {
    let Some(mut rest) = declaration(module) else { return Ok(Vec::new()) };
    let refuse = |what: &str| Err(format!("{NAME}: {what}: {RULE}"));
    let mut paths = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        match rest.chars().next() {
            Some('#') => rest = rest.split_once('\n').map_or("", |(_, after)| after),
            Some(']') => return Ok(paths),
            Some(quote @ ('"' | '\'')) => {
                let Some((text, after)) = rest[1..].split_once(quote) else {
                    return refuse("a string without an end");
                };
                let path = PathBuf::from(text);
                if text.contains(['\\', '\n']) || !is_below(&path) {
                    return refuse(&format!("{text:?}"));
                }
                paths.push(path);
                rest = after;
            }
            Some(other) => return refuse(&format!("{other:?}")),
            None => return refuse("a list without an end"),
        }
    }
}

/// What follows the list's first bracket; `None` without a declaration.
fn declaration(module: &str) -> Option<&str> {
    let mut at = 0;
    for line in module.split_inclusive('\n') {
        if let Some(after) = line.strip_prefix(NAME)
            && after.trim_start().starts_with([':', '='])
        {
            let all = &module[at..];
            let list = all.find('=')? + 1;
            return Some(all[list..].trim_start().strip_prefix('[').unwrap_or("?"));
        }
        at += line.len();
    }
    None
}

fn is_below(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|it| matches!(it, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_strings_is_read_as_python_would() {
        for (module, want) in [
            ("import numpy\n", &[][..]),
            ("DATA_FILES_OF_OTHERS = 3\n", &[]),
            ("  DATA_FILES = ['of a class']\n", &[]),
            ("DATA_FILES = []", &[]),
            ("x = 1\nDATA_FILES = [\"policy.npz\"]\n", &["policy.npz"]),
            (
                "DATA_FILES: list[str] = [\n    'a/b.csv',  # of the cells\n    \"c d\",\n]\n",
                &["a/b.csv", "c d"],
            ),
        ] {
            let want: Vec<PathBuf> = want.iter().map(PathBuf::from).collect();
            assert_eq!(declared(module), Ok(want), "{module}");
        }
    }

    #[test]
    fn what_cannot_be_read_without_running_it_is_refused() {
        for module in [
            "DATA_FILES = glob('*.npz')",
            "DATA_FILES = ['a'",
            "DATA_FILES = ['a",
            "DATA_FILES = [NAME]",
            "DATA_FILES = ['../secret']",
            "DATA_FILES = ['/etc/passwd']",
            "DATA_FILES = ['']",
            "DATA_FILES = ['a\\x2fb']",
            "DATA_FILES = ('a',)",
        ] {
            let error = declared(module).expect_err(module);
            assert!(error.contains("DATA_FILES") && error.contains("such as"), "{module}: {error}");
        }
    }
}
