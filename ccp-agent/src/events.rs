//! Events, written as JSON lines.
//!
//! Each line has `t_unix_us`, `flow` if the event is about a flow, `event`, and the fields of the
//! event with units in their names. Algorithms return values and do not log; the agent records. No
//! event is recorded per report.

use crate::clock;
use crate::error::on;
use crate::flow::PathSeen;
use crate::interval::Interval;
use crate::prefer::Wants;
use crate::rules::Group;
use crate::state_file::absent_is_none;
use crate::trouble::Trouble;
use crate::{Error, guard};
use remuda_algorithms::Sample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
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
        /// Flows that wait in the datapath's fallback for the next agent.
        flows_handed_over: u64,
    },
    /// Flows that a former agent left behind are driven by this agent.
    Adopted {
        flows: u64,
    },
    /// SIGHUP: these keys of the configuration have changed, and these wait for a restart.
    Reloaded {
        changed: Vec<String>,
        waits: Vec<String>,
    },
    /// SIGHUP: the configuration stays as it was.
    ReloadRefused {
        reason: String,
    },
    /// A former agent had left `name` as the host's default algorithm; `to` replaces it.
    DefaultMended {
        to: String,
    },
    /// The agent serves flows: this host's datapath has all programs.
    Ready {},
    /// A datapath has sent its hello; `lacks` are the capabilities that it does not have.
    DatapathReady {
        datapath: String,
        lacks: Vec<&'static str>,
    },
    /// A datapath stopped answering or was too slow, and is closed. Other datapaths go on.
    DatapathLost {
        datapath: String,
        reason: String,
    },
    /// Events of one user's flows that the log left out, because they were beyond the user's
    /// budget; `events` says how many of which. Without `uid`, they are of several users.
    EventsLeftOut {
        uid: Option<u32>,
        events: BTreeMap<String, u64>,
    },
    /// Sockets of a user did not become flows; they run the kernel's own algorithm.
    SocketsRefused {
        uid: u32,
        reason: String,
        sockets: u64,
    },
    /// Sockets did not become flows because every slot of the BPF datapath was taken.
    TableFull {
        flows_max: u32,
        sockets: u64,
    },
    /// A message was refused as a whole.
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
        uid: u32,
        /// The name of the rule that counts for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        group: Option<Group>,
    },
    Closed {
        reports: u64,
        switches: u64,
        acked_bytes: u64,
        lost_pkts: u64,
        /// The arm that had it last, and what drove it.
        arm: String,
        controller: String,
        local: String,
        remote: String,
        /// From its start to the last report in which bytes were acknowledged, in milliseconds.
        duration_ms: f64,
        /// The mean of its round trips, in milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        rtt_ms: Option<f64>,
        mss_bytes: u64,
        /// What its reports show of its path.
        path: PathSeen,
        /// The name of the rule that counted for it last, what it uses and what it matches.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        rule_use: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        rule_on: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        group: Option<Group>,
        /// Another rule, or no rule, counted for the flow earlier.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        rule_changed: bool,
    },
    /// The flow runs another arm now.
    Switched {
        from: String,
        to: String,
        why: String,
        features: BTreeMap<&'static str, String>,
    },
    /// A policy decided to keep the arm.
    Stays {
        arm: String,
        why: String,
        features: BTreeMap<&'static str, String>,
    },
    /// The flow's arm entered another of its own stages; such arms have stages as `anole`.
    Stage {
        arm: String,
        stage: &'static str,
        why: String,
        features: BTreeMap<&'static str, String>,
    },
    /// The driver of the flow raised an exception or did not answer. Reno drives the flow now.
    Failed {
        arm: String,
        reason: String,
    },
    /// A process has connected and offers these arms.
    AuthorCame {
        arms: Vec<&'static str>,
    },
    /// The process of these arms has disconnected.
    AuthorWent {
        arms: Vec<&'static str>,
    },
    /// The preference of a flow changed; `by` names the source of the new one.
    Preferred {
        from: Wants,
        to: Wants,
        by: String,
    },
    /// The guard or the arm refused a switch that a policy asked for.
    Vetoed {
        to: String,
        reason: String,
    },
    /// A policy's switch lowered power (throughput over delay) or raised losses too much, so the
    /// agent switched back.
    RolledBack {
        from: String,
        to: String,
        why: String,
    },
    /// The guard changed a decision. Recorded at most once a second for each flow.
    Clamped {
        rules: Vec<guard::Rule>,
        cwnd_bytes: u64,
        rate_bytes_per_sec: Option<u64>,
    },
    /// The datapath runs its own Reno for this flow, because the agent was silent.
    FellBack {
        cwnd_bytes: u64,
        at_monotonic_us: u64,
    },
    /// The flow follows the agent's decisions again.
    Restored {
        cwnd_bytes: u64,
        at_monotonic_us: u64,
    },
    /// An operator changed the arm or policy that drives new flows, or its process left.
    DefaultChanged {
        from: String,
        to: String,
    },
    /// A new flow starts with the arm remembered for its destination.
    Recalled {
        arm: String,
        weight: f64,
        of: String,
    },
    /// The flow's initial window was too much, so it goes on with half of what came through.
    Retreated {
        from_bytes: u64,
        to_bytes: u64,
        lost_bytes: u64,
    },
    /// A new flow raised its window at once, to what earlier flows to its destination had.
    Jumped {
        from_bytes: u64,
        to_bytes: u64,
    },
    /// The best arm of the flow was remembered for its destination. Recorded again only for another
    /// arm.
    Remembered {
        arm: String,
        score: f64,
        of: String,
    },
    /// The memory of destinations was read from disk at start.
    MemoryRead {
        path: String,
        destinations: u64,
    },
    /// The memory file broke a rule. It was renamed to `to`, and the agent starts with an empty
    /// memory.
    MemorySetAside {
        path: String,
        to: String,
        rule: String,
    },
    /// The memory could not be written to disk. The agent goes on and tries again.
    MemoryUnkept {
        path: String,
        reason: String,
    },
    /// The memory is on disk again, after a failed write.
    MemoryKept {
        path: String,
        destinations: u64,
    },
    /// Samples could not be stored; `left_out` of them are lost. The agent goes on.
    SamplesUnkept {
        path: String,
        reason: String,
        left_out: u64,
    },
    /// Another model predicts from now on; `gain` is by how much its bounded error is lower,
    /// measured over `flows`.
    Model {
        from: String,
        to: String,
        why: String,
        flows: u64,
        gain: Option<Interval>,
    },
    /// The trainer has written a new model. It makes predictions that are only compared, until it
    /// proves better than the model in force.
    ModelCandidate {
        model: String,
        rows: u64,
        flows: u64,
    },
    /// A candidate model was rejected: it breaks a rule or is not better.
    ModelRefused {
        path: String,
        reason: String,
    },
    /// The file of the model in force broke a rule. It was renamed to `to`, and the configured or
    /// shipped model predicts instead.
    ModelSetAside {
        path: String,
        to: String,
        rule: String,
    },
    /// The state of the models could not be written to disk. The agent goes on.
    ModelUnkept {
        path: String,
        reason: String,
    },
    /// The mean error of the model in force has moved from `usual` to `now`. Both are errors of the
    /// natural logarithm of power.
    Drift {
        model: String,
        usual: f64,
        now: f64,
        flows: u64,
    },
    /// Events before this one could not be written to the event log.
    EventsLost {
        events: u64,
        /// Why the last of them could not be written.
        reason: String,
    },
    /// A datapath announces more flows than its `HELLO` allows. The agent does not take `refused`
    /// of them; recorded at most once a minute for each datapath.
    FlowsRefused {
        datapath: String,
        flows_max: u32,
        refused: u64,
    },
    /// An operator deleted destinations from the memory.
    Forgot {
        of: String,
        destinations: u64,
    },
    /// An operator set the initial window of a destination; 0 segments means no such window.
    InitialCwndSet {
        of: String,
        initial_cwnd_pkts: u32,
    },
    /// Groups of destinations were formed from the stored records. `leaves` is how many subnets
    /// had records.
    IwGrouped {
        groups: u64,
        leaves: u64,
        records: u64,
    },
    /// A file of the learner of initial windows broke a rule. What was in force stays.
    IwRefused {
        path: String,
        rule: String,
    },
    /// The learner of initial windows cannot run, or cannot write its files. The agent goes on.
    IwUnkept {
        path: String,
        reason: String,
    },
    /// An operator gave a group an initial window; 0 segments means that it is learned again.
    IwPinned {
        group: String,
        cwnd_pkts: u32,
    },
    /// An operator made a group learn its initial window anew.
    IwForgot {
        group: String,
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
    /// Records an event of a flow, or with `None` of the agent.
    fn record(&mut self, flow: Option<u32>, event: &Event);

    /// Takes a training sample of a flow. The default implementation drops it.
    fn sample(&mut self, _flow: u32, _sample: Sample) {}

    /// Events of this flow come from now on; the flow counts for that user.
    fn begin(&mut self, _flow: u32, _uid: u32) {}

    /// No further event of this flow comes.
    fn end(&mut self, _flow: u32) {}

    /// Does what is due. The agent calls it some times a second.
    fn keep_house(&mut self) {}
}

/// Formats an event as one line of JSON.
pub fn line(flow: Option<u32>, event: &Event) -> String {
    let t_unix_us = u64::try_from(clock::wall().as_micros()).unwrap_or(u64::MAX);
    serde_json::to_string(&Line { t_unix_us, flow, event }).expect("events are plain data")
}

/// A file of JSON lines with a size limit: at the limit a new file starts, and one old file is
/// kept. Events that cannot be written are counted, and the first line that can be written again
/// says how many there were.
///
/// Arms enter stages hundreds of times a second, and nobody waits for one of them: their lines wait
/// for the next other event, for the agent's housekeeping or for [`WAITING_BYTES_MAX`], whichever
/// comes first. Every other event is in the file when it has been recorded.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    /// Events lost since the last line.
    lost: u64,
    /// Why the last of them was lost.
    reason: String,
    /// The file ends with a part of a line, which could not be cut off.
    is_torn: bool,
    /// The lines that are not in the file yet, and how many events they are.
    waiting: String,
    waiting_events: u64,
    trouble: Trouble,
}

/// The most bytes of lines that wait to be written. In a small log it is an eighth of the log.
const WAITING_BYTES_MAX: u64 = 16_384;

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

/// The log before this one.
fn old(path: &Path) -> PathBuf {
    path.with_extension("old.jsonl")
}

impl EventLog {
    /// Opens a log, or appends to an existing one.
    pub fn open(path: &Path, bytes_max: u64) -> Result<Self, Error> {
        let (file, bytes) = open(path)?;
        let path = path.to_owned();
        Ok(Self {
            path,
            file,
            bytes,
            bytes_max,
            lost: 0,
            reason: String::new(),
            is_torn: false,
            waiting: String::new(),
            waiting_events: 0,
            trouble: Trouble::default(),
        })
    }

    /// The highest flow number in the log, or 0. A new agent gives its first flow the next number.
    /// Lines that cannot be read are left out.
    pub fn newest_flow(&self) -> u32 {
        #[derive(Deserialize)]
        struct Numbered {
            flow: u32,
        }
        let files = [old(&self.path), self.path.clone()];
        let lines = files.iter().filter_map(|path| File::open(path).ok()).flat_map(|file| {
            BufReader::new(file.take(2 * self.bytes_max)).split(b'\n').map_while(Result::ok)
        });
        let numbers = lines.filter_map(|line| serde_json::from_slice::<Numbered>(&line).ok());
        numbers.map(|it| it.flow).max().unwrap_or(0)
    }

    fn start_file(&mut self) -> Result<(), Error> {
        let old = old(&self.path);
        // There is no file if it was renamed before, and the new one could not be opened then.
        absent_is_none(fs::rename(&self.path, &old)).map_err(on(old.display()))?;
        (self.file, self.bytes) = open(&self.path)?;
        self.is_torn = false;
        Ok(())
    }

    /// Makes room for a line: starts a new file at the limit. If no new file can be started, the
    /// present one may grow by an eighth of the limit.
    fn make_room(&mut self, bytes: u64) -> Result<(), Error> {
        if self.bytes + bytes <= self.bytes_max {
            return Ok(());
        }
        match self.start_file() {
            Err(_) if self.bytes + bytes <= self.bytes_max + self.bytes_max / 8 => Ok(()),
            started => started,
        }
    }

    /// Writes whole lines, or nothing.
    fn append(&mut self, lines: &str) -> Result<(), Error> {
        self.make_room(lines.len() as u64 + 1)?;
        let separator = if self.is_torn { "\n" } else { "" };
        let text = format!("{separator}{lines}");
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // Cut off a partly written line, so that the next line can be parsed.
            let bytes = self.file.metadata().map_or(u64::MAX, |about| about.len());
            let is_cut = bytes <= self.bytes || self.file.set_len(self.bytes).is_ok();
            self.is_torn |= !is_cut;
            return Err(on(self.path.display())(error));
        }
        self.bytes += text.len() as u64;
        self.is_torn = false;
        Ok(())
    }

    /// Writes the lines that wait.
    fn write_waiting(&mut self) {
        let events = std::mem::take(&mut self.waiting_events);
        if events == 0 {
            return;
        }
        let mut lines = String::new();
        if self.lost > 0 {
            let reason = self.reason.clone();
            lines = line(None, &Event::EventsLost { events: self.lost, reason });
            lines.push('\n');
        }
        lines.push_str(&self.waiting);
        self.waiting.clear();
        match self.append(&lines) {
            Ok(()) => {
                let lost = std::mem::take(&mut self.lost);
                if self.trouble.over().is_some() {
                    tracing::warn!(lost, "events are recorded again");
                }
            }
            Err(error) => {
                self.lost += events;
                self.reason = error.to_string();
                if self.trouble.again(clock::monotonic_ns()).is_some() {
                    tracing::warn!(%error, lost = self.lost, "events are not recorded");
                }
            }
        }
    }
}

impl Recorder for EventLog {
    fn record(&mut self, flow: Option<u32>, event: &Event) {
        self.waiting.push_str(&line(flow, event));
        self.waiting.push('\n');
        self.waiting_events += 1;
        let may_wait = matches!(event, Event::Stage { .. });
        let most = (self.bytes_max / 8).min(WAITING_BYTES_MAX);
        if !may_wait || self.waiting.len() as u64 >= most {
            self.write_waiting();
        }
    }

    fn keep_house(&mut self) {
        self.write_waiting();
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.write_waiting();
        if self.lost > 0 {
            tracing::warn!(lost = self.lost, reason = self.reason, "events were not recorded");
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

    /// The numbers of flows in the `adopted` events of a log, and the sum of its lost events.
    fn kept_and_lost(folder: &Path) -> (Vec<u64>, u64) {
        let (mut kept, mut lost, mut torn) = (Vec::new(), 0, 0);
        for name in ["events.old.jsonl", "events.jsonl"] {
            let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
            for line in text.lines().filter(|line| !line.is_empty()) {
                match serde_json::from_str::<serde_json::Value>(line) {
                    Ok(event) => {
                        kept.extend(event["flows"].as_u64());
                        lost += event["events"].as_u64().unwrap_or(0);
                    }
                    Err(_) => torn += 1,
                }
            }
        }
        assert!(torn <= 1, "{torn} lines are torn");
        (kept, lost)
    }

    #[test]
    fn whatever_fails_each_event_is_kept_or_counted_as_lost() {
        let adopted = |log: &mut EventLog, flows| log.record(None, &Event::Adopted { flows });
        let begin = || {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("events.jsonl");
            let mut log = EventLog::open(&path, 1_500).expect("it opens");
            (0..24).for_each(|flows| adopted(&mut log, flows));
            (folder, log)
        };
        // The second of these starts a new file.
        let act = |(_, log): &mut (tempfile::TempDir, EventLog)| {
            (24..30).for_each(|flows| adopted(log, flows));
        };
        let failures = crate::faults::each(begin, act, |(folder, mut log), (), failure| {
            adopted(&mut log, 30);
            let (kept, lost) = kept_and_lost(folder.path());
            assert_eq!(kept.len() as u64 + lost, 31, "{failure:?}: {kept:?} and {lost} lost");
            assert_eq!(kept.last(), Some(&30), "{failure:?}");
        });
        println!("the event log: {failures} failures");
        assert!(failures >= 20, "{failures}");
    }

    #[test]
    fn stages_wait_for_another_event_for_housekeeping_or_for_their_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        let mut log = EventLog::open(&path, 1 << 20).expect("it opens");
        let stage = Event::Stage {
            arm: "anole".to_owned(),
            stage: "observe",
            why: String::new(),
            features: BTreeMap::new(),
        };
        let lines = || fs::read_to_string(&path).expect("it is there").lines().count();
        log.record(Some(1), &stage);
        assert_eq!(lines(), 0);
        log.keep_house();
        assert_eq!(lines(), 1);
        log.record(Some(1), &stage);
        log.record(None, &Event::Adopted { flows: 7 });
        assert_eq!(lines(), 3);
        let text = fs::read_to_string(&path).expect("it is there");
        assert!(text.lines().last().is_some_and(|line| line.contains("adopted")), "in order");
        (0..1_000).for_each(|_| log.record(Some(1), &stage));
        assert!(lines() > 800, "{} lines", lines());
        drop(log);
        assert_eq!(lines(), 1_003, "the last are written at the end");
    }

    #[test]
    fn a_new_agent_numbers_flows_on_from_those_in_the_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        let log = || EventLog::open(&path, 1_000).expect("it opens");
        assert_eq!(log().newest_flow(), 0);
        fs::write(old(&path), line(Some(40), &Event::Adopted { flows: 1 })).expect("it is written");
        assert_eq!(log().newest_flow(), 40, "the new file has no flow yet");
        log().record(Some(41), &Event::Adopted { flows: 1 });
        log().record(Some(12), &Event::Adopted { flows: 1 });
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(b"{\"flow\":99\n{\"flow\":-1}\n\xff\n{\"flow\":9"))
            .expect("it is written");
        assert_eq!(log().newest_flow(), 41, "damaged lines count for nothing");
    }

    #[test]
    fn without_a_new_file_the_log_grows_by_an_eighth_and_then_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        let in_the_way = folder.path().join("events.old.jsonl");
        fs::create_dir_all(in_the_way.join("x")).expect("a folder");
        let mut log = EventLog::open(&path, 1_000).expect("it opens");
        for _ in 0..100 {
            log.record(None, &Event::Adopted { flows: 1 });
        }
        let bytes = fs::metadata(&path).expect("it is there").len();
        assert!((1_000..=1_125).contains(&bytes), "{bytes} bytes");
        let lost = log.lost;
        assert!(lost > 50, "{lost}");
        fs::remove_dir_all(&in_the_way).expect("it is removed");
        log.record(None, &Event::Adopted { flows: 2 });
        let text = fs::read_to_string(&path).expect("a new file");
        let first: serde_json::Value =
            serde_json::from_str(text.lines().next().expect("a line")).expect("it is JSON");
        assert_eq!((&first["event"], &first["events"]), (&"events_lost".into(), &lost.into()));
        assert_eq!((text.lines().count(), log.lost), (2, 0));
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
