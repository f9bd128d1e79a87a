//! Runs `remuda sim`: scenarios in, files and a table out. Needs no root.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use remuda_results::read;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const SHORT: &str = "duration_s = 3\n[links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 10\n\
                     queue = { kind = 'droptail', limit_bdp = 1 }\nloss_percent = 0.5\n\
                     [links.up]\ndelay_ms = 10\n[[flows]]\ndriver = 'cubic'\ncount = 2\n";

fn sim(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda"));
    command.arg("sim").args(line.split_whitespace()).current_dir(folder).env_remove("SEED");
    command
}

fn run(folder: &Path, line: &str) -> Output {
    sim(folder, line).output().unwrap()
}

#[track_caller]
fn done(folder: &Path, line: &str) -> String {
    let output = run(folder, line);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {printed}");
    String::from_utf8(output.stdout).unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("set")).unwrap();
    fs::write(folder.path().join("set/a.toml"), SHORT).unwrap();
    fs::write(folder.path().join("set/b.toml"), SHORT.replace("cubic", "bbr")).unwrap();
    folder
}

/// Every file under `folder`, with its bytes.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                files.push((path.strip_prefix(folder).unwrap().to_owned(), bytes));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn the_bytes_do_not_depend_on_the_number_of_jobs() {
    let folder = folder();
    let line = "set --seeds 1..3 --vary duration_s=1,2 --plot --qlog --json --out";
    let one = done(folder.path(), &format!("{line} one --jobs 1"));
    let four = done(folder.path(), &format!("{line} four --jobs 4"));
    assert_eq!(one, four);
    assert_eq!(one.lines().count(), 12);
    let (one, four) = (tree(&folder.path().join("one")), tree(&folder.path().join("four")));
    // The tables of all runs, and for each run six tables, a plot and two logs.
    assert_eq!(one.len(), 4 + 12 * 9);
    for (one, four) in one.iter().zip(&four) {
        assert!(one == four, "{} differs", one.0.display());
    }
    let seeds = ["a-duration_s=2-seed1", "a-duration_s=2-seed2"];
    let [first, second] = seeds.map(|run| read(&folder.path().join("one").join(run)).unwrap());
    assert_ne!(first.flow_samples, second.flow_samples, "a seed makes a difference");
}

#[test]
fn a_table_is_for_people_and_json_for_programs() {
    let folder = folder();
    let text = done(folder.path(), "set/a.toml");
    for part in ["a: 3 s of sim, seed 1", "cubic-1", "cubic-2", "goodput", "down", "Mbit/s"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let text = done(folder.path(), "set --seeds 1..2");
    assert!(text.contains("Jain") && text.lines().count() >= 7, "{text}");
    let text = done(folder.path(), "set/a.toml --json --set flows.0.count=1 --seed 4");
    let run: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&run["seed"], &run["engine"]), (&4.into(), &"sim".into()));
    assert!(run["flows"][0]["goodput_mbit_per_sec"].as_f64().unwrap() > 1.0, "{text}");
    let output = run_quiet(folder.path());
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

fn run_quiet(folder: &Path) -> Output {
    run(folder, "set/a.toml --quiet --out out")
}

#[test]
fn a_mistake_is_named_with_its_file_and_the_fix() {
    let folder = folder();
    let suite = "title = 'Mine'\nsource = 'me'\npick = ['ccp:fixed']\n";
    fs::write(folder.path().join("suite.toml"), suite).unwrap();
    for (line, part) in [
        ("none.toml", "none.toml: cannot read the scenario"),
        ("suite.toml", "suite.toml: is a suite of environments, as it has `pick`, and not a scen"),
        ("suite.toml", "fix: remuda matrix --suite suite.toml"),
        ("set/a.toml --set flows.0.drver=bbr", "fix: `driver`?"),
        ("set/a.toml --set flows.0.driver=cubicc", "set/a.toml: `flows.0.driver` is cubicc"),
        ("set/a.toml --set links.down.delay_ms=-3", "[links.down] `delay_ms` is -3: must be"),
        ("set/a.toml --vary seed", "KEY=A,B"),
    ] {
        let output = run(folder.path(), line);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && printed.contains(part), "{line}: {printed}");
    }
}

#[test]
fn one_run_that_fails_costs_no_other() {
    let folder = folder();
    let text = SHORT.replace("rate_mbit_per_sec = 12", "trace = 'missing.trace'");
    fs::write(folder.path().join("set/c.toml"), text).unwrap();
    let output = run(folder.path(), "set --out out --jobs 2");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        printed.contains("missing.trace") && printed.contains("1 of 3 runs failed"),
        "{printed}"
    );
    assert!(read(&folder.path().join("out/a-seed1")).is_ok());
    assert!(read(&folder.path().join("out/b-seed1")).is_ok());
    assert!(!folder.path().join("out/c-seed1").exists());
}

#[test]
fn ctrl_c_keeps_what_has_finished() {
    let folder = folder();
    let long = SHORT.replace("duration_s = 3", "duration_s = 100000\nsample_ms = 0");
    fs::write(folder.path().join("set/z.toml"), long).unwrap();
    let mut command = sim(folder.path(), "set --out out --jobs 1");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let last = folder.path().join("out/b-seed1/link_samples.parquet");
    for _ in 0..600 {
        if last.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert!(last.exists(), "the short ones take no 30 s");
    thread::sleep(Duration::from_millis(200));
    // SAFETY: the child has not been waited for, so its process id is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("stopped with 2 of 3 runs done; what had finished is kept"),
        "{printed}"
    );
    assert!(read(&folder.path().join("out/a-seed1")).is_ok());
    assert!(folder.path().join("out/flows.parquet").exists());
    assert!(String::from_utf8_lossy(&output.stdout).contains("a: 3 s of sim"));
}
