//! Runs `remuda matrix`: suites in, a ranking and a table out. Needs no root.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use remuda_matrix::ROWS;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const SUITE: &str = r#"
title = "Mine"
source = "me"
[scenario]
duration_s = 4
links.down = { rate_mbit_per_sec = 12, delay_ms = 10, queue.kind = "droptail" }
links.up = { delay_ms = 10 }
flows = [{ driver = "tested" }]
[[families]]
name = "buffer"
group = "B"
path = "wired"
axes = [{ name = "queue_bdp", keys = ["links.down.queue.limit_bdp"], values = [0.5, 4] }]
"#;

fn matrix(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda"));
    command.arg("matrix").args(line.split_whitespace()).current_dir(folder);
    command
}

fn run(folder: &Path, line: &str) -> (Output, String) {
    let output = matrix(folder, line).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, printed)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), SUITE).unwrap();
    folder
}

#[test]
fn a_suite_of_ones_own_gives_a_ranking_and_a_table() {
    let folder = folder();
    let line = "--suite mine.toml --arm cubic,bbr --seeds 1..2";
    let (output, printed) = run(folder.path(), line);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    assert!(table.contains("cubic") && table.contains("Over 2 environments"), "{table}");
    assert!(printed.contains("8 of 8 runs"), "{printed}");
    let path = folder.path().join("out/matrix/matrix.parquet");
    let (rows, about) = ROWS.read(&path).unwrap();
    assert_eq!((rows.len(), rows[0].suite.as_str()), (8, "mine"));
    assert_eq!(about["arms"], "cubic,bbr");
    let before = fs::read(&path).unwrap();
    let (output, _) = run(folder.path(), line);
    assert!(output.status.success());
    assert_eq!(fs::read(&path).unwrap(), before, "what is kept gives the same table");
    let (output, _) = run(folder.path(), &format!("{line} --fresh --jobs 1"));
    assert!(output.status.success());
    assert_eq!(fs::read(&path).unwrap(), before, "so does what is run again");
}

/// A suite of recordings: a Mahimahi trace, rates and round trips in CSV, beside the suite's file.
const RECORDED: &str = r#"
title = "Recorded"
source = "me"
[scenario]
duration_s = 4
links.down = { queue = { kind = "droptail", limit_packets = 100 } }
links.up = { delay_ms = 10 }
flows = [{ driver = "tested" }]
[[families]]
name = "cell"
group = "E"
path = "cellular"
scenario.links.down.delay_ms = 10
axes = [{ name = "trace", keys = ["links.down.trace"], values = ["cell.trace", "in/cell.csv"] }]
[[families]]
name = "radio"
group = "F"
path = "wifi"
scenario.links.down.rate_mbit_per_sec = 12
scenario.links.down.delay_trace = { file = "in/rtt.csv", of = "rtt" }
"#;

/// The command runs in another folder than the suite's, and none of the files is in a checkout.
#[test]
fn a_suite_of_recordings_elsewhere_runs() {
    let recordings = tempfile::tempdir().unwrap();
    let at = |name: &str| recordings.path().join(name);
    fs::create_dir(at("in")).unwrap();
    fs::write(at("mine.toml"), RECORDED).unwrap();
    // A packet a millisecond is 12 Mbit/s.
    fs::write(at("cell.trace"), "1\n2\n3\n4\n").unwrap();
    fs::write(at("in/cell.csv"), "time_s,mbps\n0,6\n1,6\n2,6\n").unwrap();
    fs::write(at("in/rtt.csv"), "time_s,rtt_ms\n0,30\n1,60\n2,30\n3,60\n4,30\n").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let suite = at("mine.toml").display().to_string();
    let line = format!("--suite {suite} --arm cubic --json --jobs 1");
    let (output, printed) = run(elsewhere.path(), &line);
    assert!(output.status.success(), "{printed}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let got: Vec<(&str, f64)> = rows
        .iter()
        .map(|row| (row["environment"].as_str().unwrap(), row["goodput_mbit_per_sec"].as_f64()))
        .map(|(name, goodput)| (name, goodput.unwrap()))
        .collect();
    let names: Vec<&str> = got.iter().map(|row| row.0).collect();
    assert_eq!(names, ["cell/trace=cell.trace", "cell/trace=in/cell.csv", "radio"]);
    for ((name, goodput), rate) in got.into_iter().zip([12.0, 6.0, 12.0]) {
        assert!(goodput > 0.7 * rate && goodput < rate, "{name}: {goodput} of {rate}");
    }
}

#[test]
fn json_is_a_line_a_run() {
    let folder = folder();
    let (output, printed) = run(folder.path(), "--suite mine.toml --arm reno --json --quiet");
    assert!(printed.is_empty(), "{printed}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["environment"], "buffer/queue_bdp=4");
    assert!(rows[1]["goodput_mbit_per_sec"].as_f64().unwrap() > 8.0, "{text}");
}

#[test]
fn lists_name_suites_and_environments() {
    let folder = folder();
    let list = |line: &str| String::from_utf8(run(folder.path(), line).0.stdout).unwrap();
    let suites = list("--list");
    assert!(suites.contains("ccbench-solo") && suites.contains("690"), "{suites}");
    let environments = list("--list --suite pantheon --group F");
    assert!(environments.contains("01-nepal-india/flows=3"), "{environments}");
    assert!(!environments.contains("policer"), "{environments}");
}

#[test]
fn bad_words_are_refused_with_what_there_is() {
    let folder = folder();
    fs::write(folder.path().join("bad.toml"), SUITE.replace("path =", "road =")).unwrap();
    let beside = SUITE.replace("\"tested\" }", "\"tested\" }, { driver = \"remy\" }");
    fs::write(folder.path().join("beside.toml"), beside).unwrap();
    for name in ["README.md", "no-toml.toml"] {
        fs::write(folder.path().join(name), "Say `links = 1`.\n").unwrap();
    }
    fs::write(folder.path().join("one.toml"), "[links.up]\n[[flows]]\ndriver = 'bbr'\n").unwrap();
    for (line, part) in [
        ("--suite smok", "suite `smok`: there are smoke, one-flow"),
        ("--suite none.toml", "none.toml: cannot read the suite: No such file"),
        (
            "--suite README.md",
            "--suite README.md: a suite is a TOML file, whose name ends in .toml",
        ),
        ("--suite no-toml.toml", "--suite no-toml.toml: no-toml: TOML parse error at line 1"),
        ("--suite one.toml", "--suite one.toml: is a scenario, as it has `links`, and not a suite"),
        ("--suite one.toml", "fix: remuda sim one.toml"),
        ("--suite bad.toml", "unknown field `road`"),
        ("--suite mine.toml --arm cubik", "cubik"),
        ("--suite mine.toml --arm native:cubic", "runs on real TCP only"),
        ("--suite mine.toml --arm remy", "--arm remy: remy can drive no flow, as no rule table is"),
        ("--suite beside.toml", "a flow of these environments: remy can drive no flow, as no rule"),
        ("--suite mine.toml --group Z", "no environment of these suites has group `Z`"),
        ("--suite mine.toml --seeds 3..1", "A..B, the smaller first"),
        ("--suite mine.toml --fresh --keep x", "cannot be used with"),
        ("--suite mine.toml --out mine.toml/x", "cannot write to --out mine.toml/x"),
        ("--suite mine.toml --keep mine.toml/x", "cannot keep runs in mine.toml/x: "),
    ] {
        let (output, printed) = run(folder.path(), line);
        assert!(!output.status.success() && printed.contains(part), "{line}: {printed}");
    }
}

/// A run that cannot be kept, or a table that cannot be written, costs nothing else.
#[test]
fn runs_that_cannot_be_kept_are_in_the_table_with_a_warning() {
    let folder = folder();
    let kept = folder.path().join("kept");
    fs::create_dir(&kept).unwrap();
    // A key's first two digits name a folder: make each of them a file.
    (0..=255).for_each(|byte| fs::write(kept.join(format!("{byte:02x}")), "").unwrap());
    let line = "--suite mine.toml --arm cubic,reno --keep kept";
    let (output, printed) = run(folder.path(), line);
    assert!(output.status.success(), "{printed}");
    assert_eq!(printed.matches("cannot keep a run: kept/").count(), 1, "{printed}");
    assert!(
        printed.contains("the next matrix runs it again") && printed.contains("fix: "),
        "{printed}"
    );
    assert!(
        printed.contains("4 of 4 runs in ") && printed.contains("s, 4 of them not kept"),
        "{printed}"
    );
    let table = folder.path().join("out/matrix/matrix.parquet");
    assert_eq!(ROWS.read(&table).unwrap().0.len(), 4);
    fs::remove_file(&table).unwrap();
    fs::create_dir(&table).unwrap();
    let (output, printed) = run(folder.path(), &format!("{line} --json --quiet"));
    assert!(!output.status.success(), "{printed}");
    assert_eq!(printed.matches("cannot keep a run: kept/").count(), 1, "{printed}");
    assert!(
        printed.contains("matrix.parquet: ")
            && printed.contains("continues with the remaining runs"),
        "{printed}"
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 4, "they are printed");
}

#[test]
fn a_second_matrix_is_refused_one_s_folder_and_shares_its_runs() {
    let folder = folder();
    // This lock stands for a running matrix.
    let out = folder.path().join("out/matrix");
    fs::create_dir_all(&out).unwrap();
    let mut lock = fs::File::create(out.join(".lock")).unwrap();
    write!(lock, "{}", std::process::id()).unwrap();
    // SAFETY: the file is open.
    assert_eq!(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }, 0);
    let line = "--suite mine.toml --arm cubic --keep out/matrix/runs";
    let (output, printed) = run(folder.path(), line);
    let who = format!("--out out/matrix: another matrix (process {}) writes", std::process::id());
    assert!(!output.status.success() && printed.contains(&who), "{printed}");
    assert!(!out.join("runs").exists(), "it has run nothing");
    let (output, printed) = run(folder.path(), &format!("{line} --out other"));
    assert!(output.status.success(), "{printed}");
    drop(lock);
    let (output, printed) = run(folder.path(), line);
    assert!(output.status.success(), "{printed}");
}

/// Ctrl-C loses no completed run, and the same command continues.
#[test]
fn ctrl_c_keeps_what_was_run() {
    let folder = folder();
    let line = "--suite ccbench-solo --only owd_ms=80 --arm cubic,bbr --jobs 1";
    let mut command = matrix(folder.path(), line);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let runs = folder.path().join("out/matrix/runs");
    let has_one = || runs.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    for turn in 0.. {
        if has_one() {
            break;
        }
        assert!(turn < 6_000, "no run is kept in five minutes");
        thread::sleep(Duration::from_millis(50));
    }
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: only sends a signal to our own child.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{printed}");
    assert!(printed.contains("of 276 runs done; run the same command again"), "{printed}");
    let (rows, _) = ROWS.read(&folder.path().join("out/matrix/matrix.parquet")).unwrap();
    assert!(!rows.is_empty() && rows.len() < 276, "{}", rows.len());
}

fn report(folder: &Path, line: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda"));
    let output = command.arg("report").args(line.split(' ')).current_dir(folder).output().unwrap();
    let printed = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
}

#[test]
fn a_report_compares_and_its_exit_status_says_what_came_of_it() {
    let folder = folder();
    let at = folder.path();
    let matrix = |line: &str| assert!(run(at, line).0.status.success(), "{line}");
    matrix("--suite mine.toml --arm reno,cubic --out before --quiet");
    matrix("--suite mine.toml --arm reno,cubic --out same --quiet");
    matrix("--suite mine.toml --arm reno --out fewer --quiet");
    assert!(fs::read_to_string(at.join("before/report.html")).unwrap().contains("cubic"));
    let (status, printed) = report(at, "same --against before --text --check");
    assert_eq!(status, Some(0), "{printed}");
    assert!(printed.contains("PASS") && !printed.contains("FAIL"), "{printed}");
    let (status, printed) = report(at, "fewer --against before --text --check");
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("runs of the older table are missing"), "{printed}");
    fs::write(at.join("mine.toml"), SUITE.replace("= 12,", "= 13,")).unwrap();
    matrix("--suite mine.toml --arm reno,cubic --out altered --quiet");
    let (status, printed) = report(at, "altered --against before --text --check");
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("are not the same environments in both"), "{printed}");
    let (status, printed) = report(at, "before --series buffer --suite mine.toml");
    assert_eq!(status, Some(2), "{printed}");
    assert!(printed.contains("has changed since"), "{printed}");
    let (status, printed) = report(at, "before --series buffer");
    assert_eq!(status, Some(2), "{printed}");
    assert!(printed.contains("add --suite mine.toml"), "{printed}");
    fs::write(at.join("no.parquet"), "none").unwrap();
    for (line, part) in [
        ("nowhere --text", "nowhere: is not there"),
        ("no.parquet --text", "is not a table of this version"),
    ] {
        let (status, printed) = report(at, line);
        assert!(status == Some(2) && printed.contains(part), "{line}: {printed}");
    }
}

#[test]
fn a_chart_that_cannot_be_is_refused_before_there_is_a_page() {
    let folder = folder();
    let at = folder.path();
    assert!(run(at, "--suite mine.toml --arm reno,cubic --out m --quiet").0.status.success());
    fs::write(at.join("file"), "in the way").unwrap();
    for (line, part) in [
        ("m --out p.html --plot plots --arm cubik", "--arm cubik: is not in the table"),
        ("m --out p.html --plot plots --paths lunar", "--paths lunar: no such paths in the table"),
        ("m --out p.html --plot file/x", "--plot file/x: cannot write there"),
    ] {
        let (status, printed) = report(at, line);
        assert!(status == Some(2) && printed.contains(part), "{line}: {printed}");
        assert!(!at.join("p.html").exists() && !at.join("plots").exists(), "{line}");
    }
    let (status, printed) = report(at, "m --out p.html --plot plots");
    assert_eq!(status, Some(0), "{printed}");
    assert!(printed.starts_with("p.html\nplots/ranking-all-paths.svg\n"), "{printed}");
}

#[test]
fn a_stricter_line_alone_makes_no_arm_worse() {
    let folder = folder();
    let at = folder.path();
    for (name, line) in [("loose", "<= 6000"), ("strict", "<= 0.001")] {
        let expect = format!("path = \"wired\"\nexpect = [\"queueing_p95_ms {line}\"]");
        let suite = SUITE.replace("path = \"wired\"", &expect);
        fs::write(at.join("mine.toml"), suite).unwrap();
        let line = format!("--suite mine.toml --arm reno,cubic --out {name} --quiet");
        assert!(run(at, &line).0.status.success(), "{name}");
    }
    let (status, printed) = report(at, "strict --against loose --text --check");
    assert_eq!(status, Some(0), "{printed}");
    assert!(
        printed.contains("now queueing_p95_ms <= 0.001") && !printed.contains("FAIL"),
        "{printed}"
    );
}
