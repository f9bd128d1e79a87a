//! Antelope on real TCP: flows arrive whole, a flow's arm has a reason, samples are stored, and the
//! next flow to the same destination begins with the arm that is remembered of the destination.

use ccp_agent::child::AgentChild;
use ccp_agent::run_dir;
use remuda_live::Testbed;
use remuda_live::transfer::{Outcome, Transfer};
use remuda_selector::antelope::model::Model;
use remuda_selector::features::{COUNT, SchemaHash};
use remuda_tests::{Place, binary, exclusive, skip, wired};
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// About six seconds of data at the path's rate.
const BYTES: u64 = 18_000_000;

fn transfer(place: &Place, path: &Testbed, meanwhile: impl FnOnce()) -> Outcome {
    let transfer =
        Transfer { bytes: Some(BYTES), algorithm: Some(place.name.clone()), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    meanwhile();
    running.join().expect("every byte arrives as it was sent")
}

fn events(agent: &AgentChild, name: &str) -> Vec<Value> {
    let all = agent.events().expect("the event log");
    all.into_iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn a_flow_of_real_tcp_has_an_arm_a_reason_samples_and_a_successor() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let (arms, home) = (Model::shipped().arms().to_vec(), Model::shipped().home());
    let agent = place.agent(&["--policy", "antelope"]);
    let path = wired(24.0, 10.0, 4.0);
    let outcome = transfer(&place, &path, || {
        thread::sleep(Duration::from_secs(4));
        let rows = agent.flows().expect("the agent answers");
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!(row.driver, "antelope");
        assert!(arms.contains(&row.arm.as_str()), "{}", row.arm);
        assert!(row.why.contains("of the best reward"), "{}", row.why);
        let names: Vec<&str> = row.features.iter().map(|(name, _)| name.as_str()).collect();
        for &wanted in arms.iter().chain(&["rtt_min_ms", "throughput_mbit_per_sec"]) {
            assert!(names.contains(&wanted), "{wanted} is not in {names:?}");
        }
    });
    assert_eq!(outcome.bytes, BYTES);
    let first = events(&agent, "created");
    assert_eq!(first[0]["arm"], home, "nothing is known of the destination");
    transfer(&place, &path, || {});
    let next = events(&agent, "created").pop().expect("a second flow");
    // Of several verdicts the one with the largest weight counts, not the last one.
    let remembered_arm = events(&agent, "recalled").pop().expect("it knows its destination");
    assert_eq!(next["arm"], remembered_arm["arm"], "{next}");
    let left = events(&agent, "remembered");
    assert!(left.iter().any(|event| event["arm"] == remembered_arm["arm"]), "{left:?}");
    println!(
        "{} is remembered; {} decisions",
        remembered_arm["arm"],
        events(&agent, "stays").len()
    );
    agent.stop().expect("it ends");

    let dir = run_dir::samples_dir(&place.run_dir().join("state"));
    let text = fs::read_to_string(dir.join("samples-0000000001.jsonl")).expect("samples");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert_eq!(lines[0]["schema_hash"], SchemaHash::ours().to_string());
    assert!(lines.len() > 12, "{} lines", lines.len());
    for row in &lines[1..] {
        assert_eq!(row["features"].as_array().expect("a list").len(), COUNT);
        assert!(row["until_s"].as_f64() > row["from_s"].as_f64(), "{row}");
    }
}

/// How many flows of one host share its link.
const MANY: usize = 40;
/// How long all flows send.
const TOGETHER: Duration = Duration::from_secs(15);
/// A flow that loses its packets repeatedly waits for timeouts, which double each time. A flow that
/// its neighbours starve has been seen to wait for twenty seconds and more.
const STALL_MAX: Duration = Duration::from_secs(10);

/// No flow starves, although each flow observes only its own losses.
#[test]
fn many_flows_on_one_link_know_of_each_other_and_all_go_on() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--policy", "antelope"]);
    let path = wired(100.0, 20.0, 1.0);
    let transfer =
        Transfer { algorithm: Some(place.name.clone()), verify: false, ..Transfer::default() };
    let start = |_| transfer.start(path.server(), path.client()).expect("it starts");
    let running: Vec<_> = (0..MANY).map(start).collect();
    thread::sleep(TOGETHER);
    let rows = agent.flows().expect("the agent answers");
    assert_eq!(rows.len(), MANY);
    let companions = |features: &[(String, String)]| {
        let known = features.iter().find(|(name, _)| name == "companions")?;
        known.1.parse::<usize>().ok()
    };
    let most = rows.iter().filter_map(|row| companions(&row.features)).max();
    let resent: u32 = running.iter().filter_map(|flow| flow.retransmitted_pkts()).sum();
    let sent = running.iter().map(|flow| flow.received_bytes() / 1_448).sum::<u64>();
    running.iter().for_each(|flow| flow.stop());
    let done: Vec<_> = running.into_iter().map(|flow| flow.join().expect("it arrives")).collect();
    let longest = done.iter().map(|flow| flow.longest_stall).max().expect("flows");
    println!("{resent} of {sent} packets sent again; the longest stall is {longest:?}");
    assert!(most.is_some_and(|most| most > MANY / 2 && most < MANY), "companions: {most:?}");
    assert!(longest < STALL_MAX, "a flow got nothing for {longest:?}");
}

#[test]
fn a_model_that_is_none_keeps_no_agent_from_saying_so() {
    if skip() {
        return;
    }
    let place = Place::new();
    let shipped = include_str!("../../selector/models/antelope.json");
    let other = SchemaHash::ours().to_string().replace(|c: char| c.is_ascii_digit(), "0");
    for (text, rule) in [
        (&shipped[..shipped.len() / 2], "not a model of antelope"),
        (&shipped.replace(&SchemaHash::ours().to_string(), &other), "other features"),
    ] {
        let model = place.file("model.json", text);
        let table = format!("[policy.antelope]\nmodel = {model:?}\n");
        let config = place.file("config.toml", &table);
        let mut command = Command::new(binary());
        command.args(["agent", "--policy", "antelope", "--config"]).arg(&config);
        command.arg("--run-dir").arg(place.run_dir());
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("model.json") && said.contains(rule), "{said}");
        assert!(said.contains("policy.antelope.model"), "{said}");
    }
}
