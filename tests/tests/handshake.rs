//! A flow that starts on a busy path behaves alike in the simulator and on real TCP: its handshake
//! measures the round trip with the queue, and no timeout is spurious. Needs root.

use remuda_live::real::{Agents, AuthorsFiles};
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::{FlowOutcome, Outcome};
use remuda_tests::{binary, exclusive, skip};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

/// 12 Mbit/s and 40 ms. A CUBIC flow keeps 60 segments or more queued, which is 60 ms; four flows
/// start later. The queue marks and does not drop: a flow of ten segments that loses its last ones
/// needs a timeout, and the test is about timeouts that no loss needs.
fn scenario(driver: &str) -> Scenario {
    let text = format!(
        "duration_s = 12\nsample_ms = 0\n\
         [links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 20\n\
         queue = {{ kind = 'red', limit_packets = 1000, min_packets = 130, max_packets = 290, \
         drop_percent_max = 2, ecn = true }}\n\
         [links.up]\ndelay_ms = 20\njitter_std_ms = 0.001\n\
         [[flows]]\ndriver = '{driver}'\nname = 'first'\necn = true\n\
         [[flows]]\ndriver = '{driver}'\nname = 'late'\ncount = 4\nstart_s = 6\nstagger_s = 1.5\n\
         bytes = 14480\necn = true\n"
    );
    Scenario::parse(&text, "handshake").expect("it is one")
}

fn late(outcome: &Outcome) -> Vec<&FlowOutcome> {
    let late: Vec<_> = outcome.flows.iter().filter(|it| it.name.starts_with("late")).collect();
    assert_eq!(late.len(), 4);
    late
}

#[test]
fn a_late_flow_finds_the_queue_in_the_simulator_and_on_real_tcp() {
    let _alone = exclusive();
    if skip() {
        return;
    }
    let agents = Agents::start(&binary(), &BTreeSet::new(), &AuthorsFiles::default());
    let agents = agents.expect("there are none to start");
    let never = AtomicBool::new(false);
    let real = remuda_live::real::run(&scenario("native:cubic"), &agents, &never).expect("it runs");
    let simulated = remuda_sim::run(&scenario("cubic")).expect("it runs");
    for (engine, outcome) in [("real", real.expect("whole").outcome), ("simulated", simulated)] {
        for flow in late(&outcome) {
            let said = format!("{engine}: {flow:?}");
            assert!(flow.rtt_min_ms.is_some_and(|ms| (100.0..260.0).contains(&ms)), "{said}");
            assert_eq!(flow.timeouts, 0, "{said}");
            assert!(flow.end_s.is_some_and(|end_s| end_s - flow.start_s < 2.0), "{said}");
        }
    }
}
