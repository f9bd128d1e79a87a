//! What all policies do alike: ride an arm, and hand the flow to the next one.

use remuda_algorithms::units::Time;
use remuda_algorithms::{
    Controller, Decision, Measurement, PathState, Preference, ProgramId, Proposal, Readiness,
    Registers, Sample, Verdict, cubic,
};

/// What a policy is beside that: whom it picks, and why. Pure, as controllers are.
pub trait Chooser: Send {
    /// Begins anew, as for a flow never seen: one starts, or is taken over. Says who has it first.
    fn begin(&mut self, path: &PathState, now: Time) -> &'static str;

    /// Takes in a report of the flow, which `arm` has.
    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time);

    /// See [`Controller::proposal`].
    fn proposal(&mut self) -> Option<Proposal>;

    /// `arm` has the flow now: as proposed, or as the guard undid it.
    fn switched(&mut self, arm: &'static str, now: Time);

    /// Whether it rides that arm.
    fn rides(&self, _arm: &str) -> bool {
        true
    }

    /// See [`Controller::prefer`].
    fn prefer(&mut self, _wants: Preference) {}

    /// See [`Controller::sample`].
    fn sample(&mut self) -> Option<Sample> {
        None
    }

    /// See [`Controller::verdict`].
    fn verdict(&self) -> Option<Verdict> {
        None
    }

    /// See [`Controller::remembers`].
    fn remembers(&self) -> bool {
        false
    }
}

/// A policy: a chooser, and the arm that it rides.
pub struct Riding<C> {
    chooser: C,
    arm: Box<dyn Controller>,
}

impl<C: Chooser> Riding<C> {
    /// One that has no flow yet.
    pub fn new(chooser: C) -> Self {
        Self { chooser, arm: cubic::ARM.build() }
    }

    pub fn chooser(&self) -> &C {
        &self.chooser
    }

    fn build(&self, arm: &str, path: &PathState) -> Result<Box<dyn Controller>, &'static str> {
        let known = remuda_algorithms::arm(arm).filter(|arm| self.chooser.rides(arm.name));
        let next = known.ok_or("the policy does not ride that arm")?.build();
        match next.can_resume(path) {
            Readiness::Refuse(reason) | Readiness::Defer(reason) => Err(reason),
            Readiness::Ready => Ok(next),
        }
    }
}

impl<C: Chooser> Controller for Riding<C> {
    fn arm(&self) -> &'static str {
        self.arm.arm()
    }

    fn program(&self) -> ProgramId {
        self.arm.program()
    }

    fn native(&self) -> Option<&'static str> {
        self.arm.native()
    }

    fn reports_per_round(&self) -> u32 {
        self.arm.reports_per_round()
    }

    fn own_fields(&self) -> &[&'static str] {
        self.arm.own_fields()
    }

    fn is_foreign(&self) -> bool {
        self.arm.is_foreign()
    }

    fn steers_itself(&self) -> bool {
        self.arm.steers_itself()
    }

    fn take_fields(&mut self, fields: &[u64]) {
        self.arm.take_fields(fields);
    }

    fn late(&mut self) -> Option<Decision> {
        self.arm.late()
    }

    fn failure(&mut self) -> Option<String> {
        self.arm.failure()
    }

    fn registers(&self) -> Registers {
        self.arm.registers()
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        let first = self.chooser.begin(path, now);
        // CUBIC takes any path.
        self.arm = self.build(first, path).unwrap_or_else(|_| cubic::ARM.build());
        self.arm.resume(path, now)
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.chooser.observe(m, self.arm.arm(), now);
        self.arm.on_measurement(m, now)
    }

    fn can_hand_off(&self) -> Readiness {
        self.arm.can_hand_off()
    }

    fn hand_off(&self, path: &mut PathState) {
        self.arm.hand_off(path);
    }

    fn proposal(&mut self) -> Option<Proposal> {
        self.chooser.proposal()
    }

    fn switch_to(
        &mut self,
        arm: &str,
        path: &PathState,
        now: Time,
    ) -> Result<Decision, &'static str> {
        self.arm = self.build(arm, path)?;
        self.chooser.switched(self.arm.arm(), now);
        Ok(self.arm.resume(path, now))
    }

    fn prefer(&mut self, wants: Preference) {
        self.chooser.prefer(wants);
    }

    fn sample(&mut self) -> Option<Sample> {
        self.chooser.sample()
    }

    fn verdict(&self) -> Option<Verdict> {
        self.chooser.verdict()
    }

    fn remembers(&self) -> bool {
        self.chooser.remembers()
    }
}
