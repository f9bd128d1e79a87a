//! What the shipped model of antelope earns on a few fresh paths, so that a worse one is seen.

use ccp_agent::Setup;
use remuda_matrix::{Only, Plan, run};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Paths of training families that no training drew.
const SUITES: [&str; 6] = [
    "wired:930000..930004",
    "wifi:930000..930004",
    "policed:930000..930004",
    "cellular:930000..930004",
    "shallow:930000..930004",
    "beside:930000..930004",
];
const ARMS: [&str; 5] = ["learned", "copa", "vegas", "bbr3", "cubic"];
/// What it must have of the best merit of each path, as a mean.
const SHARE_LEAST: f64 = 0.64;

#[test]
fn antelope_has_its_share_of_the_best_merit_and_more_than_any_arm() {
    let suites: Vec<_> =
        SUITES.iter().map(|name| remuda_samples::suite(name).expect("a suite")).collect();
    let drivers: Vec<String> =
        ["antelope"].iter().chain(&ARMS).map(|name| (*name).to_owned()).collect();
    let plan = Plan::of(&suites, &Only::default(), &drivers, 1..=1).expect("it has environments");
    let (setup, never) = (Arc::new(Setup::default()), AtomicBool::new(false));
    let rows = run(&plan, (None, &setup), (2, &never), |_| {});
    let mut merits: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for row in rows.into_iter().flatten().map(|row| row.expect("it runs")) {
        let path = format!("{} {}", row.suite, row.environment);
        merits.entry(path).or_default().insert(row.driver.clone(), row.merit);
    }
    assert_eq!(merits.len(), 24);
    let best = |of: &BTreeMap<String, f64>| of.values().copied().fold(0.0, f64::max);
    let shares: BTreeMap<&str, f64> = drivers
        .iter()
        .map(|name| {
            let each = merits.values().map(|of| of[name] / best(of));
            (name.as_str(), each.sum::<f64>() / merits.len() as f64)
        })
        .collect();
    println!("{shares:.3?}");
    let of_policy = shares["antelope"];
    assert!(of_policy >= SHARE_LEAST, "{shares:?}");
    assert!(ARMS.iter().all(|arm| shares[arm] < of_policy), "{shares:?}");
}
