//! Perception: the distribution of RTT_min, as its mean and its standard deviation (section 4.6).
//!
//! ```text
//! samples ─▶ q_min                before the first decision of a phase
//! samples ─▶ q_tmp ─▶ q_min       later, if the network's action says that no queue has stood
//!                └──▶ dropped     otherwise, and the phase ends
//! ```
//!
//! The network may be wrong: samples that it calls idle count only if their mean is within two
//! standard deviations of the known one, else a queue that stands would become a part of RTT_min.
//! Where a path becomes shorter, the samples since the last decision are the new distribution.

use crate::measurement::RttSamples;
use crate::units::Time;
use std::time::Duration;

/// Samples older than this belong to another time of the path.
const WINDOW: Duration = Duration::from_secs(10);
/// How long samples go into one chunk: the window fits into [`CHUNKS`].
const CHUNK: Duration = Duration::from_millis(160);
const CHUNKS: usize = 64;
/// Table 1: the network was trained with standard deviations of at most this share of the mean.
const STD_MAX: f64 = 0.3;
/// Samples of an idle path have a mean at most so many standard deviations above the known one.
const IDLE_STDS: f64 = 2.0;
/// On a path that has become shorter, the mean is so many standard deviations lower, and at least
/// this share.
const SHORTER_STDS: f64 = 3.0;
const SHORTER_SHARE_MIN: f64 = 0.05;
/// So few samples may say that the path has become shorter.
const SHORTER_SAMPLES: u64 = 8;
/// So many samples are enough for a first look at the path.
const FIRST_SAMPLES: u64 = 40;
/// A first look does not take longer, in round trips.
const FIRST_ROUNDS: u64 = 3;

/// RTT samples, added up.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    at: Time,
    count: u64,
    sum_us: u64,
    sq_sum_us2: u64,
    least: Duration,
}

impl Chunk {
    fn add(&mut self, rtt: &RttSamples) {
        self.least = if self.count == 0 { rtt.min } else { self.least.min(rtt.min) };
        self.count = self.count.saturating_add(rtt.count);
        self.sum_us = self.sum_us.saturating_add(rtt.sum_us);
        self.sq_sum_us2 = self.sq_sum_us2.saturating_add(rtt.sq_sum_us2);
    }

    fn mean_s(&self) -> f64 {
        self.sum_us as f64 / 1e6 / self.count.max(1) as f64
    }
}

/// RTT_min as a normal distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RttMin {
    pub mean: Duration,
    /// Standard deviation as a share of the mean, at most 0.3.
    pub std: f64,
}

/// The state of perception for one flow.
#[derive(Clone, Debug)]
pub struct Perception {
    /// q_min, as a ring.
    chunks: [Chunk; CHUNKS],
    next: usize,
    /// The round trips since the last decision, in a phase the paper's q_tmp.
    pending: Chunk,
    phase: Phase,
    /// When the last sample at or below the mean came.
    low_at: Time,
    /// DuGu's view of the path: the least sample, without a spread.
    single: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A queue drains; samples say nothing until this moment.
    Draining(Time),
    /// Before anything is known, every round trip counts.
    First {
        samples: u64,
        rounds: u64,
    },
    /// Samples wait for the next decision.
    Pending,
    Ended,
}

impl Perception {
    /// For a flow that starts: no queue stands yet.
    pub fn new(now: Time, single: bool) -> Self {
        Self {
            chunks: [Chunk::default(); CHUNKS],
            next: 0,
            pending: Chunk::default(),
            phase: Phase::First { samples: 0, rounds: 0 },
            low_at: now,
            single,
        }
    }

    /// Begins a phase after the window was reduced. The queue drains for `drains`, and samples of
    /// that time do not count.
    pub fn probe(&mut self, now: Time, drains: Duration) {
        self.phase = Phase::Draining(now + drains);
        self.pending = Chunk::default();
        self.low_at = now + drains;
    }

    /// Takes in the samples of a report. `round_ended`: the report ends a round trip.
    pub fn observe(&mut self, rtt: &RttSamples, round_ended: bool, now: Time) {
        if self.rtt_min().is_some_and(|it| rtt.min <= it.mean) {
            self.low_at = self.low_at.max(now);
        }
        match self.phase {
            Phase::Draining(until) if now < until => {}
            Phase::Draining(_) => {
                // What the path was before does not count any more.
                self.chunks = [Chunk::default(); CHUNKS];
                self.phase = Phase::First { samples: 0, rounds: 0 };
                self.observe(rtt, round_ended, now);
            }
            Phase::First { samples, rounds } => {
                self.push(now, |chunk| chunk.add(rtt));
                let (samples, rounds) = (samples + rtt.count, rounds + u64::from(round_ended));
                let done = samples >= FIRST_SAMPLES || rounds >= FIRST_ROUNDS;
                self.phase = if done { Phase::Pending } else { Phase::First { samples, rounds } };
            }
            Phase::Pending | Phase::Ended => self.pending.add(rtt),
        }
    }

    /// Whether the queue still drains, so that samples do not count.
    pub fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    /// Whether decisions can be made: the first look is done.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Pending | Phase::Ended) && self.rtt_min().is_some()
    }

    /// Whether the phase goes on, and decisions end it.
    pub fn is_pending(&self) -> bool {
        self.phase == Phase::Pending
    }

    /// Algorithm 1, line 14: no queue has stood, so the samples since the last decision are those
    /// of the idle path. Returns whether they count.
    pub fn accept(&mut self, now: Time) -> bool {
        let pending = std::mem::take(&mut self.pending);
        if pending.count == 0 {
            return false;
        }
        let most_s = |seen: RttMin| seen.mean.as_secs_f64() * (1.0 + IDLE_STDS * seen.std);
        if self.rtt_min().is_some_and(|seen| pending.mean_s() > most_s(seen)) {
            return false;
        }
        self.push(now, |chunk| {
            let least = if chunk.count == 0 { pending.least } else { chunk.least };
            chunk.least = least.min(pending.least);
            chunk.count = chunk.count.saturating_add(pending.count);
            chunk.sum_us = chunk.sum_us.saturating_add(pending.sum_us);
            chunk.sq_sum_us2 = chunk.sq_sum_us2.saturating_add(pending.sq_sum_us2);
        });
        true
    }

    /// Drops the samples since the last decision: the queue of slow start is in them.
    pub fn drop_pending(&mut self) {
        self.pending = Chunk::default();
    }

    /// Algorithm 1, line 20: a queue has stood.
    pub fn end(&mut self) {
        self.phase = Phase::Ended;
    }

    /// Drops the samples of an interval that ends, unless they say that the path has become
    /// shorter: then they are all that counts, and a phase begins. Returns whether they do.
    pub fn shortened(&mut self, now: Time) -> bool {
        let pending = std::mem::take(&mut self.pending);
        let Some(seen) = self.rtt_min().filter(|_| pending.count >= SHORTER_SAMPLES) else {
            return false;
        };
        let share = (SHORTER_STDS * seen.std).max(SHORTER_SHARE_MIN);
        if pending.mean_s() > seen.mean.as_secs_f64() * (1.0 - share) {
            return false;
        }
        self.chunks = [Chunk::default(); CHUNKS];
        self.push(now, |chunk| *chunk = Chunk { at: chunk.at, ..pending });
        self.phase = Phase::Pending;
        self.low_at = now;
        true
    }

    /// Whether the path must be looked at again: for ten seconds, no sample was as low as the mean.
    pub fn is_stale(&self, now: Time) -> bool {
        self.phase == Phase::Ended && now - self.low_at >= WINDOW
    }

    /// When the last sample at or below the mean came.
    pub fn low_at(&self) -> Time {
        self.low_at
    }

    /// `None` before the first sample.
    pub fn rtt_min(&self) -> Option<RttMin> {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        let mut least = Duration::MAX;
        for chunk in self.chunks.iter().filter(|chunk| chunk.count > 0) {
            count += chunk.count as f64;
            sum += chunk.sum_us as f64;
            squares += chunk.sq_sum_us2 as f64;
            least = least.min(chunk.least);
        }
        if count == 0.0 {
            return None;
        }
        if self.single {
            return Some(RttMin { mean: least.max(Duration::from_micros(1)), std: 0.0 });
        }
        let mean_us = (sum / count).max(1.0);
        let variance = (squares / count - mean_us * mean_us).max(0.0);
        Some(RttMin {
            mean: Duration::from_micros(mean_us as u64),
            std: (variance.sqrt() / mean_us).min(STD_MAX),
        })
    }

    /// Adds to q_min, and forgets what is older than the window.
    fn push(&mut self, now: Time, add: impl FnOnce(&mut Chunk)) {
        for chunk in &mut self.chunks {
            if chunk.count > 0 && now - chunk.at > WINDOW {
                *chunk = Chunk::default();
            }
        }
        let last = (self.next + CHUNKS - 1) % CHUNKS;
        let is_old = self.chunks[last].count == 0 || now - self.chunks[last].at >= CHUNK;
        if is_old {
            self.chunks[self.next] = Chunk { at: now, ..Chunk::default() };
            add(&mut self.chunks[self.next]);
            self.next = (self.next + 1) % CHUNKS;
        } else {
            add(&mut self.chunks[last]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(at_ms: u64) -> Time {
        Time(ms(at_ms))
    }

    fn samples(list: &[u64]) -> RttSamples {
        let each = list.iter().map(|it| RttSamples::one(ms(*it)));
        let add = |a: RttSamples, b: RttSamples| RttSamples {
            min: a.min.min(b.min),
            sum_us: a.sum_us + b.sum_us,
            sq_sum_us2: a.sq_sum_us2 + b.sq_sum_us2,
            count: a.count + b.count,
            ..b
        };
        each.reduce(add).expect("some samples")
    }

    /// As many samples as a first look takes.
    fn first() -> Vec<u64> {
        [90, 110].repeat(FIRST_SAMPLES as usize / 2)
    }

    #[test]
    fn the_first_samples_are_the_distribution() {
        let mut perception = Perception::new(Time::ZERO, false);
        perception.observe(&samples(&[90, 110, 90]), false, at(100));
        assert!(!perception.is_ready());
        perception.observe(&samples(&first()[3..]), false, at(200));
        assert!(perception.is_ready() && perception.is_pending());
        let RttMin { mean, std } = perception.rtt_min().expect("samples");
        assert_eq!((mean, (std * 100.0).round()), (ms(100), 10.0));
    }

    #[test]
    fn later_samples_count_only_if_no_queue_has_stood() {
        let mut perception = Perception::new(Time::ZERO, false);
        perception.observe(&samples(&first()), false, at(100));
        perception.observe(&samples(&[120; 40]), false, at(200));
        assert_eq!(perception.rtt_min().map(|it| it.mean), Some(ms(100)));
        assert!(perception.accept(at(200)) && !perception.accept(at(201)));
        assert_eq!(perception.rtt_min().map(|it| it.mean), Some(ms(110)));
        perception.observe(&samples(&[300; 8]), false, at(300));
        perception.end();
        perception.observe(&samples(&[300; 8]), false, at(400));
        assert!(!perception.shortened(at(400)));
        assert_eq!(perception.rtt_min().map(|it| it.mean), Some(ms(110)));
    }

    #[test]
    fn samples_of_a_queue_that_stands_do_not_count_whatever_the_network_says() {
        let mut perception = Perception::new(Time::ZERO, false);
        perception.observe(&samples(&first()), false, at(100));
        perception.observe(&samples(&[121; 8]), false, at(200));
        assert!(!perception.accept(at(200)));
        assert_eq!(perception.rtt_min().map(|it| it.mean), Some(ms(100)));
        perception.observe(&samples(&[90, 120, 140]), false, at(300));
        assert!(perception.accept(at(300)));
    }

    #[test]
    fn a_path_that_becomes_shorter_is_seen_at_the_next_decision() {
        let mut perception = Perception::new(Time::ZERO, false);
        perception.observe(&samples(&first()), false, at(100));
        perception.end();
        perception.observe(&samples(&[75; 8]), false, at(200));
        assert!(!perception.shortened(at(200)), "within the spread");
        perception.observe(&samples(&[60; 7]), false, at(300));
        assert!(!perception.shortened(at(300)), "too few samples");
        perception.observe(&samples(&[60; 8]), false, at(400));
        assert!(perception.shortened(at(400)) && perception.is_pending());
        assert_eq!(perception.rtt_min(), Some(RttMin { mean: ms(60), std: 0.0 }));
    }

    #[test]
    fn the_path_is_looked_at_again_after_ten_seconds_without_a_low_sample() {
        let mut perception = Perception::new(Time::ZERO, false);
        perception.observe(&samples(&first()), false, at(100));
        perception.end();
        perception.observe(&samples(&[95]), false, at(5_000));
        perception.observe(&samples(&[150]), false, at(14_999));
        assert!(!perception.is_stale(at(14_999)) && perception.is_stale(at(15_000)));
        perception.probe(at(15_000), ms(150));
        perception.observe(&samples(&[150; 40]), false, at(15_100));
        assert!(!perception.is_ready());
        perception.observe(&samples(&[140; 40]), false, at(15_150));
        assert!(perception.is_ready() && !perception.is_stale(at(25_149)));
        assert_eq!(perception.rtt_min(), Some(RttMin { mean: ms(140), std: 0.0 }));
    }

    #[test]
    fn a_single_value_is_the_least_sample() {
        let mut perception = Perception::new(Time::ZERO, true);
        perception.observe(&samples(&first()), false, at(100));
        assert_eq!(perception.rtt_min(), Some(RttMin { mean: ms(90), std: 0.0 }));
    }

    #[test]
    fn old_samples_leave_while_new_ones_come() {
        let mut perception = Perception::new(Time::ZERO, false);
        perception.observe(&samples(&first()), false, at(0));
        for step in 1..200 {
            perception.observe(&samples(&[50]), false, at(step * 100));
            perception.accept(at(step * 100));
        }
        assert_eq!(perception.rtt_min(), Some(RttMin { mean: ms(50), std: 0.0 }));
    }
}
