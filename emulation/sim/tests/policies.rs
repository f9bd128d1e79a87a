//! Each policy drives a flow of the simulator, through the agent and its guard.

mod common;

use ccp_agent::catalogue::{self, Kind};
use common::run;
use remuda_scenarios::outcome::{Became, Outcome};

fn of(driver: &str) -> Outcome {
    run(&format!(
        "duration_s = 40\nseed = 1\nsample_ms = 0\n\
         [links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 20\n\
         queue = {{ kind = \"droptail\", limit_bdp = 2 }}\n\
         [links.up]\nrate_mbit_per_sec = 12\ndelay_ms = 20\n\
         [[flows]]\ndriver = \"{driver}\"\n"
    ))
}

#[test]
fn each_policy_uses_the_link_and_rides_arms() {
    let all = catalogue::names();
    let policies = all.into_iter().filter(|name| matches!(catalogue::kind(name), Ok(Kind::Policy)));
    for driver in policies {
        let outcome = of(driver);
        let flow = &outcome.flows[0];
        let arms: Vec<&str> = flow.switches.iter().map(|it| it.to.as_str()).collect();
        println!("{driver}: {:.2} Mbit/s, {arms:?}", flow.goodput_mbit_per_sec);
        assert!(flow.goodput_mbit_per_sec > 9.0, "{driver}: {flow:?}");
        for arm in arms {
            assert_eq!(catalogue::kind(arm).expect("a name"), Kind::Arm, "{driver}: {arm}");
        }
        assert_eq!(outcome, of(driver), "{driver}: a seed has one outcome");
    }
    assert!(!of("random").flows[0].switches.is_empty());
}

#[test]
fn what_a_policy_decided_is_in_the_outcome_with_its_reasons() {
    for driver in ["random", "epsilon_greedy", "linucb"] {
        let outcome = of(driver);
        let flow = &outcome.flows[0];
        let changes = |it: &Became| [Became::Switched, Became::RolledBack].contains(it);
        let made = flow.decisions.iter().filter(|it| changes(&it.became)).count();
        assert_eq!(made, flow.switches.len(), "{driver}");
        assert!(flow.decisions.iter().any(|it| !it.features.is_empty()), "{driver}: {flow:?}");
        assert!(flow.decisions.windows(2).all(|two| two[0].t_s <= two[1].t_s), "{driver}");
        assert_eq!(flow.decisions_left_out, 0, "{driver}");
    }
    let outcome = of("linucb");
    let first = &outcome.flows[0].decisions[0];
    assert_eq!(first.arm, "learned");
    assert!(first.features["copa"].starts_with("0.000 +- "), "{first:?}");
}
