//! Illinois: Reno, whose step up and cut follow the queueing delay: bold while the queue is empty,
//! cautious while it is full.
//!
//! S. Liu, T. Başar, R. Srikant, "TCP-Illinois: A Loss- and Delay-Based Congestion Control
//! Algorithm for High-Speed Networks", VALUETOOLS 2006 (Performance Evaluation 2008), section 3; as
//! in Linux tcp_illinois.c. With d the mean queueing delay of a round trip and D the largest ever:
//!
//! ```text
//! alpha(d) = 10                                        d <= d1 = D / 100
//!          = 10 (D - d1) / (D - d1 + (d - d1)(10 / 0.3 - 1))      otherwise: 0.3 at d = D
//! beta(d)  = 1/8                                       d <= d2 = D / 10
//!          = 1/2                                       d >= d3 = 8 D / 10
//!          = in between, linearly
//! W += alpha segments a round trip                     a loss leaves (1 - beta) W
//! ```
//!
//! Differs from the paper, as Linux does: alpha returns to 10 only after five round trips with an
//! empty queue, and windows below 15 segments behave as Reno's.
//!
//! Differs from Linux: in integers of a thousandth, not of 1/128 and 1/64; on a known path the base
//! and the largest RTT are the path's.

use crate::arm::{ArmInfo, ProgramId, Queue};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Bytes, Gain, Packets, Time};
use crate::window::{self, Rule, Window, WindowArm};
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "illinois",
    summary: "Reno, bold while the queue is empty (Illinois)",
    program: ProgramId("illinois/report"),
    make: Some(window::make::<Illinois>),
    queue: Some(Queue::Full),
    ..ArmInfo::DEFAULT
};

/// tcp_illinois.c `ALPHA_BASE`, `ALPHA_MIN`, `ALPHA_MAX`: segments a round trip.
const ALPHA_BASE: Gain = Gain(1_000);
const ALPHA_MIN: Gain = Gain(300);
const ALPHA_MAX: Gain = Gain(10_000);
/// tcp_illinois.c `BETA_BASE` (which is `BETA_MAX`), `BETA_MIN`: what a loss takes.
const BETA_MAX: Gain = Gain(500);
const BETA_MIN: Gain = Gain(125);
/// tcp_illinois.c `win_thresh`: smaller windows behave as Reno's.
const ADAPTIVE_MIN: Packets = Packets(15);
/// tcp_illinois.c `theta`: round trips with an empty queue before alpha returns to its maximum.
const ROUNDS_LOW: u32 = 5;
/// The paper's d1, d2 and d3 as parts of the largest delay: 1/100, 1/10, 8/10.
const D1_DIVISOR: u128 = 100;
const D2_DIVISOR: u128 = 10;
const D3_NUM: u128 = 8;
const D3_DEN: u128 = 10;

/// Illinois, for one flow.
#[derive(Clone, Debug)]
pub struct Illinois {
    window: Window,
    rule: Adaptive,
}

/// How far up and down the window goes.
#[derive(Clone, Copy, Debug)]
struct Adaptive {
    alpha: Gain,
    beta: Gain,
    base: Option<Duration>,
    largest: Duration,
    /// RTTs of this round.
    sum_us: u64,
    samples: u64,
    /// alpha has been below its maximum since the last reset.
    above: bool,
    rounds_low: u32,
    /// Bytes acked, times alpha, towards the next segment of growth.
    credit: Bytes,
}

impl WindowArm for Illinois {
    const INFO: &'static ArmInfo = &ARM;

    fn over(path: &PathState, now: Time) -> Self {
        let base = path.rtt_min_of_data();
        let largest = path.rtt_max().unwrap_or_default();
        let rule = Adaptive { base, largest, ..Adaptive::new() };
        Self { window: Window::resume(path, now), rule }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn step(&mut self, m: &Measurement, now: Time) {
        self.rule.observe(m);
        self.window.step(&mut self.rule, m, now);
        if self.window.round_ended() {
            self.rule.end_round(&self.window.path);
        }
    }
}

impl Rule for Adaptive {
    fn grow(&mut self, path: &PathState, acked: Bytes, _now: Time) -> Bytes {
        self.credit += acked * self.alpha;
        let mut cwnd = path.cwnd;
        while self.credit >= cwnd {
            self.credit = self.credit - cwnd;
            cwnd += path.mss;
        }
        cwnd
    }

    fn reduce(&mut self, path: &PathState) -> Bytes {
        self.credit = Bytes(0);
        path.cwnd - path.cwnd * self.beta
    }

    /// tcp_illinois.c `tcp_illinois_state`.
    fn timed_out(&mut self) {
        *self = Self { base: self.base, largest: self.largest, ..Self::new() };
        self.alpha = ALPHA_BASE;
    }
}

impl Adaptive {
    /// tcp_illinois.c `tcp_illinois_init`.
    fn new() -> Self {
        Self {
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            base: None,
            largest: Duration::ZERO,
            sum_us: 0,
            samples: 0,
            above: false,
            rounds_low: 0,
            credit: Bytes(0),
        }
    }

    fn observe(&mut self, m: &Measurement) {
        let Some(rtt) = m.rtt else { return };
        self.base = Some(self.base.map_or(rtt.min, |base| base.min(rtt.min)));
        self.largest = self.largest.max(rtt.max);
        self.sum_us = self.sum_us.saturating_add(rtt.sum_us);
        self.samples = self.samples.saturating_add(rtt.count);
    }

    /// tcp_illinois.c `update_params`.
    fn end_round(&mut self, path: &PathState) {
        let samples = std::mem::take(&mut self.samples);
        let sum_us = std::mem::take(&mut self.sum_us);
        if path.cwnd < ADAPTIVE_MIN.to_bytes(path.mss) {
            (self.alpha, self.beta) = (ALPHA_BASE, BETA_MAX);
            return;
        }
        let (Some(base), Some(mean_us)) = (self.base, sum_us.checked_div(samples)) else { return };
        let delay = Duration::from_micros(mean_us).saturating_sub(base).as_nanos();
        let largest = self.largest.saturating_sub(base).as_nanos();
        self.alpha = self.alpha(delay, largest);
        self.beta = beta(delay, largest);
    }

    fn alpha(&mut self, delay: u128, largest: u128) -> Gain {
        let low = largest / D1_DIVISOR;
        if delay <= low {
            if self.above {
                self.rounds_low += 1;
                if self.rounds_low < ROUNDS_LOW {
                    return self.alpha;
                }
            }
            (self.above, self.rounds_low) = (false, 0);
            return ALPHA_MAX;
        }
        self.above = true;
        let (delay, largest) = (delay - low, (largest - low).max(1));
        let (min, max) = (u128::from(ALPHA_MIN.0), u128::from(ALPHA_MAX.0));
        let steeper = delay.saturating_mul(max - min) / min;
        thousandths(largest.saturating_mul(max) / largest.saturating_add(steeper))
    }
}

fn beta(delay: u128, largest: u128) -> Gain {
    let low = largest / D2_DIVISOR;
    let high = largest.saturating_mul(D3_NUM) / D3_DEN;
    if delay <= low {
        return BETA_MIN;
    }
    if delay >= high {
        return BETA_MAX;
    }
    let span = u128::from(BETA_MAX.0 - BETA_MIN.0);
    thousandths(u128::from(BETA_MIN.0) + span.saturating_mul(delay - low) / (high - low))
}

fn thousandths(value: u128) -> Gain {
    Gain(u64::try_from(value).unwrap_or(u64::MAX).min(ALPHA_MAX.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::measurement::RttSamples;
    use crate::script::{MSS, RTT, path, windows};

    const MS: u128 = 1_000_000;

    #[test]
    fn alpha_is_ten_with_an_empty_queue_and_three_tenths_with_a_full_one() {
        let mut rule = Adaptive::new();
        assert_eq!(rule.alpha(0, 100 * MS), ALPHA_MAX);
        assert_eq!(rule.alpha(MS, 100 * MS), ALPHA_MAX);
        assert_eq!(rule.alpha(100 * MS, 100 * MS), ALPHA_MIN);
        // (100 - 1) 10 / ((100 - 1) + (50 - 1) (10 - 0.3) / 0.3) = 0.588
        assert_eq!(rule.alpha(50 * MS, 100 * MS), Gain(588));
    }

    #[test]
    fn alpha_returns_to_ten_after_five_rounds_with_an_empty_queue() {
        let mut rule = Adaptive::new();
        rule.alpha = rule.alpha(100 * MS, 100 * MS);
        let got: Vec<Gain> = (0..5)
            .map(|_| {
                rule.alpha = rule.alpha(0, 100 * MS);
                rule.alpha
            })
            .collect();
        assert_eq!(got, [ALPHA_MIN, ALPHA_MIN, ALPHA_MIN, ALPHA_MIN, ALPHA_MAX]);
    }

    #[test]
    fn beta_is_an_eighth_below_a_tenth_of_the_delay_and_a_half_above_eight() {
        for (delay, want) in [(0, 125), (10, 125), (45, 312), (80, 500), (100, 500)] {
            assert_eq!(beta(delay * MS, 100 * MS), Gain(want), "{delay} %");
        }
    }

    #[test]
    fn ten_segments_a_round_trip_while_the_queue_is_empty() {
        let mut known = path(100);
        known.ssthresh = Some(known.cwnd);
        let mut illinois = Illinois::new();
        let mut cwnd = illinois.resume(&known, Time::ZERO).cwnd;
        for at in 1..=3 {
            let m = Measurement {
                acked: cwnd,
                delivered: cwnd,
                in_flight: cwnd - MSS,
                rtt: Some(RttSamples { count: 8, sum_us: 320_000, ..RttSamples::one(RTT) }),
                cwnd,
                ..Measurement::QUIET
            };
            cwnd = illinois.on_measurement(&m, Time(RTT * at)).cwnd;
        }
        // A little less than thirty more, as the window grows while its segments are acked.
        assert_eq!(cwnd.to_packets(MSS), Packets(128));
    }

    #[test]
    fn a_small_window_loses_a_half() {
        assert_eq!(windows(&mut Illinois::new(), &path(10), "l"), "5");
    }
}
