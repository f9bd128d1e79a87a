//! Samples of live flows: what a policy measured of each arm, stored as training data.
//!
//! A separate thread writes the samples, because a disk may be slow and no report may wait for it.
//! A sample is dropped and counted when the thread falls behind or the disk is full. Samples hold
//! no addresses. The same thread compares each sample with what the models predicted
//! ([`crate::online`]).

pub mod buffer;
pub mod config;
mod files;

use crate::config::Config;
use crate::error::on;
use crate::events::Event;
use crate::host::Host;
use crate::lock::lock;
use crate::online::{Online, hosted};
use crate::{Error, clock, run_dir};
use buffer::Message;
pub use files::SampleFiles;
use remuda_algorithms::Sample;
use serde::Serialize;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Samples that may wait for the writer thread; further ones are dropped.
const WAITING_MAX: usize = 4_096;
/// How often the writer thread wakes up without a sample, to look for new models and to report
/// drops.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds between two events about dropped samples.
const REPORT_INTERVAL_S: u64 = 60;

/// One line of a sample file.
#[derive(Debug, Serialize)]
struct Row {
    /// The agent's flow number.
    flow: u32,
    arm: &'static str,
    from_s: f64,
    until_s: f64,
    seen_throughput_mbit_per_sec: f64,
    seen_lost_mbit_per_sec: f64,
    seen_rtt_mean_ms: f64,
    /// In the order of the file's first line; `null` means unknown.
    features: Vec<Option<f32>>,
}

impl Row {
    fn of(flow: u32, sample: &Sample) -> Self {
        let known = |value: &f32| Some(*value).filter(|value| value.is_finite());
        Self {
            flow,
            arm: sample.arm,
            from_s: sample.from.0.as_secs_f64(),
            until_s: sample.until.0.as_secs_f64(),
            seen_throughput_mbit_per_sec: sample.seen.throughput_mbit_per_sec,
            seen_lost_mbit_per_sec: sample.seen.lost_mbit_per_sec,
            seen_rtt_mean_ms: sample.seen.rtt_mean_ms,
            features: sample.features.iter().map(known).collect(),
        }
    }
}

impl SampleFiles {
    /// Appends one sample.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn put(&mut self, flow: u32, sample: &Sample) -> Result<(), Error> {
        let row = Row::of(flow, sample);
        self.add(&serde_json::to_string(&row).expect("it is plain data"))
    }
}

/// Runs the writer thread until it is dropped.
pub struct SampleKeeper {
    host: Arc<Mutex<Host>>,
    thread: Option<JoinHandle<()>>,
}

impl SampleKeeper {
    /// Starts the writer thread. If that fails, an event says why, and the agent runs without
    /// samples.
    pub fn start(config: &Config, host: &Arc<Mutex<Host>>) -> Self {
        let mut keeper = Self { host: Arc::clone(host), thread: None };
        if !config.samples.enabled {
            return keeper;
        }
        let dir = run_dir::samples_dir(&config.state_dir());
        let kept = SampleFiles::take(&dir, config.samples.bytes_max);
        if let Err(error) = kept.and_then(|files| keeper.keep(files, config)) {
            let (path, reason) = (dir.display().to_string(), error.to_string());
            lock(host).record(&Event::SamplesUnkept { path, reason, left_out: 0 });
        }
        keeper
    }

    fn keep(&mut self, files: SampleFiles, config: &Config) -> Result<(), Error> {
        let (to, from) = mpsc::sync_channel(WAITING_MAX);
        let online = hosted::start(config, &self.host);
        let host = Arc::clone(&self.host);
        let failed = None;
        let (reported_s, looked_s) = (None, 0);
        let mut writer =
            Writer { host, files, online, from, failed, left_out: 0, reported_s, looked_s };
        let named = thread::Builder::new().name("samples".to_owned());
        let thread = named.spawn(move || writer.run()).map_err(on("the sample thread"))?;
        self.thread = Some(thread);
        lock(&self.host).samples.to = Some(to);
        Ok(())
    }
}

impl Drop for SampleKeeper {
    fn drop(&mut self) {
        lock(&self.host).samples.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic in the thread has already printed its message
        }
    }
}

struct Writer {
    host: Arc<Mutex<Host>>,
    files: SampleFiles,
    online: Option<Arc<Mutex<Online>>>,
    from: Receiver<(u32, Message)>,
    /// Why the last failed write failed.
    failed: Option<String>,
    /// Dropped samples since the last event about them.
    left_out: u64,
    reported_s: Option<u64>,
    /// When this thread last looked for new models, in seconds.
    looked_s: u64,
}

impl Writer {
    fn run(&mut self) {
        loop {
            match self.from.recv_timeout(LOOK) {
                Ok((flow, Message::Sample(sample))) => {
                    self.write(flow, &sample);
                    self.online(|online| online.sample(flow, &sample));
                }
                Ok((flow, Message::Ended)) => self.online(|online| online.ended(flow)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now_s = clock::monotonic_s();
            if std::mem::replace(&mut self.looked_s, now_s) != now_s {
                self.online(Online::look);
            }
            self.report_dropped(now_s);
        }
    }

    fn online(&self, act: impl FnOnce(&mut Online)) {
        if let Some(online) = &self.online {
            hosted::with(online, &self.host, act);
        }
    }

    fn write(&mut self, flow: u32, sample: &Sample) {
        if let Err(error) = self.files.put(flow, sample) {
            self.failed = Some(error.to_string());
            self.left_out += 1;
        }
    }

    /// Records how many samples were dropped, at most once every [`REPORT_INTERVAL_S`].
    fn report_dropped(&mut self, now_s: u64) {
        if self.reported_s.is_some_and(|at_s| now_s.saturating_sub(at_s) < REPORT_INTERVAL_S) {
            return;
        }
        let waited = std::mem::take(&mut lock(&self.host).samples.left_out);
        let left_out = std::mem::take(&mut self.left_out) + waited;
        if left_out == 0 {
            return;
        }
        self.reported_s = Some(now_s);
        let too_many = || format!("more than {WAITING_MAX} waited to be written");
        let reason = self.failed.take().unwrap_or_else(too_many);
        let path = self.files.path().display().to_string();
        lock(&self.host).record(&Event::SamplesUnkept { path, reason, left_out });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Recorder;
    use remuda_algorithms::Seen;
    use remuda_algorithms::units::Time;
    use remuda_selector::features::COUNT;
    use serde_json::Value;
    use std::fs;
    use std::path::Path;

    struct Notes(Arc<Mutex<Vec<Event>>>);

    impl Recorder for Notes {
        fn record(&mut self, _flow: Option<u32>, event: &Event) {
            lock(&self.0).push(event.clone());
        }
    }

    fn sample(until_ms: u64) -> Sample {
        let mut features = vec![0.5; COUNT];
        features[3] = f32::NAN;
        let seen = Seen { span_s: 0.5, rtt_mean_ms: 40.0, ..Seen::default() };
        let until = Time(Duration::from_millis(until_ms));
        Sample { arm: "bbr", from: Time::ZERO, until, seen, features: features.into() }
    }

    type Events = Arc<Mutex<Vec<Event>>>;

    fn host(state_dir: &Path) -> (Config, Arc<Mutex<Host>>, Events) {
        let mut config = Config::default();
        config.agent.state_dir = Some(state_dir.to_owned());
        let events = Events::default();
        let notes = Box::new(Notes(Arc::clone(&events)));
        let host = Arc::new(Mutex::new(Host::new(config.clone(), notes)));
        (config, host, events)
    }

    #[test]
    fn what_a_flow_has_sampled_is_in_a_file_when_the_agent_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, host, events) = host(folder.path());
        let keeper = SampleKeeper::start(&config, &host);
        for until_ms in [500, 1_000] {
            lock(&host).samples.put(7, sample(until_ms));
        }
        drop(keeper);
        lock(&host).samples.put(7, sample(1_500));
        let path = run_dir::samples_dir(folder.path()).join("samples-0000000001.jsonl");
        let text = fs::read_to_string(path).expect("a file");
        let rows: Vec<Value> =
            text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!((&rows[1]["flow"], &rows[1]["arm"]), (&Value::from(7), &Value::from("bbr")));
        assert_eq!(rows[1]["until_s"], 1.0);
        let features = rows[1]["features"].as_array().expect("a list");
        assert_eq!((features.len(), &features[3]), (COUNT, &Value::Null));
        assert!(lock(&events).is_empty());
    }

    #[test]
    fn what_cannot_be_kept_is_an_event_and_the_agent_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(run_dir::samples_dir(folder.path()), "in the way").expect("it is written");
        let (config, host, events) = host(folder.path());
        let keeper = SampleKeeper::start(&config, &host);
        lock(&host).samples.put(7, sample(500));
        drop(keeper);
        let events = lock(&events);
        let [Event::SamplesUnkept { path, left_out: 0, .. }] = &events[..] else {
            panic!("{events:?}")
        };
        assert!(path.starts_with(&folder.path().display().to_string()), "{path}");
    }

    #[test]
    fn a_deleted_folder_costs_its_samples_and_is_an_event() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, host, events) = host(folder.path());
        let keeper = SampleKeeper::start(&config, &host);
        fs::remove_dir_all(run_dir::samples_dir(folder.path())).expect("it was there");
        lock(&host).samples.put(7, sample(500));
        drop(keeper);
        let events = lock(&events);
        assert!(matches!(&events[..], [Event::SamplesUnkept { left_out: 1, .. }]), "{events:?}");
    }
}
