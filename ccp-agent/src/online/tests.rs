use super::*;
use crate::Setup;
use crate::events::Recorder;
use crate::host::Host;
use crate::lock::lock;
use crate::samples::SampleKeeper;
use proptest::prelude::*;
use remuda_algorithms::units::Time;
use remuda_algorithms::{Seen, Slot};
use remuda_selector::features::{COUNT, Features, SchemaHash, schema};
use remuda_selector::trees;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// A forest of trees with one leaf.
fn leaf(value: f32) -> Value {
    trees::leaf(value, COUNT)
}

/// A model that predicts e^value of the path's rate for bbr and copa.
fn model(value: f32) -> Value {
    let each = |value| json!({ "bbr": leaf(value), "copa": leaf(value) });
    let mode = json!({ "bbr": [leaf(0.9)], "copa": [leaf(0.8)] });
    json!({
        "format": 3, "policy": "antelope", "kind": "per_arm", "arms": ["bbr", "copa"],
        "home": "bbr", "doubts": null,
        "schema_version": schema().version, "schema_hash": SchemaHash::ours().to_string(),
        "modes": { "default": mode, "throughput": mode, "delay": mode },
        "values": { "throughput": each(value), "delay": each(0.0) },
        "checks": [],
        "card": {
            "name": "of a test", "data": "none", "commit": "", "seed": 1,
            "environments_trained": 1, "environments_held_out": 1, "rows": 1, "scores": {},
            "limits": ""
        }
    })
}

/// A model trained on live flows from `of`, which predicts `by` more.
fn taught(of: &Value, parent: &str, by: f32) -> Value {
    let mut model = of.clone();
    model["online"] = json!({
        "parent": parent, "rows": 9, "flows": 3,
        "shared": { "throughput": leaf(by), "delay": leaf(0.0) },
        "corrections": { "throughput": {}, "delay": {} }
    });
    model
}

/// An agent's configuration. Its model predicts too much by 2, and forty flows are the most to
/// judge by.
struct Place {
    folder: TempDir,
    setup: Setup,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("base.json");
        fs::write(&path, model(2.0).to_string()).expect("it is written");
        let mut setup = Setup::default();
        let config = &mut setup.config;
        config.agent.state_dir = Some(folder.path().join("state"));
        config.policy.antelope.model = Some(path);
        (config.online.flows_min, config.online.flows_max) = (3, 40);
        let mut place = Self { folder, setup };
        place.load();
        place
    }

    fn load(&mut self) {
        self.setup.load().expect("it has a model");
    }

    fn online(&mut self) -> Online {
        self.load();
        Online::take(&self.setup.config, &self.setup.loaded).expect("its folder is its own")
    }

    fn file(&self, name: &str) -> PathBuf {
        run_dir::models_dir(&self.setup.config.state_dir()).join(name)
    }

    fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Writes a candidate whole, as the trainer does.
    fn leave(&self, candidate: &Value) {
        let new = self.folder.path().join("candidate");
        fs::write(&new, candidate.to_string()).expect("it is written");
        fs::rename(new, self.file("candidate.json")).expect("it is there");
    }

    /// Writes a candidate trained from the model in force, which predicts `by` more.
    fn leave_taught(&self, online: &Online, by: f32) {
        self.leave(&taught(&model(2.0), online.slot.get().digest(), by));
    }
}

/// Name and text of each event since the last call.
fn events(online: &mut Online) -> Vec<(String, String)> {
    let all = std::mem::take(&mut online.events);
    all.iter().map(named).collect()
}

fn named(event: &Event) -> (String, String) {
    let value = serde_json::to_value(event).expect("it is plain data");
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let about = text("reason").or(text("rule")).or(text("why")).unwrap_or_default();
    (text("event").expect("a name"), about)
}

fn names(online: &mut Online) -> Vec<String> {
    events(online).into_iter().map(|it| it.0).collect()
}

/// A span of bbr on a path of 8 Mbit/s and 40 ms, with a throughput of e^`got` of the path's rate.
fn sample(from_s: u64, until_s: u64, got: f64) -> Sample {
    let at = |s| Time(Duration::from_secs(s));
    let known = |name: &str| match name {
        "rate_max_mbit_per_sec" => 8.0,
        "rtt_min_ms" => 40.0,
        _ => f32::NAN,
    };
    let features = schema().features.iter().map(|it| known(&it.name)).collect();
    let seen = Seen {
        span_s: (until_s - from_s) as f64,
        throughput_mbit_per_sec: 8.0 * got.exp(),
        lost_mbit_per_sec: 0.0,
        rtt_mean_ms: 40.0,
    };
    Sample { arm: "bbr", from: at(from_s), until: at(until_s), seen, features }
}

/// A flow of thirteen seconds.
fn flow(online: &mut Online, number: u32, got: f64) {
    online.sample(number, &sample(0, 1, got));
    online.sample(number, &sample(1, 13, got));
    online.ended(number);
}

/// What the model in force predicts for the path.
fn says(slot: &Slot<Model>) -> f32 {
    let value = slot.get().value(&Features([f32::NAN; COUNT]), "bbr");
    value.expect("it knows bbr").ln_throughput
}

/// Flows from this number on, each with `more` above what the path gives, until another model is in
/// force; returns how many. A model that is off by 2 is found out in twenty.
fn until_another(online: &mut Online, from: u32, more: f64) -> u32 {
    let before = says(&online.slot);
    for number in from..from + 20 {
        flow(online, number, more + get(number));
        if says(&online.slot) != before {
            return number + 1 - from;
        }
    }
    panic!("no model took over: {:?}", online.report().shadows);
}

fn get(number: u32) -> f64 {
    f64::from(number % 3) * 0.1
}

#[test]
fn what_is_better_in_the_shadow_takes_over_and_an_order_goes_back() {
    let mut place = Place::new();
    let mut online = place.online();
    let slot = online.slot.clone();
    flow(&mut online, 1, 0.0);
    place.leave_taught(&online, -2.0);
    online.look();
    assert_eq!(names(&mut online), ["model_candidate"]);
    for number in 2..4 {
        flow(&mut online, number, get(number));
    }
    assert_eq!(says(&slot), 2.0, "two flows are too few");
    let report = online.report();
    assert_eq!((report.is_base, report.score.as_ref().map(|it| it.flows)), (true, Some(3)));
    assert_eq!((report.shadows[0].role.as_str(), report.shadows[0].score.flows), ("candidate", 2));
    let more = until_another(&mut online, 4, 0.0);
    assert_eq!(says(&slot), 0.0, "running flows ask the slot");
    let [Event::Model { flows, gain: Some(gain), .. }] = &online.events[..] else {
        panic!("{:?}", online.events)
    };
    assert_eq!(*flows, u64::from(more + 2));
    assert!(gain.least > 0.0 && gain.mean > 0.7, "{gain:?}");
    assert!(place.has("current.json") && place.has("previous.json"));
    assert!(!place.has("candidate.json") && !place.has("current.new"));
    let report = online.report();
    assert_eq!((report.is_base, report.model.rows), (false, 9));
    assert_eq!(report.shadows[0].role, "previous");
    events(&mut online);
    online.back().expect("there is one");
    assert_eq!(says(&slot), 2.0);
    assert_eq!(events(&mut online), [("model".to_owned(), "an operator's order".to_owned())]);
    assert!(place.has("left.json") && !place.has("current.json"));
    let error = online.back().expect_err("once").to_string();
    assert!(error.contains("fix: `remuda model base`"), "{error}");
    online.back_to_base().expect_err("it is in force");
}

#[test]
fn what_is_not_better_is_refused_after_as_many_flows_as_it_is_given() {
    let mut place = Place::new();
    let mut online = place.online();
    place.leave_taught(&online, 0.5);
    online.look();
    for number in 1..40 {
        flow(&mut online, number, get(number));
    }
    assert_eq!(names(&mut online), ["model_candidate"]);
    flow(&mut online, 40, get(40));
    let [(name, why)] = &events(&mut online)[..] else { panic!("one event") };
    assert!(name == "model_refused" && why.contains("after 40 flows: the interval must lie above"));
    assert!(place.has("refused.json") && !place.has("candidate.json"));
    assert_eq!(says(&online.slot), 2.0);
}

#[test]
fn flows_that_were_there_before_a_candidate_do_not_judge_it() {
    let mut place = Place::new();
    let mut online = place.online();
    for number in 1..=9 {
        online.sample(number, &sample(0, 1, 0.0));
    }
    place.leave_taught(&online, -2.0);
    online.look();
    for number in 1..=9 {
        online.sample(number, &sample(1, 13, get(number)));
    }
    assert_eq!(online.report().shadows[0].score.flows, 0);
    assert_eq!(online.report().score.map(|it| it.flows), Some(9));
}

#[test]
fn a_model_that_turns_out_worse_than_the_one_before_is_left_by_itself() {
    let mut place = Place::new();
    let mut online = place.online();
    place.leave_taught(&online, -2.0);
    online.look();
    let flows = until_another(&mut online, 1, 0.0);
    assert_eq!(says(&online.slot), 0.0);
    // A candidate that is better than the model in force, and trained from it; that model is about
    // to be given up.
    place.leave_taught(&online, -1.0);
    online.look();
    events(&mut online);
    until_another(&mut online, flows + 1, 2.0);
    assert_eq!(says(&online.slot), 2.0);
    let want = [
        ("model", "the previous model is better on the flows since then"),
        ("model_refused", "online.parent: its parent is no longer in force"),
    ];
    let want = want.map(|(name, why)| (name.to_owned(), why.to_owned()));
    assert_eq!(events(&mut online), want);
    assert!(place.has("left.json") && !place.has("current.json"));
}

#[test]
fn hostile_candidates_are_refused_by_rule_and_cost_nothing() {
    let mut place = Place::new();
    let mut online = place.online();
    let parent = online.slot.get().digest().to_owned();
    let good = taught(&model(2.0), &parent, -2.0);
    let text = good.to_string();
    let path = place.file("candidate.json");
    let with = |key: &str, value: Value| {
        let mut other = good.clone();
        *other.pointer_mut(key).expect("it is there") = value;
        other.to_string()
    };
    let other_arms = text.replace("copa", "vegas");
    for (text, rule) in [
        (text[..text.len() / 2].to_owned(), "EOF"),
        (String::new(), "EOF"),
        (with("/format", json!(1)), "its format is 1"),
        (with("/schema_hash", json!("00")), "it was trained on other features"),
        (with("/online", Value::Null), "online: it is missing"),
        (with("/online/parent", json!("0".repeat(64))), "fix: train again from the model in"),
        (with("/online/shared/delay", json!({})), "not a model"),
        (other_arms, "arms: they must be the same"),
    ] {
        fs::write(&path, &text).expect("it is written");
        online.look();
        let [(name, why)] = &events(&mut online)[..] else { panic!("{rule}: one event") };
        assert!(name == "model_refused" && why.contains(rule), "{name} {why}");
        assert_eq!(fs::read_to_string(place.file("refused.json")).expect("it is kept"), text);
        online.look();
        online.look();
        assert_eq!(events(&mut online), [], "recorded once");
    }
    assert_eq!(says(&online.slot), 2.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_became_of_a_candidates_bytes_the_model_in_force_stays(
        cut in 0.0..1.0f64, at in 0.0..1.0f64, byte: u8,
    ) {
        let mut place = Place::new();
        let mut online = place.online();
        let good = taught(&model(2.0), online.slot.get().digest(), -2.0).to_string();
        let mut bytes = good.into_bytes();
        let place_of = |share: f64, bytes: &[u8]| (bytes.len() as f64 * share) as usize;
        let changed = place_of(at, &bytes);
        bytes[changed] = byte;
        if cut < 0.5 {
            bytes.truncate(place_of(2.0 * cut, &bytes));
        }
        fs::write(place.file("candidate.json"), &bytes).expect("it is written");
        online.look();
        let all = names(&mut online);
        prop_assert!(all == ["model_candidate"] || all == ["model_refused"], "{all:?}");
        prop_assert_eq!(place.has("refused.json"), all == ["model_refused"]);
        prop_assert_eq!(says(&online.slot), 2.0);
    }
}

#[test]
fn links_folders_pipes_and_what_is_too_long_or_anothers_are_no_candidates() {
    let mut place = Place::new();
    let mut online = place.online();
    let good = taught(&model(2.0), online.slot.get().digest(), -2.0).to_string();
    let elsewhere = place.folder.path().join("elsewhere");
    fs::write(&elsewhere, &good).expect("it is written");
    let path = place.file("candidate.json");
    let mut refused = |rule: &str| {
        online.look();
        let all = events(&mut online);
        let (name, why) = all.first().unwrap_or_else(|| panic!("{rule}: an event"));
        assert!(name == "model_refused" && why.contains(rule), "{name} {why}");
        assert!(!path.exists());
        online.look();
        assert_eq!(events(&mut online), []);
    };
    symlink(&elsewhere, &path).expect("a link");
    refused("it is a symbolic link");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
    refused("it is not a regular file");
    File::create(&path).expect("a file").set_len((64 << 20) + 1).expect("a sparse one");
    refused("a model is never so large");
    if nix::unistd::geteuid().is_root() {
        fs::write(&path, &good).expect("it is written");
        std::os::unix::fs::chown(&path, Some(12_345), None).expect("root may");
        refused("it belongs to user 12345: it must be the agent's own or root's");
    }
    fs::remove_file(place.file("refused.json")).expect("it was there");
    fs::create_dir(&path).expect("a folder");
    refused("it is not a regular file");
    fs::write(&path, &good).expect("it is written");
    online.look();
    assert_eq!(names(&mut online), ["model_candidate"], "a good one is still welcome");
    fs::remove_file(&path).expect("it is there");
    online.look();
    assert_eq!(events(&mut online)[0].1, "its file has been deleted");
}

#[test]
fn what_is_in_force_is_after_a_restart_with_what_was_before() {
    let mut place = Place::new();
    let mut online = place.online();
    place.leave_taught(&online, -2.0);
    online.look();
    until_another(&mut online, 1, 0.0);
    drop(online);
    let mut next = place.online();
    assert_eq!((events(&mut next), says(&next.slot)), (vec![], 0.0));
    let report = next.report();
    assert_eq!((report.is_base, report.shadows.len()), (false, 1));
    next.back_to_base().expect("it is not in force");
    assert_eq!(says(&next.slot), 2.0);
    drop(next);
    let last = place.online();
    assert_eq!((says(&last.slot), last.report().shadows.len()), (2.0, 0));
}

#[test]
fn a_model_in_force_that_is_spoilt_is_set_aside_and_the_base_takes_its_place() {
    let mut place = Place::new();
    let taken_over = |place: &mut Place| {
        let mut online = place.online();
        events(&mut online);
        place.leave_taught(&online, -2.0);
        online.look();
        until_another(&mut online, 1, 0.0);
        assert_eq!(says(&online.slot), 0.0);
    };
    let write = |path: PathBuf, text: &str| fs::write(path, text).expect("it is written");
    let unix_s = |s: u64| {
        let base = digest_of(model(2.0).to_string());
        format!("{{\"version\":1,\"base\":\"{base}\",\"since_unix_s\":{s}}}")
    };
    type Spoil<'a> = &'a dyn Fn(&Place);
    let cut = |place: &Place| write(place.file("current.json"), "{\"format\":2,");
    let version = |place: &Place| {
        write(place.file("state.json"), &unix_s(7).replace("\"version\":1", "\"version\":2"));
    };
    let no_state = |place: &Place| fs::remove_file(place.file("state.json")).expect("it is there");
    let base = |place: &Place| {
        let path = place.setup.config.policy.antelope.model.clone().expect("it has one");
        write(path, &model(2.5).to_string());
    };
    for (spoil, rule) in [
        (&cut as Spoil<'_>, "EOF"),
        (&version, "state.json: version = 2: it must be 1"),
        (&no_state, "state.json: it is missing"),
        (&base, "the configured or shipped model has changed since"),
    ] {
        taken_over(&mut place);
        spoil(&place);
        let mut next = place.online();
        let all = events(&mut next);
        let [(name, why)] = &all[..] else { panic!("{all:?}") };
        assert!(name == "model_set_aside" && why.contains(rule), "{name} {why}");
        assert!(says(&next.slot) >= 2.0 && next.report().is_base);
        assert!(place.has("left.json") && !place.has("previous.json"));
    }
    // The wall clock was set back since.
    let mut place = Place::new();
    taken_over(&mut place);
    write(place.file("state.json"), &unix_s(u64::MAX));
    let next = place.online();
    assert_eq!((says(&next.slot), next.report().in_force_s), (0.0, 0));
}

#[test]
fn an_agent_that_died_while_a_candidate_took_over_has_it_in_the_shadow_again() {
    let mut place = Place::new();
    let online = place.online();
    place.leave_taught(&online, -2.0);
    drop(online);
    fs::rename(place.file("candidate.json"), place.file("current.new")).expect("it is renamed");
    let mut next = place.online();
    assert_eq!((names(&mut next), says(&next.slot)), (vec!["model_candidate".to_owned()], 2.0));
}

#[test]
fn where_nothing_can_be_written_nothing_takes_over_and_events_say_so() {
    let mut place = Place::new();
    let mut online = place.online();
    place.leave_taught(&online, -2.0);
    online.look();
    let in_the_way = place.file("state.new");
    fs::create_dir(&in_the_way).expect("a folder in the way");
    let tried = (1..=20).find(|number| {
        flow(&mut online, *number, get(*number));
        online.events.len() > 1
    });
    let tried = tried.expect("it tries to take over");
    assert_eq!(names(&mut online), ["model_candidate", "model_unkept"]);
    assert!(place.has("candidate.json") && !place.has("current.json"));
    assert_eq!((says(&online.slot), online.report().shadows[0].score.flows), (2.0, 0));
    fs::remove_dir(&in_the_way).expect("out of the way");
    until_another(&mut online, tried + 1, 0.0);
    assert_eq!((names(&mut online), says(&online.slot)), (vec!["model".to_owned()], 0.0));
    // Going back takes effect at once, even if the disk fails.
    fs::remove_dir_all(place.file("")).expect("it is there");
    let error = online.back().expect_err("it cannot be kept").to_string();
    assert!(error.starts_with("it is in force, but the next agent"), "{error}");
    assert_eq!(says(&online.slot), 2.0);
}

#[test]
fn a_drift_is_recorded_and_shown_until_another_model_is_in_force() {
    let mut place = Place::new();
    let mut online = place.online();
    (1..=60).for_each(|number| flow(&mut online, number, get(number)));
    assert_eq!(events(&mut online), []);
    (61..=90).for_each(|number| flow(&mut online, number, get(number) - 1.0));
    assert_eq!(names(&mut online), ["drift"]);
    let drift = online.report().drift.expect("it is shown");
    assert!(drift.now < drift.usual - 0.5, "{drift:?}");
    place.leave_taught(&online, -2.0);
    online.look();
    until_another(&mut online, 91, 0.0);
    assert_eq!((says(&online.slot), online.report().drift), (0.0, None));
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Event>>>);

impl Recorder for Heard {
    fn record(&mut self, _flow: Option<u32>, event: &Event) {
        lock(&self.0).push(event.clone());
    }
}

/// Waits until the event has happened.
fn hear(heard: &Heard, name: &str) {
    for _ in 0..1_000 {
        if lock(&heard.0).iter().any(|event| named(event).0 == name) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("no {name}: {:?}", lock(&heard.0));
}

fn agent(place: &Place) -> (Arc<Mutex<Host>>, Heard, SampleKeeper) {
    let heard = Heard::default();
    let host = Host::new(place.setup.clone(), Box::new(heard.clone()));
    let host = Arc::new(Mutex::new(host));
    let keeper = SampleKeeper::start(&place.setup.config, &host);
    (host, heard, keeper)
}

#[test]
fn samples_of_flows_bring_a_candidate_into_force_and_the_host_has_it() {
    let place = Place::new();
    let (host, heard, keeper) = agent(&place);
    let slot = lock(&host).setup.loaded.slot::<Model>(MODEL).expect("a slot");
    place.leave(&taught(&model(2.0), slot.get().digest(), -2.0));
    hear(&heard, "model_candidate");
    for number in 1..=20 {
        let mut host = lock(&host);
        host.samples.put(number, sample(0, 1, get(number)));
        host.samples.put(number, sample(1, 9, get(number)));
        host.samples.end(number);
    }
    hear(&heard, "model");
    assert_eq!(says(&slot), 0.0);
    drop(keeper);
}

#[test]
fn without_a_folder_of_its_own_or_switched_off_the_configured_model_stays() {
    let mut place = Place::new();
    fs::create_dir_all(place.file("")).expect("a folder");
    fs::set_permissions(place.file(""), fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::set_permissions(state(&place), fs::Permissions::from_mode(0o700)).expect("it is ours");
    let (host, heard, keeper) = agent(&place);
    hear(&heard, "model_unkept");
    assert!(lock(&host).online.is_none());
    drop(keeper);
    fs::remove_dir_all(place.file("")).expect("it is there");
    place.setup.config.online.enabled = false;
    let (host, heard, keeper) = agent(&place);
    drop(keeper);
    assert!(lock(&host).online.is_none() && lock(&heard.0).is_empty() && !place.has(""));
}

fn state(place: &Place) -> &Path {
    place.setup.config.agent.state_dir.as_deref().expect("it has one")
}
