//! Requests of files, as the paper's clients make them: sizes and times are drawn from a seed.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A uniform distribution of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub least_bytes: u64,
    pub most_bytes: u64,
}

impl Sizes {
    /// From `least` to `most` kB.
    pub const fn kb(least: u64, most: u64) -> Self {
        Self { least_bytes: least * 1_000, most_bytes: most * 1_000 }
    }

    fn mean_bytes(self) -> f64 {
        f64::midpoint(self.least_bytes as f64, self.most_bytes as f64)
    }

    fn draw(self, draws: &mut Draws) -> u64 {
        let span = (self.most_bytes - self.least_bytes) as f64;
        self.least_bytes + (draws.share() * span) as u64
    }
}

/// A request for a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    pub start_s: f64,
    /// Size of the file.
    pub bytes: u64,
    /// When the client gives up.
    pub stop_s: Option<f64>,
}

/// Random numbers of a seed. Each use has its own stream, so that no use changes the numbers of
/// another.
#[derive(Debug)]
pub struct Draws(ChaCha8Rng);

impl Draws {
    /// The numbers of one stream.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// From 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Millisecond precision is enough, and readable in a scenario.
fn to_ms(at_s: f64) -> f64 {
    (at_s * 1e3).round() / 1e3
}

/// Requests one after the other from `from_s` until `end_s`: a client asks for the next file when
/// it has received the last one or has given up. It gives up on a file that arrives at less than
/// `floor_mbit_per_sec`, and the times are computed from that rate, so that they are the same under
/// every driver.
pub fn in_turn(
    sizes: Sizes,
    floor_mbit_per_sec: f64,
    (from_s, end_s): (f64, f64),
    draws: &mut Draws,
) -> Vec<Request> {
    /// Time for a handshake, a slow start and the client's pause.
    const PAUSE_S: f64 = 1.0;
    let mut all = Vec::new();
    let mut at_s = from_s;
    while at_s + PAUSE_S < end_s {
        let bytes = sizes.draw(draws);
        let next_s = at_s + PAUSE_S + bytes as f64 * 8.0 / 1e6 / floor_mbit_per_sec;
        let stop_s = Some(to_ms(next_s.min(end_s)));
        all.push(Request { start_s: to_ms(at_s), bytes, stop_s });
        at_s = next_s;
    }
    all
}

/// Random arrivals (Poisson) that offer a load from 0 until `end_s`. Each class of sizes has a
/// share of the requests; the shares sum to 1.
pub fn arriving(
    load_mbit_per_sec: f64,
    classes: &[(f64, Sizes)],
    end_s: f64,
    draws: &mut Draws,
) -> Vec<Request> {
    let mean: f64 = classes.iter().map(|(share, sizes)| share * sizes.mean_bytes()).sum();
    let per_sec = load_mbit_per_sec * 1e6 / 8.0 / mean;
    let mut all = Vec::new();
    let mut at_s = 0.0;
    loop {
        // An exponential span: `1 - share` is above 0, so the logarithm is finite.
        at_s -= libm::log(1.0 - draws.share()) / per_sec;
        if to_ms(at_s) >= end_s {
            return all;
        }
        let mut left = draws.share();
        let class = classes.iter().find(|(share, _)| {
            left -= share;
            left < 0.0
        });
        let bytes = class.or(classes.last()).map_or(1, |(_, sizes)| sizes.draw(draws));
        all.push(Request { start_s: to_ms(at_s), bytes, stop_s: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_client_asks_when_it_has_the_last_file_or_has_given_up() {
        let all = in_turn(Sizes::kb(3_000, 50_000), 4.0, (5.0, 300.0), &mut Draws::new(1, 0));
        assert_eq!(all[0].start_s, 5.0);
        for pair in all.windows(2) {
            assert_eq!(pair[0].stop_s, Some(pair[1].start_s));
            let slot_s = pair[1].start_s - pair[0].start_s;
            assert!((slot_s - 1.0 - pair[0].bytes as f64 * 8.0 / 4e6).abs() < 2e-3, "{pair:?}");
        }
        assert_eq!(all.last().and_then(|it| it.stop_s), Some(300.0));
    }

    #[test]
    fn arrivals_offer_the_load_and_the_classes_asked_for() {
        let classes = [
            (0.5, Sizes::kb(2, 100)),
            (0.4, Sizes::kb(100, 1_000)),
            (0.1, Sizes::kb(1_000, 50_000)),
        ];
        let all = arriving(10.0, &classes, 40_000.0, &mut Draws::new(1, 1));
        let bytes: u64 = all.iter().map(|it| it.bytes).sum();
        let load = bytes as f64 * 8.0 / 1e6 / 40_000.0;
        assert!((load / 10.0 - 1.0).abs() < 0.03, "{load} Mbit/s");
        let small = all.iter().filter(|it| it.bytes < 100_000).count() as f64 / all.len() as f64;
        assert!((small - 0.5).abs() < 0.01, "{small}");
    }

    proptest! {
        #[test]
        fn a_seed_and_a_stream_decide_and_all_is_in_order(seed: u64, stream in 0..9u64) {
            let sizes = Sizes::kb(1, 3_000);
            let drawn = |seed, stream| {
                arriving(20.0, &[(1.0, sizes)], 30.0, &mut Draws::new(seed, stream))
            };
            let all = drawn(seed, stream);
            prop_assert_eq!(&all, &drawn(seed, stream));
            prop_assert!(all.is_empty() || all != drawn(seed, stream + 1));
            prop_assert!(all.is_sorted_by_key(|it| it.start_s));
            let fits = |it: &Request| {
                it.start_s < 30.0 && (sizes.least_bytes..=sizes.most_bytes).contains(&it.bytes)
            };
            prop_assert!(all.iter().all(fits));
        }
    }
}
