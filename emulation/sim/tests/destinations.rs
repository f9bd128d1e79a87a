//! What later flows of a simulation learn from earlier ones to the same destination.

use ccp_agent::Config;
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState, Proposal, Verdict};
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::Outcome;
use remuda_selector::{ArmRunner, Policy, PolicyInfo};
use remuda_sim::Simulation;
use std::sync::{Arc, Once};

/// Uses the arm that is remembered for the path, otherwise CUBIC. Its verdict is always BBR.
struct Believer;

impl Policy for Believer {
    fn begin(&mut self, path: &PathState, _now: Time) -> &'static str {
        path.remembered_arm.unwrap_or("cubic")
    }
    fn observe(&mut self, _m: &Measurement, _arm: &'static str, _now: Time) {}
    fn proposal(&mut self) -> Option<Proposal> {
        None
    }
    fn taken(&mut self, _arm: &'static str, _now: Time) {}
    fn verdict(&self) -> Option<Verdict> {
        Some(Verdict { arm: "bbr", score: 0.8 })
    }
    fn remembers(&self) -> bool {
        true
    }
}

static BELIEVER: PolicyInfo = PolicyInfo {
    name: "believer",
    summary: "uses the arm that is remembered for the path",
    build: |_, loaded| Box::new(ArmRunner::new(Believer, loaded)),
};

/// Two paths, with three flows on each.
const SCENARIO: &str = r#"
duration_s = 20
[links.one]
rate_mbit_per_sec = 12
delay_ms = 10
queue = { kind = "droptail", limit_bdp = 1 }
[links.other]
rate_mbit_per_sec = 12
delay_ms = 10
queue = { kind = "droptail", limit_bdp = 1 }
[links.up]
delay_ms = 10
[[flows]]
driver = "believer"
bytes = 200000
route = ["one"]
back = ["up"]
[[flows]]
driver = "believer"
bytes = 200000
start_s = 0.01
route = ["one"]
back = ["up"]
[[flows]]
driver = "believer"
start_s = 3
route = ["one"]
back = ["up"]
[[flows]]
driver = "believer"
start_s = 3
route = ["other"]
back = ["up"]
[[flows]]
driver = "believer"
start_s = 7
route = ["other"]
back = ["up"]
[[flows]]
driver = "believer"
start_s = 9
route = ["other"]
back = ["up"]
"#;

fn add_believer() {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| remuda_selector::add(&BELIEVER).expect("a name of its own"));
}

fn run(change: impl FnOnce(&mut Config)) -> (Outcome, Vec<u64>) {
    add_believer();
    let scenario = Scenario::parse(SCENARIO, "destinations").expect("it is one");
    let mut config = Config::default();
    change(&mut config);
    let mut simulation =
        Simulation::with_setup(&scenario, &Arc::new(config.into())).expect("it builds");
    let mut windows = Vec::new();
    for (flow, start_ms) in [(0, 0), (1, 10), (2, 3_000), (3, 3_000), (4, 7_000), (5, 9_000)] {
        // A handshake takes 30 ms plus queueing. 50 ms after the start no ACK has come back yet.
        let shaken_ms = if start_ms > 0 { 50 } else { 1 };
        simulation.run_until(remuda_link::Nanos::from_millis(start_ms + shaken_ms));
        windows.push(simulation.cwnd(flow).0 / 1_448);
    }
    simulation.run_until(simulation.end());
    (simulation.outcome(), windows)
}

fn arms(outcome: &Outcome) -> Vec<&str> {
    outcome.flows.iter().map(|flow| flow.arm.as_str()).collect()
}

#[test]
fn a_flow_begins_with_what_suited_those_before_it_over_the_same_links() {
    let (outcome, windows) = run(|_| {});
    // The second flow begins before the first has ended; the fifth begins before the fourth is 5 s
    // old.
    assert_eq!(arms(&outcome), ["cubic", "cubic", "bbr", "cubic", "cubic", "bbr"]);
    assert_eq!(windows, [10; 6], "nobody has set one");
    let (again, _) = run(|_| {});
    assert_eq!(format!("{outcome:?}"), format!("{again:?}"), "the same bytes each time");
}

#[test]
fn a_memory_that_is_off_or_forgets_changes_nothing() {
    let (off, _) = run(|config| config.memory.enabled = false);
    assert_eq!(arms(&off), ["cubic"; 6]);
    let (short, _) = run(|config| config.memory.ttl_s = 1);
    assert_eq!(arms(&short), ["cubic", "cubic", "cubic", "cubic", "cubic", "bbr"]);
}

#[test]
fn what_is_remembered_has_an_initial_window_if_one_is_set() {
    let (outcome, windows) = run(|config| config.memory.initial_cwnd_pkts = 32);
    assert_eq!(windows, [10, 10, 32, 10, 10, 32]);
    assert_eq!(arms(&outcome)[2], "bbr");
}

/// Three files, one after the other, over a path with room for a hundred segments.
const FILES: &str = r#"
duration_s = 20
[links.one]
rate_mbit_per_sec = 24
delay_ms = 25
queue = { kind = "droptail", limit_bdp = 1 }
[links.up]
delay_ms = 25
[[flows]]
driver = "believer"
bytes = 6000000
route = ["one"]
back = ["up"]
[[flows]]
driver = "believer"
start_s = 8
bytes = 100000
route = ["one"]
back = ["up"]
[[flows]]
driver = "cubic"
start_s = 12
bytes = 100000
route = ["one"]
back = ["up"]
"#;

#[test]
fn the_next_flow_of_that_driver_jumps_to_half_of_what_the_one_before_had() {
    add_believer();
    let scenario = Scenario::parse(FILES, "files").expect("it is one");
    let took = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        let simulation = Simulation::with_setup(&scenario, &Arc::new(config.into()));
        let mut simulation = simulation.expect("it builds");
        let cwnd_pkts = [8_110, 8_150].map(|at_ms| {
            simulation.run_until(remuda_link::Nanos::from_millis(at_ms));
            simulation.cwnd(1).0 / 1_448
        });
        simulation.run_until(simulation.end());
        let outcome = simulation.outcome();
        let took = |flow: usize| {
            let flow = &outcome.flows[flow];
            flow.end_s.expect("it ends") - flow.start_s
        };
        (cwnd_pkts, [took(1), took(2)])
    };
    let (plain_pkts, plain) = took(&|config| config.memory.resumed_cwnd_pkts_max = 0);
    assert!(plain_pkts[1] < 30, "{plain_pkts:?}");
    let (pkts, resumed) = took(&|_| {});
    assert!(pkts[0] < 30, "not before its first window has come through: {pkts:?}");
    // 24 Mbit/s over slightly more than 50 ms are 104 to 110 segments.
    assert!((50..=75).contains(&pkts[1]), "{pkts:?}");
    assert!(plain[0] - resumed[0] > 0.03, "{plain:?} {resumed:?}");
    assert_eq!(plain[1], resumed[1], "another driver is another agent");
}
