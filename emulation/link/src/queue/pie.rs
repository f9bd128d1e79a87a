//! PIE, RFC 8033: a controller of the queueing delay sets the probability with which arrivals are
//! dropped or marked.
//!
//! Section and appendix numbers are the RFC's. Every 15 ms the probability moves by
//!
//! ```text
//! p += alpha * (delay - target) + beta * (delay - delay before)      scaled, while p is small
//! ```
//!
//! The delay is that of the packet that left last, from its time stamps (section 4.3's alternative
//! to estimating the departure rate), and zero when no packet waits. The code needs no timer: an
//! update that is due is made when the next packet arrives or leaves. Its inputs do not change in
//! between.
//!
//! The probability does not depend on a packet's length; the RFC leaves that open.

use crate::chance::fraction;
use crate::queue::{DropReason, Length, Limit, Verdict};
use crate::time::Nanos;
use rand_chacha::ChaCha8Rng;

/// Section 4.2, `alpha`: 1/8 Hz.
const ALPHA_HZ: f64 = 0.125;
/// Section 4.2, `beta`: 1 1/4 Hz.
const BETA_HZ: f64 = 1.25;
/// Section 4.1: a queue of at most two packets of this size drops nothing (`MEAN_PKTSIZE`).
const PACKET_BYTES_MEAN: u64 = 1024;
/// Section 4.1: below this probability, nothing is dropped while the delay is below half the
/// target.
const PROBABILITY_SMALL: f64 = 0.2;
/// Section 5.1, `MARK_ECNTH`: above this probability packets are dropped instead of marked.
const MARK_PROBABILITY_MAX: f64 = 0.1;
/// Section 5.4: while the sum of probabilities since the last drop is below this, no packet is
/// dropped.
const ACCUMULATED_MIN: f64 = 0.85;
/// Section 5.4: when that sum reaches this, the packet is dropped.
const ACCUMULATED_MAX: f64 = 8.5;
/// Section 5.5: the most that one update adds while the probability is 0.1 or more.
const STEP_MAX: f64 = 0.02;
/// Section 4.2: the probability is multiplied by this at each update without a delay.
const DECAY: f64 = 0.98;
/// Section 4.2: while the probability is below the left value, the step is divided by the right
/// one.
const SCALES: [(f64, f64); 6] =
    [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];

/// The settings of PIE, RFC 8033.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieParams {
    /// `QDELAY_REF`: the delay to hold. Section 4.2: 15 ms.
    pub target: Nanos,
    /// `T_UPDATE`: the time between updates of the probability. Section 4.2: 15 ms.
    pub update: Nanos,
    /// `MAX_BURST`: how long a burst passes without drops. Section 4.4: 150 ms.
    pub burst: Nanos,
    /// Marks packets of ECN-capable senders while the probability is at most 10 %.
    pub ecn: bool,
}

impl Default for PieParams {
    fn default() -> Self {
        Self {
            target: Nanos::from_millis(15),
            update: Nanos::from_millis(15),
            burst: Nanos::from_millis(150),
            ecn: false,
        }
    }
}

/// The variables of RFC 8033 appendix A.
#[derive(Clone, Debug)]
pub(crate) struct Pie {
    params: PieParams,
    rng: ChaCha8Rng,
    is_active: bool,
    probability: f64,
    accumulated: f64,
    burst_left: Nanos,
    delay: Nanos,
    delay_before: Nanos,
    next_update: Nanos,
}

impl Pie {
    pub(crate) fn new(params: PieParams, rng: ChaCha8Rng) -> Self {
        Self {
            params,
            rng,
            is_active: false,
            probability: 0.0,
            accumulated: 0.0,
            burst_left: params.burst,
            delay: Nanos::ZERO,
            delay_before: Nanos::ZERO,
            next_update: Nanos::ZERO,
        }
    }

    /// Decides about a packet that arrives when `waiting` is in the queue.
    pub(crate) fn judge(&mut self, waiting: Length, now: Nanos) -> Verdict {
        self.catch_up(now);
        if !self.is_active || self.burst_left > Nanos::ZERO || !self.is_early(waiting) {
            return Verdict::Pass;
        }
        self.accumulated = 0.0;
        if self.params.ecn && self.probability <= MARK_PROBABILITY_MAX {
            Verdict::MarkOrDrop(DropReason::Pie)
        } else {
            Verdict::Drop(DropReason::Pie)
        }
    }

    /// A packet arrived at a full queue.
    pub(crate) fn overflowed(&mut self) {
        self.accumulated = 0.0;
    }

    /// A packet was enqueued, and `waiting` is now in the queue. Section 5.3: PIE becomes active
    /// when the queue reaches a third of its limit.
    pub(crate) fn enqueued(&mut self, waiting: Length, limit: Limit, now: Nanos) {
        let is_third = |value: u64, limit: Option<u64>| {
            limit.is_some_and(|limit| value.saturating_mul(3) >= limit)
        };
        let is_long =
            is_third(waiting.packets, limit.packets) || is_third(waiting.bytes, limit.bytes);
        if self.is_active || !is_long {
            return;
        }
        self.is_active = true;
        self.probability = 0.0;
        self.accumulated = 0.0;
        self.delay_before = Nanos::ZERO;
        self.burst_left = self.params.burst;
        self.next_update = now + self.params.update;
    }

    /// A packet leaves after waiting `delay`; `is_last` if the queue is then empty.
    pub(crate) fn dequeued(&mut self, delay: Nanos, is_last: bool, now: Nanos) {
        self.catch_up(now);
        self.delay = if is_last { Nanos::ZERO } else { delay };
    }

    /// Section 4.1 and 5.4, `drop_early`.
    fn is_early(&mut self, waiting: Length) -> bool {
        let is_quick = self.delay_before.0 < self.params.target.0 / 2;
        if (is_quick && self.probability < PROBABILITY_SMALL)
            || waiting.bytes <= 2 * PACKET_BYTES_MEAN
        {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated < ACCUMULATED_MIN {
            return false;
        }
        self.accumulated >= ACCUMULATED_MAX || fraction(&mut self.rng) < self.probability
    }

    /// Makes every update that is due by `now`. They are few: PIE becomes inactive when the queue
    /// is idle.
    fn catch_up(&mut self, now: Nanos) {
        while self.is_active && self.next_update <= now {
            self.update();
            self.next_update = self.next_update + self.params.update;
        }
    }

    /// Section 4.2, and appendix A, `calculate_drop_prob`.
    fn update(&mut self) {
        let seconds = |span: Nanos| span.0 as f64 / 1e9;
        let (delay, before) = (seconds(self.delay), seconds(self.delay_before));
        let wanted = ALPHA_HZ * (delay - seconds(self.params.target)) + BETA_HZ * (delay - before);
        let scale = SCALES.iter().find(|(below, _)| self.probability < *below);
        let mut step = wanted / scale.map_or(1.0, |(_, divisor)| *divisor);
        if self.probability >= 0.1 {
            step = step.min(STEP_MAX);
        }
        self.probability += step;
        if self.delay == Nanos::ZERO && self.delay_before == Nanos::ZERO {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let is_quick = |span: Nanos| span.0 < self.params.target.0 / 2;
        self.burst_left = self.burst_left - self.params.update;
        if self.probability == 0.0 && is_quick(self.delay) && is_quick(self.delay_before) {
            self.burst_left = self.params.burst;
        }
        let is_idle = self.delay == Nanos::ZERO && self.delay_before == Nanos::ZERO;
        self.is_active = !(is_idle && self.probability == 0.0);
        self.delay_before = self.delay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Discipline;
    use crate::queue::tests::{Ect, overload};
    use rand::SeedableRng;

    const LIMIT: Limit = Limit { packets: Some(300), bytes: None };

    fn pie() -> Pie {
        Pie::new(PieParams::default(), ChaCha8Rng::seed_from_u64(3))
    }

    /// The probability after each update of an active PIE, one for each of `delays_ms`.
    fn probabilities(start: f64, delays_ms: &[u64]) -> Vec<f64> {
        let mut pie = pie();
        pie.probability = start;
        let mut probabilities = Vec::new();
        for ms in delays_ms {
            pie.delay = Nanos::from_millis(*ms);
            pie.update();
            probabilities.push(pie.probability);
        }
        probabilities
    }

    fn near(got: &[f64], want: &[f64]) {
        let is_near = |(got, want): (&f64, &f64)| (got - want).abs() <= 1e-12 + want.abs() * 1e-9;
        assert!(got.len() == want.len() && got.iter().zip(want).all(is_near), "{got:?} {want:?}");
    }

    #[test]
    fn the_probability_moves_as_section_4_2_says() {
        // 0.125 (d - 0.015) + 1.25 (d - before), unscaled from 0.1 on, at most 0.02 up.
        near(&probabilities(0.2, &[15]), &[0.2 + 0.018_75]);
        near(&probabilities(0.2, &[60]), &[0.22]);
        near(&probabilities(0.2, &[15, 15, 7]), &[0.218_75, 0.218_75, 0.218_75 - 0.011]);
        // Divided by 2 below 0.1, by 8 below 0.01, by 2048 below 0.000001.
        near(&probabilities(0.05, &[15]), &[0.05 + 0.018_75 / 2.0]);
        near(&probabilities(0.005, &[15]), &[0.005 + 0.018_75 / 8.0]);
        near(&probabilities(0.0, &[15]), &[0.018_75 / 2048.0]);
        // Without a delay the probability also decays by 2 %, and never falls below 0.
        near(&probabilities(0.2, &[0]), &[(0.2 - 0.001_875) * 0.98]);
        assert_eq!(probabilities(1e-7, &[0]), [0.0]);
    }

    #[test]
    fn a_burst_is_let_through_for_150_ms() {
        let mut pie = pie();
        let waiting = Length { packets: 200, bytes: 300_000 };
        pie.enqueued(waiting, LIMIT, Nanos::ZERO);
        assert!(pie.is_active);
        pie.dequeued(Nanos::from_millis(500), false, Nanos::ZERO);
        let hit_at = |ms: u64, pie: &mut Pie| {
            (0..100).any(|_| pie.judge(waiting, Nanos::from_millis(ms)) != Verdict::Pass)
        };
        assert!(!hit_at(149, &mut pie));
        assert!(hit_at(300, &mut pie));
    }

    #[test]
    fn below_a_third_of_the_limit_and_when_idle_it_sleeps() {
        let mut pie = pie();
        pie.enqueued(Length { packets: 99, bytes: 148_500 }, LIMIT, Nanos::ZERO);
        assert!(!pie.is_active);
        pie.enqueued(Length { packets: 100, bytes: 150_000 }, LIMIT, Nanos::ZERO);
        pie.probability = 1.0;
        pie.dequeued(Nanos::from_millis(9), true, Nanos::from_millis(1));
        pie.catch_up(Nanos::from_millis(60_000));
        assert!(!pie.is_active && pie.probability == 0.0, "{pie:?}");
    }

    #[test]
    fn it_holds_the_delay_against_twice_the_rate() {
        let run = overload::<u32>(Discipline::Pie(PieParams::default()), LIMIT, 2, 30);
        // One packet leaves a millisecond, so the queue's length in packets is the delay in
        // milliseconds. Of 2000 packets a second half must be dropped.
        let waiting = run.queue.packets();
        assert!((3..60).contains(&waiting), "{waiting} of {:?}", run.drops);
        assert!((900..1_100).contains(&run.drops[29]), "{:?}", run.drops);
    }

    #[test]
    fn it_marks_up_to_10_percent_and_drops_above() {
        let params = PieParams { ecn: true, ..PieParams::default() };
        let run = overload::<Ect>(Discipline::Pie(params), LIMIT, 2, 30);
        assert!(run.queue.marked() > 0);
        assert!(run.drops[29] > 900, "{:?}", run.drops);
    }
}
