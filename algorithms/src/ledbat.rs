//! LEDBAT++: takes what others leave; gives way as soon as round trips are 60 ms longer than need
//! be.
//!
//! P. Balasubramanian, O. Ertugay, D. Havey, "LEDBAT++: Congestion Control for Background Traffic",
//! draft-irtf-iccrg-ledbat-plus-plus. With W the window in segments, B the least RTT, d the
//! queueing delay (the least RTT of a round, less B) and T = 60 ms, once a round trip:
//!
//! ```text
//! GAIN = 1 / min(16, ceil(2 T / B))
//! d <= T     W += GAIN
//! d > T      W += max(GAIN - W (d / T - 1), -W / 2)
//! slow start grows by GAIN for each segment acked, and ends at d > 3/4 T
//! slowdown   2 round trips after the first slow start, and then each 9 times as long as the last
//!            one took: W = 2 for 2 round trips, then slow start up to the window before
//! ```
//!
//! The slowdowns empty the queue, so that B is seen, and latecomers see it, too.
//!
//! Differs from the draft:
//!   - the current delay is the least RTT of a round, not of the last four samples;
//!   - B is the path's least RTT of five minutes, as the agent keeps it, not of ten;
//!   - takes a known path over at its BDP at most, without a queue, and with the path's base: the
//!     first slowdown comes ten seconds later, and the first round trip's delay, which is of the
//!     predecessor's queue, is not answered.

use crate::arm::{ArmInfo, ProgramId, Queue};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Bytes, Gain, Time};
use crate::window::{self, Rule, Window, WindowArm};
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "ledbat",
    summary: "background traffic: takes what others leave (LEDBAT++)",
    program: ProgramId("ledbat/report"),
    make: Some(window::make::<Ledbat>),
    queue: Some(Queue::Bounded),
    ..ArmInfo::DEFAULT
};

/// Section 4.4: `TARGET`.
const TARGET: Duration = Duration::from_millis(60);
/// Section 4.2: the least gain is a sixteenth.
const GAIN_DIVISOR_MAX: u128 = 16;
/// Section 4.3: slow start ends at 3/4 of the target.
const EXIT_NUM: u32 = 3;
const EXIT_DEN: u32 = 4;
/// Section 4.4: a slowdown lasts two round trips, and begins two after slow start.
const SLOW_ROUNDS: u32 = 2;
/// Section 4.4: nine times the length of a slowdown lie between two.
const SLOWDOWN_FACTOR: u32 = 9;

/// The base of a path taken over is known; it is looked for again when that is as old as BBR's or
/// Copa's.
const KNOWN_BASE: Duration = Duration::from_secs(10);

/// LEDBAT++, for one flow.
#[derive(Clone, Debug)]
pub struct Ledbat {
    window: Window,
    rule: Yielding,
    /// The least RTT of this round.
    round_min: Option<Duration>,
    /// Until then, round trips are of the predecessor's queue.
    inherited_until: Time,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Slow start, before the first slowdown.
    Starting,
    /// A slowdown follows after so many rounds.
    Due { rounds: u32 },
    /// At two segments, for so many rounds still, since `began`; `before` is to come back.
    Slow { rounds: u32, began: Time, before: Bytes },
    /// Slow start up to the window before.
    Rising { began: Time },
    /// The next slowdown begins then.
    Running { next: Time },
}

/// How the window grows by ACKs: slowly, and not above the target.
#[derive(Clone, Copy, Debug)]
struct Yielding {
    gain: Gain,
    /// The queue is longer than the target, or a slowdown holds the window.
    held: bool,
    credit: Bytes,
}

impl WindowArm for Ledbat {
    const INFO: &'static ArmInfo = &ARM;

    fn over(path: &PathState, now: Time) -> Self {
        let mut window = Window::resume(path, now);
        let known = window.path.bdp();
        if let Some(bdp) = known {
            window.leave_slow_start(window.path.cwnd.min(bdp));
        }
        let gain = gain(path.rtt_min_long());
        Self {
            window,
            rule: Yielding { gain, held: false, credit: Bytes(0) },
            round_min: None,
            inherited_until: match known {
                Some(_) => now + path.srtt.unwrap_or_default().min(KNOWN_BASE),
                None => now,
            },
            phase: match known {
                Some(_) => Phase::Running { next: now + KNOWN_BASE },
                None => Phase::Starting,
            },
        }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn step(&mut self, m: &Measurement, now: Time) {
        self.rule.gain = gain(self.window.path.rtt_min_long());
        self.window.set_slow_start_gain(self.rule.gain);
        self.window.step(&mut self.rule, m, now);
        if let Some(rtt) = m.rtt {
            self.round_min = Some(self.round_min.map_or(rtt.min, |min| min.min(rtt.min)));
        }
        if self.window.round_ended() {
            let delay = self.delay();
            self.round_min = None;
            if let Some(delay) = delay.filter(|_| now >= self.inherited_until) {
                self.follow(delay);
            }
            self.end_round(now);
        }
    }

    fn busy(&self) -> Option<&'static str> {
        matches!(self.phase, Phase::Slow { .. }).then_some("LEDBAT++ empties the queue")
    }

    /// A slowdown's two segments are not handed off.
    fn amend(&self, path: &mut PathState) {
        if let Phase::Slow { before, .. } = self.phase {
            path.cwnd = window::bound(path, before);
        }
    }
}

impl Rule for Yielding {
    fn grow(&mut self, path: &PathState, acked: Bytes, _now: Time) -> Bytes {
        if self.held {
            return path.cwnd;
        }
        self.credit += acked * self.gain;
        let mut cwnd = path.cwnd;
        while self.credit >= cwnd {
            self.credit = self.credit - cwnd;
            cwnd += path.mss;
        }
        cwnd
    }

    /// Section 4.2: a loss halves, as Reno's.
    fn reduce(&mut self, path: &PathState) -> Bytes {
        self.credit = Bytes(0);
        Bytes(path.cwnd.0 / 2)
    }
}

impl Ledbat {
    /// The queueing delay of the round that has just ended.
    fn delay(&self) -> Option<Duration> {
        Some(self.round_min?.saturating_sub(self.window.path.rtt_min_long()?))
    }

    /// Sections 4.2 and 4.3, once a round trip.
    fn follow(&mut self, delay: Duration) {
        if matches!(self.phase, Phase::Slow { .. }) {
            return;
        }
        if self.window.in_slow_start() {
            if delay > TARGET * EXIT_NUM / EXIT_DEN {
                self.window.leave_slow_start(self.window.path.cwnd);
            }
            return;
        }
        self.rule.held = delay > TARGET;
        if self.rule.held {
            let cwnd = self.window.path.cwnd;
            let over = (delay - TARGET).as_nanos();
            let cut = u128::from(cwnd.0).saturating_mul(over) / TARGET.as_nanos();
            let cut = Bytes(u64::try_from(cut).unwrap_or(u64::MAX));
            let step = self.window.path.mss * self.rule.gain;
            self.window.shrink((cwnd - (cut - step)).max(Bytes(cwnd.0 / 2)));
        }
    }

    fn end_round(&mut self, now: Time) {
        let slow_start = self.window.in_slow_start();
        self.phase = match self.phase {
            Phase::Starting if slow_start => Phase::Starting,
            Phase::Starting => Phase::Due { rounds: SLOW_ROUNDS },
            Phase::Due { rounds: 0 } => self.slow_down(now),
            Phase::Due { rounds } => Phase::Due { rounds: rounds - 1 },
            Phase::Slow { rounds: 0, began, before } => {
                self.rule.held = false;
                self.window.slow_start_to(before);
                Phase::Rising { began }
            }
            Phase::Slow { rounds, began, before } => {
                Phase::Slow { rounds: rounds - 1, began, before }
            }
            Phase::Rising { began } if slow_start => Phase::Rising { began },
            Phase::Rising { began } => {
                Phase::Running { next: now + (now - began).saturating_mul(SLOWDOWN_FACTOR) }
            }
            Phase::Running { next } if now >= next => self.slow_down(now),
            running @ Phase::Running { .. } => running,
        };
    }

    fn slow_down(&mut self, now: Time) -> Phase {
        let before = self.window.path.cwnd;
        self.rule.held = true;
        self.window.shrink(self.window.path.cwnd_floor());
        Phase::Slow { rounds: SLOW_ROUNDS, began: now, before }
    }
}

/// Section 4.2: `1 / min(16, ceil(2 T / B))`.
fn gain(base: Option<Duration>) -> Gain {
    let base = base.unwrap_or(TARGET).as_nanos().max(1);
    let divisor = (2 * TARGET.as_nanos()).div_ceil(base).clamp(1, GAIN_DIVISOR_MAX);
    Gain(1_000 / u64::try_from(divisor).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::measurement::RttSamples;
    use crate::script::{MSS, RTT, path, windows};
    use crate::units::Packets;

    #[test]
    fn the_gain_follows_the_base_delay() {
        for (base_ms, want) in [(1, 62), (10, 83), (40, 333), (50, 333), (60, 500), (200, 1_000)] {
            assert_eq!(gain(Some(Duration::from_millis(base_ms))), Gain(want), "{base_ms} ms");
        }
    }

    /// What was sent under the window `before` is delivered, under the window `cwnd`.
    fn round(before: Bytes, cwnd: Bytes, rtt_ms: u64) -> Measurement {
        Measurement {
            acked: before,
            delivered: before,
            in_flight: cwnd - MSS,
            cwnd,
            rtt: Some(RttSamples::one(Duration::from_millis(rtt_ms))),
            ..Measurement::QUIET
        }
    }

    /// On a path of 100 ms (a gain of a half), from 100 segments: the window after each round.
    fn after(rtts_ms: &[u64]) -> Vec<u64> {
        let mut ledbat = Ledbat::new();
        let mut known = path(100);
        known.observe(&round(known.cwnd, known.cwnd, 100), Time::ZERO);
        let mut cwnd = ledbat.resume(&known, Time::ZERO).cwnd;
        ledbat.window.leave_slow_start(cwnd);
        ledbat.phase = Phase::Running { next: Time(Duration::from_secs(1_000)) };
        ledbat.inherited_until = Time::ZERO;
        let mut flight = cwnd;
        (1u32..)
            .zip(rtts_ms)
            .map(|(at, rtt_ms)| {
                let before = std::mem::replace(&mut flight, cwnd);
                let m = round(before, cwnd, *rtt_ms);
                cwnd = ledbat.on_measurement(&m, Time(RTT * at)).cwnd;
                cwnd.to_packets(MSS).0
            })
            .collect()
    }

    #[test]
    fn below_the_target_it_grows_by_half_a_segment_a_round() {
        assert_eq!(after(&[100, 150, 160, 100, 100]), [100, 101, 101, 101, 102]);
    }

    #[test]
    fn above_the_target_it_shrinks_by_the_excess_and_by_half_at_most() {
        // d / T - 1 = 1/10 at 166 ms; 2 at 280 ms.
        assert_eq!(after(&[166]), [90]);
        assert_eq!(after(&[280, 280]), [50, 25]);
    }

    #[test]
    fn the_queue_of_a_predecessor_is_not_answered() {
        let mut ledbat = Ledbat::new();
        let mut known = path(100);
        let delivery_rate = known.cwnd / Duration::from_millis(100);
        let m = Measurement { delivery_rate, ..round(known.cwnd, known.cwnd, 100) };
        known.observe(&m, Time::ZERO);
        let cwnd = ledbat.resume(&known, Time::ZERO).cwnd;
        // A round trip is 100 ms.
        let of = |at: u32, ledbat: &mut Ledbat| {
            let cwnd = ledbat.window.path.cwnd;
            ledbat.on_measurement(&round(cwnd, cwnd, 280), Time(RTT * at)).cwnd
        };
        assert_eq!(of(1, &mut ledbat), cwnd);
        assert!(of(2, &mut ledbat) < cwnd);
    }

    #[test]
    fn a_slowdown_follows_the_first_slow_start_and_comes_back() {
        let mut ledbat = Ledbat::new();
        let mut cwnd = ledbat.resume(&path(10), Time::ZERO).cwnd;
        let mut flight = cwnd;
        let mut got = Vec::new();
        // The fourth round trip is 60 ms longer.
        for at in 1..=14 {
            let rtt_ms = if at == 4 { 160 } else { 100 };
            let before = std::mem::replace(&mut flight, cwnd);
            cwnd = ledbat.on_measurement(&round(before, cwnd, rtt_ms), Time(RTT * at)).cwnd;
            got.push(cwnd.to_packets(MSS).0);
        }
        let two = got.iter().filter(|pkts| **pkts == 2).count();
        assert!(two >= 3, "{got:?}");
        assert!(*got.last().unwrap() > 2, "{got:?}");
        assert!(matches!(ledbat.phase, Phase::Rising { .. } | Phase::Running { .. }), "{got:?}");
    }

    #[test]
    fn the_two_segments_of_a_slowdown_are_not_handed_off() {
        let mut ledbat = Ledbat::new();
        ledbat.resume(&path(40), Time::ZERO);
        ledbat.phase = ledbat.slow_down(Time::ZERO);
        assert_eq!(ledbat.window.decision().cwnd, Packets(2).to_bytes(MSS));
        let mut path = path(2);
        ledbat.hand_off(&mut path);
        assert_eq!(path.cwnd, Packets(40).to_bytes(MSS));
    }

    #[test]
    fn a_loss_halves() {
        assert!(windows(&mut Ledbat::new(), &path(40), "l").starts_with("20"));
    }
}
