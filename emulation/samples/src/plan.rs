//! Plans: which arm drives the flow at which time. One arm throughout, an arm that takes over from
//! the first one, and random plans.

use crate::draw::{DURATION_S, Environment, log_uniform};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_selector::antelope::sampler::{SamplerConfig, Turn};

/// The arms that are sampled: those of the policies that learn while they run, and those that were
/// trained themselves. Each is the best on some path, and none has special requirements. Rows use
/// this order.
pub const ARMS: [&str; 10] =
    ["cubic", "bbr", "bbr3", "c2tcp", "vegas", "illinois", "westwood", "copa", "learned", "lingbo"];
/// The arm from which others take over: the one that flows of a policy begin with.
pub const FIRST: &str = "learned";
/// When another arm takes over from [`FIRST`], in seconds since the flow began; drawn evenly by the
/// logarithm, because policies change the arms of most flows early.
const TAKES_OVER_S: std::ops::Range<f64> = 0.7..14.0;
/// The random stream of the time at which others take over.
const TAKES_OVER_STREAM: u64 = u64::MAX;
/// How long an arm drives the flow; at least the minimum dwell time of a switch.
const TURN_S: std::ops::Range<f64> = 3.0..9.0;
/// When the first change happens.
const FIRST_S: std::ops::Range<f64> = 0.5..3.0;

/// One run of an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The arm that drives the flow throughout, `FIRST>ARM`, or `random:N`.
    pub name: String,
    /// The configuration of the sampler policy.
    pub sampler: SamplerConfig,
}

/// The plans of an environment. With `random` above 0: [`FIRST`] throughout, each other arm after
/// it, all from the same time on, and so many random ones. Otherwise: each arm throughout.
pub fn plans(environment: &Environment, random: u64) -> Vec<Plan> {
    let throughout = |arm: &str| {
        let sampler = SamplerConfig { first: arm.to_owned(), turns: Vec::new() };
        Plan { name: arm.to_owned(), sampler }
    };
    if random == 0 {
        return ARMS.iter().map(|arm| throughout(arm)).collect();
    }
    let at_s = {
        let mut rng = ChaCha8Rng::seed_from_u64(environment.seed);
        rng.set_stream(TAKES_OVER_STREAM);
        log_uniform(&mut rng, &TAKES_OVER_S)
    };
    let takes_over = ARMS.iter().filter(|arm| **arm != FIRST).map(|arm| {
        let turns = vec![Turn { at_s, arm: (*arm).to_owned() }];
        let sampler = SamplerConfig { first: FIRST.to_owned(), turns };
        Plan { name: format!("{FIRST}>{arm}"), sampler }
    });
    let random = (0..random).map(|number| self::random(environment.seed, number));
    std::iter::once(throughout(FIRST)).chain(takes_over).chain(random).collect()
}

fn random(environment: u64, number: u64) -> Plan {
    // Each plan has a random stream of its own, apart from that of the environment.
    let mut rng = ChaCha8Rng::seed_from_u64(environment);
    rng.set_stream(number + 1);
    let arm = |rng: &mut ChaCha8Rng| ARMS[rng.random_range(0..ARMS.len())].to_owned();
    let first = arm(&mut rng);
    let mut turns = Vec::new();
    let mut at_s = rng.random_range(FIRST_S);
    while at_s < DURATION_S {
        turns.push(Turn { at_s, arm: arm(&mut rng) });
        at_s += rng.random_range(TURN_S);
    }
    Plan { name: format!("random:{number}"), sampler: SamplerConfig { first, turns } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_plan_and_every_plan_is_valid() {
        for seed in 0..50 {
            let environment = Environment::draw(seed);
            let all = plans(&environment, 2);
            assert_eq!(all, plans(&environment, 2));
            assert_eq!(all.len(), ARMS.len() + 2);
            assert_ne!(all[ARMS.len()].sampler, all[ARMS.len() + 1].sampler);
            assert_eq!((&*all[0].name, all[0].sampler.turns.len()), (FIRST, 0));
            let turns: Vec<_> = all[1..ARMS.len()].iter().map(|it| &it.sampler.turns[0]).collect();
            assert!(turns.iter().all(|turn| turn.at_s == turns[0].at_s && turn.arm != FIRST));
            let whole = plans(&environment, 0);
            assert!(whole.iter().zip(ARMS).all(|(plan, arm)| plan.name == arm), "{whole:?}");
            for plan in &all {
                plan.sampler.validate().expect(&plan.name);
            }
        }
    }
}
