//! What comments and pages say: no doc that repeats a name, no path and no page that is absent.

use crate::tree::{Source, paths, sources};
use crate::verdict;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// A doc of one line with so few words says no more than the name below it.
const DOC_WORDS_MAX: usize = 3;

/// Files with docs of three words or fewer, and how many. Their rewriting in plain words is under
/// way: a count may shrink and never grow, and a file without one is to be taken out.
const SHORT_DOCS: &[(&str, usize)] = &[("bench/fidelity/main.rs", 1)];

/// Endings of a path that prose names.
const ENDINGS: [&str; 8] = [".rs", ".c", ".h", ".md", ".toml", ".sh", ".py", "/"];
/// Paths that are no files of this tree: what commands write, and headers of the kernel.
const ELSEWHERE: [&str; 2] = ["out/", "linux/"];

/// Lines of `///` that are alone and say three words or fewer, with their numbers.
fn short_docs(source: &Source) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.text.lines().map(str::trim_start).collect();
    let is_doc = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("///"));
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let alone = is_doc(at) && !is_doc(at + 1) && (at == 0 || !is_doc(at - 1));
        let said = line.trim_start_matches('/').trim();
        let few = (1..=DOC_WORDS_MAX).contains(&said.split_whitespace().count());
        if alone && few && !said.contains(['`', '#', '|', '[']) {
            found.push((at + 1, said.to_owned()));
        }
    }
    found
}

#[test]
fn tidy_docs_say_more_than_a_name() {
    let known: BTreeMap<&str, usize> = SHORT_DOCS.iter().copied().collect();
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.has_extension(&["rs"])) {
        let found = short_docs(source);
        let allowed = known.get(source.path.as_str()).copied().unwrap_or(0);
        if found.len() > allowed {
            let of = |(line, said): &(usize, String)| format!("{}:{line}: {said}", source.path);
            broken.extend(found.iter().map(of));
        } else if found.len() < allowed {
            let left = found.len();
            println!("note: {} has {left} short docs now: lower SHORT_DOCS", source.path);
        }
    }
    verdict("a doc says unit, range, error or why, in more than three words, or goes", &broken);
}

/// What is a comment, or prose, in a line of that file.
fn prose<'a>(source: &Source, line: &'a str) -> &'a str {
    let mark = if source.has_extension(&["rs"]) {
        "//"
    } else if source.has_extension(&["sh", "toml"]) {
        "#"
    } else {
        return line;
    };
    line.split_once(mark).map_or("", |(_, comment)| comment)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/._-".contains(c)
}

fn is_path(span: &str) -> bool {
    let begins = span.starts_with(|c: char| c.is_ascii_lowercase() || c == '.');
    let ends = ENDINGS.iter().any(|ending| span.ends_with(ending));
    let elsewhere = ELSEWHERE.iter().any(|folder| span.starts_with(folder));
    span.contains('/')
        && span.chars().all(is_plain)
        && begins
        && ends
        && !elsewhere
        && !span.contains("NAME")
}

/// `a/./b/../c` as `a/c`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The tree's files and folders, from the root; and the end of each of their paths.
struct Tree {
    all: BTreeSet<PathBuf>,
    ends: BTreeSet<PathBuf>,
}

impl Tree {
    fn new() -> Self {
        let (mut all, mut ends) = (BTreeSet::new(), BTreeSet::new());
        for path in paths() {
            all.extend(Path::new(&path).ancestors().map(Path::to_owned));
        }
        for path in &all {
            let mut parts = path.components();
            while parts.next().is_some() {
                ends.insert(parts.as_path().to_owned());
            }
        }
        Self { all, ends }
    }

    /// Whether `named` is there: from the file that names it, from a folder above that, or as the
    /// end of a path.
    fn has(&self, from: &str, named: &str) -> bool {
        let mut above = Path::new(from).ancestors().skip(1);
        let end = plain(Path::new(named));
        self.ends.contains(&end)
            || above.any(|folder| self.all.contains(&plain(&folder.join(named))))
    }
}

#[test]
fn tidy_paths_in_comments_and_pages_exist() {
    let tree = Tree::new();
    let kinds = ["rs", "c", "h", "py", "sh", "toml", "md"];
    let (mut broken, mut seen) = (Vec::new(), 0);
    for source in sources().iter().filter(|source| source.has_extension(&kinds)) {
        for (line, content) in source.numbered() {
            let spans = prose(source, content).split('`').skip(1).step_by(2);
            for span in spans.filter(|span| is_path(span)) {
                seen += 1;
                if !tree.has(&source.path, span) {
                    broken.push(format!("{}:{line}: {span}", source.path));
                }
            }
        }
    }
    assert!(seen > 100, "paths are not found");
    verdict("a path that a comment or a page names exists", &broken);
}

#[test]
fn tidy_no_comment_cites_an_absent_page() {
    let tree = Tree::new();
    let kinds = ["rs", "c", "h", "py", "sh", "toml", "md"];
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.has_extension(&kinds)) {
        for (line, content) in source.numbered().filter(|(_, line)| !line.contains("://")) {
            for word in content.split(|c| !is_plain(c)) {
                let named = word.trim_end_matches('.');
                let cites = named.ends_with(".md") && named.len() > ".md".len();
                if cites && !tree.has(&source.path, named) {
                    broken.push(format!("{}:{line}: {named}", source.path));
                }
            }
        }
    }
    verdict("what is cited is in this repository", &broken);
}

#[test]
fn tidy_its_own_reading_of_prose_is_right() {
    let text = "/// The path.\n/// Two\n/// lines.\n/// In `us`.\n/// The path of a flow.\n";
    let gap = text.replace("/// ", "\n/// ").replace("\n/// lines", "/// lines");
    let source = Source { path: "a.rs".to_owned(), text: gap };
    let found: Vec<String> = short_docs(&source).into_iter().map(|(_, said)| said).collect();
    assert_eq!(found, ["The path."]);
    assert!(
        is_path("docs/limits.md") && is_path("../tcp/") && !is_path("a/b") && !is_path("out/a/")
    );
    assert_eq!(plain(Path::new("a/./b/../c")), Path::new("a/c"));
}
