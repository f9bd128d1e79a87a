//! Runs the arm that a policy has picked, and hands the flow to the next one.

use crate::policy::Policy;
use remuda_algorithms::units::Time;
use remuda_algorithms::{
    Arm, Decision, Loaded, Measurement, PathState, Preference, Proposal, Readiness, Sample,
    Verdict, WindowArm, cubic,
};

/// A policy, and the arm that it has picked for one flow.
pub struct ArmRunner<P: ?Sized = dyn Policy> {
    arm: Box<dyn Arm>,
    /// The weights and settings of arms.
    loaded: Loaded,
    policy: P,
}

/// CUBIC takes any path.
fn fallback() -> Box<dyn Arm> {
    Box::new(cubic::Cubic::new())
}

impl<P: Policy> ArmRunner<P> {
    /// One that has no flow yet. Arms have what is `loaded` when the policy picks them.
    pub fn new(policy: P, loaded: &Loaded) -> Self {
        Self { arm: fallback(), loaded: loaded.clone(), policy }
    }
}

impl<P: Policy + ?Sized> ArmRunner<P> {
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The arm that drives the flow.
    pub fn running(&self) -> &dyn Arm {
        &*self.arm
    }

    /// The same, for what only the arm needs to know of.
    pub fn running_mut(&mut self) -> &mut dyn Arm {
        &mut *self.arm
    }

    /// The name of the arm that drives the flow.
    pub fn arm(&self) -> &'static str {
        self.arm.info().name
    }

    fn build(&self, arm: &str, path: &PathState) -> Result<Box<dyn Arm>, &'static str> {
        let known = remuda_algorithms::arm(arm).filter(|arm| self.policy.picks(arm.name));
        let next = known.and_then(|arm| arm.build_with(&self.loaded));
        let next = next.ok_or("the policy does not pick that arm")?;
        match next.can_resume(path) {
            Readiness::Refuse(reason) | Readiness::Defer(reason) => Err(reason),
            Readiness::Ready => Ok(next),
        }
    }

    /// Starts a flow or takes one over, with the policy's first arm.
    pub fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        let first = self.policy.begin(path, now);
        self.arm = self.build(first, path).unwrap_or_else(|_| fallback());
        self.arm.resume(path, now)
    }

    /// Takes in one report: the policy sees it, the arm decides by it.
    pub fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.policy.observe(m, self.arm.info().name, now);
        self.arm.on_measurement(m, now)
    }

    /// See [`Arm::can_hand_off`].
    pub fn can_hand_off(&self) -> Readiness {
        self.arm.can_hand_off()
    }

    /// See [`Arm::hand_off`].
    pub fn hand_off(&self, path: &mut PathState) {
        self.arm.hand_off(path);
    }

    /// See [`Policy::proposal`].
    pub fn proposal(&mut self) -> Option<Proposal> {
        self.policy.proposal()
    }

    /// Carries out a proposal that the guard let pass: `path` holds what the arm in charge handed
    /// off. Answers with the new arm's first decision, or with why that arm does not take the path,
    /// and nothing has changed.
    pub fn switch_to(
        &mut self,
        arm: &str,
        path: &PathState,
        now: Time,
    ) -> Result<Decision, &'static str> {
        self.arm = self.build(arm, path)?;
        self.policy.taken(self.arm.info().name, now);
        Ok(self.arm.resume(path, now))
    }

    /// See [`Policy::prefer`].
    pub fn prefer(&mut self, wants: Preference) {
        self.policy.prefer(wants);
    }

    /// See [`Policy::sample`].
    pub fn sample(&mut self) -> Option<Sample> {
        self.policy.sample()
    }

    /// See [`Policy::verdict`].
    pub fn verdict(&self) -> Option<Verdict> {
        self.policy.verdict()
    }

    /// See [`Policy::remembers`].
    pub fn remembers(&self) -> bool {
        self.policy.remembers()
    }
}
