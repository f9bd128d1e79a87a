//! LinUCB on scripted flows.

use super::*;
use crate::features::COUNT;
use crate::scripted::{at, drive, holds, path, proposals, report, suits, whatever_is_reported};
use proptest::prelude::*;
use remuda_algorithms::Loaded;

fn policy(config: LinUcbConfig) -> ArmRunner<LinUcb> {
    policy_with(config, None)
}

fn policy_with(config: LinUcbConfig, prior: Option<Arc<Prior>>) -> ArmRunner<LinUcb> {
    let mut policy = ArmRunner::new(LinUcb::new(config, prior), &Loaded::default());
    policy.resume(&path(), Time::ZERO);
    policy
}

/// 10 Mbit/s and 40 ms: the first report shows both. Copa keeps to them, all others have a share.
fn copa_earns(other: u64) -> impl Fn(&'static str, u64) -> Measurement {
    move |arm, ms| match (ms, arm) {
        (10, _) | (_, "copa") => report(12_500, 40),
        _ => report(125 * other, 40),
    }
}

/// What is expected of each arm by a policy that has seen `secs` of it.
fn means(policy: &ArmRunner<LinUcb>) -> Vec<f64> {
    let chooser = policy.policy();
    let x = chooser.context.expect("a unit has ended");
    chooser.estimates(&x).iter().map(|it| it.mean).collect()
}

#[test]
fn a_turn_is_learned_once_with_what_the_arm_earned() {
    let mut policy = policy(LinUcbConfig::default());
    let mut said = Vec::new();
    proposals(&mut policy, 11, copa_earns(90), |ms, proposal, _| {
        said.push((ms, proposal.to, proposal.why.text.clone()));
    });
    let [first, second] = &said[..] else { panic!("{said:?}") };
    assert_eq!((first.0, second.0, second.1), (5_000, 10_000, "learned"));
    assert!(first.2.ends_with("learned earned 0.900"), "{first:?}");
    assert!(second.2.ends_with("learned earned 0.900"), "{second:?}");
    let means = means(&policy);
    assert!((0.57..0.61).contains(&means[0]), "0.9 twice, shrunk by a third: {means:?}");
    assert!(means[1..].iter().all(|mean| *mean == 0.0), "{means:?}");
}

#[test]
fn an_arm_that_earns_enough_stays() {
    assert_eq!(drive(&mut policy(LinUcbConfig::default()), 120, copa_earns(90)), [(0, "learned")]);
}

#[test]
fn where_little_is_earned_each_arm_is_tried_and_the_best_stays() {
    let config = LinUcbConfig { alpha: 1.0, ..LinUcbConfig::default() };
    let arms = drive(&mut policy(config), 300, copa_earns(10));
    let order: Vec<_> = arms.iter().map(|(_, arm)| *arm).collect();
    assert_eq!(order, CANDIDATES[..9]);
    assert_eq!(arms[8], (40, "copa"));
}

/// Copa's expected reward is 0.9 wherever the constant counts, and nothing is known of the others.
fn learned() -> Prior {
    let mut constant = [0.0; context::LENGTH];
    constant[COUNT] = 1.0;
    let seen = vec![(constant, 0.9); 100];
    let file = prior::tests::file("copa", &seen).to_string();
    Prior::parse(file.as_bytes()).expect("it is one")
}

#[test]
fn a_prior_picks_the_arm_that_did_well_elsewhere() {
    let prior = Arc::new(learned());
    let policy = || policy_with(LinUcbConfig::default(), Some(Arc::clone(&prior)));
    let arms = drive(&mut policy(), 60, copa_earns(10));
    assert_eq!(arms[..2], [(0, "learned"), (5, "copa")]);
    assert_eq!(arms.len(), 2);
    let mut fresh = policy();
    assert_eq!(fresh.verdict(), None, "nothing has been seen of this flow");
    proposals(&mut fresh, 6, copa_earns(10), |_, _, _| ());
    let verdict = fresh.verdict().expect("a turn has ended");
    assert!(verdict.arm == "copa" && verdict.score > 0.5, "{verdict:?}");
}

#[test]
fn one_flow_teaches_no_other() {
    let prior = Arc::new(learned());
    let mut policy = policy_with(LinUcbConfig::default(), Some(Arc::clone(&prior)));
    drive(&mut policy, 60, copa_earns(10));
    assert_ne!(policy.policy().arms, prior.arms);
    policy.resume(&path(), at(60_000));
    assert_eq!(policy.policy().arms, prior.arms);
}

#[test]
fn optimism_counts_as_exploration_if_the_operator_says_so() {
    for (budget_optimism, want) in [(false, 0), (true, 7)] {
        let config = LinUcbConfig { budget_optimism, ..LinUcbConfig::default() };
        let mut explored = 0;
        proposals(&mut policy(config), 40, copa_earns(10), |_, proposal, _| {
            explored += u32::from(proposal.explores);
        });
        assert_eq!(explored, want);
    }
}

#[test]
fn what_the_application_wants_counts() {
    let earned = |wants| {
        let mut policy = policy(LinUcbConfig::default());
        policy.prefer(wants);
        let mut text = String::new();
        let late =
            |_, ms| report(if ms == 10 { 12_500 } else { 6_250 }, if ms == 10 { 40 } else { 80 });
        proposals(&mut policy, 6, late, |_, proposal, _| text.clone_from(&proposal.why.text));
        text.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a reward")
    };
    for (wants, want) in
        [(Preference::DEFAULT, 0.25), (Preference::DELAY, 0.5), (Preference::THROUGHPUT, 0.5)]
    {
        assert!((earned(wants) - want).abs() < 0.01, "{wants:?}");
    }
}

#[test]
fn what_the_application_limits_is_not_learned_from() {
    let mut policy = policy(LinUcbConfig::default());
    let limited = |_, _| Measurement { app_limited: true, ..report(1_000, 40) };
    proposals(&mut policy, 60, limited, |ms, proposal, _| panic!("{ms}: {proposal:?}"));
    assert!(means(&policy).iter().all(|mean| *mean == 0.0));
}

#[test]
fn what_suited_before_is_first() {
    let mut policy = ArmRunner::new(LinUcb::new(LinUcbConfig::default(), None), &Loaded::default());
    policy.resume(&suits("bbr3"), Time::ZERO);
    assert_eq!(policy.arm(), "bbr3");
}

#[test]
fn a_bad_setting_is_named_with_its_value_and_the_rule() {
    let config = LinUcbConfig { alpha: -1.0, ..LinUcbConfig::default() };
    let error = config.validate().expect_err("negative").to_string();
    assert_eq!(error, "linucb.alpha = -1: must be 0 to 100");
    for config in [
        LinUcbConfig { alpha: f64::NAN, ..LinUcbConfig::default() },
        LinUcbConfig { dwell_ms: 0, ..LinUcbConfig::default() },
    ] {
        config.validate().expect_err("out of range");
    }
}

proptest! {
    #[test]
    fn whatever_is_reported_the_arm_is_a_candidate(reports in whatever_is_reported()) {
        let config = LinUcbConfig { dwell_ms: 100, ..LinUcbConfig::default() };
        holds(ArmRunner::new(LinUcb::new(config, None), &Loaded::default()), &reports)?;
    }
}
