//! Circles of imports: files of a package that import each other, directly or through others.
//!
//! An engineer can read two files that import each other side by side. A larger circle has no file
//! to start with.

use crate::rust::{Code, has_word, is_name, rust};
use crate::tree::manifests;
use crate::verdict;
use std::collections::{BTreeMap, BTreeSet};

const FILES_MAX: usize = 2;

/// How many re-exports of re-exports are followed.
const RENAMES_MAX: usize = 8;

/// Larger circles that stay: their folder, their files in it, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "ccp-agent/src/flow/",
        "mod jump remembering row settings stages timer",
        "`impl Flow` is split over these files",
    ),
    (
        "emulation/link/src/queue/",
        "mod codel fifo fq_codel pie red",
        "a file for each variant of `Discipline`",
    ),
    (
        "emulation/link/src/generator/",
        "mod cell leo markov periodic poisson sawtooth wifi",
        "a file for each generator, all of which make a `Generated`",
    ),
    (
        "emulation/link/src/spec/",
        "mod change generator parts path queue",
        "a file for each part of `LinkSpec`",
    ),
    (
        "emulation/report/src/plot/",
        "mod distribution ranking scatter",
        "a file for each chart, all with the `title` of mod.rs",
    ),
];

/// Larger circles that are older than this rule. The list may lose files and entries, and never
/// gain one.
const KNOWN: &[(&str, &str)] = &[
    ("cli/src/sim/", "mod files sweep"),
    ("datapath/quic/src/transfer/", "mod address contain get serve tls"),
    ("datapath/vm/src/", "datapath ffi machine program refusal"),
    ("emulation/live/src/", "child contain mahimahi/args mahimahi/mod mahimahi/shell testbed"),
    ("emulation/matrix/src/", "error metrics/mod plan remote row work"),
    ("emulation/report/src/", "board cloud metric slice"),
    ("emulation/scenarios/src/", "arrivals flow scenario"),
    ("emulation/sim/src/", "series setup simulation summary"),
];

/// A module by the names of its path; the root of the package has none.
type Module = Vec<String>;

/// The files of one package, by module.
#[derive(Default)]
struct Package {
    files: BTreeMap<Module, String>,
    /// The shipped code of each module.
    code: BTreeMap<Module, String>,
    /// What a `use` brings in: the module it is in and the name there, and the whole path.
    imports: BTreeMap<(Module, String), Module>,
}

fn names(path: &str) -> Module {
    path.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// The module of a file by its path below `src/`.
fn module_of(path: &str) -> Module {
    let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// The paths of a `use`: `a::{b, c::d}` gives `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some((before, group)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let group = group.rsplit_once('}').map_or(group, |(inside, _)| inside);
    let mut depth = 0;
    let parts = group.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty()).flat_map(expand);
    parts.map(|part| format!("{}{part}", before.trim())).collect()
}

/// Separates the trees of all `use` from the rest of the code.
fn split_uses(code: &str) -> (Vec<&str>, String) {
    let (mut uses, mut others) = (Vec::new(), String::new());
    for statement in code.split_inclusive(';') {
        let starts = statement.match_indices("use ").map(|(at, _)| at);
        let starts_word = |at: &usize| !statement[..*at].ends_with(is_name);
        match starts.filter(starts_word).last() {
            Some(at) => {
                uses.push(statement[at + "use ".len()..].trim_end_matches(';'));
                others.push_str(&statement[..at]);
            }
            None => others.push_str(statement),
        }
    }
    (uses, others)
}

impl Package {
    fn add(&mut self, path: &str, below_src: &str, code: &Code) {
        let module = module_of(below_src);
        let lines: Vec<&str> = code.shipped().map(|(_, line)| line).collect();
        self.files.insert(module.clone(), path.to_owned());
        self.code.insert(module, lines.join("\n"));
    }

    /// The path from the package's root; `None` for a path into another package.
    fn absolute(&self, from: &[String], path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let mut above = from.split_last()?.1;
                let climbs = rest.iter().take_while(|name| *name == "super").count();
                above = above.get(..above.len().checked_sub(climbs)?)?;
                Some([above, &rest[climbs..]].concat())
            }
            _ => {
                let child = [from, &path[..1]].concat();
                self.files.contains_key(&child).then(|| [from, path].concat())
            }
        }
    }

    fn read_imports(&mut self) {
        for (module, code) in &self.code {
            for path in split_uses(code).0.into_iter().flat_map(expand) {
                let (path, alias) = path.split_once(" as ").unwrap_or((&path, ""));
                let mut path = names(path);
                if path.last().is_some_and(|last| last == "self") {
                    path.pop();
                }
                let Some(whole) = self.absolute(module, &path) else { continue };
                let last = whole.last().cloned().unwrap_or_default();
                let name = if alias.is_empty() { last } else { alias.trim().to_owned() };
                self.imports.insert((module.clone(), name), whole);
            }
        }
    }

    /// The module whose file defines what is at this path. A module hides an import of the same
    /// name.
    fn holder(&self, path: &[String], renames: usize) -> Module {
        let mut module = Module::new();
        for (at, name) in path.iter().enumerate() {
            let child = [module.as_slice(), &path[at..=at]].concat();
            if self.files.contains_key(&child) {
                module = child;
                continue;
            }
            let import = self.imports.get(&(module.clone(), name.clone()));
            return match import.filter(|_| renames < RENAMES_MAX) {
                Some(whole) => {
                    let whole = [whole, &path[at + 1..]].concat();
                    self.holder(&whole, renames + 1)
                }
                None => module,
            };
        }
        module
    }

    /// The modules that `module` imports from, without the root, which only lists the modules.
    fn needs(&self, module: &Module) -> BTreeSet<Module> {
        let (uses, others) = split_uses(&self.code[module]);
        let is_part = |c: char| is_name(c) || c == ':';
        let spelled = others.split(|c| !is_part(c)).filter(|path| path.contains("::"));
        let paths = uses.into_iter().flat_map(expand).chain(spelled.map(str::to_owned));
        let plain = |path: String| names(path.split(" as ").next().unwrap_or_default());
        let whole = paths.filter_map(|path| self.absolute(module, &plain(path)));
        whole
            .map(|path| self.holder(&path, 0))
            .filter(|needed| needed != module && !needed.is_empty())
            .collect()
    }

    /// The circles, each as its files and the files that each of them imports in the circle.
    fn circles(&self) -> Vec<BTreeMap<&str, Vec<&str>>> {
        let needs: BTreeMap<&Module, BTreeSet<Module>> =
            self.files.keys().map(|module| (module, self.needs(module))).collect();
        let reach: BTreeMap<&Module, BTreeSet<Module>> =
            needs.keys().map(|module| (*module, reached(module, &needs))).collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for (module, reached) in &reach {
            if seen.contains(*module) || !reached.contains(*module) {
                continue;
            }
            let members: BTreeSet<&Module> =
                reached.iter().filter(|other| reach[other].contains(*module)).collect();
            let file = |module: &Module| self.files[module].as_str();
            let inside = |of: &Module| {
                let needed = needs[of].iter().filter(|needed| members.contains(needed));
                needed.map(file).collect()
            };
            circles.push(members.iter().map(|of| (file(of), inside(of))).collect());
            seen.extend(members.into_iter().cloned());
        }
        circles
    }
}

/// All modules that `from` imports, directly or through others.
fn reached(from: &Module, needs: &BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        open.extend(needs[next].iter().filter(|needed| found.insert((*needed).clone())));
    }
    found
}

/// The packages by folder.
fn packages(code: &[Code]) -> BTreeMap<String, Package> {
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    for folder in manifests().iter().map(|manifest| format!("{}/src/", manifest.folder())) {
        for file in code {
            let path = file.source.path.as_str();
            let Some(below) = path.strip_prefix(&folder) else { continue };
            let ships = file.shipped().any(|(_, line)| !line.trim().is_empty());
            if ships && !below.starts_with("bin/") {
                packages.entry(folder.clone()).or_default().add(path, below, file);
            }
        }
    }
    packages.values_mut().for_each(Package::read_imports);
    packages
}

#[test]
fn tidy_no_circle_of_imports_has_more_than_two_files() {
    let code = rust();
    let packages = packages(&code);
    assert!(packages.len() > 10, "packages are not found");
    let mut broken = Vec::new();
    let mut listed: BTreeSet<&str> = BTreeSet::new();
    let allowed = ALLOWED.iter().map(|(folder, files, _)| (*folder, *files));
    let lists: Vec<(&str, &str)> = allowed.chain(KNOWN.iter().copied()).collect();
    for circle in packages.values().flat_map(Package::circles) {
        let lists_all = |(folder, files): &&(&str, &str)| {
            circle.keys().all(|path| {
                let name = path.strip_prefix(folder).and_then(|path| path.strip_suffix(".rs"));
                name.is_some_and(|name| files.split_whitespace().any(|file| file == name))
            })
        };
        if circle.len() <= FILES_MAX {
            continue;
        }
        if let Some((folder, _)) = lists.iter().find(lists_all) {
            listed.insert(folder);
            continue;
        }
        broken.push(format!("{} files:", circle.len()));
        for (path, needed) in &circle {
            broken.push(format!("  {path} imports {}", needed.join(", ")));
        }
    }
    for (folder, _) in lists.iter().filter(|(folder, _)| !listed.contains(folder)) {
        println!("note: {folder} has no such circle now: take it out of tidy/circles.rs");
    }
    verdict("move what a file of the circle needs into a file outside the circle", &broken);
}

#[test]
fn tidy_its_own_reading_of_imports_is_right() {
    assert_eq!(expand("a::{b, c::{d, e}, }"), ["a::b", "a::c::d", "a::c::e"]);
    let (uses, others) = split_uses("mod a;\npub use a::B;\nlet reuse = 1; a::c();");
    assert_eq!(uses, ["a::B"]);
    assert!(others.contains("reuse = 1") && has_word(&others, "a::c()"));
    let mut package = Package::default();
    for (path, code) in [
        ("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::Seen;"),
        ("a.rs", "use crate::b::Thing;\nuse std::fs;"),
        ("b/mod.rs", "mod thing;\npub use thing::Thing;\nfn f() { thing::f() }"),
        ("b/thing.rs", "use crate::Seen;\nuse super::super::a;"),
        ("c.rs", "use crate::b::{self, Thing};"),
    ] {
        package.files.insert(module_of(path), path.to_owned());
        package.code.insert(module_of(path), code.to_owned());
    }
    package.read_imports();
    assert_eq!(package.needs(&module_of("a.rs")), BTreeSet::from([names("b::thing")]));
    let circles = package.circles();
    let files: Vec<&str> = circles[0].keys().copied().collect();
    assert_eq!((circles.len(), files), (1, vec!["a.rs", "b/mod.rs", "b/thing.rs", "c.rs"]));
    assert_eq!(circles[0]["b/thing.rs"], ["a.rs", "c.rs"]);
}
