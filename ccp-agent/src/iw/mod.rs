//! Initial windows of groups of destinations: TCP-RL's connection manager, data collector and
//! learner, on one host.
//!
//! ```text
//! response ─▶ collector.rs ─▶ keeper.rs (a thread) ─▶ records-N.parquet
//!                                  │  every interval_s: the learner chooses windows
//!                                  │  every regroup_s: groups, from all stored records
//!                                  ▼
//!                    model.json, table.csv, and the memory's learned windows ─▶ the kernel's map
//! ```
//!
//! [`remuda_selector::tcp_rl`] defines groups, bandits and rewards. docs/initial-windows.md has the
//! forms of the files.

pub mod collector;
mod geography;
pub mod keeper;
pub mod records;
mod report;

use crate::confidence::Comparison;
use crate::config::Config;
use crate::error::on;
use crate::events::Event;
use crate::run_dir::{self, RunDir};
use crate::{Error, clock, state_file};
use records::RecordFiles;
use remuda_selector::tcp_rl::config::IwConfig;
use remuda_selector::tcp_rl::geography::Geography;
use remuda_selector::tcp_rl::grouping::{Grouping, Tally};
use remuda_selector::tcp_rl::learner::{Learner, Taken};
use remuda_selector::tcp_rl::record::Record;
use remuda_selector::tcp_rl::table::Table;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

pub use report::{GroupReport, Report};

/// Records that wait in memory for their file; more are written at once.
const BATCH_MAX: usize = 65_536;
/// A model or table that is larger is refused: no configuration makes one.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// An interval of gain misses the true one with this probability at most, at any look.
const ALPHA: f64 = 0.05;
/// The reward of one response is 1 at most on the scale of its group's means, but for outliers.
const REWARD_MAX: f64 = 2.0;

/// Network features, and when their file was last changed.
#[derive(Debug, Default)]
struct Features {
    geography: Geography,
    changed_at: Option<SystemTime>,
}

/// What is needed to form groups, so that no lock is held meanwhile.
struct GroupingJob {
    config: IwConfig,
    features: Arc<Features>,
    paths: Vec<PathBuf>,
}

/// Groups that were formed, and what was refused on the way.
struct Grouped {
    features: Arc<Features>,
    grouping: Grouping,
    events: Vec<Event>,
}

/// The learner of a host, and its files.
pub struct Iw {
    config: IwConfig,
    dir: RunDir,
    features: Arc<Features>,
    learner: Learner,
    files: RecordFiles,
    batch: Vec<Record>,
    /// By the group's name: rewards with the learned window, and with the standard one.
    gains: HashMap<String, Comparison>,
    table: Arc<Table>,
    /// Prefixes for which the table has no room.
    table_left_out: usize,
    /// When groups were last formed, in seconds of the monotonic clock.
    grouped_s: Option<u64>,
    /// The time from one grouping to the next, in seconds. The first groups come from little data,
    /// so this time begins with two time bins, and doubles up to the configured `regroup_s`.
    regroup_s: u64,
    /// Records written since the agent started.
    stored: u64,
    saved: [String; 2],
    has_failed: bool,
    events: Vec<Event>,
}

fn model_file(dir: &Path) -> PathBuf {
    dir.join("model.json")
}

fn table_file(dir: &Path) -> PathBuf {
    dir.join("table.csv")
}

fn refused(path: &Path, rule: impl ToString) -> Event {
    Event::IwRefused { path: path.display().to_string(), rule: rule.to_string() }
}

/// Reads the configured file of prefixes; without one, there are prefixes alone.
fn features(config: &IwConfig) -> Result<Features, String> {
    let Some(path) = &config.geography else { return Ok(Features::default()) };
    let changed_at = fs::metadata(path).and_then(|about| about.modified()).ok();
    Ok(Features { geography: geography::read(path)?, changed_at })
}

/// The table that a former agent has left, if it is whole.
fn saved_table(dir: &Path) -> Result<Table, String> {
    let text = state_file::read(&table_file(dir), "table", FILE_BYTES_MAX)?;
    text.map_or_else(
        || Ok(Table::default()),
        |text| Table::parse(&text).map_err(|error| error.to_string()),
    )
}

impl GroupingJob {
    /// Reads the stored records and forms groups. A file of prefixes that has changed is read
    /// again; if it breaks a rule, the one before stays in force. A file of records that breaks one
    /// is renamed.
    fn run(self) -> Grouped {
        let mut events = Vec::new();
        let mut current = self.features;
        if let Some(path) = &self.config.geography {
            let changed_at = fs::metadata(path).and_then(|about| about.modified()).ok();
            if changed_at != current.changed_at {
                match features(&self.config) {
                    Ok(new) => current = Arc::new(new),
                    Err(rule) => events.push(refused(path, rule)),
                }
            }
        }
        let mut tally = Tally::new(self.config.bin_s);
        let now_unix_s = clock::wall().as_secs();
        let mut count = 0;
        for path in self.paths {
            let read = records::read(&path, now_unix_s, |record| {
                count += 1;
                tally.add(&current.geography, &record);
            });
            if let Err(rule) = read {
                events.push(refused(&path, rule));
                let _ = fs::rename(&path, path.with_extension("refused")); // it may be gone
            }
        }
        let leaves = tally.leaves() as u64;
        let grouping = tally.group(&current.geography, &self.config.requirement());
        let groups = grouping.groups.len() as u64;
        events.push(Event::IwGrouped { groups, leaves, records: count });
        Grouped { features: current, grouping, events }
    }
}

impl Iw {
    /// Takes the directory of the learner, and reads what a former agent has left there. A model
    /// that breaks a rule is renamed.
    ///
    /// # Errors
    ///
    /// The directory cannot be used, or the file of prefixes breaks a rule.
    fn take(config: &Config) -> Result<Self, Error> {
        let dir = RunDir::take(&run_dir::iw_dir(&config.state_dir()))?;
        let config = config.iw.clone();
        let features = features(&config).map_err(|rule| {
            let path = config.geography.clone().unwrap_or_default();
            Error::Config { path: path.display().to_string(), rule }
        })?;
        let mut it = Self {
            learner: Learner::new(config.clone()),
            files: RecordFiles::new(dir.path(), config.records_bytes_max),
            features: Arc::new(features),
            batch: Vec::new(),
            gains: HashMap::new(),
            table: Arc::default(),
            table_left_out: 0,
            grouped_s: None,
            regroup_s: (2 * config.bin_s).min(config.regroup_s),
            stored: 0,
            saved: Default::default(),
            has_failed: false,
            events: Vec::new(),
            config,
            dir,
        };
        it.read_model()?;
        it.compile();
        Ok(it)
    }

    fn read_model(&mut self) -> Result<(), Error> {
        let path = model_file(self.dir.path());
        let parse = |text: String| {
            Learner::parse(&text, self.config.clone(), &self.features.geography)
                .map_err(|error| error.to_string())
        };
        let read = state_file::read(&path, "model", FILE_BYTES_MAX);
        match read.and_then(|text| text.map(parse).transpose()) {
            Ok(Some(learner)) => {
                if learner.has_groups() {
                    self.grouped_s = Some(clock::monotonic_s());
                    self.regroup_s = self.config.regroup_s;
                }
                self.learner = learner;
            }
            Ok(None) => {}
            Err(rule) => {
                self.events.push(refused(&path, rule));
                state_file::set_aside(&path)?;
            }
        }
        Ok(())
    }

    /// Takes a record in.
    fn record(&mut self, record: Record) {
        let taken = self.learner.take(&self.features.geography, &record);
        if let Some(Taken { group, reward: Some(reward), is_control }) = taken {
            let new = || Comparison::new(0.0, REWARD_MAX, ALPHA);
            let gain = self.gains.entry(group.to_owned()).or_insert_with(new);
            gain.add(is_control, reward);
        }
        self.batch.push(record);
        if self.batch.len() >= BATCH_MAX {
            self.store();
        }
    }

    /// Writes the waiting records. If that fails, they are dropped and an event says why.
    fn store(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let done = self.files.put(&batch);
        if done.is_ok() {
            self.stored += batch.len() as u64;
        }
        self.note(done);
    }

    /// Records the first failure of several.
    fn note(&mut self, done: Result<(), Error>) {
        if let Err(error) = &done
            && !self.has_failed
        {
            let path = self.dir.path().display().to_string();
            self.events.push(Event::IwUnkept { path, reason: error.to_string() });
        }
        self.has_failed = done.is_err();
    }

    /// Ends an interval: stores its records, chooses windows again and saves them.
    fn turn(&mut self) {
        self.store();
        self.learner.decide();
        self.compile();
        self.save();
    }

    /// Makes the table of what the learner has chosen.
    fn compile(&mut self) {
        let (table, left_out) = self.learner.table(&self.features.geography);
        self.table_left_out = left_out;
        if table != *self.table {
            self.table = Arc::new(table);
        }
    }

    /// Writes model and table, if they have changed.
    fn save(&mut self) {
        let texts = [self.learner.to_json(&self.features.geography), self.table.to_string()];
        let paths = [model_file(self.dir.path()), table_file(self.dir.path())];
        for (at, text) in texts.into_iter().enumerate() {
            if text == self.saved[at] {
                continue;
            }
            let done = state_file::write(&paths[at], &text);
            if done.is_ok() {
                self.saved[at] = text;
            }
            self.note(done);
        }
    }

    /// What forms groups, if it is time to. Without groups, two more time bins may bring some.
    fn grouping_job(&mut self, now_s: u64) -> Option<GroupingJob> {
        if self.grouped_s.is_some_and(|at_s| now_s.saturating_sub(at_s) < self.regroup_s) {
            return None;
        }
        if self.learner.has_groups() {
            self.regroup_s = self.regroup_s.saturating_mul(2).min(self.config.regroup_s);
        }
        self.grouped_s = Some(now_s);
        let all = self.files.all().map_err(on(self.dir.path().display()));
        let paths = all.as_ref().map(|all| all.iter().map(|(_, path, _)| path.clone()).collect());
        let paths = paths.unwrap_or_default();
        self.note(all.map(|_| ()));
        Some(GroupingJob {
            config: self.config.clone(),
            features: Arc::clone(&self.features),
            paths,
        })
    }

    fn regroup(&mut self, grouped: Grouped) {
        let Grouped { features, grouping, events } = grouped;
        self.events.extend(events);
        self.learner.regroup(&features.geography, grouping);
        self.features = features;
        let names: Vec<String> = self.learner.rows().into_iter().map(|row| row.name).collect();
        self.gains.retain(|name, _| names.contains(name));
        self.compile();
        self.save();
    }

    /// Gives a group this window until it is unpinned; `None` unpins it.
    pub fn pin(&mut self, group: &str, cwnd_pkts: Option<u32>) -> Result<(), Error> {
        let done = self.learner.pin(group, cwnd_pkts);
        done.map_err(|error| Error::Refused(error.to_string()))?;
        let (group, cwnd_pkts) = (group.to_owned(), cwnd_pkts.unwrap_or(0));
        self.events.push(Event::IwPinned { group, cwnd_pkts });
        self.compile();
        self.save();
        Ok(())
    }

    /// Makes a group begin anew.
    pub fn forget(&mut self, group: &str) -> Result<(), Error> {
        self.learner.forget(group).map_err(|error| Error::Refused(error.to_string()))?;
        self.gains.remove(group);
        self.events.push(Event::IwForgot { group: group.to_owned() });
        self.compile();
        self.save();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
