//! Runs `remuda graph`: logs in, a table and a plot out. Needs no root.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A log as Mahimahi writes it: with a base above zero, drops, and no flows.
const THEIRS: &str = "# mahimahi mm-link (Uplink) [up.trace] > up.log\n# command line: mm-link\n\
                      # queue: droptail [packets=1]\n# init timestamp: 1700000000000\n\
                      # base timestamp: 100\n# mahimahi config: x\n100 + 1504\n101 # 1504\n\
                      101 - 1504 1\n110 + 1504\n110 + 1504\n110 d 1 1504\n130 # 1504\n\
                      130 - 1504 20\n1100 # 1504\n";

const OURS: &str = "# mahimahi mm-link (uplink) [12 Mbit/s] > up.log\n# base timestamp: 0\n\
                    # flow 1: tcp 10.11.0.1:1 > 10.11.0.2:2\n0 + 1500 1\n1 # 1500\n\
                    1 - 1500 1 1\n# flow 2: tcp 10.11.0.1:3 > 10.11.0.2:2\n5 + 1500 2\n\
                    5 d 1 1500 2\n1000 # 1500\n";

fn graph(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda"));
    command.arg("graph").args(line.split_whitespace()).current_dir(folder).output().unwrap()
}

#[track_caller]
fn done(folder: &Path, line: &str) -> String {
    let output = graph(folder, line);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("theirs.log"), THEIRS).unwrap();
    fs::write(folder.path().join("ours.log"), OURS).unwrap();
    folder
}

#[test]
fn a_table_has_units_and_the_drops_of_both_kinds_of_log() {
    let folder = folder();
    let text = done(folder.path(), "theirs.log ours.log --flows");
    for part in ["Mbit/s", "signal p95", "dropped", "theirs.log", "33.3", "1504", "50.0"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(text.contains("1 tcp 10.11.0.1:1 > 10.11.0.2:2") && text.contains("2 tcp"), "{text}");
}

#[test]
fn json_has_what_mahimahis_scripts_say() {
    let folder = folder();
    let text = done(folder.path(), "theirs.log --json");
    let log: serde_json::Value = serde_json::from_str(&text).unwrap();
    // 3 opportunities and 2 departures of 1504 bytes in 1 s. Of the delays 1 and 20, the second.
    assert_eq!(log["duration_s"], 1.0);
    assert_eq!(log["capacity_mbit_per_sec"], 3.0 * 1504.0 * 8.0 / 1e6);
    assert_eq!(log["throughput_mbit_per_sec"], 2.0 * 1504.0 * 8.0 / 1e6);
    assert_eq!((&log["delay_p50_ms"], &log["delay_p95_ms"]), (&20.into(), &20.into()));
    // Packets came at 0 and at 10, with delays 1 and 20; in between, 29 down to 21. The 11th of 11.
    assert_eq!(log["signal_delay_p95_ms"], 29);
    assert_eq!((&log["dropped_packets"], &log["dropped_bytes"]), (&1.into(), &1504.into()));
    assert_eq!((&log["queue"], &log["flows"]), (&"droptail [packets=1]".into(), &0.into()));
}

#[test]
fn a_plot_is_svg_or_png_and_shows_the_drops() {
    let folder = folder();
    done(folder.path(), "theirs.log --plot one.svg --bin-ms 100");
    let svg = fs::read_to_string(folder.path().join("one.svg")).unwrap();
    for part in ["<svg", "capacity", "throughput", "queueing delay, ms", "drops, packets a bin"] {
        assert!(svg.contains(part), "{part}");
    }
    done(folder.path(), "theirs.log ours.log --plot two.png");
    assert!(fs::read(folder.path().join("two.png")).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn a_mistake_is_named_with_file_line_and_rule() {
    let folder = folder();
    fs::write(folder.path().join("broken.log"), THEIRS.replace("d 1 1504", "d 1504")).unwrap();
    fs::write(folder.path().join("bytes.log"), b"# base timestamp: 0\n1 \xff\n").unwrap();
    for (line, part) in [
        ("none.log", "none.log: cannot read the log: No such file"),
        ("theirs.log broken.log", "broken.log: line 12: `110 d 1504`: must be `T # BYTES`"),
        ("bytes.log", "bytes.log: line 2: must be UTF-8"),
        (".", "remuda: .: Is a directory"),
        ("theirs.log --plot x.pdf", "must end in .svg or .png"),
        ("theirs.log --plot no/x.svg", "no/x.svg: cannot write the plot"),
        ("theirs.log --bin-ms 0", "0 is not in 1..=3600000"),
        ("", "<LOG>"),
    ] {
        let output = graph(folder.path(), line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(part), "{line}: {stderr}");
    }
}
