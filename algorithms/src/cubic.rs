//! CUBIC: after a loss, back to the window before it along a cubic curve of time, and beyond.
//!
//! RFC 9438; compared with Linux tcp_cubic.c, which our tests on real kernels hold it to.
//!
//! Differs from RFC 9438, always towards Linux:
//!   - t in `W_cubic(t + RTT)` is offset by the minimum RTT, not the smoothed one: in a bloated
//!     buffer the curve then starts no sooner than the kernel's;
//!   - `W_est` keeps alpha = 0.53 when it passes the window before the loss (section 4.3 would
//!     make it 1): with random loss that would be worth some 10 % of goodput over the kernel;
//!   - the window approaches `W_est` within a round trip, where section 4.3 jumps to it;
//!   - without a loss yet (slow start ended by itself, or a timeout) it grows by 5 % a round trip
//!     at least, as the window before the loss is not known;
//!   - the reduction is of cwnd, not of FlightSize.
//!
//! Differs from Linux: slow start ends by an ACK train as there, or by HyStart++ (hystart.rs), not
//! by HyStart's delay rule; the curve is followed in bytes and per report, not per ACK; cube root
//! by bisection, all in integers.

use crate::arm::{ArmInfo, ProgramId, Queue};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Bytes, Gain, Time};
use crate::window::{self, Rule, Window, WindowArm};
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "cubic",
    summary: "a cubic curve of time, 0.7 after a loss (RFC 9438)",
    program: ProgramId("cubic/report"),
    make: Some(window::make::<Cubic>),
    queue: Some(Queue::Full),
    ..ArmInfo::DEFAULT
};

/// RFC 9438 section 4.6: beta, 0.7.
const BETA: Gain = Gain(700);
/// RFC 9438 section 4.7: fast convergence, (1 + beta) / 2.
const FAST_CONVERGENCE: Gain = Gain(850);
/// RFC 9438 section 4.3: alpha = 3 (1 - beta) / (1 + beta), 0.529; Linux rounds it to 8/15.
const ALPHA: Gain = Gain(533);
/// RFC 9438 section 4.2: the target lies within one and 1.5 times the window.
const TARGET_MAX: Gain = Gain(1_500);
/// Linux `bictcp_update`: 5 % a round trip while no loss is known ("initial growth").
const UNKNOWN_GROWTH: Gain = Gain(1_050);
/// RFC 9438 section 5: C = 0.4 segments per cubic second, as 4 / 10.
const C_NUM: u128 = 4;
const C_DEN: u128 = 10;
/// Cubic milliseconds in a cubic second.
const CUBIC_MS: u128 = 1_000_000_000;
/// Taking over (docs/hand-off.md): an older window at the last reduction says nothing about the
/// path now.
const W_MAX_AGE: Duration = Duration::from_secs(10);

/// CUBIC, for one flow.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    rule: Curve,
}

/// The cubic curve. C2TCP grows along it as well.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The window to return to; `None` if no loss is known.
    w_max: Option<Bytes>,
    /// `None` until congestion avoidance begins.
    epoch: Option<Epoch>,
}

/// RFC 9438 section 4.2: one congestion avoidance, from a reduction to the next.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// How long until the window is back at `origin`.
    k_ms: u64,
    origin: Bytes,
    /// The window that Reno would have by now.
    w_est: Bytes,
}

impl WindowArm for Cubic {
    const INFO: &'static ArmInfo = &ARM;

    fn over(path: &PathState, now: Time) -> Self {
        let window = Window::resume(path, now).with_hystart();
        let rule = Curve::resume(&window.path, now);
        Self { window, rule }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn step(&mut self, m: &Measurement, now: Time) {
        self.window.step(&mut self.rule, m, now);
    }

    fn amend(&self, path: &mut PathState) {
        if let (Some((_, at)), Some(w_max)) = (path.w_max, self.rule.w_max) {
            path.w_max = Some((w_max, at));
        }
    }
}

impl Rule for Curve {
    fn grow(&mut self, path: &PathState, acked: Bytes, now: Time) -> Bytes {
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::start(path, w_max, now));
        epoch.w_est += window::scale(path.mss * ALPHA, acked, path.cwnd);
        let ahead = path.rtt_min_long().unwrap_or_default();
        let mut target = epoch.w_cubic(path.mss, now + ahead).max(epoch.w_est);
        if w_max.is_none() {
            target = target.max(path.cwnd * UNKNOWN_GROWTH);
        }
        let target = target.clamp(path.cwnd, path.cwnd * TARGET_MAX);
        // RFC 9438 section 4.4: (target - cwnd) / cwnd for each segment acknowledged.
        path.cwnd + window::scale(target - path.cwnd, acked.min(path.cwnd), path.cwnd)
    }

    fn reduce(&mut self, path: &PathState) -> Bytes {
        self.epoch = None;
        let released = self.w_max.is_some_and(|w_max| path.cwnd < w_max);
        self.w_max = Some(if released { path.cwnd * FAST_CONVERGENCE } else { path.cwnd });
        path.cwnd * BETA
    }

    /// RFC 9438 section 4.8: the curve starts from wherever slow start ends. Linux forgets the
    /// window before the loss, too.
    fn timed_out(&mut self) {
        *self = Self::default();
    }

    /// RFC 9438 section 5.8: time in which the window was not used is no time of the curve.
    fn unused(&mut self, span: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start + span;
        }
    }
}

impl Curve {
    /// Taking over (docs/hand-off.md): the last reduction counts if it is young and not undone
    /// since; otherwise the window of now is the origin of the curve. On a path without history
    /// nothing is known.
    pub fn resume(path: &PathState, now: Time) -> Self {
        let recent = path.w_max.filter(|&(w_max, at)| now - at < W_MAX_AGE && w_max > path.cwnd);
        let known = path.ssthresh.map(|_| path.cwnd);
        Self { w_max: recent.map(|(w_max, _)| w_max).or(known), epoch: None }
    }
}

impl Epoch {
    /// RFC 9438 equation (2): K is the cube root of (W_max - cwnd) / C, here in milliseconds.
    fn start(path: &PathState, w_max: Option<Bytes>, now: Time) -> Self {
        let origin = w_max.unwrap_or_default().max(path.cwnd);
        let gap = u128::from((origin - path.cwnd).0);
        let cube = (gap * CUBIC_MS).saturating_mul(C_DEN) / (C_NUM * u128::from(path.mss.0.max(1)));
        Self { start: now, k_ms: cube_root(cube), origin, w_est: path.cwnd }
    }

    /// RFC 9438 equation (1): C (t - K)^3 + W_max.
    fn w_cubic(&self, mss: Bytes, at: Time) -> Bytes {
        let t_ms = u64::try_from((at - self.start).as_millis()).unwrap_or(u64::MAX);
        let off = u128::from(t_ms.abs_diff(self.k_ms));
        let cube = off.saturating_mul(off).saturating_mul(off);
        let wide = cube.saturating_mul(C_NUM * u128::from(mss.0)) / (C_DEN * CUBIC_MS);
        let delta = Bytes(u64::try_from(wide).unwrap_or(u64::MAX));
        if t_ms < self.k_ms { self.origin - delta } else { self.origin + delta }
    }
}

/// The integer cube root, rounded down, by bisection: 43 steps, and no float that could be a NaN.
fn cube_root(cube: u128) -> u64 {
    let (mut low, mut high) = (0u64, 1 << 43);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let wide = u128::from(middle);
        if wide.saturating_mul(wide).saturating_mul(wide) <= cube {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::script::{MSS, RTT, path, report, windows};
    use crate::units::Packets;
    use proptest::prelude::*;

    fn check(cwnd_pkts: u64, script: &str, want_pkts: &str) {
        let got = windows(&mut Cubic::new(), &path(cwnd_pkts), script);
        assert_eq!(got, want_pkts, "script {script:?}");
    }

    /// One loss at `w_max` segments, then round trips of 50 ms without one: the window after each
    /// of `at_secs`, in segments.
    fn after_a_loss(w_max: u64, at_secs: &[u32]) -> Vec<u64> {
        let mut cubic = Cubic::new();
        let mut path = path(w_max);
        path.ssthresh = Some(path.cwnd);
        path.w_max = Some((path.cwnd, Time::ZERO));
        let mut cwnd = cubic.resume(&path, Time::ZERO).cwnd;
        cwnd = cubic.on_measurement(&report('l', cwnd), Time::ZERO).cwnd;
        let rounds = |secs: u32| secs * 20;
        let mut got = Vec::new();
        for round in 1..=rounds(*at_secs.last().unwrap()) {
            cwnd = cubic.on_measurement(&report('a', cwnd), Time(RTT * round)).cwnd;
            if at_secs.iter().any(|&secs| rounds(secs) == round) {
                got.push(cwnd.to_packets(MSS).0);
            }
        }
        got
    }

    #[test]
    fn loses_three_tenths() {
        check(10, "aaal", "20 40 80 56");
    }

    #[test]
    fn returns_to_the_window_before_the_loss_in_k_seconds_and_goes_on() {
        // K = cbrt(1000 * 0.3 / 0.4) = 9.09 s. The curve starts with the first report after the
        // repair: equation (1) gives 788.5 after 1 s, 972.7 after 5 s, 1000.0, 1000.3, 1082.7.
        assert_eq!(after_a_loss(1_000, &[1, 5, 9, 10, 15]), [788, 972, 1_000, 1_000, 1_082]);
    }

    #[test]
    fn grows_no_slower_than_reno_would() {
        // W_est grows by 0.533 segments a round trip: 14 + 0.533 * 98 = 66.2 after 5 s.
        assert_eq!(after_a_loss(20, &[5]), [66]);
    }

    #[test]
    fn releases_bandwidth_if_the_window_did_not_return() {
        let mut cubic = Cubic::new();
        windows(&mut cubic, &path(10), "aaalrral");
        // 80 at the first loss, 56.1 at the second: (1 + beta) / 2 of that is 47.7.
        let w_max = cubic.rule.w_max.expect("two losses");
        let tenths = |tenths: u64| Bytes(MSS.0 * tenths / 10);
        assert!((tenths(476)..tenths(478)).contains(&w_max), "{w_max:?}");
    }

    #[test]
    fn grows_by_a_twentieth_a_round_after_a_timeout() {
        check(100, "tqaaaaaaa", "2 2 4 8 16 32 64 72 76");
    }

    #[test]
    fn unused_time_is_no_time_of_the_curve() {
        let mut idle = Cubic::new();
        let mut busy = Cubic::new();
        let unused = windows(&mut idle, &path(100), &format!("lra{}a", "u".repeat(200)));
        let used = windows(&mut busy, &path(100), "lraa");
        assert_eq!(unused.split(' ').next_back(), used.split(' ').next_back());
    }

    #[test]
    fn a_successor_follows_the_curve_of_a_young_loss_only() {
        for (age_secs, want_pkts) in [(1, 100), (11, 70)] {
            let mut path = path(70);
            path.ssthresh = Some(path.cwnd);
            path.w_max = Some((Packets(100).to_bytes(MSS), Time::ZERO));
            let mut cubic = Cubic::new();
            cubic.resume(&path, Time(Duration::from_secs(age_secs)));
            assert_eq!(cubic.rule.w_max, Some(Packets(want_pkts).to_bytes(MSS)));
        }
    }

    proptest! {
        #[test]
        fn the_cube_root_is_the_largest_whose_cube_fits(cube in 0u128..1 << 120) {
            let root = u128::from(cube_root(cube));
            prop_assert!(root * root * root <= cube);
            prop_assert!((root + 1) * (root + 1) * (root + 1) > cube);
        }
    }
}
