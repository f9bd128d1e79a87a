//! A candidate: an arm that Anole embeds and asks for a rate.
//!
//! The classic sees every report. The learned arm is called once a cycle, with all that its last
//! round trip reported as one measurement.

use super::config::embeddable;
use crate::arm::{Arm, ArmInfo, Decision, Readiness};
use crate::loaded::Loaded;
use crate::measurement::{CwndUse, Measurement, OWN_FIELDS_MAX};
use crate::path::PathState;
use crate::units::{Gain, Rate, Time};
use crate::window;
use std::time::Duration;

/// A candidate whose rate differs from the flow's rate by at most 2 % keeps its own state. Any
/// other candidate is resumed at the flow's rate.
const NEAR: Gain = Gain(20);

/// One embedded arm, and what it decided last.
pub struct Candidate {
    arm: Box<dyn Arm>,
    decision: Decision,
}

impl Candidate {
    /// The arm of that name; `None` if Anole cannot embed it.
    pub fn new(name: &str, loaded: &Loaded) -> Option<Self> {
        let arm = embeddable(name).ok()?.build_with(loaded)?;
        let path = window::no_path();
        Some(Self { arm, decision: Decision { cwnd: path.cwnd, rate: None } })
    }

    pub fn info(&self) -> &'static ArmInfo {
        self.arm.info()
    }

    /// Whether the arm takes the path: [`Arm::can_resume`].
    pub fn can_resume(&self, path: &PathState) -> Readiness {
        self.arm.can_resume(path)
    }

    /// Whether it is in a state that says nothing of the path, such as slow start.
    pub fn is_starting(&self) -> bool {
        matches!(self.arm.can_hand_off(), Readiness::Defer(_))
    }

    /// Resumes the arm on the path, unchanged.
    pub fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        self.decision = self.arm.resume(path, now);
        self.decision
    }

    /// Resumes the arm at `rate`: window and threshold become `rate` times the round trip.
    pub fn rebase(&mut self, path: &PathState, rate: Rate, now: Time) {
        let mut path = path.clone();
        let srtt = path.srtt.unwrap_or_default();
        path.cwnd = window::bound(&path, rate * srtt);
        (path.rate, path.ssthresh, path.in_flight) = (None, Some(path.cwnd), path.cwnd);
        self.decision = self.arm.resume(&path, now);
    }

    /// The same, unless the arm's own rate is nearly `rate`.
    pub fn rebase_unless_near(&mut self, path: &PathState, rate: Rate, now: Time) {
        let own = self.rate(path.srtt.unwrap_or_default()).bytes_per_sec();
        let near = (rate * NEAR).bytes_per_sec();
        if own.abs_diff(rate.bytes_per_sec()) > near {
            self.rebase(path, rate, now);
        }
    }

    /// Gives it a report. `drives`: it runs the flow, so the report is of its own window;
    /// otherwise the flow is sent at another rate, and the window counts as used.
    pub fn observe(&mut self, m: &Measurement, drives: bool, now: Time) -> Decision {
        let mut own = Measurement { own: [0; OWN_FIELDS_MAX], ..*m };
        if !drives {
            own.cwnd = self.decision.cwnd;
            own.cwnd_use = (!m.app_limited).then_some(CwndUse::Full);
        }
        self.decision = self.arm.on_measurement(&own, now);
        self.decision
    }

    /// What it would send at: its window a round trip, or its rate if that is less, as some arms
    /// pace above their window.
    pub fn rate(&self, srtt: Duration) -> Rate {
        let by_window = self.decision.cwnd / srtt;
        self.decision.rate.map_or(by_window, |rate| rate.min(by_window))
    }
}
