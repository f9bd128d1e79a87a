//! The bandit against theory, against UCB1, and its decision space.

use super::*;
use proptest::prelude::*;

/// The parameters of the paper and those that it leaves open.
const PAPER: Rules = Rules { alpha: 0.8, gamma: 0.98, xi: 0.1, step_pkts: 5, cwnd_pkts: (2, 200) };
/// A fixed list whose reward is the throughput.
const FIXED: Rules = Rules { alpha: 1.0, step_pkts: 0, ..PAPER };

/// A random number from 0 to 1, from a generator that is good enough for a test.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

fn draw(state: &mut u64, mean: f64) -> f64 {
    if uniform(state) < mean { 1.0 } else { 0.0 }
}

fn rewards(throughput: f64) -> Mean {
    Mean { throughput_bytes_per_sec: throughput, inverse_rtt_per_sec: 1.0 }
}

/// Mean rewards of arms at a time.
type Problem = fn(u64) -> [f64; 4];

fn regret_of_a_round(means: &[f64; 4], arm: usize) -> f64 {
    means.iter().copied().fold(0.0, f64::max) - means[arm]
}

fn discounted(rules: &Rules, problem: Problem, rounds: u64, seed: u64) -> f64 {
    let (mut bandit, mut state) = (SlidingUcb::new(&[2, 3, 4, 5]), seed);
    bandit.scale.widen(rewards(1.0));
    let mut regret = 0.0;
    for round in 0..rounds {
        let cwnd_pkts = bandit.next(rules);
        let (means, arm) = (problem(round), cwnd_pkts as usize - 2);
        regret += regret_of_a_round(&means, arm);
        bandit.observe(rules, cwnd_pkts, rewards(draw(&mut state, means[arm])));
    }
    regret
}

/// UCB1 of Auer, Cesa-Bianchi and Fischer (2002).
fn ucb1(problem: Problem, rounds: u64, seed: u64) -> f64 {
    let (mut count, mut sum, mut state, mut regret) = ([0.0_f64; 4], [0.0; 4], seed, 0.0);
    for round in 0..rounds {
        let bound = |arm: usize| match count[arm] {
            0.0 => f64::INFINITY,
            n => sum[arm] / n + (2.0 * (round as f64).ln() / n).sqrt(),
        };
        let arm = (0..4).max_by(|a, b| bound(*a).total_cmp(&bound(*b))).expect("four");
        let means = problem(round);
        regret += regret_of_a_round(&means, arm);
        count[arm] += 1.0;
        sum[arm] += draw(&mut state, means[arm]);
    }
    regret
}

/// Problems in which the arm that was best becomes a middling one, so that its history misleads.
/// The first is that of Garivier and Moulines, section 5.
const MISLEADING: [(&str, Problem, f64); 3] = [
    (
        "the third arm is the best for a while",
        |round| [0.5, 0.3, if (3_000..5_000).contains(&round) { 0.9 } else { 0.4 }, 0.0],
        2.0,
    ),
    ("the best fails", |round| [if round < 5_000 { 0.9 } else { 0.1 }, 0.6, 0.3, 0.1], 1.0),
    (
        "the best becomes the second",
        |round| [0.6, if round < 5_000 { 0.9 } else { 0.3 }, 0.1, 0.1],
        1.0,
    ),
];

/// Each arm is the best in turn, and the others are alike.
fn rotating(round: u64) -> [f64; 4] {
    let mut means = [0.1; 4];
    means[(round / 500 % 4) as usize] = 0.9;
    means
}

#[test]
fn regret_is_below_that_of_ucb1_where_history_misleads() {
    let mean = |of: &dyn Fn(u64) -> f64| (1..=10).map(of).sum::<f64>() / 10.0;
    let both = |problem: Problem, changes: f64| {
        // Their choice of gamma.
        let gamma = 1.0 - (changes / 10_000.0).sqrt() / 4.0;
        let rules = Rules { gamma, ..FIXED };
        let ours = mean(&|seed| discounted(&rules, problem, 10_000, seed));
        (ours, mean(&|seed| ucb1(problem, 10_000, seed)))
    };
    for (name, problem, changes) in MISLEADING {
        let (ours, other) = both(problem, changes);
        println!("{name}: regret {ours:.0}, of UCB1 {other:.0}");
        assert!(ours < other, "{name}: {ours:.0} {other:.0}");
    }
    // Its price: exploration never ends. Where a change shows at once, UCB1 is the better one.
    let (ours, other) = both(rotating, 19.0);
    println!("each is the best in turn: regret {ours:.0}, of UCB1 {other:.0}");
}

/// Theorem 1 of Garivier and Moulines, for xi > 1/2: the most plays of an arm while it is not the
/// best, where its mean lies at least `gap` below the best one's and the means change
/// `changes` times in `rounds` rounds.
fn plays_max(rules: &Rules, gap: f64, rounds: f64, changes: f64) -> f64 {
    let Rules { gamma, xi, .. } = *rules;
    let (forget, euler) = (1.0 - gamma, std::f64::consts::E);
    let first = 32.0 * 2.0_f64.sqrt() * xi / (gamma.powf(1.0 / forget) * gap * gap);
    let second = 4.0 / ((1.0 - 1.0 / euler) * (1.0 + 4.0 * (1.0 - 0.5 / xi).sqrt()).ln());
    let rounds_k = (1.0 - gamma.powi(4)) / forget;
    let late = -forget / (forget.ln() * gamma.ln()) * (forget * xi * rounds_k.ln()).ln();
    let log = (1.0 / forget).ln();
    (first + second) * rounds * forget * log + late * changes / forget * log
}

#[test]
fn regret_is_within_the_published_bound() {
    const ROUNDS: u64 = 1_000_000;
    let stationary: Problem = |_| [0.95, 0.03, 0.03, 0.03];
    let switching: Problem = |round| {
        if round < ROUNDS / 2 { [0.95, 0.03, 0.03, 0.03] } else { [0.03, 0.95, 0.03, 0.03] }
    };
    for (name, problem, changes) in [("stationary", stationary, 0.0), ("switching", switching, 1.0)]
    {
        // Their choice of gamma: 1 - sqrt(changes / rounds) / 4.
        let gamma = 1.0 - (1.0 / ROUNDS as f64).sqrt() / 4.0;
        let rules = Rules { gamma, xi: 0.6, ..FIXED };
        let bound = plays_max(&rules, 0.92, ROUNDS as f64, changes);
        assert!(bound < ROUNDS as f64 / 2.0, "the bound of an arm says something: {bound:.0}");
        let regret = discounted(&rules, problem, ROUNDS, 7);
        println!("{name}: regret {regret:.0}, bound {:.0}", 3.0 * 0.92 * bound);
        assert!(regret <= 3.0 * 0.92 * bound, "{name}: {regret:.0}");
    }
}

/// Plays `rounds` rounds where the reward falls with the distance from the best window.
fn after(rounds: u32, best: u32) -> SlidingUcb {
    let mut bandit = SlidingUcb::new(&[5, 10, 15, 20]);
    for _ in 0..rounds {
        let cwnd_pkts = bandit.next(&PAPER);
        let reward = 1.0 - f64::from(cwnd_pkts.abs_diff(best)) / 200.0;
        bandit.observe(&PAPER, cwnd_pkts, rewards(reward));
    }
    bandit
}

#[test]
fn the_sliding_space_finds_the_best_of_2_to_200_in_40_rounds() {
    for best in 2..=200 {
        let found = after(40, best).best(&PAPER).expect("it has played");
        assert!(found.abs_diff(best) <= 2, "{best}: {found}, with steps of 5");
    }
}

#[test]
fn each_arm_is_played_once_first_and_a_window_without_data_does_not_slide() {
    let mut bandit = SlidingUcb::new(&[5, 10, 15, 20]);
    for cwnd_pkts in [5, 10, 15, 20, 25] {
        assert_eq!(bandit.next(&PAPER), cwnd_pkts);
        assert_eq!(bandit.next(&PAPER), cwnd_pkts, "nothing came of it, so it goes on");
        bandit.observe(&PAPER, cwnd_pkts, rewards(f64::from(cwnd_pkts)));
    }
    let windows: Vec<u32> = bandit.arms.iter().map(|arm| arm.cwnd_pkts).collect();
    assert_eq!(windows, [10, 15, 20, 25], "and moves when the next window is due");
}

#[test]
fn a_step_loses_weight_and_the_scale_follows() {
    let mut bandit = SlidingUcb::new(&[5, 10]);
    bandit.observe(&PAPER, 5, rewards(1.0));
    bandit.observe(&PAPER, 10, rewards(4.0));
    let [five, ten] = &bandit.rows(&PAPER)[..] else { panic!("two") };
    assert!((five.rounds - 0.98).abs() < 1e-12 && (ten.rounds - 1.0).abs() < 1e-12);
    let (five, ten) = (five.reward.expect("played"), ten.reward.expect("played"));
    assert!((five - (0.8 / 4.0 + 0.2)).abs() < 1e-12 && (ten - 1.0).abs() < 1e-12);
}

proptest! {
    /// Whatever comes of windows, they stay in their bounds and in order, and a bandit that a file
    /// has kept goes on as the one that was not interrupted.
    #[test]
    fn arms_stay_in_bounds_and_a_restart_changes_no_choice(
        outcomes in prop::collection::vec((0.0..1e9_f64, 0.1..1e4_f64), 1..200),
        restart in 0_usize..200,
    ) {
        let mut bandit = SlidingUcb::new(&[5, 10, 15, 20]);
        let mut other = bandit.clone();
        for (at, (throughput, inverse)) in outcomes.iter().enumerate() {
            if at == restart {
                let text = serde_json::to_string(&other).expect("plain data");
                other = serde_json::from_str(&text).expect("of its form");
            }
            let cwnd_pkts = bandit.next(&PAPER);
            prop_assert_eq!(other.next(&PAPER), cwnd_pkts);
            prop_assert_eq!(bandit.broken_rule(&PAPER), None);
            prop_assert_eq!(bandit.arms.len(), 4);
            let (throughput_bytes_per_sec, inverse_rtt_per_sec) = (*throughput, *inverse);
            let mean = Mean { throughput_bytes_per_sec, inverse_rtt_per_sec };
            bandit.observe(&PAPER, cwnd_pkts, mean);
            other.observe(&PAPER, cwnd_pkts, mean);
            let rows = bandit.rows(&PAPER);
            let mut rewards = rows.iter().filter_map(|row| row.reward);
            prop_assert!(rewards.all(|it| (0.0..=1.0 + 1e-9).contains(&it)));
        }
    }
}
