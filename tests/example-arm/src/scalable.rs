//! Scalable TCP: a hundredth of a segment for each one acknowledged, an eighth less after a loss.
//!
//! T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks", ACM CCR 2003.
//!
//! Differs from the paper:
//!   - below the window of 16 segments (its `lwnd`) it grows and falls as Reno, as the paper has
//!     it, but with Reno's RFC 3465 counting of bytes;
//!   - slow start, timeouts and what is one loss are those of Remuda's windows.

use remuda_algorithms::reno::Additive;
use remuda_algorithms::units::{Bytes, Gain, Packets, Time};
use remuda_algorithms::window::{self, Rule, Window, WindowArm};
use remuda_algorithms::{ArmInfo, Measurement, PathState, ProgramId};

pub static ARM: ArmInfo = ArmInfo {
    name: "scalable",
    summary: "a hundredth more for what is acknowledged, an eighth less after a loss",
    program: ProgramId("scalable/report"),
    make: Some(window::make::<Scalable>),
    ..ArmInfo::DEFAULT
};

/// Section 3: `a` of the paper, 0.01.
const INCREASE_DIVISOR: u64 = 100;
/// Section 3: `1 - b` of the paper, 0.875.
const LEFT: Gain = Gain(875);
/// Section 3.1: the legacy window, up to which it is TCP.
const LEGACY: Packets = Packets(16);

/// Scalable TCP, for one flow.
#[derive(Clone, Debug)]
struct Scalable {
    window: Window,
    rule: Multiplicative,
}

#[derive(Clone, Copy, Debug, Default)]
struct Multiplicative {
    legacy: Additive,
}

impl Rule for Multiplicative {
    fn grow(&mut self, path: &PathState, acked: Bytes, now: Time) -> Bytes {
        if path.cwnd <= LEGACY.to_bytes(path.mss) {
            return self.legacy.grow(path, acked, now);
        }
        path.cwnd + Bytes(acked.0 / INCREASE_DIVISOR)
    }

    fn reduce(&mut self, path: &PathState) -> Bytes {
        if path.cwnd <= LEGACY.to_bytes(path.mss) {
            return self.legacy.reduce(path);
        }
        path.cwnd * LEFT
    }
}

impl WindowArm for Scalable {
    const INFO: &'static ArmInfo = &ARM;

    fn over(path: &PathState, now: Time) -> Self {
        Self { window: Window::resume(path, now), rule: Multiplicative::default() }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn step(&mut self, m: &Measurement, now: Time) {
        self.window.step(&mut self.rule, m, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes(1_000);

    #[test]
    fn a_window_of_a_hundred_grows_by_one_a_round_and_loses_an_eighth() {
        let path = PathState::new(MSS, Packets(100).to_bytes(MSS));
        let mut rule = Multiplicative::default();
        let grown = rule.grow(&path, path.cwnd, Time::ZERO);
        assert_eq!(grown, Packets(101).to_bytes(MSS));
        assert_eq!(rule.reduce(&path), Bytes(87_500));
    }

    #[test]
    fn a_small_window_is_renos() {
        let path = PathState::new(MSS, Packets(10).to_bytes(MSS));
        let mut rule = Multiplicative::default();
        assert_eq!(rule.grow(&path, path.cwnd, Time::ZERO), Packets(11).to_bytes(MSS));
        assert_eq!(rule.reduce(&path), Packets(5).to_bytes(MSS));
    }
}
