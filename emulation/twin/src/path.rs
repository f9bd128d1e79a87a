//! Paths that could be the true one: what flows have measured bounds each quantity, and a random
//! number between the bounds is a guess.

use crate::observed::Flow;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;

/// A guess: one number of 0 to 1 for each quantity.
const GENES: usize = 16;
/// How far a guess near another one lies from it (standard deviation).
const STEP: f64 = 0.07;
/// The probability that a quantity near another guess is drawn anew.
const ANEW: f64 = 0.06;
/// A round of generated rates, in seconds: longer than a simulated flow.
const ROUND_S: f64 = 60.0;
/// No queue is shorter, in packets.
const QUEUE_PKTS_MIN: f64 = 8.0;
/// The share of guesses without flows of other hosts.
const ALONE: f64 = 0.6;
const PACKET_BITS: f64 = 1_500.0 * 8.0;
/// When the flow starts: other flows may be there before it.
pub const START_S: f64 = 4.0;

/// What is known of a path before any is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Clues {
    goodput_mbit_per_sec: f64,
    /// The largest delivery rate of a fast flow.
    delivery_mbit_per_sec: f64,
    rtt_ms_min: f64,
    /// Segments lost over segments sent.
    loss: f64,
    jitter_ms: f64,
}

impl Clues {
    /// From flows that show the path; `None` without any.
    pub fn of(flows: &[&Flow]) -> Option<Self> {
        let mean = |value: &dyn Fn(&Flow) -> f64| {
            flows.iter().map(|flow| value(flow)).sum::<f64>() / flows.len() as f64
        };
        let mbit = |bytes_per_sec: f64| bytes_per_sec * 8.0 / 1e6;
        let mut rates: Vec<u64> =
            flows.iter().map(|it| it.path.delivery_bytes_per_sec_max).collect();
        rates.sort_unstable();
        let rate = rates.get(rates.len() * 9 / 10)?;
        let least =
            flows.iter().filter_map(|flow| flow.path.rtt_ms_min).fold(f64::INFINITY, f64::min);
        Some(Self {
            goodput_mbit_per_sec: mbit(mean(&|flow| flow.goodput().max(1.0).ln()).exp()),
            delivery_mbit_per_sec: mbit(*rate as f64),
            rtt_ms_min: least,
            loss: mean(&Flow::loss),
            jitter_ms: mean(&|flow| flow.path.jitter_ms.unwrap_or(0.0)),
        })
    }
}

/// A kind of guess. Each kind is searched apart, so that what resembles first does not hide what
/// resembles as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No neighbours, a constant rate.
    Steady,
    /// No neighbours, a rate that varies.
    Varying,
    /// Other hosts' flows share the path.
    Shared,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Steady, Self::Varying, Self::Shared];

    /// The bounds of the genes that make a guess one of this kind.
    fn bounds(self) -> [(usize, f64, f64); 2] {
        let rate = match self {
            Self::Steady => (RATE_KIND, 0.0, STEADY),
            Self::Varying => (RATE_KIND, STEADY, 1.0),
            Self::Shared => (RATE_KIND, 0.0, 1.0),
        };
        let (least, most) = if self == Self::Shared { (ALONE, 1.0) } else { (0.0, ALONE) };
        [rate, (NEIGHBOURS, least, most)]
    }
}

/// The genes of the kind of rate and of the neighbours.
const RATE_KIND: usize = 2;
const NEIGHBOURS: usize = 13;
/// The share of guesses with a constant rate.
const STEADY: f64 = 0.5;

/// A possible path, as numbers of 0 to 1 that each stand for one property.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess([f64; GENES]);

/// The value between `least` and `most` at `at`, by ratio.
fn between(at: f64, least: f64, most: f64) -> f64 {
    least * (most / least).powf(at)
}

/// Where `at` lies in a part of 0 to 1, from 0 to 1.
fn within(at: f64, from: f64, to: f64) -> f64 {
    ((at - from) / (to - from)).clamp(0.0, 1.0)
}

impl Guess {
    pub fn draw(kind: Kind, rng: &mut ChaCha8Rng) -> Self {
        Self(std::array::from_fn(|_| rng.random())).confined(kind)
    }

    fn confined(mut self, kind: Kind) -> Self {
        for (gene, least, most) in kind.bounds() {
            if !(least..most).contains(&self.0[gene]) {
                self.0[gene] = least + (most - least) * self.0[gene];
            }
        }
        self
    }

    /// A guess near this one, of the same kind.
    pub fn near(&self, kind: Kind, rng: &mut ChaCha8Rng) -> Self {
        let near = Self(self.0.map(|gene| {
            if rng.random_bool(ANEW) {
                return rng.random();
            }
            // A sum of uniform numbers is near enough to a normal one.
            let normal = (0..6).map(|_| rng.random_range(-1.0..1.0)).sum::<f64>() / 2.0_f64.sqrt();
            let moved: f64 = gene + STEP * normal;
            // Reflected at the bounds, so that no value is more likely there.
            let reflected = if moved < 0.0 { -moved } else { moved };
            if reflected > 1.0 { 2.0 - reflected } else { reflected }
        }));
        near.confined(kind)
    }

    /// Whether other hosts' flows share the path.
    fn has_neighbours(&self) -> bool {
        self.0[NEIGHBOURS] >= ALONE
    }

    fn rtt_ms(&self, clues: &Clues) -> f64 {
        let least = clues.rtt_ms_min;
        match self.0[0] {
            // A queue that other flows keep is part of the least round trip.
            at if self.has_neighbours() && at > 0.5 => {
                least * between(within(at, 0.5, 1.0), 0.97, 0.35)
            }
            at => least * (0.96 + 0.04 * at),
        }
    }

    /// The highest rate of the bottleneck.
    fn rate(&self, clues: &Clues) -> f64 {
        let (seen, least) = (clues.delivery_mbit_per_sec, clues.goodput_mbit_per_sec);
        let rate = match self.0[1] {
            at if self.has_neighbours() => seen * between(at, 0.9, 7.0),
            at if at < 0.65 => seen * between(within(at, 0.0, 0.65), 0.8, 1.25),
            at => seen * between(within(at, 0.65, 1.0), 1.1, 8.0),
        };
        rate.max(least).clamp(0.05, 2_000.0)
    }

    /// The lines of the bottleneck's rate.
    fn rate_lines(&self, clues: &Clues) -> String {
        let rate = self.rate(clues);
        let [a, b, c, d] = [self.0[3], self.0[4], self.0[5], self.0[6]];
        match self.0[RATE_KIND] {
            at if at < STEADY => format!("rate_mbit_per_sec = {rate:.4}\n"),
            at if at < 0.68 => format!(
                "generator = {{ kind = \"markov\", min_mbit_per_sec = {:.4}, max_mbit_per_sec = \
                 {rate:.4}, step_ms = {:.0} }}\n",
                rate * between(a, 0.02, 0.9),
                between(b, 20.0, 3_000.0),
            ),
            at if at < 0.82 => format!(
                "generator = {{ kind = \"cell\", min_mbit_per_sec = {:.4}, max_mbit_per_sec = \
                 {rate:.4}, grant_ms = {:.0}, fade_every_s = {:.2}, fade_s = {:.2}, \
                 silent_percent = {:.0}, round_s = {ROUND_S} }}\n",
                rate * between(a, 0.02, 0.5),
                between(b, 1.0, 20.0),
                between(c, 4.0, 40.0),
                between(d, 0.3, 3.0),
                (self.0[7] * 140.0 - 70.0).max(0.0),
            ),
            at if at < 0.93 => format!(
                "generator = {{ kind = \"wifi\", mean_mbit_per_sec = {rate:.4}, burst_pkts_max = \
                 {:.0}, round_s = {ROUND_S} }}\n",
                between(a, 2.0, 40.0),
            ),
            _ => format!(
                "rate_mbit_per_sec = {rate:.4}\nrate_steps = [{{ at_s = {half:.2}, \
                 rate_mbit_per_sec = {:.4} }}]\nrate_steps_period_s = {period:.2}\n",
                rate * between(a, 0.1, 1.0),
                period = between(b, 2.0, 24.0),
                half = between(b, 2.0, 24.0) / 2.0,
            ),
        }
    }

    /// The lines of losses, jitter and queue.
    fn noise_lines(&self, clues: &Clues) -> String {
        let mut text = String::new();
        let at = self.0[8];
        let loss =
            if at < 0.45 { 0.0 } else { clues.loss * between(within(at, 0.45, 1.0), 0.1, 1.3) };
        let loss = loss.min(0.4);
        if loss > 1e-5 && self.0[9] < 0.7 {
            let _ = writeln!(text, "loss_percent = {:.4}", loss * 100.0);
        } else if loss > 1e-5 {
            // Half of the packets of a burst are lost.
            let leaves = 100.0 / between(within(self.0[9], 0.7, 1.0), 2.0, 20.0);
            let _ = writeln!(
                text,
                "gilbert_elliott = {{ good_to_bad_percent = {:.5}, bad_to_good_percent = \
                 {leaves:.4}, loss_bad_percent = 50 }}",
                (leaves * 2.0 * loss).min(100.0),
            );
        }
        let at = self.0[10];
        if at > 0.5 && clues.jitter_ms > 0.0 {
            let std_ms = clues.jitter_ms * between(within(at, 0.5, 1.0), 0.3, 2.5);
            let correlation = 0.98 * self.0[11];
            let _ = writeln!(
                text,
                "jitter_std_ms = {std_ms:.4}\njitter_correlation = {correlation:.3}"
            );
        }
        let bdp_pkts = self.rate(clues) * 1e6 * self.rtt_ms(clues) / 1e3 / PACKET_BITS;
        let pkts = (bdp_pkts * between(self.0[12], 0.08, 8.0)).max(QUEUE_PKTS_MIN);
        let _ = writeln!(text, "queue = {{ kind = \"droptail\", limit_packets = {pkts:.0} }}");
        text
    }

    /// The lines of other hosts' flows.
    fn neighbour_lines(&self, clues: &Clues) -> String {
        let start_s = 2.0 * START_S * self.0[14];
        let endless = |driver: &str, count: f64| {
            format!(
                "[[flows]]\ndriver = \"{driver}\"\nname = \"n\"\ncount = {count:.0}\nstart_s = \
                 {start_s:.2}\nstagger_s = 0.3\n"
            )
        };
        let (kind, size) = (within(self.0[NEIGHBOURS], ALONE, 1.0), self.0[15]);
        match kind {
            _ if !self.has_neighbours() => String::new(),
            kind if kind < 0.6 => endless("cubic", between(size, 1.0, 5.4).floor()),
            kind if kind < 0.75 => endless("bbr", 1.0),
            _ => format!(
                "[[flows]]\ndriver = \"cubic\"\nname = \"n\"\narrivals = {{ load_mbit_per_sec = \
                 {:.4}, sizes = \"web-search\" }}\n",
                self.rate(clues) * between(size, 0.05, 0.8),
            ),
        }
    }

    /// The scenario's links and other flows, in TOML.
    pub fn text(&self, clues: &Clues) -> String {
        let delay_ms = self.rtt_ms(clues) / 2.0;
        format!(
            "[links.down]\ndelay_ms = {delay_ms:.4}\n{}{}[links.up]\ndelay_ms = {delay_ms:.4}\n{}",
            self.rate_lines(clues),
            self.noise_lines(clues),
            self.neighbour_lines(clues),
        )
    }
}
