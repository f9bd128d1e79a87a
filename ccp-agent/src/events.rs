//! What happened, as typed events in JSON lines. Algorithms return, the agent records.
//!
//! One line an event: `t_unix_us`, `flow` where there is one, `event`, and its fields with their
//! units in their names. Nothing is recorded per report.

use crate::clock;
use crate::error::on;
use crate::online::Interval;
use crate::prefer::Wants;
use crate::{Error, guard};
use remuda_algorithms::Sample;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Started {
        version: &'static str,
        default: String,
        name: String,
    },
    Stopped {
        flows_let_go: u64,
        flows_left: u64,
    },
    /// Flows of a former agent are ours.
    Adopted {
        flows: u64,
    },
    /// The host's default was still that of a former agent.
    DefaultMended {
        to: String,
    },
    /// Flows are served: the host's own datapath has all programs.
    Ready {},
    /// A datapath said hello.
    DatapathReady {
        datapath: String,
        lacks: Vec<&'static str>,
    },
    /// A datapath answers no more, or too slowly; it alone suffers.
    DatapathLost {
        datapath: String,
        reason: String,
    },
    /// A message was refused; nothing of it took effect.
    Refused {
        from: String,
        reason: String,
    },
    /// A flow started, or was taken over.
    Created {
        local: String,
        remote: String,
        controller: String,
        arm: String,
        cwnd_bytes: u64,
        mss_bytes: u64,
        mark: u32,
        cgroup_id: u64,
    },
    Closed {
        reports: u64,
        switches: u64,
        acked_bytes: u64,
        lost_pkts: u64,
    },
    /// The flow changed hands.
    Switched {
        from: String,
        to: String,
        why: String,
        features: BTreeMap<&'static str, String>,
    },
    /// A policy looked, and stays.
    Stays {
        arm: String,
        why: String,
        features: BTreeMap<&'static str, String>,
    },
    /// What drove the flow cannot go on: an exception in it, or no answer. Reno takes the flow.
    Failed {
        arm: String,
        reason: String,
    },
    /// Arms that an author runs in a process of its own are there now.
    AuthorCame {
        arms: Vec<&'static str>,
    },
    /// They are no more.
    AuthorWent {
        arms: Vec<&'static str>,
    },
    /// What the flow is wanted to be good at, and who says so.
    Preferred {
        from: Wants,
        to: Wants,
        by: String,
    },
    /// The guard or the arm itself refused a switch.
    Vetoed {
        to: String,
        reason: String,
    },
    /// A policy's switch has made things worse and is undone; power is throughput over delay.
    RolledBack {
        from: String,
        to: String,
        power_percent: u64,
    },
    /// The guard changed a decision; at most one a second and flow.
    Clamped {
        rules: Vec<guard::Rule>,
        cwnd_bytes: u64,
        rate_bytes_per_sec: Option<u64>,
    },
    /// The flow runs the datapath's own control.
    FellBack {
        cwnd_bytes: u64,
        at_monotonic_us: u64,
    },
    /// It obeys the agent again.
    Restored {
        cwnd_bytes: u64,
        at_monotonic_us: u64,
    },
    /// An operator changed what drives new flows.
    DefaultChanged {
        from: String,
        to: String,
    },
    /// A flow begins knowing the arm that suited its destination.
    Recalled {
        arm: String,
        weight: f64,
        of: String,
    },
    /// A flow has jumped from one window to another, by what flows to its destination had.
    Jumped {
        from_bytes: u64,
        to_bytes: u64,
    },
    /// A flow has left the arm that suits its path; once, until that is another one.
    Remembered {
        arm: String,
        score: f64,
        of: String,
    },
    /// What former agents remembered has been read.
    MemoryRead {
        path: String,
        destinations: u64,
    },
    /// It could not be taken: it lies there under another name, and the agent begins with nothing.
    MemorySetAside {
        path: String,
        to: String,
        rule: String,
    },
    /// What is remembered is not on disk, or no longer as it is now; the agent goes on.
    MemoryUnkept {
        path: String,
        reason: String,
    },
    /// It is on disk again.
    MemoryKept {
        path: String,
        destinations: u64,
    },
    /// Samples to learn from could not be kept, so many of them; the agent goes on.
    SamplesUnkept {
        path: String,
        reason: String,
        left_out: u64,
    },
    /// Another model is in force; `gain` is by how much its squared error is less, over `flows`.
    Model {
        from: String,
        to: String,
        why: String,
        flows: u64,
        gain: Option<Interval>,
    },
    /// The trainer has left a model of so many live rows: it predicts in the shadow now.
    ModelCandidate {
        model: String,
        rows: u64,
        flows: u64,
    },
    /// A model does not take over: it breaks a rule, or is not better.
    ModelRefused {
        path: String,
        reason: String,
    },
    /// The model in force could not be taken: it lies there under another name, and the configured
    /// or shipped one is in force.
    ModelSetAside {
        path: String,
        to: String,
        rule: String,
    },
    /// What models there are could not be kept as it should be; the agent goes on.
    ModelUnkept {
        path: String,
        reason: String,
    },
    /// The model in force misses by something else than it used to: `usual` and `now` are mean
    /// errors of the natural logarithm of power.
    Drift {
        model: String,
        usual: f64,
        now: f64,
        flows: u64,
    },
    /// An operator had destinations forgotten.
    Forgot {
        of: String,
        destinations: u64,
    },
    /// An operator gave a destination an initial window, or with 0 none.
    InitialCwndSet {
        of: String,
        initial_cwnd_pkts: u32,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    t_unix_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<u32>,
    #[serde(flatten)]
    event: &'a Event,
}

pub trait Recorder: Send {
    /// Records one, of a flow or of the agent.
    fn record(&mut self, flow: Option<u32>, event: &Event);

    /// Takes a row that a policy of that flow has for whoever learns from it. Nobody, by default.
    fn sample(&mut self, _flow: u32, _sample: Sample) {}
}

/// An event as one line of JSON.
pub fn line(flow: Option<u32>, event: &Event) -> String {
    let t_unix_us = u64::try_from(clock::wall().as_micros()).unwrap_or(u64::MAX);
    serde_json::to_string(&Line { t_unix_us, flow, event }).expect("events are plain data")
}

/// A file of JSON lines, with a bound: at its size a new one starts, and one old file is kept.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

fn open(path: &Path) -> Result<(File, u64), Error> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(on(path.display()))?;
    let bytes = file.metadata().map_err(on(path.display()))?.len();
    Ok((file, bytes))
}

impl EventLog {
    /// Opens or continues a log.
    pub fn open(path: &Path, bytes_max: u64) -> Result<Self, Error> {
        let (file, bytes) = open(path)?;
        Ok(Self { path: path.to_owned(), file, bytes, bytes_max })
    }

    fn turn(&mut self) -> Result<(), Error> {
        let old = self.path.with_extension("old.jsonl");
        fs::rename(&self.path, &old).map_err(on(old.display()))?;
        (self.file, self.bytes) = open(&self.path)?;
        Ok(())
    }
}

impl Recorder for EventLog {
    fn record(&mut self, flow: Option<u32>, event: &Event) {
        let mut text = line(flow, event);
        text.push('\n');
        if self.bytes + text.len() as u64 > self.bytes_max
            && let Err(error) = self.turn()
        {
            tracing::warn!(%error, "the event log cannot start a new file");
        }
        match self.file.write_all(text.as_bytes()) {
            Ok(()) => self.bytes += text.len() as u64,
            Err(error) => {
                tracing::warn!(%error, "an event is not recorded");
                // Half a line would spoil the next one, too.
                let _ = self.file.set_len(self.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_flow_event_and_units() {
        let text = line(Some(7), &Event::FellBack { cwnd_bytes: 14_480, at_monotonic_us: 5 });
        let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(value["flow"], 7);
        assert_eq!(value["event"], "fell_back");
        assert_eq!(value["cwnd_bytes"], 14_480);
    }

    #[test]
    fn the_log_keeps_to_its_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        let mut log = EventLog::open(&path, 1_000).expect("it opens");
        for _ in 0..100 {
            log.record(None, &Event::Adopted { flows: 1 });
        }
        for name in ["events.jsonl", "events.old.jsonl"] {
            let bytes = fs::metadata(folder.path().join(name)).expect("it is there").len();
            assert!(bytes <= 1_000, "{name} has {bytes} bytes");
        }
    }
}
