//! The learner with its files: what it keeps, what it refuses, and what it puts in force.

use super::keeper::{IwKeeper, report, with};
use super::records::tests::record;
use super::*;
use crate::events::Recorder;
use crate::host::Host;
use crate::lock::lock;
use std::sync::Mutex;
use tempfile::TempDir;

type Events = Arc<Mutex<Vec<Event>>>;

struct Notes(Events);

impl Recorder for Notes {
    fn record(&mut self, _flow: Option<u32>, event: &Event) {
        lock(&self.0).push(event.clone());
    }
}

struct Agent {
    config: Config,
    host: Arc<Mutex<Host>>,
    events: Events,
}

impl Agent {
    fn in_folder(folder: &TempDir, geography: Option<&str>) -> Self {
        let mut config = Config::default();
        config.agent.state_dir = Some(folder.path().join("state"));
        config.iw.enabled = true;
        config.iw.samples_min = 10;
        config.iw.control_share = 0.0;
        config.iw.geography = geography.map(|name| folder.path().join(name));
        let events = Events::default();
        let notes = Box::new(Notes(Arc::clone(&events)));
        let host = Arc::new(Mutex::new(Host::new(config.clone(), notes)));
        Self { config, host, events }
    }

    fn keeper(&self) -> IwKeeper {
        IwKeeper::start(&self.config, &self.host)
    }

    fn iw(&self) -> Arc<Mutex<Iw>> {
        lock(&self.host).iw.clone().expect("it learns")
    }

    /// Ends an interval, in which groups are due.
    fn turn(&self) {
        let iw = self.iw();
        with(&iw, &self.host, Iw::turn);
        let job = {
            let mut iw = lock(&iw);
            iw.grouped_s = None;
            iw.grouping_job(0).expect("it is due")
        };
        let grouped = job.run();
        with(&iw, &self.host, |iw| iw.regroup(grouped));
    }

    fn learn(&self, peer: &str, cwnd_pkts: u32) {
        let iw = self.iw();
        for bin in 0..3 {
            for _ in 0..20 {
                let ended_unix_s = 600 * bin + 1;
                lock(&iw).record(Record { ended_unix_s, ..record(peer, cwnd_pkts) });
            }
        }
    }

    fn window(&self, address: &str) -> u32 {
        let address = address.parse().expect("an address");
        lock(&self.host).memory().start(address, 0).initial_cwnd_pkts
    }

    fn dir(&self) -> PathBuf {
        run_dir::iw_dir(&self.config.state_dir())
    }

    fn refusals(&self) -> Vec<String> {
        let events = lock(&self.events);
        let rule = |event: &Event| match event {
            Event::IwRefused { rule, .. } => Some(rule.clone()),
            Event::IwUnkept { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        events.iter().filter_map(rule).collect()
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// In units of a time bin: after 2, after 2 more without groups, then after 4, 8 and so on.
#[test]
fn the_first_groups_are_soon_formed_again() {
    let folder = folder();
    let agent = Agent::in_folder(&folder, None);
    let _keeper = agent.keeper();
    let bin_s = agent.config.iw.bin_s;
    let is_due = |bins: u64| lock(&agent.iw()).grouping_job(bins * bin_s).is_some();
    lock(&agent.iw()).grouped_s = Some(0);
    assert!(!is_due(1) && is_due(2) && !is_due(3) && is_due(4), "without groups");
    agent.learn("192.0.2.7", 10);
    agent.turn();
    lock(&agent.iw()).grouped_s = Some(4 * bin_s);
    assert!(!is_due(5) && is_due(6), "the first groups came from little data");
    assert!(!is_due(9) && is_due(10), "four bins later");
    assert!(!is_due(17) && is_due(18), "eight bins later");
    lock(&agent.iw()).grouped_s = Some(0);
    let most = agent.config.iw.regroup_s / bin_s;
    assert!((1..20).all(|turn| lock(&agent.iw()).grouping_job(turn * 86_400 * 2).is_some()));
    lock(&agent.iw()).grouped_s = Some(0);
    assert!(!is_due(most - 1) && is_due(most), "at most the configured span");
}

#[test]
fn records_become_groups_and_windows_that_a_restart_and_a_kill_keep() {
    let folder = folder();
    let first = Agent::in_folder(&folder, None);
    let keeper = first.keeper();
    first.learn("192.0.2.7", 10);
    assert_eq!(first.window("192.0.2.7"), 0, "no group is known yet");
    first.turn();
    assert_eq!(first.window("192.0.2.9"), 5, "the first window of a new group");
    first.learn("192.0.2.7", 5);
    first.turn();
    assert_eq!(first.window("192.0.2.9"), 10);
    report(&first.host, |iw| iw.pin("192.0.2.0/24", Some(44))).expect("it is there");
    assert_eq!(first.window("192.0.2.9"), 44);
    // Without a last word, as after kill -9: all that matters is on disk already.
    let files = folder.path().join("copy");
    fs::create_dir(&files).expect("a folder");
    for name in ["model.json", "table.csv"] {
        fs::copy(first.dir().join(name), files.join(name)).expect("it is written");
    }
    drop(keeper);
    for name in ["model.json", "table.csv"] {
        let after = fs::read(first.dir().join(name)).expect("a file");
        assert_eq!(after, fs::read(files.join(name)).expect("a file"), "{name}");
    }
    let next = Agent::in_folder(&folder, None);
    let keeper = next.keeper();
    assert_eq!(next.window("192.0.2.9"), 44, "before the first interval");
    let shown = report(&next.host, |iw| iw.pin("192.0.2.0/24", None)).expect("it is there");
    assert_eq!((shown.groups.len(), shown.groups[0].row.rounds), (1, 1));
    assert_eq!(next.window("192.0.2.9"), 10);
    let unknown = report(&next.host, |iw| iw.forget("nothing")).expect_err("no group");
    assert!(unknown.to_string().contains("there is no group \"nothing\""), "{unknown}");
    assert!(next.refusals().is_empty());
    drop(keeper);
}

#[test]
fn a_bad_file_is_refused_with_place_and_rule_and_the_table_stays() {
    let folder = folder();
    let path = folder.path().join("prefixes.csv");
    let head = "prefix,isp,region\n192.0.2.0/24,A,R\n";
    fs::write(&path, head).expect("it is written");
    let agent = Agent::in_folder(&folder, Some("prefixes.csv"));
    let keeper = agent.keeper();
    agent.learn("192.0.2.7", 10);
    agent.turn();
    assert_eq!(agent.window("192.0.2.9"), 5);
    // While it runs: the table of prefixes and one file of records become bad.
    fs::write(&path, format!("{head}192.0.2.128/25,B,R\n")).expect("it is written");
    let records = lock(&agent.iw()).files.all().expect("a folder")[0].1.clone();
    fs::write(agent.dir().join("records-9999999999.parquet"), "PAR1").expect("it is written");
    agent.turn();
    assert_eq!(agent.window("192.0.2.9"), 5, "what was in force stays");
    let refusals = agent.refusals();
    assert!(refusals[0].contains("line 3: 192.0.2.128/25 overlaps"), "{refusals:?}");
    assert_eq!(refusals.len(), 2);
    assert!(records.exists() && !agent.dir().join("records-9999999999.parquet").exists());
    drop(keeper);
    // At a start: nothing is learned, and the table of the former agent is in force.
    let next = Agent::in_folder(&folder, Some("prefixes.csv"));
    let keeper = next.keeper();
    assert!(next.refusals()[0].contains("line 3"), "{:?}", next.refusals());
    assert_eq!(next.window("192.0.2.9"), 5);
    report(&next.host, |_| Ok(())).expect_err("it does not learn");
    drop(keeper);
}

#[test]
fn a_bad_model_is_set_aside_and_the_records_remain() {
    let folder = folder();
    let first = Agent::in_folder(&folder, None);
    let keeper = first.keeper();
    first.learn("192.0.2.7", 10);
    first.turn();
    drop(keeper);
    let model = model_file(&first.dir());
    let text = fs::read_to_string(&model).expect("a model");
    fs::write(&model, text.replace("\"playing_pkts\":5", "\"playing_pkts\":0")).expect("written");
    let next = Agent::in_folder(&folder, None);
    let keeper = next.keeper();
    let refusals = next.refusals();
    assert!(refusals[0].contains("playing_pkts must lie in 1..=1000"), "{refusals:?}");
    assert!(next.dir().join("model.refused.1").exists());
    next.turn();
    assert_eq!(next.window("192.0.2.9"), 5, "groups are formed from the records again");
    drop(keeper);
}

#[test]
fn the_gain_over_the_standard_window_has_an_interval() {
    let folder = folder();
    let mut agent = Agent::in_folder(&folder, None);
    agent.config.iw.control_share = 0.5;
    let keeper = agent.keeper();
    agent.learn("192.0.2.7", 10);
    agent.turn();
    let iw = agent.iw();
    for _ in 0..400 {
        let row = lock(&iw).learner.rows().remove(0);
        let response_us = if row.is_control { 240_000 } else { 120_000 };
        for _ in 0..10 {
            let record = Record { response_us, ..record("192.0.2.7", row.playing_pkts) };
            lock(&iw).record(record);
        }
        lock(&iw).learner.decide();
    }
    let shown = report(&agent.host, |_| Ok(())).expect("it learns");
    let gain = shown.groups[0].gain.expect("both are known");
    assert!(gain.least > 0.3 && gain.most < 0.5, "0.8 / 2 are gained: {gain:?}");
    drop(keeper);
}
