//! The tree: what git tracks, and what its manifests say.

use remuda_tests::root;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A text file of the tree.
pub struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension().and_then(|e| e.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    }

    pub fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// What git tracks; without git, everything that is not built.
pub fn paths() -> Vec<String> {
    let git = Command::new("git").arg("-C").arg(root()).arg("ls-files").output();
    if let Ok(listed) = git
        && listed.status.success()
        && !listed.stdout.is_empty()
    {
        return String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect();
    }
    let mut found = Vec::new();
    walk(root(), &mut found);
    found
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            let name = name.to_string_lossy();
            let hidden = name.starts_with('.') && name != ".ci";
            if !hidden && name != "target" && name != "out" {
                walk(&path, found);
            }
        } else if let Ok(inside) = path.strip_prefix(root()) {
            found.push(inside.to_string_lossy().into_owned());
        }
    }
}

pub fn sources() -> Vec<Source> {
    let read = |path: String| {
        let text = fs::read_to_string(root().join(&path)).ok()?;
        Some(Source { path, text })
    };
    let sources: Vec<Source> = paths().into_iter().filter_map(read).collect();
    assert!(sources.len() > 50, "the tree is not found at {}", root().display());
    sources
}

pub fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A Cargo.toml that has a package.
pub struct Manifest {
    pub path: String,
    pub name: String,
    pub normal: Vec<String>,
    pub dev: Vec<String>,
}

impl Manifest {
    pub fn folder(&self) -> &str {
        self.path.trim_end_matches("/Cargo.toml")
    }

    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.normal.iter().chain(&self.dev)
    }
}

fn dependencies(table: &toml::Table, kind: &str) -> Vec<String> {
    let targets = table.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(toml::Table::values);
    let tables = std::iter::once(table).chain(targets.filter_map(toml::Value::as_table));
    tables
        .filter_map(|table| table.get(kind)?.as_table())
        .flatten()
        .map(|(key, value)| {
            value.get("package").and_then(toml::Value::as_str).unwrap_or(key).to_owned()
        })
        .collect()
}

pub fn manifests() -> Vec<Manifest> {
    let parse = |source: Source| {
        let table: toml::Table = source.text.parse().expect("Cargo has read it before us");
        let name = table.get("package")?.get("name")?.as_str()?.to_owned();
        let mut normal = dependencies(&table, "dependencies");
        normal.extend(dependencies(&table, "build-dependencies"));
        let dev = dependencies(&table, "dev-dependencies");
        Some(Manifest { path: source.path, name, normal, dev })
    };
    sources().into_iter().filter(|s| s.path.ends_with("Cargo.toml")).filter_map(parse).collect()
}
