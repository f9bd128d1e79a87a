//! The delay profile: which delay a window leads to, learned point by point.
//!
//! Verus (SIGCOMM 2015), section 4.2: each sample moves the point of the window it was sent under;
//! once a second the curve is drawn anew through the points. The authors fit a spline; this is the
//! nearest curve that does not fall (pool adjacent violators), with straight lines between its
//! points and its last slope beyond them.

use crate::units::Time;
use std::time::Duration;

/// Points lie 7 % apart, from two segments to the wire's largest window.
const POINTS: usize = 256;
const SPACING: f64 = 1.07;
/// Weight of what a point holds already (the authors' code).
const KEPT: f64 = 0.875;
/// How often the curve is drawn (the authors' `CURVE_TIMER`).
const INTERVAL: Duration = Duration::from_secs(1);
/// Beyond the last point the curve goes on for as much again, at most.
const BEYOND: f64 = 2.0;

/// A rise of the curve below this, in seconds, counts as level.
const RISE_MIN_S: f64 = 0.000_01;

/// The profile of one flow: windows in segments, delays in seconds.
#[derive(Clone, Debug)]
pub struct Profile {
    /// By window: the smoothed delay, and the smoothed window.
    points: Vec<Option<(f64, f64)>>,
    curve: Vec<(f64, f64)>,
    drawn_at: Option<Time>,
}

impl Profile {
    pub fn new() -> Self {
        Self { points: vec![None; POINTS], curve: Vec::new(), drawn_at: None }
    }

    /// A delay under a window.
    pub fn add(&mut self, window: f64, delay_s: f64) {
        let Some(point) = self.points.get_mut(index(window)) else { return };
        let (w, d) = point.unwrap_or((window, delay_s));
        let mix = |kept: f64, new: f64| KEPT * kept + (1.0 - KEPT) * new;
        *point = Some((mix(w, window), mix(d, delay_s)));
    }

    /// Draws the curve if it is time.
    pub fn draw(&mut self, now: Time) {
        if self.drawn_at.is_some_and(|at| now - at < INTERVAL) {
            return;
        }
        self.drawn_at = Some(now);
        // Each pool: the sums of its windows and delays, its size, and its ends.
        let mut pools: Vec<(f64, f64, f64)> = Vec::new();
        let mut members: Vec<Vec<f64>> = Vec::new();
        for (window, delay) in self.points.iter().flatten() {
            pools.push((*delay, 1.0, *window));
            members.push(vec![*window]);
            while let [.., (before, n, _), (last, k, _)] = pools[..]
                && before >= last
            {
                let delay = (before * n + last * k) / (n + k);
                pools.pop();
                let windows = members.pop().unwrap_or_default();
                if let (Some(pool), Some(all)) = (pools.last_mut(), members.last_mut()) {
                    *pool = (delay, n + k, pool.2);
                    all.extend(windows);
                }
            }
        }
        self.curve.clear();
        for ((delay, ..), windows) in pools.iter().zip(&members) {
            self.curve.extend(windows.iter().map(|window| (*window, *delay)));
        }
    }

    /// The largest window whose delay is no longer; `None` without a curve.
    pub fn window(&self, delay_s: f64) -> Option<f64> {
        let fits = self.curve.partition_point(|(_, delay)| *delay <= delay_s + RISE_MIN_S);
        let Some(below) = fits.checked_sub(1) else {
            return self.curve.first().map(|(window, _)| *window);
        };
        let (w0, d0) = self.curve[below];
        if let Some((w1, d1)) = self.curve.get(fits) {
            return Some(w0 + (w1 - w0) * (delay_s - d0).max(0.0) / (d1 - d0));
        }
        // Beyond: with the slope of the last rise, or a segment more while nothing rises.
        let before = self.curve.iter().rev().find(|(_, delay)| *delay < d0 - RISE_MIN_S);
        let more = match before {
            Some((w, d)) => (w0 - w) * (delay_s - d0) / (d0 - d),
            None => 1.0,
        };
        Some((w0 + more.max(0.0)).min(w0 * BEYOND))
    }

    /// The delay of a window; `None` without a curve.
    pub fn delay_s(&self, window: f64) -> Option<f64> {
        let at = self.curve.partition_point(|(w, _)| *w <= window);
        let (_, delay) = self.curve.get(at.saturating_sub(1))?;
        Some(*delay)
    }
}

fn index(window: f64) -> usize {
    (libm::log(window.max(2.0) / 2.0) / libm::log(SPACING)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of 100 segments and 40 ms, seen up to so many segments.
    fn seen_up_to(most: u64) -> Profile {
        let mut profile = Profile::new();
        for window in (2..=most).step_by(2) {
            let window = window as f64;
            for _ in 0..30 {
                profile.add(window, 0.04 * (window / 100.0).max(1.0));
            }
        }
        profile.draw(Time::ZERO);
        profile
    }

    #[test]
    fn the_window_of_a_delay_is_read_from_the_curve() {
        let profile = seen_up_to(300);
        for (delay_s, want) in [(0.06, 150.0), (0.08, 200.0), (0.10, 250.0)] {
            let got = profile.window(delay_s).expect("a curve");
            assert!((got / want - 1.0).abs() < 0.05, "{delay_s}: {got}");
        }
        assert!((profile.delay_s(200.0).expect("a curve") - 0.08).abs() < 0.006);
    }

    #[test]
    fn beyond_the_last_point_it_goes_on_but_not_far() {
        let profile = seen_up_to(200);
        let got = profile.window(0.1).expect("a curve");
        assert!((got / 250.0 - 1.0).abs() < 0.08, "{got}");
        assert!(profile.window(10.0).expect("a curve") <= 400.0);
    }

    #[test]
    fn a_path_without_a_queue_invites_a_segment_more() {
        let profile = seen_up_to(50);
        let got = profile.window(0.05).expect("a curve");
        assert!((49.0..53.0).contains(&got), "{got}");
    }

    #[test]
    fn a_point_that_fell_is_pooled_and_the_curve_does_not_fall() {
        let mut profile = seen_up_to(300);
        for _ in 0..50 {
            profile.add(250.0, 0.01);
        }
        profile.draw(Time(INTERVAL));
        assert!(profile.curve.is_sorted_by(|(_, a), (_, b)| a <= b), "{:?}", profile.curve);
    }

    #[test]
    fn without_points_there_is_no_window() {
        let mut profile = Profile::new();
        profile.draw(Time::ZERO);
        assert_eq!((profile.window(0.1), profile.delay_s(10.0)), (None, None));
    }
}
