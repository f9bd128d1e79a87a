//! Each policy drives a flow of the simulator, through the agent and its guard.

mod common;

use ccp_agent::catalogue::{self, Kind};
use common::run;
use remuda_scenarios::outcome::Outcome;

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
