use super::*;
use serde_json::{Value, json};

/// A line of the event log: a flow of 2 MB that ended at `ended_s`, over a path that loses packets
/// at random: 24 Mbit/s, 40 ms, 1 %.
fn closed(ended_s: u64, remote: &str) -> Value {
    json!({
        "event": "closed", "t_unix_us": ended_s * 1_000_000, "flow": ended_s, "remote": remote,
        "arm": "cubic", "controller": "cubic", "switches": 0, "reports": 900,
        "acked_bytes": 2_000_000, "lost_pkts": 14, "mss_bytes": 1448, "duration_ms": 5_200.0,
        "rtt_ms": 41.2, "path": {
            "rtt_ms_min": 40.1, "rtt_ms_sd": 0.8, "jitter_ms": 0.5,
            "delivery_bytes_per_sec_max": 1_100_000, "loss_episodes": 13,
            "loss_rtt_over_min": 1.03, "held_by_ends_ms": 20.0,
        },
    })
}

fn args(logs: &[Value]) -> (tempfile::TempDir, AdviseArgs) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let lines: Vec<String> = logs.iter().map(Value::to_string).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let args = AdviseArgs {
        run_dir: RunDirArgs { run_dir: folder.path().to_owned() },
        arms: vec!["bbr3".to_owned()],
        destination: None,
        wait: 0,
        events: vec![path],
        json: false,
    };
    (folder, args)
}

/// The advice for each destination, as text.
fn advised(logs: &[Value]) -> Vec<String> {
    let (_folder, args) = args(logs);
    let seen = args.look().unwrap();
    let never = AtomicBool::new(false);
    let advice = |of: &Destination| show::lines(&args.advice(of, &seen, true, &never));
    destinations(seen.flows.clone()).iter().map(advice).collect()
}

fn lines(count: u64) -> Vec<Value> {
    (1..=count).map(|at| closed(10 * at, "198.51.100.7:443")).collect()
}

#[test]
fn below_ten_flows_it_says_how_many_are_missing() {
    let [text] = &advised(&lines(4))[..] else { panic!("one destination") };
    assert_eq!(
        text,
        "198.51.100.0/24: 4 flows, cannot say: 6 flows more\n  now cubic, 3.1 Mbit/s, round trip \
         41 ms, 1.00 % lost\n"
    );
}

#[test]
fn on_a_path_with_random_loss_bbr3_would_gain() {
    let texts = advised(&lines(12));
    assert_eq!(texts, advised(&lines(12)), "the same log gives the same advice");
    let [text] = &texts[..] else { panic!("one destination") };
    println!("{text}");
    assert!(text.starts_with("198.51.100.0/24: 12 flows, bbr3 would gain "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// The text without its line breaks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn flows_that_do_not_show_the_path_are_named_with_the_reason() {
    let mut logs = lines(12);
    for line in &mut logs[..9] {
        line["path"]["held_by_ends_ms"] = json!(5_000.0);
    }
    let [text] = &advised(&logs)[..] else { panic!("one destination") };
    let text = one_line(text);
    assert!(text.contains("cannot say: 9 of 12 flows were held back by an application"), "{text}");
    let mut logs = lines(12);
    for line in &mut logs {
        line.as_object_mut().unwrap().remove("path");
    }
    let [text] = &advised(&logs)[..] else { panic!("one destination") };
    let text = one_line(text);
    assert!(text.contains("12 of 12 flows ended under an earlier version"), "{text}");
}

#[test]
fn it_waits_for_ten_flows_that_show_the_path_or_a_hundred_that_do_not() {
    let is_enough = |count: u64, held_by_ends_ms: f64| {
        let mut logs = lines(count);
        logs.iter_mut().for_each(|line| line["path"]["held_by_ends_ms"] = json!(held_by_ends_ms));
        let (_folder, args) = args(&logs);
        args.look().unwrap().is_enough()
    };
    assert_eq!([9, 10].map(|count| is_enough(count, 20.0)), [false, true]);
    assert_eq!([10, 99, 100].map(|count| is_enough(count, 5_000.0)), [false, false, true]);
}

#[test]
fn a_control_group_counts_before_simulations() {
    let logs: Vec<Value> = (0..1_200)
        .map(|at| {
            let is_control = at % 2 == 0;
            let mut line = closed(10 * at, "[2001:db8::7]:443");
            line["rule"] = json!("web");
            line["rule_use"] = json!("bbr3");
            line["rule_on"] = json!("mark 1");
            line["group"] = json!(if is_control { "control" } else { "rule" });
            line["arm"] = json!(if is_control { "cubic" } else { "bbr3" });
            let spread = (at % 7) as f64 * 20.0;
            line["duration_ms"] = json!(if is_control { 5_200.0 } else { 4_000.0 } + spread);
            line
        })
        .collect();
    let [text] = &advised(&logs)[..] else { panic!("one destination") };
    println!("{text}");
    assert!(text.contains("2001:db8::/56: 1200 flows, bbr3 would gain "), "{text}");
    assert!(text.contains("by control group"), "{text}");
}

#[test]
fn destinations_are_networks_and_the_one_asked_for_is_kept() {
    let mut logs = lines(2);
    logs.push(closed(50, "198.51.100.99:80"));
    logs.push(closed(60, "203.0.113.9:80"));
    let texts = advised(&logs);
    assert!(texts[0].starts_with("198.51.100.0/24: 3 flows, "), "{texts:?}");
    assert!(texts[1].starts_with("203.0.113.0/24: 1 flow, "), "{texts:?}");
    let (_folder, mut args) = args(&logs);
    args.destination = Some("203.0.113.9".parse().unwrap());
    let networks: Vec<Network> = args.look().unwrap().flows.iter().map(|it| it.network).collect();
    assert_eq!(networks, ["203.0.113.0/24".parse().unwrap()]);
}

#[test]
fn what_cannot_be_answered_is_refused_with_a_fix() {
    let (folder, mut args) = args(&[]);
    args.arms = vec!["bbr9".to_owned()];
    let error = args.check().unwrap_err().to_string();
    assert!(error.contains("bbr9") && error.contains("fix:"), "{error}");
    args.events.clear();
    let error = args.look().err().unwrap().to_string();
    assert!(error.contains(&folder.path().display().to_string()), "{error}");
    assert!(error.contains("fix:"), "{error}");
}
