//! What the documents say exists: commands, flags, names, files, targets, limits. Needs no root.

use ccp_agent::catalogue;
use remuda_tests::{binary, root};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// The documents held to it.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "datapath/bpf/README.md",
    "docs/online.md",
    "emulation/live/README.md",
];
/// Endings of a name that is a file's.
const FILE_ENDINGS: [&str; 7] = [".rs", ".c", ".h", ".md", ".toml", ".sh", ".py"];

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Lines within fences, each with its number; a line that ends in a backslash goes on.
fn fenced(document: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let (mut inside, mut goes_on) = (false, false);
    for (number, line) in (1..).zip(document.lines()) {
        if line.starts_with("```") {
            inside = !inside;
            goes_on = false;
        } else if inside {
            let (content, more) = line.strip_suffix('\\').map_or((line, false), |cut| (cut, true));
            match lines.last_mut() {
                Some((_, last)) if goes_on => last.push_str(content),
                _ => lines.push((number, content.to_owned())),
            }
            goes_on = more;
        }
    }
    lines
}

/// What stands between single backticks, outside fences, each with the number of its line.
fn quoted(document: &str) -> Vec<(usize, String)> {
    let mut spans = Vec::new();
    let mut inside_fence = false;
    for (number, line) in (1..).zip(document.lines()) {
        if line.starts_with("```") {
            inside_fence = !inside_fence;
        } else if !inside_fence {
            spans.extend(line.split('`').skip(1).step_by(2).map(|span| (number, span.to_owned())));
        }
    }
    spans
}

/// Words as a shell sees them, up to a comment.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut open) = (None, false);
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            None if c == '#' && !open => break,
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                if !open {
                    words.push(String::new());
                }
                open = true;
            }
            None if c.is_whitespace() => open = false,
            _ => {
                if !open {
                    words.push(String::new());
                }
                open = true;
                words.last_mut().expect("one was just pushed").push(c);
            }
        }
    }
    words
}

/// The `remuda` command of a line, if it is one: its words up to `--`.
fn command(line: &str) -> Option<Vec<String>> {
    let mut words = words(line).into_iter().skip_while(|word| word == "$" || word == "sudo");
    let program = words.next()?;
    (program == "remuda").then(|| words.take_while(|word| word != "--").collect())
}

fn help(arguments: &[&str]) -> String {
    let output = Command::new(binary()).args(arguments).arg("--help").output().expect("it runs");
    assert!(output.status.success(), "remuda {} --help fails", arguments.join(" "));
    String::from_utf8(output.stdout).expect("help is text")
}

fn names(help: &str, word: &str) -> bool {
    help.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|known| known == word)
}

/// What is wrong with a command: a subcommand, a flag, or the name of an arm or a policy.
fn mistakes(words: &[String], helps: &mut BTreeMap<String, String>) -> Vec<String> {
    let top = helps.entry(String::new()).or_insert_with(|| help(&[])).clone();
    let sub = words.first().map(String::as_str).unwrap_or_default();
    if sub.starts_with('-') || sub.is_empty() {
        return Vec::new();
    }
    if !names(&top, sub) {
        return vec![format!("there is no `remuda {sub}`")];
    }
    let help = helps.entry(sub.to_owned()).or_insert_with(|| help(&[sub])).clone();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let flag = word.split('=').next().unwrap_or(word);
        if flag.starts_with("--") && !names(&help, flag) {
            found.push(format!("remuda {sub} has no {flag}"));
        }
        let value = words.get(at + 1).map(String::as_str).unwrap_or_default();
        let is_placeholder = !value.is_empty() && value.chars().all(|c| c.is_ascii_uppercase());
        if ["--policy", "--arm", "--text"].contains(&flag) && !is_placeholder {
            found.extend(catalogue::kind(value).err().map(|error| error.to_string()));
        }
    }
    found
}

#[test]
fn readme_commands_exist_with_their_flags() {
    let (mut helps, mut broken, mut seen) = (BTreeMap::new(), Vec::new(), 0);
    for document in DOCUMENTS {
        let content = text(document);
        for (number, line) in fenced(&content).into_iter().chain(quoted(&content)) {
            let Some(words) = command(&line) else {
                continue;
            };
            seen += 1;
            for mistake in mistakes(&words, &mut helps) {
                broken.push(format!("{document}:{number}: {mistake}"));
            }
        }
    }
    assert!(seen > 10, "commands are not found");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The lines of the first fence after a heading.
fn fence_after(document: &str, heading: &str) -> Vec<String> {
    let after = document.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let fence = after.split("```").nth(1).expect("a fence");
    fence.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

#[test]
fn readme_every_path_of_the_tree_exists() {
    let lines = fence_after(&text("README.md"), "## The tree\n");
    let mut folder = "";
    for line in &lines {
        let name = line.split_whitespace().next().expect("the line is not empty");
        let path = if line.starts_with(' ') { format!("{folder}{name}") } else { name.to_owned() };
        let found = root().join(&path);
        assert!(found.exists(), "README.md, the tree: {path} does not exist");
        assert_eq!(found.is_dir(), path.ends_with('/'), "README.md, the tree: {path}");
        if !line.starts_with(' ') {
            folder = name;
        }
    }
    for manifest in workspace_members() {
        let known = lines.iter().any(|line| {
            let name = line.split_whitespace().next().unwrap_or_default();
            manifest.starts_with(name.trim_end_matches('/'))
        });
        assert!(known, "README.md, the tree lacks {manifest}");
    }
}

#[test]
fn readme_names_every_arm_and_policy() {
    let readme = text("README.md");
    for name in catalogue::names() {
        assert!(readme.contains(&format!("`{name}`")), "README.md lacks `{name}`");
    }
}

fn workspace_members() -> Vec<String> {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("Cargo has read it before us");
    let members = manifest["workspace"]["members"].as_array().expect("a list");
    members.iter().filter_map(|member| member.as_str().map(str::to_owned)).collect()
}

/// A path from the root, as prose names it: with a folder, and not a pattern.
fn is_path(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let ends = span.ends_with('/') || FILE_ENDINGS.iter().any(|ending| span.ends_with(ending));
    let relative = span.starts_with(|c: char| c.is_ascii_lowercase() || c == '.');
    let placeholder = span.contains("NAME");
    span.contains('/') && span.chars().all(plain) && ends && relative && !placeholder
}

#[test]
fn documents_name_files_that_exist() {
    let (mut broken, mut seen) = (Vec::new(), 0);
    for document in DOCUMENTS {
        let folder = root().join(document);
        let folder = folder.parent().expect("a document lies in a folder");
        let content = text(document);
        for (number, span) in quoted(&content).into_iter().filter(|(_, span)| is_path(span)) {
            seen += 1;
            // `out/` is what commands write.
            if !root().join(&span).exists() && !folder.join(&span).exists() {
                broken.push(format!("{document}:{number}: {span} does not exist"));
            }
        }
        for target in content.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            if !target.contains("://") && !folder.join(path).exists() {
                broken.push(format!("{document}: the link {target} leads nowhere"));
            }
        }
    }
    assert!(seen > 50, "paths are not found");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn documents_name_targets_that_make_has() {
    let makefile = text("Makefile");
    for document in DOCUMENTS {
        let content = text(document);
        for (number, line) in fenced(&content).into_iter().chain(quoted(&content)) {
            let Some(target) = line.strip_prefix("make ").map(str::trim) else {
                continue;
            };
            let has = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
            assert!(has, "{document}:{number}: make has no {target}");
        }
    }
}

/// `CamelCase` as serde writes it.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The body of an enum, as it stands in a file.
fn enum_body(path: &str, name: &str) -> String {
    let content = text(path);
    let start = content.find(&format!("pub enum {name} {{")).expect("the enum is there");
    let end = content[start..].find("\n}").expect("it ends");
    content[start..start + end].to_owned()
}

/// The variants of an enum, each with the names of its fields.
fn variants(path: &str, name: &str) -> Vec<(String, Vec<String>)> {
    let body = enum_body(path, name);
    let mut variants: Vec<(String, Vec<String>)> = Vec::new();
    for line in body.lines().skip(1).map(str::trim).filter(|line| !line.starts_with("//")) {
        let mut rest = line;
        if line.starts_with(|c: char| c.is_ascii_uppercase()) {
            let end = line.find(|c: char| !c.is_alphanumeric()).unwrap_or(line.len());
            variants.push((line[..end].to_owned(), Vec::new()));
            rest = &line[end..];
        }
        let Some((_, fields)) = variants.last_mut() else {
            continue;
        };
        let words: Vec<&str> = rest.split([' ', '{', '}', ',']).collect();
        let named = words.iter().filter_map(|word| word.strip_suffix(':'));
        fields.extend(named.filter(|word| !word.contains(':')).map(str::to_owned));
    }
    assert!(!variants.is_empty(), "{path}: {name}");
    variants
}

/// The row of a table that names `first` in its first column or, of messages, in its second.
fn row<'a>(document: &'a str, first: &str) -> Option<&'a str> {
    let cell = format!("| `{first}` |");
    document.lines().find(|line| line.starts_with('|') && line.contains(&cell))
}

#[test]
fn architecture_lists_every_event_with_its_fields() {
    let document = text("ARCHITECTURE.md");
    for (variant, fields) in variants("ccp-agent/src/events.rs", "Event") {
        let name = snake(&variant);
        let row = row(&document, &name).unwrap_or_else(|| panic!("no event `{name}`"));
        for field in fields {
            assert!(row.contains(&format!("`{field}`")), "event `{name}` has `{field}`: {row}");
        }
    }
}

#[test]
fn architecture_lists_every_rule_of_the_guard() {
    let document = text("ARCHITECTURE.md");
    for (variant, _) in variants("ccp-agent/src/guard.rs", "Rule") {
        let name = snake(&variant);
        assert!(row(&document, &name).is_some(), "ARCHITECTURE.md lacks the rule `{name}`");
    }
}

#[test]
fn architecture_lists_every_message_with_its_number() {
    let document = text("ARCHITECTURE.md");
    for line in enum_body("datapath/wire/src/lib.rs", "Kind").lines().map(str::trim) {
        let Some((name, number)) = line.trim_end_matches(',').split_once(" = ") else {
            continue;
        };
        let name = snake(name).to_uppercase();
        let start = format!("| {number} | `{name}` |");
        let known = document.lines().any(|line| line.starts_with(&start));
        assert!(known, "ARCHITECTURE.md lacks message {start}");
    }
}

#[test]
fn architecture_has_every_call_of_an_arm_a_policy_and_an_author() {
    let document = text("ARCHITECTURE.md");
    for (file, name) in [
        ("algorithms/src/arm.rs", "pub trait Arm: Send {"),
        ("selector/src/policy.rs", "pub trait Policy: Send {"),
        ("ccp-agent/src/author/arm.rs", "pub trait Author: Arm {"),
    ] {
        let contract = text(file);
        let body = contract.split(name).nth(1).expect("the contract");
        let body = body.split("\n}\n").next().expect("its end");
        let calls =
            body.lines().filter_map(|line| line.trim().strip_prefix("fn ")?.split('(').next());
        let calls: Vec<&str> = calls.collect();
        assert!(calls.len() > 3, "{file}: no calls are found");
        for call in calls {
            assert!(document.contains(&format!("| `{call}(")), "ARCHITECTURE.md lacks {call}()");
        }
    }
}

/// Each limit is quoted with its definition: the file must have it word by word.
#[test]
fn architecture_limits_are_the_ones_in_force() {
    let document = text("ARCHITECTURE.md");
    let table = document.split("## Limits\n").nth(1).expect("the limits");
    let mut seen = 0;
    for row in table.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let quoted: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        for pair in quoted.chunks_exact(2) {
            seen += 1;
            assert!(text(pair[1]).contains(pair[0]), "{}: {:?} is not there", pair[1], pair[0]);
        }
    }
    assert!(seen > 20, "limits are not found");
}

#[test]
fn architecture_names_tests_that_exist() {
    let document = text("ARCHITECTURE.md");
    let files = ["tests/tests/tidy/main.rs", "datapath/bpf/tests/live.rs"].map(text);
    let is_test = |span: &str| span.starts_with("tidy_") || span.starts_with("messages_");
    for (number, span) in quoted(&document).into_iter().filter(|(_, span)| is_test(span)) {
        let test = format!("fn {span}()");
        let found = files.iter().any(|file| file.contains(&test));
        assert!(found, "ARCHITECTURE.md:{number}: no test {span}");
    }
}

#[test]
fn one_version_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let project: toml::Table = text("pyproject.toml").parse().expect("pyproject.toml is TOML");
    assert_eq!(project["project"]["version"].as_str(), Some(version), "pyproject.toml");
}
