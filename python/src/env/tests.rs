use super::*;
use crate::baseline::{ORACLE, baseline};
use crate::config::{Paths, Range, Ranges, RewardKind, Weights};
use crate::saved::Saved;
use crate::set::Set;
use remuda_algorithms::learned::observation::{FEATURES as ALL, RATIOS};
use remuda_scenarios::Scenario;

/// 12 Mbit/s, 40 ms, one BDP of queue, no loss, started at the link's rate.
fn plain() -> Ranges {
    Ranges {
        bandwidth_mbit_per_sec: Range::only(12.0),
        rtt_ms: Range::only(40.0),
        queue_bdp: Range::only(1.0),
        loss_percent: Range::only(0.0),
        start_ratio: Range::only(1.0),
        ..Ranges::default()
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
    let place = ALL.iter().position(|feature| feature.name == name).unwrap();
    observation[observation.len() - RATIOS + place]
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
        (reward(&seen, &Shared::default(), &truth, &config) * 1e9).round() / 1e9
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
    let cwnd_pkts = env.metrics()[5];
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
            let feature = ALL[place % RATIOS];
            assert!((feature.low..=feature.high).contains(value), "{}: {value}", feature.name);
        }
    }
}

/// A figure of a row.
fn figure(metrics: &Metrics, name: &str) -> f64 {
    metrics[METRICS.iter().position(|known| *known == name).unwrap()]
}

/// Rewards, flags and figures of each step of an episode in which no action changes anything.
type Played = Vec<(Vec<Step>, Vec<Metrics>)>;

fn play_all(env: &mut Env, seed: u64) -> Played {
    let flows = env.flows();
    let mut observations = vec![0.0; env.observation_len() * flows];
    env.reset(Some(seed), &mut observations).unwrap();
    let mut all = Vec::new();
    while !env.is_over() {
        let mut steps = vec![Step::default(); flows];
        env.step_all(&vec![0.0; flows], &mut observations, &mut steps).unwrap();
        all.push((steps, (0..flows).map(|flow| env.metrics_of(flow)).collect()));
    }
    all
}

fn merit(ranges: Ranges, flows: usize) -> Config {
    Config { reward: RewardKind::Merit, flows, ..on(ranges) }
}

#[test]
fn two_flows_at_half_the_link_each_have_an_equal_share_and_harm_nobody() {
    let ranges = Ranges { start_ratio: Range::only(0.49), ..plain() };
    let mut env = Env::new(merit(ranges, 2)).unwrap();
    let all = play_all(&mut env, 1);
    assert_eq!(all.len(), 50);
    for (steps, metrics) in &all[10..] {
        for flow in 0..2 {
            assert_eq!(figure(&metrics[flow], "active"), 1.0);
            assert!((0.85..1.1).contains(&figure(&metrics[flow], "equal_share")), "{metrics:?}");
            assert!(figure(&metrics[flow], "harm") < 0.08, "{metrics:?}");
            assert!(steps[flow].reward > -0.7, "{steps:?}");
        }
    }
    assert!(all[49].0.iter().all(|step| step.truncated));
}

#[test]
fn who_takes_more_than_his_share_harms_and_pays() {
    let mut env = Env::new(Config { episode_steps: Some(80), ..merit(plain(), 2) }).unwrap();
    let mut observations = vec![0.0; env.observation_len() * 2];
    env.reset(Some(1), &mut observations).unwrap();
    let mut steps = [Step::default(); 2];
    for step in 0..60 {
        // The second backs off to its minimum.
        let actions = [0.0, if step < 30 { -1.0 } else { 0.0 }];
        env.step_all(&actions, &mut observations, &mut steps).unwrap();
    }
    let (greedy, meek) = (env.metrics_of(0), env.metrics_of(1));
    assert!(figure(&greedy, "equal_share") > 1.3, "{greedy:?}");
    assert!(figure(&greedy, "harm") > 0.5 && figure(&meek, "harm") < 0.1, "{greedy:?} {meek:?}");
    assert!(steps[0].reward < -1.0, "{steps:?}");
}

#[test]
fn a_flow_that_comes_later_starts_its_own_episode() {
    let ranges = Ranges { stagger_s: Range::only(0.8), ..plain() };
    let mut env = Env::new(merit(ranges, 2)).unwrap();
    let mut observations = vec![0.0; env.observation_len() * 2];
    env.reset(Some(1), &mut observations).unwrap();
    assert_eq!(figure(&env.metrics_of(0), "starts"), 1.0);
    assert!(observations[80..].iter().all(|value| *value == 0.0));
    let all = play_all(&mut env, 1);
    let starts: Vec<usize> =
        (0..all.len()).filter(|step| figure(&all[*step].1[1], "starts") > 0.0).collect();
    // 0.8 s are 20 steps, of which 3 are the warm-up before the first observation, as are 3 of it.
    assert_eq!(starts, [19]);
    for (step, (steps, metrics)) in all.iter().enumerate() {
        assert_eq!(figure(&metrics[1], "active") > 0.0, step > 19, "step {step}");
        assert_eq!(steps[1].reward != 0.0, step > 19, "step {step}");
    }
}

#[test]
fn a_merit_is_that_of_a_full_link_without_a_queue() {
    let config = merit(Ranges { start_ratio: Range::only(0.95), ..plain() }, 1);
    let (steps, _) = play(config.clone(), 1, 0.0);
    let last = steps[steps.len() - 1].reward;
    assert!((-0.35..0.0).contains(&last), "{last}");
    let (halved, _) = play(Config { reward_scale: 0.5, ..config }, 1, 0.0);
    assert!((halved[9].reward * 2.0 - steps[9].reward).abs() < 1e-12);
}

#[test]
fn a_baseline_is_an_arm_in_the_same_reward_and_the_oracle_beats_it() {
    let text = r#"
        duration_s = 12
        links.up = { delay_ms = 20 }
        [links.down]
        rate_mbit_per_sec = 12
        rate_steps = [{ at_s = 3, rate_mbit_per_sec = 4 }]
        rate_steps_period_s = 6
        delay_ms = 20
        queue = { kind = "droptail", limit_bdp = 2 }
        [[flows]]
        driver = "external"
    "#;
    let config = Config { reward: RewardKind::Merit, ..given(text) };
    let of = |driver| baseline(&config, driver, 3).unwrap();
    let [cubic, bbr, oracle] = ["cubic", "bbr", ORACLE].map(of);
    assert_eq!(cubic, of("cubic"));
    assert!(oracle.mean() > cubic.mean() && oracle.mean() > bbr.mean());
    assert!(oracle.mean() > -0.5, "{}", oracle.mean());
    let capacity: Vec<f64> =
        oracle.metrics.iter().map(|it| figure(it, "capacity_mbit_per_sec")).collect();
    let most = capacity.iter().fold(0.0_f64, |most, it| most.max(*it));
    let least = capacity.iter().fold(f64::INFINITY, |least, it| least.min(*it));
    assert!((most - 12.0).abs() < 0.01 && (least - 4.0).abs() < 0.01, "{least} to {most}");
    let error = baseline(&config, "nobody", 3).unwrap_err().to_string();
    assert!(error.contains("nobody"), "{error}");
}

#[test]
fn an_action_may_choose_the_arm() {
    let arms = ["cubic", "copa"].map(str::to_owned).to_vec();
    let config = Config { control: Control::Arm, arms, ..on(plain()) };
    let mut env = Env::new(config).unwrap();
    let mut observation = vec![0.0; env.observation_len()];
    let mut rtts = [0.0; 2];
    for (arm, rtt_ms) in rtts.iter_mut().enumerate() {
        env.reset(Some(1), &mut observation).unwrap();
        for _ in 0..50 {
            env.step(arm as f32, &mut observation).unwrap();
        }
        *rtt_ms = figure(&env.metrics(), "rtt_ms");
    }
    assert!(rtts[0] > rtts[1] + 5.0, "cubic fills the queue and copa does not: {rtts:?}");
    env.reset(Some(1), &mut observation).unwrap();
    let error = env.step(2.0, &mut observation).unwrap_err().to_string();
    assert_eq!(error, "the action is 2: must be a whole number from 0 to 1, the place of an arm");
    let error = Env::new(Config { control: Control::Arm, ..on(plain()) }).unwrap_err();
    assert!(error.to_string().starts_with("`arms` is []: must name 2 to 64"), "{error}");
}

#[test]
fn the_flows_beside_the_driven_one_can_be_left_out() {
    let set = Set::of_families(&["crowded".to_owned()], &[], Vec::new()).unwrap();
    let paths = Paths::Among(Arc::new(set));
    for is_alone in [false, true] {
        let mut config = Config { episode_steps: Some(4), is_alone, ..on(plain()) };
        config.paths = paths.clone();
        let mut env = Env::new(config).unwrap();
        let mut observation = vec![0.0; env.observation_len()];
        let mut flows = Vec::new();
        for _ in 0..4 {
            env.reset(None, &mut observation).unwrap();
            flows.push(env.course.scenario.flows.len());
        }
        assert_eq!(flows.iter().all(|count| *count == 1), is_alone, "{flows:?}");
    }
}

#[test]
fn every_family_can_be_trained_on_and_what_is_saved_goes_on() {
    let set = Set::of_families(&[], &["crowded".to_owned()], Vec::new()).unwrap();
    let paths = Paths::Among(Arc::new(set));
    let config = Config { episode_steps: Some(4), flows: 2, paths, ..on(plain()) };
    let mut env = Env::new(config.clone()).unwrap();
    let mut observations = vec![0.0; env.observation_len() * 2];
    let mut steps = [Step::default(); 2];
    for _ in 0..6 {
        env.reset(None, &mut observations).unwrap();
        env.step_all(&[0.3, -0.2], &mut observations, &mut steps).unwrap();
    }
    let bytes = env.save(false).to_bytes();
    let mut copy = Env::new(config).unwrap();
    copy.restore(&Saved::from_bytes(&bytes).unwrap()).unwrap();
    for flow in 0..2 {
        assert_eq!(copy.observation_of(flow), env.observation_of(flow));
        assert_eq!(copy.metrics_of(flow), env.metrics_of(flow));
    }
    let error = Set::of_families(&["desert".to_owned()], &[], Vec::new()).unwrap_err().to_string();
    assert!(error.contains("desert") && error.contains("cellular"), "{error}");
}
