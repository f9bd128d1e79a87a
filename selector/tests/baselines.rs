//! The baselines on a small network: they run the candidates, use the link, and are the same in
//! each run.

mod fluid;

use fluid::{Driver, Flow, Link, Net, at_ms};
use remuda_algorithms::Loaded;
use remuda_selector::{CANDIDATES, PolicyConfig, policy};

const BASELINES: [&str; 3] = ["random", "epsilon_greedy", "linucb"];
/// Megabits per second, and milliseconds of an empty link's round trip.
const LINKS: [(u64, u64); 3] = [(24, 40), (12, 80), (48, 20)];
const SECS: u64 = 90;

/// What a flow delivered, as a share of the link, and the arms that it had.
fn run(driver: &str, (mbit_per_sec, rtt_ms): (u64, u64)) -> (f64, Vec<&'static str>) {
    let build = policy(driver).expect("a policy").build;
    let link = Link::wired(mbit_per_sec, rtt_ms, 15);
    let mut arms = Vec::new();
    let mut net = Net::new(
        link,
        vec![Flow::new(Driver::Policy(build(&PolicyConfig::default(), &Loaded::default())), 0)],
    );
    net.run_with(SECS * 1_000, |flow, now_ms| {
        let Driver::Policy(runner) = &mut flow.driver else { return };
        let Some(proposal) = runner.proposal() else { return };
        if proposal.to == runner.arm() {
            return;
        }
        runner.hand_off(&mut flow.path);
        let switched = runner.switch_to(proposal.to, &flow.path, at_ms(now_ms));
        // An arm that does not take the path is what the host vetoes.
        if let Ok(decision) = switched {
            flow.obey(decision);
            arms.push(proposal.to);
        }
    });
    let bytes = (mbit_per_sec * 125_000 * SECS) as f64;
    (net.flows[0].delivered.0 as f64 / bytes, arms)
}

#[test]
fn they_run_the_candidates_and_use_the_link() {
    for driver in BASELINES {
        for link in LINKS {
            let (share, arms) = run(driver, link);
            println!("{driver} {link:?}: {share:.3} {arms:?}");
            assert!(arms.iter().all(|arm| CANDIDATES.contains(arm)), "{driver} {link:?}: {arms:?}");
            assert!(share > 0.7, "{driver} {link:?}: {share} {arms:?}");
        }
    }
}

#[test]
fn one_flow_has_the_same_arms_each_time_and_random_has_as_many_as_the_time_allows() {
    for driver in BASELINES {
        assert_eq!(run(driver, LINKS[0]), run(driver, LINKS[0]), "{driver}");
    }
    let (_, arms) = run("random", LINKS[0]);
    assert!((7..=9).contains(&arms.len()), "every 10 s: {arms:?}");
}
