//! Text for a bug report: versions, the marks of the checks, and counts.
//!
//! It has no address, port, user, cgroup, path or name that an operator chose: only words of this
//! program, the kernel's release, and numbers. A check's state may contain any of those, so only
//! its mark is printed.

use super::checks::{Verdict, read};
use super::mark;
use crate::commit::commit;
use crate::event_log;
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::flow::Row;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The most names of one kind that are printed.
const NAMES_MAX: usize = 40;
/// What stands for a name that this program does not know: an author or an operator chose it.
const OTHER: &str = "other";

/// A line of the event log, as far as it is counted.
#[derive(Deserialize)]
struct Logged {
    event: String,
}

/// How often each name occurs.
fn counts(names: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_insert(0) += 1;
    }
    counts
}

fn put(out: &mut String, what: &str, counts: &BTreeMap<String, u64>) {
    let shown = counts.iter().take(NAMES_MAX).map(|(name, count)| format!("{name} {count}"));
    let shown: Vec<String> = shown.collect();
    let more = counts.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(", {more} more names") } else { String::new() };
    let text = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
    writeln!(out, "{what}: {text}{more}").expect("a string takes any text");
}

/// The name if it is one of an arm or policy of this build.
fn known(name: &str) -> String {
    let arms = remuda_algorithms::ARMS.iter().map(|it| it.name);
    let is_known =
        arms.chain(remuda_selector::POLICIES.iter().map(|it| it.name)).any(|it| it == name);
    if is_known { name.to_owned() } else { OTHER.to_owned() }
}

/// `bpf`, `quic` or another word of ours; a datapath may give itself any name.
fn datapath(name: &str) -> String {
    let word = name.split([' ', ':']).next().unwrap_or_default();
    let is_ours = ["bpf", "module", "netlink", "unix"].contains(&word);
    if is_ours { word.to_owned() } else { OTHER.to_owned() }
}

fn put_flows(out: &mut String, rows: &[Row]) {
    put(out, "flows by arm", &counts(rows.iter().map(|it| known(&it.arm))));
    put(out, "flows by driver", &counts(rows.iter().map(|it| known(&it.driver))));
    put(out, "flows by datapath", &counts(rows.iter().map(|it| datapath(&it.datapath))));
    put(out, "flows by state", &counts(rows.iter().map(|it| it.state.clone())));
    let switches: u64 = rows.iter().map(|it| it.switches).sum();
    writeln!(out, "switches of these flows: {switches}").expect("a string takes any text");
}

/// Events by name. A name that is no word of letters is damaged, or not ours.
fn events(run_dir: &Path) -> BTreeMap<String, u64> {
    let mut names = BTreeMap::new();
    for log in event_log::logs(run_dir) {
        let read = event_log::read(&log, |line| {
            let Ok(Logged { event }) = serde_json::from_str(line) else { return false };
            let is_word =
                event.len() <= 40 && event.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
            let name = if is_word { event } else { OTHER.to_owned() };
            *names.entry(name).or_insert(0) += 1;
            true
        });
        // A log that cannot be read has no events to count.
        let odd = read.unwrap_or(0);
        if odd > 0 {
            *names.entry("damaged lines".to_owned()).or_insert(0) += odd;
        }
    }
    names
}

/// The report, a line for each thing; it ends with a line break.
pub fn text(run_dir: &Path, all: &[(&'static str, Verdict)], has_module: bool) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    line(format!("remuda {} commit {commit}", env!("CARGO_PKG_VERSION")));
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    line(format!("Linux {release} {}", std::env::consts::ARCH));
    for (what, verdict) in all {
        line(format!("{} {what}", mark(what, verdict, has_module)));
    }
    match ask(run_dir, &Request::Status {}) {
        Ok(Answer::Status(status)) => {
            line(format!("agent {}: new flows by {}", status.version, known(&status.default)));
            let counts = serde_json::to_string(&status.counts).unwrap_or_default();
            line(format!("counts: {counts}"));
        }
        Ok(_) => line("agent: another version answers".to_owned()),
        Err(_) => line("agent: none answers".to_owned()),
    }
    if let Ok(Answer::Rules { rules, .. }) = ask(run_dir, &Request::Rules {}) {
        line(format!("rules: {}", rules.len()));
    }
    if let Ok(Answer::Flows { flows, refused }) = ask(run_dir, &Request::Flows {}) {
        put_flows(&mut out, &flows);
        writeln!(out, "kinds of refused sockets: {}", refused.len()).expect("a string takes it");
    }
    put(&mut out, "events", &events(run_dir));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_an_operator_chose_and_addresses_do_not_appear() {
        assert_eq!([known("cubic"), known("shop-secret")], ["cubic", OTHER]);
        assert_eq!([datapath("bpf"), datapath("unix:/run/shop")], ["bpf", "unix"]);
        let folder = tempfile::tempdir().expect("a folder");
        let secret = "203.0.113.7:443";
        let log = format!(
            "{{\"event\":\"created\",\"remote\":\"{secret}\"}}\n{{\"event\":\"{secret}\"}}\n{{\n"
        );
        std::fs::write(folder.path().join("events.jsonl"), log).expect("it is written");
        let checks = [("agent", Verdict::Good(format!("at {secret}")))];
        let text = text(folder.path(), &checks, false);
        assert!(!text.contains("203.0.113"), "{text}");
        assert!(text.contains("ok agent\n") && text.contains("agent: none answers\n"), "{text}");
        assert!(text.contains("events: created 1, damaged lines 1, other 1\n"), "{text}");
    }
}
