//! A model that live flows have taught, on real TCP: it predicts in the shadow, takes over because
//! it is better, decides for running flows, and one command restores the old model.

use ccp_agent::child::AgentChild;
use ccp_agent::run_dir;
use remuda_live::Testbed;
use remuda_live::transfer::{Running, Transfer};
use remuda_selector::antelope::model::{Model, digest_of};
use remuda_selector::features::COUNT;
use remuda_selector::trees;
use remuda_tests::{Place, binary, exclusive, skip, wired};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

const TURNS: u32 = 4_500;
const TURN: Duration = Duration::from_millis(20);
/// Time for a first sample of half a second and at least four seconds of further samples.
const SHORT: Duration = Duration::from_secs(7);
/// The short flows of a round. Beside 16 of them the lasting flow loses so much with bbr that the
/// guard gives the flow its former arm again.
const SHORT_FLOWS: usize = 8;
/// Rounds at most. If every flow is scored, two rounds find out a model that is off by e^6.
const ROUNDS: usize = 5;

/// A tree with one leaf.
fn leaf(value: f32) -> Value {
    trees::leaf(value, COUNT)
}

/// The shipped model with other values: bbr is the best arm everywhere, copa the next, and every
/// arm is predicted e^6 times as much as any path has.
fn boasting() -> Value {
    let mut model: Value = serde_json::from_str(Model::shipped_text()).expect("it is JSON");
    let each = |of: &dyn Fn(&str) -> Value| {
        let arms = Model::shipped().arms().to_vec();
        json!(arms.into_iter().map(|arm| (arm, of(arm))).collect::<BTreeMap<_, _>>())
    };
    let score = |arm: &str| match arm {
        "bbr" => json!([leaf(0.9)]),
        "copa" => json!([leaf(0.3)]),
        _ => json!([leaf(0.1)]),
    };
    for mode in ["default", "throughput", "delay"] {
        model["modes"][mode] = each(&score);
    }
    model["values"] = json!({ "throughput": each(&|_| leaf(6.0)), "delay": each(&|_| leaf(0.0)) });
    (model["kind"], model["checks"]) = (json!("per_arm"), json!([]));
    (model["home"], model["doubts"]) = (json!("bbr"), Value::Null);
    model
}

/// A correction of that model by live flows: it predicts about what bbr has on the path of the
/// test, and raises copa.
fn taught(base: &Value) -> Value {
    let mut model = base.clone();
    model["online"] = json!({
        "parent": digest_of(base.to_string()), "rows": 100, "flows": 10,
        "shared": { "throughput": leaf(-6.5), "delay": leaf(1.4) },
        "corrections": { "throughput": { "copa": leaf(2.0) }, "delay": {} }
    });
    model
}

/// The last of `count` events of that name; waits for them.
fn event(agent: &AgentChild, name: &str, count: usize) -> Value {
    for _ in 0..TURNS {
        let events = agent.events().expect("there is a log");
        let mut named: Vec<Value> =
            events.into_iter().filter(|event| event["event"] == name).collect();
        if named.len() >= count {
            return named.pop().expect("so many");
        }
        thread::sleep(TURN);
    }
    panic!("no {count} events {name}: {:?}", agent.events());
}

/// Whether there is an event of that name.
fn is_there(agent: &AgentChild, name: &str) -> bool {
    agent.events().expect("there is a log").iter().any(|event| event["event"] == name)
}

/// Waits until the only flow has that arm.
fn rides(agent: &AgentChild, arm: &str) {
    for _ in 0..TURNS {
        let rows = agent.flows().expect("the agent answers");
        if matches!(&rows[..], [row] if row.arm == arm) {
            return;
        }
        thread::sleep(TURN);
    }
    panic!("no flow with {arm}: {:?}", agent.flows());
}

fn command(place: &Place, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    command.arg("model").arg("--run-dir").arg(place.run_dir()).args(arguments);
    let output = command.output().expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).expect("text"))
}

fn report(place: &Place) -> Value {
    let (_, text) = command(place, &["--json"]);
    serde_json::from_str(&text).expect("it is JSON")
}

fn start(place: &Place, path: &Testbed) -> Running {
    let algorithm = Some(place.name.clone());
    let transfer = Transfer { algorithm, ..Transfer::default() };
    transfer.start(path.server(), path.client()).expect("it starts")
}

fn end(running: Running) {
    running.stop();
    running.join().expect("every byte arrives as it was sent");
}

#[test]
fn what_is_better_on_live_flows_takes_over_and_one_command_goes_back() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let base = boasting();
    let file = place.file("model.json", &base.to_string());
    let text = format!(
        "[policy.antelope]\nmodel = {file:?}\n[online]\nflows_min = 3\nflows_max = 50\n\
         [guard]\nroll_back_percent = 0\ndwell_ms_min = 1000\n"
    );
    let config = place.file("config.toml", &text);
    let config = config.to_str().expect("a path");
    let agent = place.agent(&["--policy", "antelope", "--config", config]);
    let path = wired(48.0, 10.0, 4.0);
    let models = run_dir::models_dir(&place.run_dir().join("state"));
    assert!(models.join("base.json").exists(), "what the trainer begins with");

    fs::write(models.join("candidate.json"), "{\"format\":2,").expect("it is written");
    let refused = event(&agent, "model_refused", 1);
    assert!(refused["reason"].as_str().expect("why").contains("EOF"), "{refused}");
    let candidate = place.file("candidate.json", &taught(&base).to_string());
    fs::rename(candidate, models.join("candidate.json")).expect("one file system");
    event(&agent, "model_candidate", 1);

    let lasting = start(&place, &path);
    for _ in 0..ROUNDS {
        let short: Vec<Running> = (0..SHORT_FLOWS).map(|_| start(&place, &path)).collect();
        thread::sleep(SHORT);
        let rows = agent.flows().expect("it answers");
        let are_bbrs = rows.iter().all(|row| row.arm == "bbr");
        assert!(rows.len() == SHORT_FLOWS + 1 && are_bbrs, "{rows:?}");
        short.into_iter().for_each(end);
        if is_there(&agent, "model") {
            break;
        }
    }
    let model = event(&agent, "model", 1);
    assert!(model["flows"].as_u64() >= Some(3) && model["gain"]["least"].as_f64() > Some(0.0));
    rides(&agent, "copa");
    let shown = report(&place);
    assert_eq!((&shown["is_base"], &shown["model"]["rows"]), (&json!(false), &json!(100)));
    assert_eq!(shown["shadows"][0]["role"], "previous");

    let (is_done, said) = command(&place, &["back"]);
    assert!(is_done && said.contains("configured or shipped"), "{said}");
    rides(&agent, "bbr");
    assert_eq!(event(&agent, "model", 2)["why"], "an operator's order");
    let (is_done, said) = command(&place, &["back"]);
    assert!(!is_done && said.contains("fix: `remuda model base`"), "{said}");
    end(lasting);
    agent.stop().expect("it ends");
}
