//! An arm for tests, which changes its window by its timer alone.

use remuda_algorithms::units::{Bytes, Packets, Time};
use remuda_algorithms::{Arm, ArmInfo, Decision, Measurement, PathState, ProgramId, window};
use std::sync::Once;
use std::time::Duration;

/// How often the arm wants to be woken.
const EVERY: Duration = Duration::from_millis(20);

static CLIMBER: ArmInfo = ArmInfo {
    name: "climber",
    summary: "a segment more every 20 ms, whatever is reported",
    program: ProgramId("climber/report"),
    reports_per_round: 1,
    make: Some(|_| Box::new(Climber::default())),
    ..ArmInfo::DEFAULT
};

/// The same, but it asks for a moment that has passed.
static HASTY: ArmInfo = ArmInfo {
    name: "hasty",
    program: ProgramId("hasty/report"),
    make: Some(|_| Box::new(Climber { is_hasty: true, ..Climber::default() })),
    ..CLIMBER
};

struct Climber {
    path: PathState,
    cwnd: Bytes,
    wake_at: Time,
    is_hasty: bool,
}

impl Default for Climber {
    fn default() -> Self {
        let path = window::no_path();
        Self { cwnd: path.cwnd, path, wake_at: Time::ZERO, is_hasty: false }
    }
}

impl Climber {
    fn decision(&self) -> Decision {
        Decision { cwnd: self.cwnd, rate: None }
    }
}

impl Arm for Climber {
    fn info(&self) -> &'static ArmInfo {
        if self.is_hasty { &HASTY } else { &CLIMBER }
    }
    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        (self.path, self.cwnd, self.wake_at) = (path.clone(), path.cwnd, now + EVERY);
        self.decision()
    }
    fn on_measurement(&mut self, _m: &Measurement, _now: Time) -> Decision {
        self.decision()
    }
    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.cwnd;
    }
    fn wake_at(&self) -> Option<Time> {
        Some(if self.is_hasty { Time::ZERO } else { self.wake_at })
    }
    fn on_wake(&mut self, now: Time) -> Option<Decision> {
        self.wake_at = now + EVERY;
        if !self.is_hasty || self.cwnd < Packets(200).to_bytes(self.path.mss) {
            self.cwnd += Packets(1).to_bytes(self.path.mss);
        }
        Some(self.decision())
    }
}

/// Adds both to the list of arms, before anything else asks for the list.
pub fn add() {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| {
        for arm in [&CLIMBER, &HASTY] {
            remuda_algorithms::add(arm).expect("nothing has asked for the list of arms");
        }
    });
}
