//! Fixed: keeps the window and the rate that it was given.
//!
//! What runs before an author has written a line, and what a measurement is compared to. It reacts
//! to nothing: not for a shared network.
//!
//! Differs from sourdough's default controller, a constant: the value is the path's at resume.

use crate::arm::{Arm, ArmInfo, Decision, ProgramId};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Rate, Time};
use crate::window;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "fixed",
    summary: "keeps the window and the rate that it is given",
    program: ProgramId("fixed/report"),
    answers_losses: false,
    adapts: false,
    make: Some(|_| Box::new(Fixed::default())),
    ..ArmInfo::DEFAULT
};

/// A constant window and rate.
#[derive(Clone, Debug)]
pub struct Fixed {
    decision: Decision,
}

impl Arm for Fixed {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn resume(&mut self, path: &PathState, _now: Time) -> Decision {
        let path = window::sane(path);
        self.decision =
            Decision { cwnd: path.cwnd, rate: path.rate.filter(|&rate| rate > Rate::default()) };
        self.decision
    }

    fn on_measurement(&mut self, _m: &Measurement, _now: Time) -> Decision {
        self.decision
    }

    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.decision.cwnd;
        path.rate = self.decision.rate;
        path.ssthresh = path.ssthresh.or(path.bdp());
    }
}

impl Default for Fixed {
    fn default() -> Self {
        let path = window::no_path();
        Self { decision: Decision { cwnd: path.cwnd, rate: path.rate } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, Packets};

    #[test]
    fn nothing_moves_it() {
        let mut path = PathState::new(Bytes(1448), Bytes(28_960));
        path.rate = Some(Rate::from_bytes_per_sec(1_000_000));
        let mut fixed = Fixed::default();
        let first = fixed.resume(&path, Time::ZERO);
        assert_eq!(first, Decision { cwnd: path.cwnd, rate: path.rate });
        let storm = Measurement { lost: Packets(9), timed_out: true, ..Measurement::QUIET };
        assert_eq!(fixed.on_measurement(&storm, Time::ZERO), first);
    }
}
