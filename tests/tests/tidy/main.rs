//! House rules that a machine can check, so that no review has to. Needs no root.
//!
//! A failure names file, line and rule. [`RATCHET`] holds what broke a rule when the rule came: it
//! may shrink, and never grow.

mod circles;
mod rust;
mod tree;
mod words;

use remuda_bpf::layout::{self, Registers};
use remuda_tests::root;
use remuda_wire::program as wire;
use rust::{CFG_TEST, block_end, has_word, is_name, line_of, rust};
use std::collections::{BTreeMap, BTreeSet};
use tree::{Manifest, Source, manifests, sources, text};

const COLUMNS: &str = "columns of a line";
const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 700;
/// What a tab counts for, as in the kernel's C.
const TAB_COLUMNS: usize = 8;
/// How far above an `unsafe` its reason may stand, if not in the comment right above it.
const SAFETY_LINES: usize = 3;

/// Rule, file, its worst today. What keeps its rule again is to be taken out; the test says so.
const RATCHET: &[(&str, &str, usize)] = &[];

/// Each crate outside tests/ and bench/, and the crates of this workspace that it may depend on.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("remuda-algorithms", &[]),
    ("remuda-selector", &["remuda-algorithms"]),
    ("remuda-wire", &[]),
    ("remuda-bpf", &["remuda-vm", "remuda-wire"]),
    ("remuda-vm", &["remuda-wire"]),
    ("remuda-quic", &["remuda-vm", "remuda-wire"]),
    ("remuda-link", &[]),
    ("remuda-live", &["ccp-agent", "remuda-client", "remuda-link", "remuda-scenarios"]),
    ("remuda-scenarios", &["remuda-algorithms", "remuda-link"]),
    ("remuda-results", &["remuda-link", "remuda-scenarios"]),
    (
        "remuda-sim",
        &[
            "ccp-agent",
            "remuda-algorithms",
            "remuda-link",
            "remuda-scenarios",
            "remuda-vm",
            "remuda-wire",
        ],
    ),
    (
        "remuda-samples",
        &[
            "ccp-agent",
            "remuda-algorithms",
            "remuda-results",
            "remuda-scenarios",
            "remuda-selector",
            "remuda-sim",
        ],
    ),
    (
        "remuda-twin",
        &["ccp-agent", "remuda-link", "remuda-scenarios", "remuda-selector", "remuda-sim"],
    ),
    (
        "remuda-matrix",
        &[
            "ccp-agent",
            "remuda-algorithms",
            "remuda-link",
            "remuda-results",
            "remuda-scenarios",
            "remuda-sim",
        ],
    ),
    (
        "remuda-report",
        &[
            "ccp-agent",
            "remuda-link",
            "remuda-matrix",
            "remuda-results",
            "remuda-scenarios",
            "remuda-sim",
        ],
    ),
    (
        "remuda-python",
        &[
            "ccp-agent",
            "remuda-algorithms",
            "remuda-link",
            "remuda-samples",
            "remuda-scenarios",
            "remuda-sim",
        ],
    ),
    (
        "remuda-native",
        &[
            "remuda-algorithms",
            "remuda-link",
            "remuda-matrix",
            "remuda-python",
            "remuda-results",
            "remuda-samples",
            "remuda-scenarios",
            "remuda-sim",
        ],
    ),
    ("remuda-client", &[]),
    ("ccp-agent", &["remuda-algorithms", "remuda-bpf", "remuda-selector", "remuda-wire"]),
    (
        "remuda",
        &[
            "ccp-agent",
            "remuda-algorithms",
            "remuda-bpf",
            "remuda-link",
            "remuda-live",
            "remuda-matrix",
            "remuda-quic",
            "remuda-report",
            "remuda-results",
            "remuda-samples",
            "remuda-scenarios",
            "remuda-selector",
            "remuda-sim",
            "remuda-twin",
            "remuda-wire",
        ],
    ),
];

/// A crate's tests may need what it must not be built on.
const TESTED_WITH: &[(&str, &str)] =
    &[("remuda-vm", "remuda-algorithms"), ("remuda-sim", "remuda-selector")];

/// Crates that do no I/O, and all that they may be built on.
const PURE: &[(&str, &[&str])] = &[
    ("algorithms", &["libm", "prost", "serde", "serde_json", "sha2", "thiserror"]),
    (
        "selector",
        &["libm", "lru", "remuda-algorithms", "serde", "serde_json", "sha2", "thiserror", "toml"],
    ),
    (
        "emulation/link",
        &["hdrhistogram", "libm", "rand", "rand_chacha", "serde", "serde_json", "thiserror"],
    ),
];
const IO: [&str; 7] = [
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "std::io::stdout",
    "std::io::stderr",
];
/// A trace is read from its file when a link is built.
const IO_ALLOWED: [(&str, &str); 1] = [("emulation/link/src/trace/mod.rs", "std::fs")];

/// Where a clock is read.
const CLOCKS: [&str; 3] =
    ["ccp-agent/src/clock.rs", "emulation/live/src/clock.rs", "datapath/quic/src/clock.rs"];

/// Code on a QUIC stack is asynchronous, because noq and quinn run on tokio.
const ASYNC: [&str; 3] = ["datapath/quic/examples/", "datapath/quic/src/transfer/", "bench/"];
/// The packages of that code.
const ON_TOKIO: [&str; 2] = ["datapath/quic/Cargo.toml", "bench/Cargo.toml"];

/// layout.h's names, and layout.rs's values.
const SHARED: &[(&str, u64)] = &[
    ("REMUDA_SLOT_BITS", layout::SLOT_BITS as u64),
    ("REMUDA_PROGRAMS", layout::PROGRAMS as u64),
    ("REMUDA_REPORT_REGS", layout::REPORT_REGISTERS as u64),
    ("REMUDA_CONTROL_REGS", layout::CONTROL_REGISTERS as u64),
    ("REMUDA_ADDRESS_BITS", layout::ADDRESS_BITS as u64),
    ("REMUDA_NETNS_BITS", layout::NETNS_BITS as u64),
    ("REMUDA_USERS", layout::USERS as u64),
    ("REMUDA_REFUSALS", layout::REFUSALS as u64),
    ("REMUDA_NOT_ALLOWED", layout::NOT_ALLOWED as u64),
    ("REMUDA_USER_QUOTA", layout::USER_QUOTA as u64),
    ("REMUDA_CGROUP_QUOTA", layout::CGROUP_QUOTA as u64),
    ("REMUDA_FULL", layout::FULL as u64),
    ("REMUDA_USER_ALLOWED", layout::USER_ALLOWED as u64),
    ("REMUDA_USER_UNLIMITED", layout::USER_UNLIMITED as u64),
    ("SLOT_PROGRAM", layout::SLOT_PROGRAM as u64),
    ("SLOT_CWND", layout::SLOT_CWND as u64),
    ("SLOT_RATE", layout::SLOT_RATE as u64),
    ("SLOT_CONTROL", layout::SLOT_CONTROL as u64),
    ("SLOT_NATIVE", layout::SLOT_NATIVE as u64),
    ("REPORT_APP_LIMITED", layout::REPORT_APP_LIMITED as u64),
    ("REPORT_IN_RECOVERY", layout::REPORT_IN_RECOVERY as u64),
    ("REPORT_CWND_FULL", layout::REPORT_CWND_FULL as u64),
    ("REPORT_CWND_HALF", layout::REPORT_CWND_HALF as u64),
    ("REPORT_UNDONE", layout::REPORT_UNDONE as u64),
    ("REPORT_RESTARTED", layout::REPORT_RESTARTED as u64),
    ("REPORT_RWND_LIMITED", layout::REPORT_RWND_LIMITED as u64),
    ("REPORT_SNDBUF_LIMITED", layout::REPORT_SNDBUF_LIMITED as u64),
    ("REMUDA_CREATED", layout::CREATED as u64),
    ("REMUDA_CLOSED", layout::CLOSED as u64),
    ("REMUDA_REPORT", layout::REPORT as u64),
    ("REMUDA_FELL_BACK", layout::FELL_BACK as u64),
    ("REMUDA_RESTORED", layout::RESTORED as u64),
    ("REMUDA_NATIVE_REFUSED", layout::NATIVE_REFUSED as u64),
    ("REMUDA_RECALL_REFUSED", layout::RECALL_REFUSED as u64),
    ("REMUDA_RESPONSE", layout::RESPONSE as u64),
    ("TCP_CA_NAME_MAX", layout::NAME_BYTES as u64),
];

/// Fails with all that broke a rule, one a line.
fn verdict(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}\n  {}", broken.join("\n  "));
}

/// Holds what was measured, by file and line, to a limit, but for what the ratchet knows.
fn hold(rule: &str, limit: usize, measured: &[(String, usize, usize)]) {
    let mut broken = Vec::new();
    let mut worst: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, line, size) in measured {
        let known = RATCHET.iter().find(|(of, file, _)| (*of, *file) == (rule, path));
        if *size > known.map_or(limit, |(_, _, known)| *known) {
            broken.push(format!("{path}:{line}: {size}"));
        }
        let so_far = worst.entry(path).or_default();
        *so_far = (*so_far).max(*size);
    }
    for (_, file, _) in RATCHET.iter().filter(|(of, _, _)| *of == rule) {
        if worst.get(file).is_none_or(|size| *size <= limit) {
            println!("note: {file} keeps the rule now: take it out of RATCHET in tidy/main.rs");
        }
    }
    verdict(&format!("{rule}: at most {limit}"), &broken);
}

/// Says every line of what ships that has one of `words`, but for what `allowed` lets be.
fn without(rule: &str, words: &[&str], allowed: impl Fn(&str, &str) -> bool) {
    let mut broken = Vec::new();
    for file in rust() {
        let path = &file.source.path;
        for (line, content) in file.shipped() {
            for word in words.iter().filter(|word| has_word(content, word) && !allowed(path, word))
            {
                broken.push(format!("{path}:{line}: {word}"));
            }
        }
    }
    verdict(rule, &broken);
}

#[test]
fn tidy_lines_fit_in_100_columns() {
    let mut measured = Vec::new();
    let kinds = ["rs", "c", "h", "py", "sh", "toml", "md"];
    for source in sources().iter().filter(|source| source.has_extension(&kinds)) {
        let is_prose = source.has_extension(&["md"]);
        for (line, content) in source.numbered() {
            // Neither a table nor an address can be wrapped.
            let is_table = content.starts_with(['|', '│', '┌', '╞', '└']);
            if is_prose && (is_table || content.contains("://")) {
                continue;
            }
            let tabs = content.matches('\t').count();
            let columns = content.chars().count() + tabs * (TAB_COLUMNS - 1);
            measured.push((source.path.clone(), line, columns));
        }
    }
    hold(COLUMNS, COLUMNS_MAX, &measured);
}

#[test]
fn tidy_functions_fit_on_a_screen() {
    let mut measured = Vec::new();
    for file in rust() {
        let code = &file.code;
        for (at, _) in code.match_indices("fn ") {
            let starts = !code[..at].ends_with(is_name);
            let named = code[at + 3..].starts_with(|c| is_name(c) || c == '$');
            if let (true, true, Some(end)) = (starts, named, block_end(code, at)) {
                let (first, last) = (line_of(code, at), line_of(code, end));
                measured.push((file.source.path.clone(), first, last - first + 1));
            }
        }
    }
    assert!(measured.len() > 100, "functions are not found");
    hold("lines of a function", FUNCTION_LINES_MAX, &measured);
}

#[test]
fn tidy_files_are_not_too_long() {
    let code = |source: &Source| source.has_extension(&["rs", "c", "h", "py", "sh"]);
    let measured: Vec<_> = sources()
        .into_iter()
        .filter(code)
        .map(|source| {
            let lines = source.text.lines().count();
            (source.path, lines, lines)
        })
        .collect();
    hold("lines of a file", FILE_LINES_MAX, &measured);
}

/// Programs that measure or test are no part of what ships, and may depend on anything.
fn ships(manifest: &Manifest) -> bool {
    !["tests/", "bench/"].iter().any(|folder| manifest.path.starts_with(folder))
}

#[test]
fn tidy_crates_depend_one_way() {
    let manifests = manifests();
    let ours: BTreeSet<&str> = manifests.iter().map(|m| m.name.as_str()).collect();
    let mut broken = Vec::new();
    for manifest in manifests.iter().filter(|m| ships(m)) {
        let Manifest { path, name, .. } = manifest;
        let Some((_, allowed)) = MAY_DEPEND_ON.iter().find(|(of, _)| of == name) else {
            broken.push(format!("{path}: {name} is not in MAY_DEPEND_ON of tidy.rs"));
            continue;
        };
        for other in manifest.all().filter(|other| ours.contains(other.as_str())) {
            let in_tests = TESTED_WITH.contains(&(name.as_str(), other.as_str()))
                && !manifest.normal.contains(other);
            if !allowed.contains(&other.as_str()) && !in_tests {
                broken.push(format!("{path}: {name} must not depend on {other}"));
            }
        }
    }
    verdict("algorithms <- selector <- ccp-agent <- cli; datapaths know no algorithms", &broken);
}

#[test]
fn tidy_only_the_agent_is_built_on_portus() {
    let users: Vec<String> = manifests()
        .into_iter()
        .filter(|m| ships(m) && m.normal.iter().any(|name| name == "portus"))
        .map(|m| m.path)
        .collect();
    assert_eq!(users, ["ccp-agent/Cargo.toml"], "portus is a normal dependency of one crate");
}

#[test]
fn tidy_pure_crates_stay_pure() {
    let mut broken = Vec::new();
    for manifest in manifests() {
        let Some((_, allowed)) = PURE.iter().find(|(folder, _)| *folder == manifest.folder())
        else {
            continue;
        };
        for name in manifest.normal.iter().filter(|name| !allowed.contains(&name.as_str())) {
            broken.push(format!("{}: {name}", manifest.path));
        }
    }
    verdict("a pure crate is built on pure crates", &broken);
    let is_pure =
        |path: &str| PURE.iter().any(|(folder, _)| path.starts_with(&format!("{folder}/src/")));
    let allowed = |path: &str, word: &str| !is_pure(path) || IO_ALLOWED.contains(&(path, word));
    without("a pure crate does no I/O", &IO, allowed);
}

#[test]
fn tidy_nothing_is_async() {
    let runtimes = ["tokio", "async-std", "smol", "futures", "async-trait", "mio"];
    let mut broken = Vec::new();
    let is_async = |path: &str| ASYNC.iter().any(|folder| path.starts_with(folder));
    let is_built_on = |manifest: &&Manifest| ON_TOKIO.contains(&manifest.path.as_str());
    for manifest in manifests().iter().filter(|manifest| !is_built_on(manifest)) {
        for name in manifest.all().filter(|name| runtimes.contains(&name.as_str())) {
            broken.push(format!("{}: {name}", manifest.path));
        }
    }
    verdict("no async runtime", &broken);
    without("no async code", &["async", "await"], |path, _| is_async(path));
}

#[test]
fn tidy_the_clock_is_read_in_three_files() {
    let reads = ["Instant::now", "SystemTime::now", "clock_gettime"];
    without("time is a parameter", &reads, |path, _| CLOCKS.contains(&path));
}

#[test]
fn tidy_nothing_that_ships_unwraps_or_is_unfinished() {
    let macros = ["unwrap()", "unimplemented!", "todo!", "dbg!"];
    without("expect(\"why it holds\"), or an error", &macros, |_, _| false);
    let words = [["TO", "DO"], ["FIX", "ME"], ["X", "XX"]].map(|halves| halves.concat());
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.path != "Cargo.lock") {
        for (line, content) in source.numbered() {
            for word in words.iter().filter(|word| has_word(content, word)) {
                broken.push(format!("{}:{line}: {word}", source.path));
            }
        }
    }
    verdict("what is to be done is an issue, not a comment", &broken);
}

#[test]
fn tidy_every_unsafe_says_why_it_is_sound() {
    let mut broken = Vec::new();
    for file in rust() {
        let lines: Vec<&str> = file.source.text.lines().collect();
        for (at, content) in file.code.lines().enumerate() {
            if !has_word(content, "unsafe") {
                continue;
            }
            let is_comment = |line: &&&str| line.trim_start().starts_with("//");
            let comment = lines[..at].iter().rev().take_while(is_comment).count();
            let from = at.saturating_sub(comment.max(SAFETY_LINES));
            if !lines[from..=at].iter().any(|line| line.contains("SAFETY:")) {
                broken.push(format!("{}:{}", file.source.path, at + 1));
            }
        }
    }
    verdict("an unsafe has a SAFETY comment", &broken);
}

/// `#define NAME VALUE` and `NAME = VALUE,` of a C file.
fn constants(path: &str) -> BTreeMap<String, u64> {
    let number = |text: &str| {
        let text = text.trim().trim_end_matches(',');
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let line = |line: &str| {
        let line = line.split("/*").next()?.trim();
        let (name, value) = match line.strip_prefix("#define ") {
            Some(define) => define.split_once(' ')?,
            None => line.split_once(" = ")?,
        };
        Some((name.to_owned(), number(value)?))
    };
    text(path).lines().filter_map(line).collect()
}

#[test]
fn tidy_c_and_rust_share_one_layout() {
    let mut c = constants("datapath/bpf/src/bpf/layout.h");
    let flags = constants("datapath/tcp/remuda_tcp.h");
    c.extend(flags.into_iter().filter(|(name, _)| name.starts_with("REPORT_")));
    let types = constants("datapath/bpf/src/bpf/kernel_types.h");
    c.extend(types.into_iter().filter(|(name, _)| name == "TCP_CA_NAME_MAX"));
    let rust: BTreeMap<String, u64> =
        SHARED.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    assert_eq!(c, rust, "layout.h (left) and layout.rs (right)");
    let header = text("datapath/bpf/src/bpf/layout.h");
    for (name, bytes) in [
        ("remuda_flow_info", size_of::<layout::FlowInfo>()),
        ("remuda_slot", size_of::<layout::Slot>()),
        ("remuda_event", size_of::<layout::Event>()),
    ] {
        let assertion = format!("_Static_assert(sizeof(struct {name}) == {bytes},");
        assert!(header.contains(&assertion), "layout.h lacks {assertion}");
    }
}

#[test]
fn tidy_template_markers_are_the_same_in_c_and_rust() {
    let c = constants("datapath/bpf/src/bpf/program.h");
    let rust = text("datapath/bpf/src/splice.rs");
    let marks: Vec<_> = c.iter().filter(|(name, _)| name.starts_with("MARK_")).collect();
    assert_eq!(marks.len(), 6, "{marks:?}");
    for (name, value) in marks {
        let want = format!("const {name}: u32 = 0x{:04x}_{:04x};", value >> 16, value & 0xffff);
        assert!(rust.contains(&want), "splice.rs lacks {want}");
    }
}

fn length<const N: usize>(_: impl Fn(&Registers) -> &[u64; N]) -> usize {
    N
}

#[test]
fn tidy_what_the_wire_allows_the_datapath_has() {
    assert_eq!(wire::REPORT_REGISTERS as usize, layout::REPORT_REGISTERS);
    assert_eq!(wire::CONTROL_REGISTERS as usize, layout::CONTROL_REGISTERS);
    assert!(wire::TEMPORARY_REGISTERS as usize <= length(|r| &r.temporary));
    assert!(wire::LOCAL_REGISTERS as usize <= length(|r| &r.local));
    assert!(wire::IMPLICIT_REGISTERS as usize <= length(|r| &r.implicit));
    assert!(wire::PRIMITIVES as usize <= length(|r| &r.primitive));
    let on_the_wire = remuda_wire::to_agent::FIELDS_MAX;
    assert!((1..=on_the_wire).contains(&layout::REPORT_REGISTERS));
    assert!(remuda_algorithms::signals::FIELDS.len() <= layout::REPORT_REGISTERS);
    let header = text("datapath/vm/include/remuda_primitives.h");
    let names = header.lines().filter(|line| line.starts_with("\tu64 ")).count();
    assert_eq!(names, wire::PRIMITIVES as usize, "it has libccp's primitives");
}

/// The head of a file: its `//!` lines.
fn head(path: &str) -> String {
    text(path).lines().take_while(|line| line.starts_with("//!")).collect()
}

/// The file of an arm or a policy: `NAME.rs`, or `NAME/mod.rs`.
fn file_of(folder: &str, name: &str) -> String {
    let single = format!("{folder}/src/{name}.rs");
    if root().join(&single).exists() { single } else { format!("{folder}/src/{name}/mod.rs") }
}

#[test]
fn tidy_every_algorithm_says_how_it_differs_from_its_paper() {
    let policies = text("selector/src/lib.rs");
    let policies = policies.lines().filter_map(|line| line.trim().strip_suffix("::POLICY,"));
    let path = |name: &str| file_of("selector", &name.replace("::", "/"));
    let mut files: Vec<String> = policies.map(path).collect();
    files.extend(remuda_algorithms::ARMS.iter().map(|arm| file_of("algorithms", arm.name)));
    assert!(files.len() > remuda_algorithms::ARMS.len(), "policies are not found");
    for path in files {
        assert!(head(&path).contains("Differs from"), "{path}: its head lacks \"Differs from\"");
        assert!(text(&path).contains(CFG_TEST), "{path}: it has no tests of its own");
    }
}

/// Folders whose C runs in a kernel.
const GPL: [&str; 5] = [
    "datapath/bpf/src/bpf/",
    "datapath/kernel/",
    "datapath/tcp/",
    "tests/guest/faults/",
    "tests/guest/probe/",
];
/// Pages that say which licence a file has.
const LICENSED_BY: [&str; 2] = ["README.md", "CONTRIBUTING.md"];

#[test]
fn tidy_kernel_code_is_gpl_and_names_its_few_types() {
    let mut broken = Vec::new();
    let include = ["vmlinux", ".h"].concat();
    for source in sources() {
        let is_c = source.path.ends_with(".c") || source.path.ends_with(".h");
        if is_c
            && GPL.iter().any(|folder| source.path.starts_with(folder))
            && !source.text.contains("SPDX-License-Identifier: GPL-2")
        {
            broken.push(format!("{}:1: no SPDX line", source.path));
        }
        let includes = |text: &str| text.contains("#include") && text.contains(&include);
        if source.path.ends_with(&include) || source.text.lines().any(includes) {
            broken.push(format!("{}: types of a whole kernel", source.path));
        }
    }
    verdict("kernel code is GPL-2.0, its types are kernel_types.h", &broken);
}

#[test]
fn tidy_pages_and_manifests_name_the_licence_of_each_file() {
    let mut broken = Vec::new();
    let identifier = ["SPDX-License-", "Identifier: "].concat();
    let manifests = manifests();
    for source in sources() {
        let first = source.text.lines().next().unwrap_or_default();
        let Some(licence) = first.split(&identifier).nth(1) else { continue };
        if !licence.starts_with("GPL-2.0") || licence.contains("Apache") {
            continue;
        }
        if !GPL.iter().any(|folder| source.path.starts_with(folder)) {
            broken.push(format!("{}:1: its folder is not in GPL of tidy/main.rs", source.path));
        }
        let inside = |m: &&Manifest| source.path.starts_with(&format!("{}/", m.folder()));
        let package = manifests.iter().filter(inside).max_by_key(|m| m.path.len());
        if let Some(package) = package.filter(|m| !text(&m.path).contains("GPL-2.0-only")) {
            broken.push(format!("{}: its `license` lacks GPL-2.0-only", package.path));
        }
    }
    for (page, folder) in LICENSED_BY.iter().flat_map(|page| GPL.map(|folder| (page, folder))) {
        if !text(page).contains(&format!("`{folder}`")) {
            broken.push(format!("{page}: says nothing of the licence of {folder}"));
        }
    }
    verdict("the licence that pages and manifests name is that of the files", &broken);
}

#[test]
fn tidy_nothing_names_a_machine_or_a_private_registry() {
    let homes = [["/ho", "me/"], ["/ro", "ot/"], ["/Us", "ers/"]].map(|halves| halves.concat());
    let mirrors = [["index", "-url"], ["replace", "-with"]].map(|halves| halves.concat());
    let mut broken = Vec::new();
    for source in sources() {
        for (line, content) in source.numbered() {
            let named = homes.iter().chain(&mirrors).find(|word| content.contains(*word));
            broken.extend(named.map(|word| format!("{}:{line}: {word}", source.path)));
            let public = content.contains("github.com/rust-lang/crates.io-index");
            if source.path == "Cargo.lock" && content.starts_with("source = ") && !public {
                broken.push(format!("{}:{line}: {content}", source.path));
            }
        }
    }
    verdict("what is tracked works on any machine", &broken);
}
