//! Draws environments of several kinds by seed. Held-out ones, and seven of twelve blocks of the
//! training's, come from one distribution; the other five blocks of the training's come from kinds
//! of environments that would be too rare otherwise. [`crate::learning`] says which are trained on.
//!
//! Ranges are those of Table II of Zhou et al., Antelope (ICNP 2021): 12 to 8000 Mbit/s, 1 to 100
//! ms and 0.1 to 6 BDPs. They are wider where today's paths are (4 Mbit/s, 200 ms) and narrower
//! where a simulation would take too long (200 Mbit/s). Beside the paper's WAN, data center and
//! cellular paths there are random loss, Wi-Fi's jitter, rates that step, and neighbours: several
//! CUBIC flows, a BBR flow, requests of 1 KB to many MB, a crowd of both, and up to 20 flows of the
//! same arm. On a shared path every second flow under test starts later than the others, so it may
//! never see the path without a queue.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;
use std::ops::{Range, RangeInclusive};

/// Duration of each flow under test.
pub const DURATION_S: f64 = 30.0;
/// The name of the flow under test.
const TESTED: &str = "tested";
/// The name of the flows with the same driver as the flow under test. It also names the kind of
/// neighbours that consists of such flows only.
pub const ALIKE: &str = "alike";
const ALIKE_AND_CUBICS: &str = "alike-and-cubics";

/// One environment: a scenario without the flow under test.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// The seed, which is also the environment's name.
    pub seed: u64,
    /// The kind of path, such as `cellular`.
    pub kind: &'static str,
    pub neighbours: &'static str,
    /// The round trip of the path without a queue.
    pub rtt_ms: f64,
    pub start_s: f64,
    /// The TOML keys `count` and `stagger_s` of the flows named [`ALIKE`]; `None` if there are
    /// none.
    alike: Option<String>,
    /// The scenario's TOML without these flows and without the flow under test.
    text: String,
}

pub(crate) fn log_uniform(rng: &mut ChaCha8Rng, range: &Range<f64>) -> f64 {
    (rng.random_range(range.start.ln()..range.end.ln())).exp()
}

/// Picks one of several values, each with a weight.
pub(crate) fn pick<T: Copy>(rng: &mut ChaCha8Rng, of: &[(f64, T)]) -> T {
    let all: f64 = of.iter().map(|(weight, _)| weight).sum();
    let mut at = rng.random_range(0.0..all);
    for (weight, it) in of {
        if at < *weight {
            return *it;
        }
        at -= weight;
    }
    of[of.len() - 1].1
}

/// The kind of a path whose rate steps up and down.
pub const STEPS: &str = "steps";
/// The kinds of path, each with its weight.
const KINDS: [(f64, &str); 6] = [
    (0.34, "wired"),
    (0.12, "lossy"),
    (0.2, "cellular"),
    (0.1, "wifi"),
    (0.12, "datacenter"),
    (0.12, STEPS),
];
/// The kinds of neighbours, each with its weight.
const NEIGHBOURS: [(f64, &str); 9] = [
    (0.36, "none"),
    (0.14, "cubic"),
    (0.08, "bbr"),
    (0.06, "cubics"),
    (0.1, "crowd"),
    (0.08, "web-search"),
    (0.04, "data-mining"),
    (0.09, ALIKE),
    (0.05, ALIKE_AND_CUBICS),
];
/// The distribution from which environments are drawn; a data center has its own ranges of round
/// trips and queues.
struct Population {
    kinds: &'static [(f64, &'static str)],
    /// Round trips without a queue.
    rtt_ms: Range<f64>,
    /// Queues, in bandwidth-delay products.
    bdps: Range<f64>,
    /// The least rate of a cellular path over its highest rate.
    cell_least: Range<f64>,
    neighbours: &'static [(f64, &'static str)],
    /// When a neighbour without a fixed size starts.
    comes_s: Range<f64>,
    /// The probability that the flow under test starts later than its neighbours.
    late: f64,
}
const ALL: Population = Population {
    kinds: &KINDS,
    rtt_ms: 8.0..200.0,
    bdps: 0.2..6.0,
    cell_least: 0.02..0.3,
    neighbours: &NEIGHBOURS,
    comes_s: 0.0..20.0,
    late: 0.5,
};
/// Paths that long flows share. Here arms differ most, and take most from other flows.
const CROWDED: Population = Population {
    rtt_ms: 20.0..200.0,
    bdps: 1.0..6.0,
    neighbours: &[
        (0.1, "bbr"),
        (0.15, "cubics"),
        (0.15, "crowd"),
        (0.3, ALIKE),
        (0.3, ALIKE_AND_CUBICS),
    ],
    ..ALL
};
/// A flow that has a path with a queue to itself, until other flows come and fill the queue.
const OTHERS_COME: Population = Population {
    kinds: &[(0.7, "wired"), (0.1, "lossy"), (0.1, "cellular"), (0.1, STEPS)],
    rtt_ms: 10.0..120.0,
    bdps: 1.0..6.0,
    neighbours: &[(0.7, "cubic"), (0.15, "cubics"), (0.15, "bbr")],
    comes_s: 4.0..20.0,
    late: 0.0,
    ..ALL
};
/// Cellular paths of a person who stands or walks: the rates vary less.
const CALM_CELLS: Population = Population {
    kinds: &[(1.0, "cellular")],
    rtt_ms: 10.0..120.0,
    bdps: 0.5..6.0,
    cell_least: 0.2..1.0,
    neighbours: &[(0.8, "none"), (0.1, "cubic"), (0.1, "web-search")],
    ..ALL
};
/// The distributions of the training's blocks of paths of several kinds; the list repeats. If all
/// blocks had the same distribution, some paths would be too rare: a model that has seen few
/// crowded paths attributes the queue of other flows to itself.
const TO_LEARN_FROM: [&Population; 12] = [
    &ALL,
    &ALL,
    &OTHERS_COME,
    &ALL,
    &ALL,
    &CROWDED,
    &ALL,
    &ALL,
    &CALM_CELLS,
    &ALL,
    &OTHERS_COME,
    &CROWDED,
];
/// Number of flows beside the flow under test that have its driver. What a policy does with more
/// companions is defined in `selector/src/antelope/policy.rs`.
const ALIKE_COUNT: RangeInclusive<u32> = 1..=20;
/// The same for environments that also have CUBIC flows.
const ALIKE_AND_CUBICS_COUNT: RangeInclusive<u32> = 1..=5;
/// How much later than its neighbours a flow under test may start.
const LATE_S: Range<f64> = 3.0..12.0;

/// The values that define a path.
#[derive(Clone, Copy)]
struct Path {
    kind: &'static str,
    rate_mbit_per_sec: f64,
    rtt_ms: f64,
    queue_pkts: f64,
}

impl Path {
    fn draw(of: &Population, rng: &mut ChaCha8Rng) -> Self {
        let kind = pick(rng, of.kinds);
        let rates = match kind {
            "datacenter" => 50.0..200.0,
            "cellular" => 4.0..50.0,
            _ => 4.0..100.0,
        };
        let rate = log_uniform(rng, &rates);
        let of_all = (&of.rtt_ms, &of.bdps);
        let (rtts, bdps) = if kind == "datacenter" { (&(1.0..4.0), &(0.1..2.0)) } else { of_all };
        let rtt_ms = log_uniform(rng, rtts);
        let bdp_pkts = rate * 1e6 * rtt_ms / 1e3 / 8.0 / 1500.0;
        let bdps = log_uniform(rng, bdps);
        let queue_pkts = (bdp_pkts * bdps).round().max(10.0);
        Self { kind, rate_mbit_per_sec: rate, rtt_ms, queue_pkts }
    }

    /// The TOML of the link's rate, which may vary.
    fn rate(&self, of: &Population, rng: &mut ChaCha8Rng) -> String {
        let rate = self.rate_mbit_per_sec;
        match self.kind {
            "cellular" => {
                let least = rate * rng.random_range(of.cell_least.clone());
                let step_ms = log_uniform(rng, &(20.0..3_000.0)).round();
                format!(
                    "generator = {{ kind = \"markov\", min_mbit_per_sec = {least:.3}, \
                     max_mbit_per_sec = {rate:.3}, step_ms = {step_ms} }}\n"
                )
            }
            STEPS => {
                let other = rate * log_uniform(rng, &(0.25..4.0));
                let period = rng.random_range(6.0..24.0);
                format!(
                    "rate_mbit_per_sec = {rate:.3}\nrate_steps = [{{ at_s = {half:.2}, \
                     rate_mbit_per_sec = {other:.3} }}]\nrate_steps_period_s = {period:.2}\n",
                    half = period / 2.0
                )
            }
            _ => format!("rate_mbit_per_sec = {rate:.3}\n"),
        }
    }

    /// The TOML of random loss and jitter.
    fn noise(&self, rng: &mut ChaCha8Rng) -> String {
        let mut text = String::new();
        let loss = match self.kind {
            "lossy" => log_uniform(rng, &(0.05..4.0)),
            "datacenter" => pick(rng, &[(0.5, 0.0), (0.5, 0.1)]),
            "cellular" | "wifi" => pick(rng, &[(0.7, 0.0), (0.3, 0.2)]),
            _ => 0.0,
        };
        if loss > 0.0 {
            let _ = writeln!(text, "loss_percent = {loss:.4}");
        }
        if self.kind == "wifi" {
            let std_ms = self.rtt_ms * rng.random_range(0.1..0.8);
            let _ = writeln!(text, "jitter_std_ms = {std_ms:.3}");
        }
        text
    }

    /// The TOML of neighbours without a fixed size; they stop at a random time.
    fn endless(comes_s: &Range<f64>, driver: &str, count: u32, rng: &mut ChaCha8Rng) -> String {
        let start_s = rng.random_range(comes_s.clone());
        let stagger_s = rng.random_range(0.0..2.0);
        let last_s = start_s + stagger_s * f64::from(count - 1);
        let stop_s = last_s + rng.random_range(5.0..2.0 * DURATION_S);
        format!(
            "[[flows]]\ndriver = \"{driver}\"\nname = \"n\"\ncount = {count}\n\
             start_s = {start_s:.2}\nstop_s = {stop_s:.2}\nstagger_s = {stagger_s:.2}\n"
        )
    }

    /// The TOML of requests whose load is `share` of the path's rate.
    fn requests(&self, sizes: &str, share: f64) -> String {
        let load = self.rate_mbit_per_sec * share;
        format!(
            "[[flows]]\ndriver = \"cubic\"\nname = \"n\"\n\
             arrivals = {{ load_mbit_per_sec = {load:.3}, sizes = \"{sizes}\" }}\n"
        )
    }

    fn neighbours(&self, of: &Population, neighbours: &str, rng: &mut ChaCha8Rng) -> String {
        let comes_s = &of.comes_s;
        match neighbours {
            "cubic" | "bbr" => Self::endless(comes_s, neighbours, 1, rng),
            "cubics" => Self::endless(comes_s, "cubic", rng.random_range(2..=5), rng),
            ALIKE_AND_CUBICS => Self::endless(comes_s, "cubic", rng.random_range(1..=5), rng),
            "crowd" => {
                let share = rng.random_range(0.3..0.9);
                let sizes = pick(rng, &[(0.8, "web-search"), (0.2, "data-mining")]);
                let count = rng.random_range(1..=3);
                let text = self.requests(sizes, share);
                text + &format!("[[flows]]\ndriver = \"cubic\"\nname = \"n\"\ncount = {count}\n")
            }
            "web-search" | "data-mining" => self.requests(neighbours, rng.random_range(0.1..0.4)),
            _ => String::new(),
        }
    }
}

/// The TOML keys of the flows with the driver of the flow under test. Small counts are more likely
/// than large ones, and all flows start within some seconds.
fn alike(neighbours: &str, rng: &mut ChaCha8Rng) -> Option<String> {
    let counts = match neighbours {
        ALIKE => ALIKE_COUNT,
        ALIKE_AND_CUBICS => ALIKE_AND_CUBICS_COUNT,
        _ => return None,
    };
    let (least, most) = (f64::from(*counts.start()), f64::from(*counts.end()));
    let count = log_uniform(rng, &(least..most + 1.0)).floor().min(most);
    let stagger_s = rng.random_range(0.0..16.0) / (count + 3.0);
    Some(format!("count = {count}\nstagger_s = {stagger_s:.2}\n"))
}

impl Environment {
    /// The environment of a seed, from the distribution of held-out environments.
    pub fn draw(seed: u64) -> Self {
        Self::of(&ALL, seed)
    }

    /// The environment of a seed for training, in the block of that number.
    pub(crate) fn to_learn_from(block: u64, seed: u64) -> Self {
        let place = block % TO_LEARN_FROM.len() as u64;
        Self::of(TO_LEARN_FROM[place as usize], seed)
    }

    /// An environment of a family: the path's kind and round trip, and the lines of its links.
    pub(crate) fn of_family(
        (family, seed): (&'static str, u64),
        (rtt_ms, down, up): (f64, &str, &str),
        (neighbours, flows): (&'static str, &str),
        (start_s, alike): (f64, Option<String>),
    ) -> Self {
        let delay_ms = rtt_ms / 2.0;
        let text = format!(
            "name = \"{family}-{seed}\"\nduration_s = {end_s:.2}\nseed = {seed}\nsample_ms = 0\n\
             control_delay_ms = 0.05\n[links.down]\ndelay_ms = {delay_ms:.3}\n{down}\
             [links.up]\ndelay_ms = {delay_ms:.3}\n{up}{flows}",
            end_s = start_s + DURATION_S,
        );
        Self { seed, kind: family, neighbours, rtt_ms, start_s, alike, text }
    }

    fn of(population: &Population, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let rng = &mut rng;
        let path = Path::draw(population, rng);
        let (rate, noise) = (path.rate(population, rng), path.noise(rng));
        let neighbours = pick(rng, population.neighbours);
        let flows = path.neighbours(population, neighbours, rng);
        let is_late = neighbours != "none" && rng.random_bool(population.late);
        let start_s = if is_late { rng.random_range(LATE_S) } else { 0.0 };
        let alike = alike(neighbours, rng);
        let (delay_ms, queue) = (path.rtt_ms / 2.0, path.queue_pkts);
        let text = format!(
            "name = \"drawn-{seed}\"\nduration_s = {end_s:.2}\nseed = {seed}\nsample_ms = 0\n\
             control_delay_ms = 0.05\n[links.down]\ndelay_ms = {delay_ms:.3}\n\
             queue = {{ kind = \"droptail\", limit_packets = {queue} }}\n{rate}{noise}\
             [links.up]\ndelay_ms = {delay_ms:.3}\n{flows}",
            end_s = start_s + DURATION_S,
        );
        let (kind, rtt_ms) = (path.kind, path.rtt_ms);
        Self { seed, kind, neighbours, rtt_ms, start_s, alike, text }
    }

    /// The TOML with the flow under test, which comes last.
    pub fn with(&self, driver: &str) -> String {
        let driver = format!("[[flows]]\ndriver = \"{driver}\"\n");
        let alike = self.alike.as_ref();
        let alike = alike.map_or(String::new(), |of| format!("{driver}name = \"{ALIKE}\"\n{of}"));
        let start_s = self.start_s;
        format!("{}{alike}{driver}name = \"{TESTED}\"\nstart_s = {start_s:.2}\n", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_scenarios::{Driver, Scenario};
    use std::collections::BTreeSet;

    #[test]
    fn one_seed_is_one_environment_and_each_is_a_scenario() {
        let mut kinds = BTreeSet::new();
        for seed in 0..300 {
            let environment = Environment::draw(seed);
            assert_eq!(environment, Environment::draw(seed));
            let text = environment.with("cubic");
            let scenario = Scenario::parse(&text, "drawn").expect(&text);
            let tested = scenario.flows.last().expect("a flow");
            assert_eq!((&*tested.name, &tested.driver), (TESTED, &Driver::Named("cubic".into())));
            assert!((scenario.duration_s - tested.start_s - DURATION_S).abs() < 0.02);
            kinds.insert((environment.kind, environment.neighbours));
        }
        assert!(kinds.len() > 30, "{kinds:?}");
    }
}
