//! Rust algorithms built on portus as arms of ours, in the simulator: unchanged, and like any
//! other.

use ccp_agent::Setup;
use ccp_agent::author::congalg::{self, Served};
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::Outcome;
use remuda_sim::Simulation;
use remuda_tests::peers::{Copa, Nimbus, Pulses, Reno};
use std::sync::{Arc, Once};

/// Under names of their own: arms of ours have the plain ones.
fn setup() -> Arc<Setup> {
    static BROUGHT: Once = Once::new();
    BROUGHT.call_once(|| {
        congalg::bring("portus_reno", || Reno).expect("it is an arm");
        congalg::bring("portus_bbr", || Pulses).expect("it is an arm");
        congalg::bring("portus_copa", || Copa).expect("it is an arm");
        congalg::bring("portus_nimbus", || Nimbus).expect("it is an arm");
    });
    let setup = Setup::default();
    congalg::join(&setup.authors, Served::Simulator).expect("they are arms");
    Arc::new(setup)
}

fn simulated(flow: &str) -> Outcome {
    let text = format!(
        "duration_s = 10\nseed = 1\n[links.down]\nrate_mbit_per_sec = 24\ndelay_ms = 20\n\
         queue = {{ kind = 'droptail', limit_bdp = 1 }}\n[links.up]\ndelay_ms = 20\n\
         [[flows]]\n{flow}\n"
    );
    let scenario: Scenario = toml::from_str(&text).expect("a scenario");
    let mut simulation = Simulation::with_setup(&scenario, &setup()).expect("it is built");
    simulation.run_until(simulation.end());
    simulation.outcome()
}

#[test]
fn an_algorithm_of_portus_fills_most_of_a_link_and_the_same_way_twice() {
    // The path takes 40 ms without a queue, and 80 ms with a full one.
    let arms = [
        ("portus_reno", 15.0, 80.0),
        ("portus_bbr", 15.0, 55.0),
        ("portus_copa", 20.0, 50.0),
        ("portus_nimbus", 20.0, 60.0),
    ];
    for (driver, least, rtt_ms_max) in arms {
        let flow = format!("driver = '{driver}'");
        let outcome = simulated(&flow);
        let [flow_of_it] = outcome.flows.as_slice() else { panic!("one flow") };
        let goodput = flow_of_it.goodput_mbit_per_sec;
        let rtt_ms = flow_of_it.rtt_p50_ms.expect("samples");
        println!("{driver}: {goodput:.1} Mbit/s of 24, median RTT {rtt_ms:.0} ms");
        assert!(flow_of_it.switches.is_empty(), "{driver}: {:?}", flow_of_it.switches);
        assert!(goodput > least && rtt_ms < rtt_ms_max, "{driver}: {goodput}, {rtt_ms}");
        let again = simulated(&flow);
        assert_eq!(format!("{:?}", again.flows), format!("{:?}", outcome.flows), "{driver}");
    }
}

#[test]
fn a_flow_is_switched_to_it_and_back() {
    let switches = "driver = 'cubic'\nswitches = [{ at_s = 3, to = 'portus_reno' }, \
                    { at_s = 5, to = 'portus_bbr' }, { at_s = 7, to = 'bbr' }]";
    let outcome = simulated(switches);
    let flow = &outcome.flows[0];
    let made: Vec<_> = flow.switches.iter().map(|it| (it.from.as_str(), it.to.as_str())).collect();
    let want = [("cubic", "portus_reno"), ("portus_reno", "portus_bbr"), ("portus_bbr", "bbr")];
    assert_eq!(made, want);
    assert!(flow.goodput_mbit_per_sec > 15.0, "{}", flow.goodput_mbit_per_sec);
}

/// Beside CUBIC, which is elastic, Nimbus finds its pulses in the cross traffic and competes.
#[test]
fn nimbus_of_portus_is_not_starved_by_cubic() {
    let flows = "duration_s = 30\nseed = 1\n[links.down]\nrate_mbit_per_sec = 24\ndelay_ms = 20\n\
                 queue = { kind = 'droptail', limit_bdp = 1 }\n[links.up]\ndelay_ms = 20\n\
                 [[flows]]\ndriver = 'portus_nimbus'\n[[flows]]\ndriver = 'cubic'\n";
    let scenario: Scenario = toml::from_str(flows).expect("a scenario");
    let mut simulation = Simulation::with_setup(&scenario, &setup()).expect("it is built");
    simulation.run_until(simulation.end());
    let goodputs = simulation.outcome().flows.iter().map(|it| it.goodput_mbit_per_sec).collect();
    let goodputs: Vec<f64> = goodputs;
    println!("nimbus and cubic: {goodputs:.1?} Mbit/s of 24");
    assert!(goodputs[0] > 6.0, "{goodputs:?}");
}
