//! The path of a destination, simulated: paths on which flows of the present arm would look as the
//! logged ones do, and what another arm would do there.
//!
//! Approximate Bayesian computation with a sequence of populations (Sisson, Fan and Tanaka, PNAS
//! 2007). Paths are drawn, the present arm runs over each, and those count whose flows resemble the
//! logged ones. Then paths near these are drawn. Over the paths that resemble most, each candidate
//! runs the same transfers with the same seeds.
//!
//! Difference from the paper: the weights of a population ignore the density from which it was
//! drawn; the interval is calibrated instead (`calibration.rs`).

use crate::observed::{Destination, Flow};
use crate::path::{Clues, Guess, Kind, START_S};
use crate::summary::Summary;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use remuda_scenarios::Scenario;
use remuda_sim::Simulation;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Paths of a kind that each population simulates.
const POPULATIONS: [usize; 3] = [128, 48, 48];
/// Paths of a kind near which the next population is drawn, and over which candidates run.
const KEPT: usize = 8;
/// The logged flows are compared in so many groups, by size: slow start is most of a short flow.
const GROUPS: usize = 3;
/// The quantiles of the sizes of a group that a candidate transfers.
const SIZES: [f64; 2] = [0.3, 0.8];
/// A longer transfer is simulated up to here: some seconds, as most of it is like its end.
const SEGMENTS_MAX: u64 = 14_000;
/// The longest simulated transfer, in seconds.
const LIFE_S_MAX: f64 = 60.0;
/// A simulation with more events is given up.
const EVENTS_MAX: u64 = 3_000_000;
/// How much worse than the best path another one resembles, at a weight of 1/e.
const TEMPERATURE: f64 = 0.6;

/// What another arm would do on the paths of one destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub arm: String,
    /// The mean and standard deviation over paths of the logarithm of goodput over that of the
    /// present arm.
    pub ln_gain: f64,
    pub ln_gain_sd: f64,
    /// How little the best simulated path resembles the true one: 1 is by chance alone.
    pub misfit: f64,
}

/// The simulations of one destination.
struct Twin<'a> {
    clues: Clues,
    arm: &'a str,
    /// The smallest flows first.
    groups: Vec<Group>,
    stopped: &'a AtomicBool,
}

/// Logged flows of similar sizes.
struct Group {
    seen: Summary,
    /// Sizes of its downloads, in bytes.
    sizes: [u64; SIZES.len()],
}

/// A path, and how far its flows are from the logged ones.
#[derive(Clone, Copy, Debug)]
struct Scored {
    guess: Guess,
    seed: u64,
    distance: f64,
}

/// Applies `act` to each item, on all processors. The results are in the order of the items.
fn parallel<T: Sync, R: Send>(items: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        while let Some((at, item)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            items.get(at).map(|item| (at, item))
        } {
            let result = act(item);
            ccp_agent::lock::lock(&done).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut done = std::mem::take(&mut *ccp_agent::lock::lock(&done));
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

impl Group {
    /// Of at least one flow; the smallest comes first.
    fn of(flows: &[&Flow]) -> Self {
        let last = flows.len() - 1;
        let size = |share: f64| {
            let flow = flows[(share * last as f64).round() as usize];
            flow.acked_bytes.min(SEGMENTS_MAX * flow.mss_bytes)
        };
        Self { seen: Summary::of(flows.iter().copied()), sizes: SIZES.map(size) }
    }
}

impl<'a> Twin<'a> {
    fn new(of: &Destination, arm: &'a str, stopped: &'a AtomicBool) -> Option<Self> {
        let mut flows = of.fit(arm);
        flows.sort_by_key(|flow| flow.acked_bytes);
        let groups = flows.chunks(flows.len().div_ceil(GROUPS).max(1));
        Some(Self {
            clues: Clues::of(&flows)?,
            arm,
            groups: groups.map(Group::of).collect(),
            stopped,
        })
    }

    /// A flow of `driver` that transfers `bytes`; `None` if it does not come to an end.
    fn transfer(&self, guess: &Guess, driver: &str, bytes: u64, seed: u64) -> Option<Flow> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let end_s = START_S + LIFE_S_MAX;
        let mut text = format!(
            "name = \"twin\"\nduration_s = {:.1}\nseed = {seed}\nsample_ms = 0\n\
             control_delay_ms = 0.05\n{}",
            end_s + 0.5,
            guess.text(&self.clues),
        );
        text.push_str(&format!(
            "[[flows]]\ndriver = \"{driver}\"\nname = \"it\"\nbytes = {bytes}\nstart_s = \
             {START_S:.1}\nstop_s = {end_s:.1}\n"
        ));
        let scenario = Scenario::parse(&text, "twin").ok()?;
        let mut simulation = Simulation::new(&scenario).ok()?;
        let flow = simulation.flow_count().checked_sub(1)?;
        // Other flows may have no end.
        while simulation.closed(flow).is_none() {
            let until = remuda_link::Nanos(simulation.now().0 + 100_000_000);
            let is_done = simulation.run_some(until, EVENTS_MAX) && !simulation.is_over();
            if !is_done && simulation.closed(flow).is_none() {
                return None;
            }
            if simulation.events() > EVENTS_MAX || self.stopped.load(Ordering::Relaxed) {
                return None;
            }
        }
        let closed = ccp_agent::events::line(None, simulation.closed(flow)?);
        Flow::parse(&closed).ok().flatten()
    }

    /// Runs one transfer of the smallest and one of the largest group.
    fn score(&self, guess: Guess, seed: u64) -> Scored {
        let of_group = |group: &Group| {
            let flow = self.transfer(&guess, self.arm, group.sizes[0], seed)?;
            Some(group.seen.distance(&Summary::of(std::iter::once(&flow))))
        };
        let ends = [self.groups.first(), self.groups.last()].map(|group| of_group(group?));
        let distance = match ends {
            [Some(a), Some(b)] => (a + b) / 2.0,
            _ => f64::INFINITY,
        };
        Scored { guess, seed, distance }
    }

    /// The paths of a kind that resemble most.
    fn paths(&self, kind: Kind, seed: u64) -> Vec<Scored> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(kind as u64);
        let mut best: Vec<Scored> = Vec::new();
        let mut drawn: u64 = 0;
        for population in POPULATIONS {
            let guesses = (0..population).map(|at| {
                let guess = match best.get(at % KEPT.min(best.len().max(1))) {
                    Some(scored) => scored.guess.near(kind, &mut rng),
                    None => Guess::draw(kind, &mut rng),
                };
                drawn += 1;
                (guess, seed.wrapping_add(drawn))
            });
            let guesses: Vec<_> = guesses.collect();
            best.extend(parallel(&guesses, |(guess, seed)| self.score(*guess, *seed)));
            best.retain(|scored| scored.distance.is_finite());
            best.sort_by(|a, b| a.distance.total_cmp(&b.distance));
            best.truncate(KEPT);
        }
        best
    }

    /// The transfers of all groups by a driver, over one path.
    fn flows(&self, of: &Scored, driver: &str) -> Option<Vec<Flow>> {
        let sizes = self.groups.iter().flat_map(|group| &group.sizes);
        let flow = |(place, bytes): (u64, &u64)| {
            self.transfer(&of.guess, driver, *bytes, of.seed.wrapping_add(place << 40))
        };
        (0..).zip(sizes).map(flow).collect()
    }

    /// How far the transfers of all groups are from the logged flows.
    fn distance(&self, flows: &[Flow]) -> f64 {
        let of_group =
            |(group, flows): (&Group, &[Flow])| group.seen.distance(&Summary::of(flows.iter()));
        let all = self.groups.iter().zip(flows.chunks(SIZES.len()));
        all.map(of_group).sum::<f64>() / self.groups.len() as f64
    }
}

/// The gain on one path: its mean over transfers, and the variance of that mean.
#[derive(Clone, Copy, Debug)]
struct Gain {
    mean: f64,
    variance: f64,
    weight: f64,
}

impl Gain {
    fn of(present: &[Flow], other: &[Flow], weight: f64) -> Self {
        let ln = |flow: &Flow| flow.goodput().max(1.0).ln();
        let gains: Vec<f64> = present.iter().zip(other).map(|(a, b)| ln(b) - ln(a)).collect();
        let count = gains.len() as f64;
        let mean = gains.iter().sum::<f64>() / count;
        let squares: f64 = gains.iter().map(|gain| (gain - mean) * (gain - mean)).sum();
        Self { mean, variance: squares / (count - 1.0).max(1.0) / count, weight }
    }
}

/// The mean gain over paths, and its standard deviation: the paths differ, apart from chance in
/// the transfers.
fn over_paths(gains: &[Gain]) -> (f64, f64) {
    let all: f64 = gains.iter().map(|gain| gain.weight).sum();
    let over = |of: &dyn Fn(&Gain) -> f64| {
        gains.iter().map(|gain| of(gain) * gain.weight / all).sum::<f64>()
    };
    let mean = over(&|gain| gain.mean);
    let squared = over(&|gain| (gain.mean - mean) * (gain.mean - mean));
    let by_chance = over(&|gain| gain.variance);
    let of_mean = over(&|gain| gain.variance * gain.weight / all);
    (mean, ((squared - by_chance).max(0.0) + of_mean).sqrt())
}

/// What each of `candidates` would do on the path of this destination, whose flows have had `arm`.
/// Empty if no simulated path comes to an end, or if it was stopped. The same flows and `seed` give
/// the same estimates.
pub fn estimates(
    of: &Destination,
    arm: &str,
    candidates: &[String],
    (seed, stopped): (u64, &AtomicBool),
) -> Vec<Estimate> {
    let Some(twin) = Twin::new(of, arm, stopped) else { return Vec::new() };
    let of_kind = |kind: Kind| twin.paths(kind, seed);
    let mut paths: Vec<Scored> = Kind::ALL.into_iter().flat_map(of_kind).collect();
    let present = parallel(&paths, |path| twin.flows(path, arm));
    // All transfers show better than one how much a path resembles.
    for (path, flows) in paths.iter_mut().zip(&present) {
        path.distance = flows.as_ref().map_or(f64::INFINITY, |flows| twin.distance(flows));
    }
    let misfit = paths.iter().map(|path| path.distance).fold(f64::INFINITY, f64::min);
    let estimate = |candidate: &String| {
        let flows = parallel(&paths, |path| twin.flows(path, candidate));
        let gain = |at: usize| {
            let weight = (-(paths[at].distance - misfit) / TEMPERATURE).exp();
            Some(Gain::of(present[at].as_ref()?, flows[at].as_ref()?, weight))
        };
        let gains: Vec<Gain> = (0..paths.len()).filter_map(gain).collect();
        let (ln_gain, ln_gain_sd) = over_paths(&gains);
        let is_known = !gains.is_empty() && ln_gain.is_finite();
        is_known.then(|| Estimate { arm: candidate.clone(), ln_gain, ln_gain_sd, misfit })
    };
    candidates.iter().filter_map(estimate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::destinations;

    /// The flows of `cubic` over a path of these lines of its link.
    fn logged(down: &str) -> Destination {
        let flow = |seed: u64| {
            let text = format!(
                "duration_s = 30\nseed = {seed}\nsample_ms = 0\n[links.down]\n{down}\n\
                 [links.up]\ndelay_ms = 20\n[[flows]]\ndriver = \"cubic\"\nbytes = {}\n",
                400_000 + seed * 100_000
            );
            let scenario = Scenario::parse(&text, "logged").expect(&text);
            let mut simulation = Simulation::new(&scenario).expect("it is a scenario");
            simulation.run_until(simulation.end());
            let closed = simulation.closed(0).expect("it ends");
            let line = ccp_agent::events::line(Some(0), closed);
            let flow = Flow::parse(&line).expect("an event").expect("a flow");
            Flow { ended_s: 100.0 * seed as f64, ..flow }
        };
        destinations((1..=12).map(flow).collect()).remove(0)
    }

    #[test]
    fn bbr3_gains_where_packets_are_lost_at_random_and_nothing_on_a_clean_path() {
        let never = AtomicBool::new(false);
        let gain = |of: &Destination| {
            let of = estimates(of, "cubic", &["bbr3".to_owned()], (1, &never));
            println!("{of:?}");
            of.into_iter().next().expect("one estimate")
        };
        let path = "rate_mbit_per_sec = 12\ndelay_ms = 20\nqueue = { kind = \"droptail\", \
                    limit_packets = 40 }\n";
        let lossy = logged(&format!("{path}loss_percent = 1"));
        let estimate = gain(&lossy);
        assert!(estimate.ln_gain > 0.3 && estimate.misfit < 2.0, "{estimate:?}");
        assert_eq!(estimate, gain(&lossy), "the same flows give the same estimate");
        let clean = gain(&logged(path));
        assert!(clean.ln_gain.abs() < 0.1 && clean.ln_gain_sd < 0.1, "{clean:?}");
        let stopped = AtomicBool::new(true);
        assert!(estimates(&lossy, "cubic", &["bbr3".to_owned()], (1, &stopped)).is_empty());
    }
}
