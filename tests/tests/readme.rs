//! What the pages name exists: commands, flags, files, targets, limits, figures. Needs no root.

use ccp_agent::catalogue;
use remuda_selector::POLICIES;
use remuda_tests::{binary, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Bounds of the two pages that everybody reads.
const README_LINES_MAX: usize = 150;
const ARCHITECTURE_BYTES_MAX: usize = 25_600;

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page that git tracks.
fn pages() -> Vec<String> {
    let output = Command::new("git").arg("-C").arg(root()).args(["ls-files", "*.md"]).output();
    let listed = String::from_utf8(output.expect("git runs").stdout).expect("names are UTF-8");
    let pages: Vec<String> = listed.lines().map(str::to_owned).collect();
    assert!(pages.len() > 20, "pages are not found");
    pages
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
    let is_ours = program == "remuda" || program.ends_with("/remuda");
    is_ours.then(|| words.take_while(|word| word != "--").collect())
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
    // `remuda train antelope` and `remuda rule add` have flags of their own.
    let has_more = ["train", "rule"].contains(&sub);
    let is_one = |word: &&String| !word.starts_with('-') && !word.contains('|');
    let under = words.get(1).filter(|word| has_more && is_one(word));
    let path: Vec<&str> = std::iter::once(sub).chain(under.map(String::as_str)).collect();
    let help = helps.entry(path.join(" ")).or_insert_with(|| help(&path)).clone();
    // `--weights NAME=FILE` makes an arm of that name.
    let given = words.iter().zip(words.iter().skip(1)).filter(|(flag, _)| *flag == "--weights");
    let given = given.filter_map(|(_, value)| value.split_once('=').map(|(name, _)| name));
    let given: Vec<&str> = given.chain(["all"]).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let flag = word.split('=').next().unwrap_or(word);
        if flag.starts_with("--") && !names(&help, flag) {
            found.push(format!("remuda {} has no {flag}", path.join(" ")));
        }
        let value = words.get(at + 1).map(String::as_str).unwrap_or_default();
        let is_placeholder = !value.is_empty() && value.chars().all(|c| c.is_ascii_uppercase());
        let is_driver =
            ["--policy", "--arm"].contains(&flag) || (sub, flag) == ("programs", "--text");
        if is_driver && !is_placeholder {
            let kinds = value.split(',').filter(|name| !given.contains(name)).map(catalogue::kind);
            found.extend(kinds.filter_map(|kind| kind.err().map(|error| error.to_string())));
        }
    }
    found
}

#[test]
fn readme_commands_exist_with_their_flags() {
    let (mut helps, mut broken, mut seen) = (BTreeMap::new(), Vec::new(), 0);
    for document in pages() {
        let content = text(&document);
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

/// Cells of the rows of the first table after a heading, without its head.
fn rows_after(document: &str, heading: &str) -> Vec<Vec<String>> {
    let after = document.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let table = after.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

fn bare(cell: &str) -> &str {
    cell.trim_matches('`')
}

#[test]
fn architecture_lists_every_package_with_its_folder() {
    let rows = rows_after(&text("ARCHITECTURE.md"), "## The parts\n");
    let listed: BTreeMap<&str, &str> =
        rows.iter().map(|row| (bare(&row[0]), bare(&row[1]))).collect();
    for folder in listed.keys() {
        assert!(root().join(folder).is_dir(), "ARCHITECTURE.md: {folder} is not a folder");
    }
    for member in workspace_members() {
        let manifest: toml::Table =
            text(&format!("{member}/Cargo.toml")).parse().expect("Cargo has read it before us");
        let name = manifest["package"]["name"].as_str().expect("a package has a name");
        assert_eq!(
            listed.get(member.as_str()),
            Some(&name),
            "ARCHITECTURE.md, the parts: {member}"
        );
    }
}

#[test]
fn the_page_of_algorithms_says_what_the_code_says() {
    let page = text("docs/algorithms.md");
    let row = |name: &str, summary: &str| format!("| `{name}` | {summary} |\n");
    let arms: String = remuda_algorithms::ARMS.iter().map(|a| row(a.name, a.summary)).collect();
    let policies: String = POLICIES.iter().map(|p| row(p.name, p.summary)).collect();
    for table in [arms, policies] {
        assert!(page.contains(&table), "docs/algorithms.md: put this table there:\n{table}");
    }
}

fn workspace_members() -> Vec<String> {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("Cargo has read it before us");
    let members = manifest["workspace"]["members"].as_array().expect("a list");
    members.iter().filter_map(|member| member.as_str().map(str::to_owned)).collect()
}

/// Headings as the address of a link names them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let keeps = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_';
    let anchor = |line: &str| -> String {
        line.trim_start_matches('#').trim().to_lowercase().chars().filter(keeps).collect()
    };
    headings.map(|line| anchor(line).replace(' ', "-")).collect()
}

#[test]
fn links_lead_somewhere() {
    let (mut broken, mut seen) = (Vec::new(), 0);
    for document in pages() {
        let file = root().join(&document);
        let folder = file.parent().expect("a document lies in a folder");
        let content = text(&document);
        let targets = content.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            seen += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if path.is_empty() { file.clone() } else { folder.join(path) };
            let has_anchor = anchor.is_empty()
                || fs::read_to_string(&to).is_ok_and(|page| anchors(&page).contains(anchor));
            if !to.exists() || !has_anchor {
                broken.push(format!("{document}: the link {target} leads nowhere"));
            }
        }
    }
    assert!(seen > 50, "links are not found");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn documents_name_targets_that_make_has() {
    let makefile = text("Makefile");
    for document in pages() {
        let content = text(&document);
        for (number, line) in fenced(&content).into_iter().chain(quoted(&content)) {
            let Some(target) =
                line.strip_prefix("make ").and_then(|rest| rest.split(['#', '&']).next())
            else {
                continue;
            };
            // A word like ARCH=arm64 sets a variable.
            let words: Vec<&str> =
                target.split_whitespace().filter(|word| !word.contains('=')).collect();
            let target = words.join(" ");
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
fn the_page_of_events_is_what_the_code_records() {
    let rows = rows_after(&text("docs/events.md"), "# The event log\n");
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in &rows {
        let fields = row[2].split('`').skip(1).step_by(2).map(str::to_owned);
        listed.insert(bare(&row[0]).to_owned(), fields.collect());
    }
    let recorded: BTreeMap<String, BTreeSet<String>> = variants("ccp-agent/src/events.rs", "Event")
        .into_iter()
        .map(|(variant, fields)| (snake(&variant), fields.into_iter().collect()))
        .collect();
    assert_eq!(listed, recorded, "docs/events.md (left) and ccp-agent/src/events.rs (right)");
}

#[test]
fn the_page_of_policies_lists_every_rule_of_the_guard() {
    let document = text("docs/policies.md");
    for (variant, _) in variants("ccp-agent/src/guard.rs", "Rule") {
        let name = snake(&variant);
        assert!(row(&document, &name).is_some(), "docs/policies.md lacks the rule `{name}`");
    }
}

#[test]
fn the_page_of_the_wire_lists_every_message_with_its_number() {
    let document = text("docs/wire-protocol.md");
    for line in enum_body("datapath/wire/src/lib.rs", "Kind").lines().map(str::trim) {
        let Some((name, number)) = line.trim_end_matches(',').split_once(" = ") else {
            continue;
        };
        let name = snake(name).to_uppercase();
        let start = format!("| {number} | `{name}` |");
        let known = document.lines().any(|line| line.starts_with(&start));
        assert!(known, "docs/wire-protocol.md lacks message {start}");
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
fn the_page_of_limits_quotes_the_code() {
    let rows = rows_after(&text("docs/limits.md"), "# Limits\n");
    let mut seen = 0;
    for row in rows {
        let quoted: Vec<&str> = row[1].split('`').skip(1).step_by(2).collect();
        for pair in quoted.chunks_exact(2) {
            seen += 1;
            assert!(text(pair[1]).contains(pair[0]), "{}: {:?} is not there", pair[1], pair[0]);
        }
    }
    assert!(seen > 20, "limits are not found");
}

#[test]
fn the_page_of_the_module_has_its_parameters_with_their_defaults() {
    let (source, header) = ("datapath/kernel/main.c", "datapath/vm/include/remuda_announce.h");
    let code = text(source);
    let defaults = code.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("static unsigned int ")?.split_once(" = ")?;
        Some((name.to_owned(), value.trim_end_matches(';').to_owned()))
    });
    // A default may be a constant of the header.
    let value = |value: String| {
        let define = format!("#define {value} ");
        let constant = text(header).lines().find_map(|line| {
            Some(line.strip_prefix(&define)?.split_whitespace().next()?.to_owned())
        });
        constant.unwrap_or(value)
    };
    let in_force: BTreeMap<String, String> = defaults.map(|(name, of)| (name, value(of))).collect();
    let rows = rows_after(&text("datapath/kernel/README.md"), "## Use\n");
    let listed = rows.iter().map(|row| (bare(&row[0]).to_owned(), row[1].clone())).collect();
    assert_eq!(in_force, listed, "{source} (left) and its page (right)");
}

#[test]
fn the_two_first_pages_stay_short() {
    let lines = text("README.md").lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has {lines} lines, {README_LINES_MAX} at most");
    let bytes = text("ARCHITECTURE.md").len();
    assert!(
        bytes <= ARCHITECTURE_BYTES_MAX,
        "ARCHITECTURE.md has {bytes} bytes, {ARCHITECTURE_BYTES_MAX} at most"
    );
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A figure of README.md is a quotation from the page beside it.
#[test]
fn readme_figures_are_those_of_their_pages() {
    let rows = rows_after(&text("README.md"), "## What it gained\n");
    assert!(rows.len() > 5, "figures are not found");
    for row in rows {
        let page = row[2].split(['(', ')']).nth(1).expect("a link to the page");
        let quotation = row[1].trim_matches('"');
        let has = on_one_line(&text(page)).contains(quotation);
        assert!(has, "README.md: {page} does not say {quotation:?}");
    }
}

/// The transcript is what the command prints; `...` stands for lines that are left out.
#[test]
fn readme_transcript_is_what_the_command_prints() {
    let readme = text("README.md");
    let section = readme.split("## A run\n").nth(1).expect("a run");
    let mut shown = section.split("```").nth(1).expect("a fence").lines().skip(1);
    let command = command(shown.next().expect("a command")).expect("a remuda command");
    let output =
        Command::new(binary()).args(&command).current_dir(root()).output().expect("it runs");
    let printed = String::from_utf8(output.stdout).expect("a table is text");
    let mut lines = printed.lines();
    for line in shown.filter(|line| *line != "...") {
        let has = lines.any(|printed| printed == line);
        assert!(has, "README.md shows {line:?}; remuda {} prints\n{printed}", command.join(" "));
    }
}

#[test]
fn pages_name_the_capabilities_that_doctor_looks_for() {
    let doctor = text("cli/src/doctor/checks.rs");
    let list = doctor.split("const CAPABILITIES").nth(1).and_then(|rest| rest.split(';').nth(1));
    let names: Vec<&str> = list.expect("a list").split('"').skip(1).step_by(2).collect();
    assert!(!names.is_empty(), "capabilities are not found");
    for (page, name) in ["README.md", "docs/operating.md"]
        .iter()
        .flat_map(|page| names.iter().chain(["SYS_ADMIN"].iter()).map(move |name| (*page, *name)))
    {
        assert!(text(page).contains(&format!("CAP_{name}")), "{page} lacks CAP_{name}");
    }
}

/// Pages of a folder of links must not miss one that is there.
#[test]
fn the_list_of_pages_is_complete() {
    let list = text("docs/README.md");
    for page in pages() {
        let name = match page.strip_prefix("docs/") {
            Some(name) => name.to_owned(),
            None if page.starts_with("datapath/") || page.starts_with("emulation/") => {
                format!("../{page}")
            }
            None => continue,
        };
        let is_of_examples =
            Path::new(&page).components().any(|part| part.as_os_str() == "examples");
        let known = name == "README.md" || is_of_examples || list.contains(&format!("({name})"));
        assert!(known, "docs/README.md lacks {name}");
    }
}

#[test]
fn architecture_names_tests_that_exist() {
    let document = text("ARCHITECTURE.md");
    let files = [
        "tests/tests/tidy/main.rs",
        "tests/tests/tidy/circles.rs",
        "datapath/bpf/tests/live/main.rs",
    ]
    .map(text);
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
