//! Failures around a policy cost no flow a byte: a full disk, a corrupt file in the folder of
//! samples, a model file that is damaged under a running agent.

use ccp_agent::child::AgentChild;
use ccp_agent::run_dir;
use remuda_live::Testbed;
use remuda_live::transfer::{Running, Transfer};
use remuda_tests::small_disk::{fill, with_small_disk};
use remuda_tests::{Place, binary, exclusive, skip, wait_for, wired};
use serde_json::Value;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// About three seconds of data at the path's rate.
const BYTES: u64 = 9_000_000;

fn path() -> Testbed {
    wired(24.0, 10.0, 4.0)
}

/// Runs `flows` flows at a time and `meanwhile` beside them; all bytes must arrive.
fn transfers(flows: usize, by: &str, path: &Testbed, meanwhile: impl FnOnce()) {
    let algorithm = Some(by.to_owned());
    let transfer = Transfer { bytes: Some(BYTES), algorithm, ..Transfer::default() };
    let start = |_| transfer.start(path.server(), path.client()).expect("it starts");
    let running: Vec<Running> = (0..flows).map(start).collect();
    meanwhile();
    for flow in running {
        assert_eq!(flow.join().expect("every byte arrives as it was sent").bytes, BYTES);
    }
}

/// The first event of that name; waits up to five seconds for it.
fn event(agent: &AgentChild, name: &str) -> Value {
    for _ in 0..250 {
        let events = agent.events().expect("the event log");
        if let Some(found) = events.into_iter().find(|event| event["event"] == name) {
            return found;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("no event {name}: {:?}", agent.events());
}

/// The parsed lines of a file; each line must be complete.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a file");
    assert!(text.ends_with('\n'), "the last line is whole");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn samples_on_a_full_disk_cost_no_flow_and_those_before_stay_whole() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (path, place) = (path(), Place::new());
    let disk = place.run_dir().with_file_name("disk");
    with_small_disk(&disk, || {
        // A file that another program left there is not a sample, and must not be changed.
        let dir = run_dir::samples_dir(&disk);
        DirBuilder::new().mode(0o700).create(&dir).expect("a private folder");
        let poison = dir.join("samples-0000000007.jsonl");
        fs::write(&poison, b"{\"format\":1,\xff\n\0").expect("it is written");
        let state_dir = disk.to_str().expect("a path");
        let agent = place.agent(&["--policy", "antelope", "--state-dir", state_dir]);
        let samples = dir.join("samples-0000000008.jsonl");
        let mut filler = None;
        // A page has room for ten samples, and a flow takes two a second.
        transfers(3, &place.name, &path, || {
            thread::sleep(Duration::from_secs(2));
            assert_eq!(agent.flows().expect("it answers").len(), 3);
            let before = lines(&samples).len();
            assert!(before > 1, "the head and some samples");
            filler = Some(fill(&disk));
            let unkept = event(&agent, "samples_unkept");
            assert!(unkept["reason"].as_str().is_some_and(|it| it.contains("space")), "{unkept}");
            assert!(unkept["left_out"].as_u64() > Some(0), "{unkept}");
            assert!(lines(&samples).len() >= before);
        });
        fs::remove_file(filler.expect("it was filled")).expect("room again");
        transfers(1, &place.name, &path, || {});
        agent.stop().expect("it ends");
        let files = fs::read_dir(&dir).expect("it is there").map(|it| it.expect("a file").path());
        let mut files: Vec<_> =
            files.filter(|it| it.extension() == Some("jsonl".as_ref())).collect();
        files.sort();
        assert_eq!(files.len(), 3, "what could not be begun is not there: {files:?}");
        assert!(lines(&files[2]).len() > 1, "samples are kept again");
        assert_eq!(fs::read(&poison).expect("it is there"), b"{\"format\":1,\xff\n\0");
    });
}

#[test]
fn an_event_log_on_a_full_disk_costs_no_flow_and_has_no_half_lines() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (path, place) = (path(), Place::new());
    let disk = place.run_dir().with_file_name("disk");
    with_small_disk(&disk, || {
        let own = ["--name", &place.name, "--policy", "antelope"];
        let agent = AgentChild::start(&binary(), &disk.join("run"), &own).expect("it starts");
        let log = run_dir::event_log(&disk.join("run"));
        let filler = fill(&disk);
        transfers(1, &place.name, &path, || {});
        let none_left = || agent.flows().expect("it answers").is_empty();
        wait_for("the flow's end", Duration::from_secs(5), none_left);
        let before = lines(&log).len();
        fs::remove_file(filler).expect("room again");
        transfers(1, &place.name, &path, || {});
        assert!(lines(&log).len() > before, "events are recorded again");
        agent.stop().expect("it ends");
        lines(&log);
    });
}

#[test]
fn a_model_that_breaks_under_a_running_agent_costs_it_nothing_and_the_next_one_says_so() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (path, place) = (path(), Place::new());
    let shipped = include_str!("../../selector/models/antelope.json");
    let model = place.file("model.json", shipped);
    let config = place.file("config.toml", &format!("[policy.antelope]\nmodel = {model:?}\n"));
    let config = config.to_str().expect("a path");
    let agent = place.agent(&["--policy", "antelope", "--config", config]);
    transfers(1, &place.name, &path, || {
        thread::sleep(Duration::from_secs(1));
        let half = shipped.len() as u64 / 2;
        let file = fs::OpenOptions::new().write(true).open(&model).expect("it is there");
        file.set_len(half).expect("it is truncated");
        thread::sleep(Duration::from_secs(1));
        let rows = agent.flows().expect("it answers");
        assert!(rows[0].why.contains("of the best reward"), "it still decides: {}", rows[0].why);
    });
    agent.stop().expect("it ends");
    let mut command = Command::new(binary());
    command.args(["agent", "--policy", "antelope", "--config", config]);
    let output = command.arg("--run-dir").arg(place.run_dir()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for part in ["model.json", "policy.antelope.model", "not a model of antelope"] {
        assert!(said.contains(part), "{said}");
    }
    // The kernel's own has flows meanwhile.
    transfers(1, "cubic", &path, || {});
}
