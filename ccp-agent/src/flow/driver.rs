//! What drives a flow: an arm, a policy with the arm that it has picked, or an author's arm.
//!
//! The flow calls one set of methods whatever drives it; each passes the call on to the part that
//! has an answer.

use crate::author::Author;
use crate::catalogue::unknown;
use crate::{Error, Setup};
use remuda_algorithms::units::Time;
use remuda_algorithms::{
    Arm, Decision, Measurement, PathState, Preference, ProgramId, Proposal, Readiness, Registers,
    Sample, Stage, Verdict, native,
};
use remuda_selector::ArmRunner;

pub enum Driver {
    Arm(Box<dyn Arm>),
    Policy(Box<ArmRunner>),
    /// An arm that somebody else's code runs: see [`Author`].
    Author(Box<dyn Author>),
}

impl Driver {
    /// Builds the driver of a flow by its name.
    pub fn build(name: &str, setup: &Setup) -> Result<Self, Error> {
        if let Some(policy) = remuda_selector::policy(name) {
            return Ok(Self::Policy((policy.build)(&setup.config.policy, &setup.loaded)));
        }
        if let Some(authored) = setup.authors.build(name) {
            return Ok(Self::Author(authored));
        }
        if let Some(kernels) = native::kernel_name(name) {
            remuda_bpf::check_native(kernels)?;
            let arm = native::Native::new(name).ok_or_else(|| unknown(name, &[]))?;
            return Ok(Self::Arm(Box::new(arm)));
        }
        remuda_algorithms::arm(name)
            .and_then(|arm| arm.build_with(&setup.loaded))
            .map(Self::Arm)
            .ok_or_else(|| unknown(name, &setup.authors.names()))
    }

    fn running(&self) -> &dyn Arm {
        match self {
            Self::Arm(arm) => &**arm,
            Self::Policy(runner) => runner.running(),
            Self::Author(arm) => &**arm,
        }
    }

    fn running_mut(&mut self) -> &mut dyn Arm {
        match self {
            Self::Arm(arm) => &mut **arm,
            Self::Policy(runner) => runner.running_mut(),
            Self::Author(arm) => &mut **arm,
        }
    }

    fn runner(&mut self) -> Option<&mut ArmRunner> {
        match self {
            Self::Policy(runner) => Some(runner),
            Self::Arm(_) | Self::Author(_) => None,
        }
    }

    fn author(&mut self) -> Option<&mut dyn Author> {
        match self {
            Self::Author(arm) => Some(&mut **arm),
            Self::Arm(_) | Self::Policy(_) => None,
        }
    }

    /// The name of the arm that drives the flow: of a policy, the one that it has picked.
    pub fn arm(&self) -> &'static str {
        self.running().info().name
    }

    /// See [`Arm::program`].
    pub fn program(&self) -> ProgramId {
        self.running().program()
    }

    /// The algorithm of the host's own that the flow runs.
    pub fn native(&self) -> Option<&'static str> {
        self.running().info().native
    }

    /// See [`Arm::reports_per_round`].
    pub fn reports_per_round(&self) -> u32 {
        self.running().reports_per_round()
    }

    /// See [`Arm::own_fields`].
    pub fn own_fields(&self) -> &[&'static str] {
        self.running().own_fields()
    }

    /// See [`Arm::registers`].
    pub fn registers(&self, registers: &mut Registers) {
        self.running().registers(registers);
    }

    /// See [`Arm::can_resume`]. A policy picks an arm when it has the flow, and that arm is asked.
    pub fn can_resume(&self, path: &PathState) -> Readiness {
        match self {
            Self::Policy(_) => Readiness::Ready,
            Self::Arm(_) | Self::Author(_) => self.running().can_resume(path),
        }
    }

    /// See [`Arm::resume`].
    pub fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        match self {
            Self::Policy(runner) => runner.resume(path, now),
            Self::Arm(_) | Self::Author(_) => self.running_mut().resume(path, now),
        }
    }

    /// See [`Arm::on_measurement`].
    pub fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        match self {
            Self::Policy(runner) => runner.on_measurement(m, now),
            Self::Arm(_) | Self::Author(_) => self.running_mut().on_measurement(m, now),
        }
    }

    /// See [`Arm::can_hand_off`].
    pub fn can_hand_off(&self) -> Readiness {
        self.running().can_hand_off()
    }

    /// See [`Arm::hand_off`].
    pub fn hand_off(&self, path: &mut PathState) {
        self.running().hand_off(path);
        path.answered_losses = self.running().info().answers_losses;
    }

    /// See [`Arm::wake_at`].
    pub fn wake_at(&self) -> Option<Time> {
        self.running().wake_at()
    }

    /// See [`Arm::on_wake`].
    pub fn on_wake(&mut self, now: Time) -> Option<Decision> {
        self.running_mut().on_wake(now)
    }

    /// See [`Arm::stage`].
    pub fn stage(&mut self) -> Option<Stage> {
        self.running_mut().stage()
    }

    /// See [`remuda_selector::Policy::proposal`].
    pub fn proposal(&mut self) -> Option<Proposal> {
        self.runner()?.proposal()
    }

    /// See [`ArmRunner::switch_to`].
    pub fn switch_to(
        &mut self,
        arm: &str,
        path: &PathState,
        now: Time,
    ) -> Result<Decision, &'static str> {
        self.runner().ok_or("no policy drives the flow")?.switch_to(arm, path, now)
    }

    /// See [`remuda_selector::Policy::prefer`].
    pub fn prefer(&mut self, wants: Preference) {
        if let Some(runner) = self.runner() {
            runner.prefer(wants);
        }
    }

    /// See [`remuda_selector::Policy::sample`].
    pub fn sample(&mut self) -> Option<Sample> {
        self.runner()?.sample()
    }

    /// See [`remuda_selector::Policy::verdict`].
    pub fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Policy(runner) => runner.verdict(),
            Self::Arm(_) | Self::Author(_) => None,
        }
    }

    /// See [`remuda_selector::Policy::remembers`].
    pub fn remembers(&self) -> bool {
        match self {
            Self::Policy(runner) => runner.remembers(),
            Self::Arm(_) | Self::Author(_) => false,
        }
    }

    /// See [`Author::is_foreign`].
    pub fn is_foreign(&self) -> bool {
        match self {
            Self::Author(arm) => arm.is_foreign(),
            Self::Arm(_) | Self::Policy(_) => false,
        }
    }

    /// See [`Author::steers_itself`].
    pub fn steers_itself(&self) -> bool {
        match self {
            Self::Author(arm) => arm.steers_itself(),
            Self::Arm(_) | Self::Policy(_) => false,
        }
    }

    /// See [`Author::take_fields`].
    pub fn take_fields(&mut self, fields: &[u64]) {
        if let Some(author) = self.author() {
            author.take_fields(fields);
        }
    }

    /// See [`Author::late`].
    pub fn late(&mut self) -> Option<Decision> {
        self.author()?.late()
    }

    /// See [`Author::failure`].
    pub fn failure(&mut self) -> Option<String> {
        self.author()?.failure()
    }
}

#[cfg(test)]
mod tests;
