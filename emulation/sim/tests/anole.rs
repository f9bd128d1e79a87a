//! What Anole promises, in short runs: it stays near the better of its candidates (the page
//! docs/anole.md has the targets), calls the learned arm once a cycle at most, and gives reasons.

use ccp_agent::Setup;
use remuda_algorithms::anole::config::{AnoleConfig, NONE, SETTINGS};
use remuda_link::Nanos;
use remuda_scenarios::Scenario;
use remuda_sim::{Simulation, Staged};
use std::sync::Arc;

const END_S: f64 = 15.0;

/// One flow on 48 Mbit/s with two BDPs of buffer.
fn text(driver: &str, delay_ms: f64, loss_percent: f64) -> String {
    format!(
        "duration_s = {END_S}\n[links.down]\nrate_mbit_per_sec = 48\ndelay_ms = {delay_ms:.1}\n\
         loss_percent = {loss_percent:.1}\nqueue = {{ kind = \"droptail\", limit_bdp = 2 }}\n\
         [links.up]\ndelay_ms = {delay_ms:.1}\n[[flows]]\ndriver = \"{driver}\"\n"
    )
}

struct Ran {
    goodput: f64,
    power95: f64,
    stages: Vec<Staged>,
}

fn run(text: &str, config: &AnoleConfig) -> Ran {
    let setup = Setup::default();
    setup.loaded.put(SETTINGS, Arc::new(config.clone()));
    let scenario = Scenario::parse(text, "anole").expect("a scenario");
    let setup = Arc::new(setup);
    let mut simulation = Simulation::with_setup(&scenario, &setup).expect("it can run");
    simulation.run_until(Nanos((END_S * 1e9) as u64));
    let stages = simulation.stages(0).to_vec();
    let flow = simulation.outcome().flows.swap_remove(0);
    let goodput = flow.goodput_mbit_per_sec;
    Ran { goodput, power95: goodput / flow.one_way_p95_ms.expect("it delivers"), stages }
}

/// The mean of four seeds: where packets are lost at random, one seed has a tenth more or less.
fn power95(driver: &str, path: (f64, f64), config: &AnoleConfig) -> f64 {
    let text = text(driver, path.0, path.1);
    let of_seed = |seed: u32| run(&format!("seed = {seed}\n{text}"), config).power95;
    (1..=4).map(of_seed).sum::<f64>() / 4.0
}

/// HyStart ends slow start at a quarter of this path's rate. A flow that stays there for long
/// delivers 41 Mbit/s on average; a flow that climbs at once delivers 44.
#[test]
fn a_long_path_is_filled_soon() {
    let got = run(&text("anole", 50.0, 0.0), &AnoleConfig::default());
    assert!(got.goodput >= 43.0, "{} Mbit/s", got.goodput);
}

/// The first principle of the paper, in the quick form of rows B1, B2, B3 and B5: with the classic
/// arm alone, and with both, where a tenth less than the better one is taken in runs so short.
#[test]
fn it_stays_near_its_better_candidate() {
    let alone = AnoleConfig { learned: NONE.to_owned(), ..AnoleConfig::default() };
    let both = AnoleConfig::default();
    for path in [(25.0, 0.0), (25.0, 0.1), (50.0, 0.0), (25.0, 1.0)] {
        let classic = power95(&both.classic, path, &both);
        let got = power95("anole", path, &alone);
        assert!(got >= 1.05 * classic, "{path:?}: {got} of {classic}");
    }
    for path in [(25.0, 0.0), (25.0, 0.1), (50.0, 0.0), (25.0, 1.0)] {
        let better = power95(&both.classic, path, &both).max(power95(&both.learned, path, &both));
        let got = power95("anole", path, &both);
        assert!(got >= 0.9 * better, "{path:?}: {got} of {better}");
    }
}

fn last_number(stages: &[Staged], name: &str) -> f64 {
    let last = stages.iter().rev().find_map(|stage| stage.features.get(name));
    last.expect("a cycle has ended").parse().expect("a number")
}

#[test]
fn the_learned_arm_is_called_once_a_cycle_at_most() {
    let ran = run(&text("anole", 25.0, 0.1), &AnoleConfig::default());
    let (calls, cycles) =
        (last_number(&ran.stages, "learned_calls"), last_number(&ran.stages, "cycles"));
    // One more in slow start, and one at its end.
    assert!(calls <= cycles + 2.0, "{calls} calls in {cycles} cycles");
    assert!(calls <= 1.0 + END_S / 0.05 / 5.0, "{calls} calls in {END_S} s");
    assert!(cycles > 20.0, "{cycles}");
}

#[test]
fn a_cycle_says_why() {
    let ran = run(&text("anole", 25.0, 0.1), &AnoleConfig::default());
    let names: Vec<&str> = ran.stages.iter().map(|stage| stage.stage).collect();
    for want in ["started", "evaluation", "probing", "acceleration", "activation"] {
        assert!(names.contains(&want), "{want}: {names:?}");
    }
    assert!(ran.stages.iter().all(|stage| !stage.why.is_empty()));
}

#[test]
fn an_ablation_leaves_out_what_it_names() {
    let config = AnoleConfig { inference: false, ..AnoleConfig::default() };
    let without = run(&text("anole", 25.0, 0.1), &config);
    assert!(without.stages.iter().all(|stage| stage.stage != "climbing"));
    let config = AnoleConfig { deprecation: false, ..AnoleConfig::default() };
    let without = run(&text("anole", 25.0, 0.1), &config);
    assert!(without.stages.iter().all(|stage| stage.stage != "acceleration"));
    assert!(without.goodput > 30.0, "{}", without.goodput);
    let config = AnoleConfig { learned: NONE.to_owned(), ..AnoleConfig::default() };
    let without = run(&text("anole", 25.0, 0.1), &config);
    assert_eq!(last_number(&without.stages, "learned_calls"), 0.0);
}
