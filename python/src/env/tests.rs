use super::*;
use crate::config::{Paths, Range, Ranges, Weights};
use crate::observe::FEATURES;
use remuda_scenarios::Scenario;

/// 12 Mbit/s, 40 ms, one BDP of queue, no loss, started at the link's rate.
fn plain() -> Ranges {
    Ranges {
        bandwidth_mbit_per_sec: Range::only(12.0),
        rtt_ms: Range::only(40.0),
        queue_bdp: Range::only(1.0),
        loss_percent: Range::only(0.0),
        start_ratio: Range::only(1.0),
    }
}

fn on(ranges: Ranges) -> Config {
    Config { paths: Paths::Drawn(ranges), episode_steps: Some(50), ..Config::default() }
}

fn given(text: &str) -> Config {
    let scenario = Scenario::parse(text, "test").unwrap();
    Config { paths: Paths::Given(Box::new(scenario)), episode_steps: None, ..Config::default() }
}

/// An episode of one action: its steps, and the last observation.
fn play(config: Config, seed: u64, action: f32) -> (Vec<Step>, Vec<f32>) {
    let mut env = Env::new(config).unwrap();
    let mut observation = vec![0.0; env.observation_len()];
    env.reset(Some(seed), &mut observation).unwrap();
    let mut steps = Vec::new();
    loop {
        let step = env.step(action, &mut observation).unwrap();
        steps.push(step);
        if step.is_over() {
            return (steps, observation);
        }
    }
}

fn feature(observation: &[f32], name: &str) -> f32 {
    let place = FEATURES.iter().position(|feature| feature.name == name).unwrap();
    observation[observation.len() - FEATURES.len() + place]
}

#[test]
fn an_action_and_its_negative_cancel_out() {
    for scale in [0.025, 0.25, 3.0] {
        for action in [0.0, 0.1, 0.5, 1.0] {
            assert!((factor(action, scale) * factor(-action, scale) - 1.0).abs() < 1e-12);
        }
    }
    assert_eq!(factor(1.0, 0.25), 1.25);
    assert_eq!(factor(-1.0, 0.25), 0.8);
}

#[test]
fn a_reward_is_what_its_formula_says() {
    let truth = Truth {
        payload_bytes_per_sec: 1e6,
        bandwidth_mbit_per_sec: 8.0,
        base_rtt: Nanos::from_millis(40),
        queue_bdp: None,
        loss_percent: None,
    };
    let weights = Weights { throughput: 1.0, delay: 0.25, loss: 2.0 };
    let config = Config { weights, ..Config::default() };
    let of = |bytes_per_sec, rtt_s, loss_rate| {
        let seen = Seen { bytes_per_sec, rtt_s, loss_rate };
        (reward(&seen, &truth, &config) * 1e9).round() / 1e9
    };
    assert_eq!(of(1e6, Some(0.04), 0.0), 1.0);
    assert_eq!(of(5e5, Some(0.08), 0.0), 0.25);
    assert_eq!(of(1e6, Some(0.04), 0.1), 0.8);
    assert_eq!(of(0.0, None, 0.0), 0.0);
    assert_eq!(of(0.0, Some(100.0), 0.0), -2.5, "delay counts up to 10 base round trips");
    assert_eq!(of(1e6, Some(0.039), 0.0), 1.0, "a clock's grain is no gain");
}

#[test]
fn a_rate_at_the_link_fills_it_without_loss() {
    let config = on(Ranges { start_ratio: Range::only(0.95), ..plain() });
    let (steps, observation) = play(config, 1, 0.0);
    assert_eq!(steps.len(), 50);
    let last = steps[steps.len() - 1];
    assert!(last.truncated && !last.terminated);
    assert!((0.85..1.0).contains(&last.reward), "{last:?}");
    assert_eq!(feature(&observation, "loss_rate"), 0.0);
    assert!((0.9..1.3).contains(&feature(&observation, "latency_ratio")));
}

#[test]
fn a_rate_above_the_link_fills_the_queue_and_loses() {
    let config = on(Ranges { start_ratio: Range::only(1.5), ..plain() });
    let (steps, observation) = play(config, 1, 0.0);
    let last = steps[steps.len() - 1];
    assert!(last.reward < 0.6, "{last:?}");
    assert!(feature(&observation, "latency_ratio") > 1.7, "{observation:?}");
    assert!(feature(&observation, "loss_rate") > 0.1, "{observation:?}");
}

#[test]
fn a_window_of_half_a_bdp_gets_half_the_link() {
    let ranges = Ranges { start_ratio: Range::only(0.5), ..plain() };
    // The result must not depend on the length of a step.
    let config = Config { control: Control::Window, step_rtts: 2.0, ..on(ranges) };
    let mut env = Env::new(config).unwrap();
    let mut observation = vec![0.0; env.observation_len()];
    env.reset(Some(1), &mut observation).unwrap();
    for _ in 0..20 {
        env.step(0.0, &mut observation).unwrap();
    }
    let [_, throughput, rtt_ms, _, rate, cwnd_pkts, ..] = env.metrics();
    assert_eq!(rate, 0.0, "nothing is paced");
    assert_eq!(cwnd_pkts, 20.0);
    assert!((4.5..6.5).contains(&throughput), "{throughput} Mbit/s");
    assert!(rtt_ms < 60.0, "{rtt_ms} ms");
}

#[test]
fn growing_without_end_ends_at_twice_what_arrives() {
    let mut env = Env::new(on(plain())).unwrap();
    let mut observation = vec![0.0; env.observation_len()];
    env.reset(Some(1), &mut observation).unwrap();
    let mut rates = Vec::new();
    for _ in 0..40 {
        env.step(1.0, &mut observation).unwrap();
        rates.push(env.metrics()[4]);
    }
    let most = rates.iter().fold(0.0_f64, |most, rate| most.max(*rate));
    assert!((22.0..30.0).contains(&most), "{most} Mbit/s on a link of 12");
    let (steps, _) = play(on(plain()), 1, -1.0);
    let last = steps[steps.len() - 1].reward;
    assert!((0.0..0.2).contains(&last), "two segments a round trip: {last}");
}

#[test]
fn a_window_ends_at_ten_times_what_the_path_holds() {
    let config = Config { control: Control::Window, ..on(plain()) };
    let mut env = Env::new(config).unwrap();
    let mut observation = vec![0.0; env.observation_len()];
    env.reset(Some(1), &mut observation).unwrap();
    for _ in 0..40 {
        env.step(1.0, &mut observation).unwrap();
    }
    // 40 segments are a BDP.
    let [.., cwnd_pkts, _, _] = env.metrics();
    assert!((380.0..460.0).contains(&cwnd_pkts), "{cwnd_pkts} segments");
    assert!((9.5..=10.0).contains(&feature(&observation, "rate_ratio")));
}

#[test]
fn an_action_beyond_the_edge_counts_as_the_edge() {
    let run = |action| play(on(plain()), 1, action);
    assert_eq!(run(3.0), run(1.0));
    assert_eq!(run(-3.0), run(-1.0));
}

#[test]
fn packets_are_counted_over_episodes() {
    let mut env = Env::new(on(plain())).unwrap();
    let mut observation = vec![0.0; env.observation_len()];
    let mut counts = vec![env.packets_sent()];
    for _ in 0..3 {
        env.reset(Some(1), &mut observation).unwrap();
        for _ in 0..9 {
            env.step(0.0, &mut observation).unwrap();
        }
        counts.push(env.packets_sent());
    }
    // Twelve round trips of 40 packets each, or slightly more.
    assert!((480..510).contains(&counts[1]), "{counts:?}");
    assert_eq!(counts, [0, counts[1], 2 * counts[1], 3 * counts[1]]);
}

#[test]
fn each_episode_of_a_scenario_has_a_seed_of_its_own() {
    let lossy = FINITE.replace("rate_mbit_per_sec", "loss_percent = 5\n    rate_mbit_per_sec");
    let config = || given(&lossy);
    assert_eq!(play(config(), 1, 0.0), play(config(), 1, 0.0));
    assert_ne!(play(config(), 1, 0.0), play(config(), 2, 0.0));
}

#[test]
fn the_same_seed_gives_the_same_episode() {
    let config = || Config { episode_steps: Some(30), ..Config::default() };
    assert_eq!(play(config(), 7, 0.1), play(config(), 7, 0.1));
    assert_ne!(play(config(), 7, 0.1), play(config(), 8, 0.1));
    let mut env = Env::new(config()).unwrap();
    let mut observation = vec![0.0; env.observation_len()];
    let mut truths = Vec::new();
    for seed in [Some(7), None, Some(7), None] {
        env.reset(seed, &mut observation).unwrap();
        truths.push(*env.truth());
    }
    assert_eq!(truths[..2], truths[2..], "what follows a seed follows it again");
    assert_ne!(truths[0], truths[1], "and each episode is drawn anew");
}

const FINITE: &str = r#"
    duration_s = 20
    links.up = { delay_ms = 20 }
    [links.down]
    rate_mbit_per_sec = 12
    delay_ms = 20
    queue = { kind = "droptail", limit_bdp = 2 }
    [[flows]]
    driver = "external"
    start_s = 0.5
    bytes = 500_000
"#;

#[test]
fn a_flow_that_has_sent_all_terminates() {
    let (steps, _) = play(given(FINITE), 1, 0.0);
    let last = steps[steps.len() - 1];
    assert!(last.terminated && !last.truncated);
    // 10 segments a round trip are 14480 bytes each 40 ms.
    assert!((30..40).contains(&steps.len()), "{} steps", steps.len());
    let both = Config { episode_steps: Some(steps.len() as u32), ..given(FINITE) };
    let (steps, _) = play(both, 1, 0.0);
    let last = steps[steps.len() - 1];
    assert!(last.terminated && !last.truncated, "what ends by itself is not cut short");
}

#[test]
fn an_endless_flow_is_truncated_at_the_end_of_its_scenario() {
    let config = given(&FINITE.replace("bytes = 500_000", "stop_s = 2.5"));
    let (steps, _) = play(config, 1, 0.0);
    // Two seconds in steps of 40 ms, without the warm-up.
    assert_eq!(steps.len(), 47);
    assert!(steps[46].truncated);
}

#[test]
fn misuse_is_refused_by_name() {
    let mut env = Env::new(on(plain())).unwrap();
    let mut observation = vec![0.0; env.observation_len()];
    let text = |result: Result<Step, Error>| result.unwrap_err().to_string();
    assert!(text(env.step(0.0, &mut observation)).starts_with("no episode runs: call reset()"));
    let short = env.reset(None, &mut observation[1..]).unwrap_err().to_string();
    assert_eq!(short, "`observation` has 79 values: must have 80");
    env.reset(Some(1), &mut observation).unwrap();
    assert!(text(env.step(f32::NAN, &mut observation)).starts_with("the action is NaN: must be"));
    for _ in 0..50 {
        env.step(-9.0, &mut observation).unwrap();
    }
    assert!(text(env.step(0.0, &mut observation)).starts_with("no episode runs"));
}

#[test]
fn observations_stay_in_their_ranges_on_any_path() {
    for seed in 0..20 {
        let config = Config { episode_steps: Some(40), ..Config::default() };
        let action = [1.0, -1.0, 0.3, 0.0][seed as usize % 4];
        let (_, observation) = play(config, seed, action);
        for (place, value) in observation.iter().enumerate() {
            let feature = FEATURES[place % FEATURES.len()];
            assert!((feature.low..=feature.high).contains(value), "{}: {value}", feature.name);
        }
    }
}
