//! Output that cannot be written: a full disk, and a closed pipe. Needs no root.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SCENARIO: &str = "duration_s = 1\n[links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 10\n\
                        queue = { kind = 'droptail', limit_bdp = 1 }\n[links.up]\n\
                        [[flows]]\ndriver = 'cubic'\n";
const SUITE: &str = "title = 'Mine'\nsource = 'me'\n[scenario]\nduration_s = 1\n\
                     links.down.rate_mbit_per_sec = 12\nlinks.down.delay_ms = 10\n\
                     links.down.queue = { kind = 'droptail', limit_bdp = 1 }\n\
                     links.up = {}\nflows = [{ driver = 'tested' }]\n\
                     [[families]]\nname = 'a'\ngroup = 'A'\npath = 'wired'\n";
const LOG: &str = "# base timestamp: 0\n0 # 1504\n0 + 1504\n1 - 1504 1\n";

/// Commands that print, and their exit status if they cannot. `report` reads the table of `matrix`.
const LINES: [(&str, i32); 10] = [
    ("--help", 1),
    ("--version", 1),
    ("programs", 1),
    ("programs --text reno", 1),
    ("agent --print-config", 1),
    ("sim one.toml", 1),
    ("sim one.toml --json", 1),
    ("graph link.log", 1),
    ("matrix --suite mine.toml --arm reno", 1),
    ("report out/matrix --text", 2),
];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("one.toml", SCENARIO), ("mine.toml", SUITE), ("link.log", LOG)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn run(folder: &Path, line: &str, stdout: impl Into<Stdio>) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda"));
    command.args(line.split(' ')).current_dir(folder).env("REMUDA_RUN_DIR", folder.join("run"));
    let child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, printed)
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_full_disk_is_an_error_that_says_so() {
    let folder = folder();
    for (line, status) in LINES {
        let (output, printed) = run(folder.path(), line, full());
        assert_eq!(output.status.code(), Some(status), "{line}: {printed}");
        let why = "remuda: cannot write to standard output: No space left on device";
        assert!(printed.contains(why) && !printed.contains("panicked"), "{line}: {printed}");
    }
    assert!(folder.path().join("out/matrix/matrix.parquet").exists(), "it is no part of that");
    assert!(folder.path().join("out/matrix/report.html").exists(), "nor is this");
}

#[test]
fn a_reader_that_is_gone_ends_the_command_without_a_word() {
    let folder = folder();
    for (line, _) in LINES {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (output, printed) = run(folder.path(), line, writer);
        assert_eq!(output.status.signal(), Some(libc::SIGPIPE), "{line}: {printed}");
        assert!(
            !printed.contains("standard output") && !printed.contains("panicked"),
            "{line}: {printed}"
        );
    }
    assert!(folder.path().join("out/matrix/report.html").exists());
}

#[test]
fn what_nobody_can_read_of_errors_and_progress_ends_nothing() {
    let folder = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda"));
    command.args("matrix --suite mine.toml --arm reno".split(' ')).current_dir(folder.path());
    let output = command.stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("reno"));
}

/// Names come from peers and files: none may rewrite what a terminal shows.
#[test]
fn control_characters_of_names_are_printed_as_text() {
    let folder = folder();
    let hostile = "\u{1b}[2J\u{7}\u{9b}1A\rx";
    let escaped = "\\u001b[2J\\u0007\\u009b1A\\u000dx";
    let named =
        |name: &str| SCENARIO.replace("'cubic'", &format!("'cubic'\nname = {}", toml_text(name)));
    fs::write(folder.path().join("named.toml"), named(hostile)).unwrap();
    let suite = SUITE.replace("name = 'a'", &format!("name = {}", toml_text(hostile)));
    fs::write(folder.path().join("suite.toml"), suite).unwrap();
    for line in [
        format!("sim {hostile}"),
        format!("graph {hostile}"),
        format!("flows --run-dir {hostile}"),
        format!("programs --text {hostile}"),
        hostile.to_owned(),
        format!("sim --{hostile}"),
        "sim named.toml".to_owned(),
        "matrix --suite suite.toml --arm reno --list".to_owned(),
    ] {
        let (output, said) = run(folder.path(), &line, Stdio::piped());
        let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &said;
        let hidden: Vec<char> =
            printed.chars().filter(|it| it.is_control() && !matches!(it, '\n' | '\t')).collect();
        assert_eq!(hidden, [], "{line:?}: {printed:?}");
        println!("{line:?}: {printed}");
    }
    let (_, said) = run(folder.path(), &format!("sim {hostile}"), Stdio::piped());
    assert!(said.contains(escaped), "{said}");
}

fn toml_text(text: &str) -> String {
    let letters = text.chars().map(|letter| format!("\\u{:04x}", u32::from(letter)));
    format!("\"{}\"", letters.collect::<String>())
}

/// What a command prints; it must succeed.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_remuda")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_command_has_a_manual_page_and_completions() {
    let help = printed(&["help"]);
    let commands = help.split_once("Commands:\n").unwrap().1;
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    let folder = tempfile::tempdir().unwrap();
    printed(&["manual", folder.path().to_str().unwrap()]);
    for command in commands.iter().filter(|it| **it != "help") {
        let page = folder.path().join(format!("remuda-{command}.1"));
        let page =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page:?}: {error}"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH OPTIONS"), "{page}");
    }
    assert!(!folder.path().join("remuda-manual.1").exists());
    for shell in ["bash", "zsh", "fish"] {
        let text = printed(&["completions", shell]);
        let missing: Vec<_> = commands.iter().filter(|it| !text.contains(**it)).collect();
        assert!(missing.is_empty(), "{shell} does not complete {missing:?}");
    }
}
