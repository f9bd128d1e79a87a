//! The switch: hand off, resume, set the program, in this order; and what comes before and after.
//!
//! An operator's order is carried out at once, unless what is ordered refuses the path. A policy's
//! proposal waits for a moment that suits the arm in charge and the guard, is given up if none
//! comes, and is undone if it has made things worse.

use super::intervention::Intervention;
use super::{Context, Driver, Flow};
use crate::events::Event;
use crate::guard::{Cause, Fired, HandOff, RollBack, Rule};
use remuda_algorithms::units::Time;
use remuda_algorithms::{
    Decision, Measurement, PathState, Proposal, Readiness, Why, WindowArm, native, reno,
};
use std::time::Duration;

/// A proposal waits this long for its moment. Then the policy may make it again.
const PATIENCE: Duration = Duration::from_secs(2);

impl Flow {
    /// What the controller was built for, the path does not have: Reno takes the flow, as Linux
    /// does where DCTCP finds no ECN.
    pub(super) fn refused(&mut self, reason: &str, ctx: &mut Context<'_>) {
        self.veto(self.driver.clone(), reason.to_owned(), ctx);
        self.controller = Driver::Arm(Box::new(reno::Reno::new()));
        self.driver = reno::ARM.name.to_owned();
        self.why = Why::because(format!("{reason}; {} takes any path", reno::ARM.name));
        self.arm_since = self.now();
    }

    /// Whether what drives the flow cannot go on: Reno takes the flow then.
    pub(super) fn failed(&mut self, now: Time, ctx: &mut Context<'_>) -> bool {
        let Some(reason) = self.controller.failure() else { return false };
        let arm = self.arm();
        let event = Event::Failed { arm: arm.to_owned(), reason: reason.clone() };
        ctx.recorder.record(Some(self.id), &event);
        let path = self.handed_off(ctx);
        let driver = std::mem::replace(&mut self.driver, reno::ARM.name.to_owned());
        self.controller = Driver::Arm(Box::new(reno::Reno::new()));
        let first = self.controller.resume(&path, now);
        self.path = path;
        let said = reason.trim_end().lines().last().unwrap_or_default();
        let why = Why::because(format!("{arm} failed: {said}"));
        self.switched((driver, arm), why, first, now, ctx);
        true
    }

    /// The flow's datapath does not let it run what it was told to: a route may lock the kernel's
    /// algorithm, or there is no room for another program. What drove it before goes on, or Reno if
    /// nothing did.
    pub(super) fn stay(&mut self, now: Time, ctx: &mut Context<'_>) {
        let arms = [Some(self.arm()), self.before.as_ref().map(|(_, arm)| *arm)];
        let is_native = arms.iter().flatten().any(|arm| native::kernel_name(arm).is_some());
        let reason = if is_native {
            "the kernel does not let this flow change its algorithm"
        } else {
            "the datapath does not take this arm's program"
        };
        let path = self.handed_off(ctx);
        self.program = None; // whatever runs, tell it all again
        self.native = None;
        let before = self.before.take();
        let first = match &before {
            Some((driver, arm)) if *driver == self.driver => {
                self.veto(self.arm().to_owned(), reason.to_owned(), ctx);
                self.controller.switch_to(arm, &path, now).ok()
            }
            Some((driver, _)) => match Driver::build(driver, ctx.setup) {
                Ok(mut controller) => {
                    self.veto(self.driver.clone(), reason.to_owned(), ctx);
                    let first = controller.resume(&path, now);
                    self.controller = controller;
                    self.driver.clone_from(driver);
                    Some(first)
                }
                Err(_) => None,
            },
            None => None,
        };
        let first = first.unwrap_or_else(|| {
            self.refused(reason, ctx);
            self.controller.resume(&path, now)
        });
        self.path = path;
        self.arm_since = now;
        self.why = Why::because(reason);
        self.obey(first, now, ctx);
    }

    /// The path as a successor gets it.
    fn handed_off(&self, ctx: &Context<'_>) -> PathState {
        let mut path = self.path.clone();
        match ctx.setup.config.guard.hand_off {
            HandOff::Warm => self.controller.hand_off(&mut path),
            HandOff::Cold => path = path.cold(),
        }
        path
    }

    pub(super) fn take_over(
        &mut self,
        name: String,
        mut next: Driver,
        why: Why,
        ctx: &mut Context<'_>,
    ) {
        let now = self.now();
        let path = self.handed_off(ctx);
        match next.can_resume(&path) {
            Readiness::Ready => {}
            Readiness::Defer(reason) | Readiness::Refuse(reason) => {
                return self.veto(name, reason.to_owned(), ctx);
            }
        }
        let first = next.resume(&path, now);
        let from = std::mem::replace(&mut self.controller, next).arm();
        let driver = std::mem::replace(&mut self.driver, name);
        self.path = path;
        self.switched((driver, from), why, first, now, ctx);
    }

    /// What a report makes of the policy's proposals, and of the last switch.
    pub(super) fn consider_switches(
        &mut self,
        m: &Measurement,
        decision: Decision,
        now: Time,
        ctx: &mut Context<'_>,
    ) -> Decision {
        if let Some(back) = self.guard.judge(m, &self.path, now, &ctx.setup.config.guard)
            && let Some(decision) = self.roll_back(&back, now, ctx)
        {
            return decision;
        }
        let waiting = self.deferred.take().filter(|(_, since)| now - *since < PATIENCE);
        let (proposal, since) = match (self.controller.proposal(), waiting) {
            (Some(proposal), _) => (proposal, now),
            (None, Some(waiting)) => waiting,
            (None, None) => return decision,
        };
        self.consider(proposal, since, decision, now, ctx)
    }

    /// A policy wants another arm, or says why it stays.
    fn consider(
        &mut self,
        proposal: Proposal,
        since: Time,
        decision: Decision,
        now: Time,
        ctx: &mut Context<'_>,
    ) -> Decision {
        let to = proposal.to;
        if to == self.arm() {
            let why = proposal.why;
            let features = why.features.iter().cloned().collect();
            let stays = Event::Stays { arm: to.to_owned(), why: why.text.clone(), features };
            ctx.recorder.record(Some(self.id), &stays);
            self.why = why;
            return decision;
        }
        let verdict =
            match self.guard.may_switch(&proposal, &self.path, now, &ctx.setup.config.guard) {
                Readiness::Ready => self.moment(),
                other => other,
            };
        if let Readiness::Defer(reason) | Readiness::Refuse(reason) = verdict {
            self.record_veto(to, reason, ctx);
            if matches!(verdict, Readiness::Defer(_)) {
                self.deferred = Some((proposal, since));
            }
            return decision;
        }
        let path = self.handed_off(ctx);
        let from = self.arm();
        match self.controller.switch_to(to, &path, now) {
            Ok(first) => {
                self.path = path;
                self.guard.try_out(from, &proposal, now);
                self.switched((self.driver.clone(), from), proposal.why, first, now, ctx);
                self.decision
            }
            Err(reason) => {
                self.record_veto(to, reason, ctx);
                decision
            }
        }
    }

    /// Whether this is a moment at which the flow can be handed over: nothing is being repaired,
    /// and the arm in charge is not in a state that says nothing of the path.
    fn moment(&self) -> Readiness {
        if self.last.in_recovery {
            return Readiness::Defer("a loss is being repaired");
        }
        self.controller.can_hand_off()
    }

    fn record_veto(&mut self, to: &'static str, reason: &'static str, ctx: &mut Context<'_>) {
        if self.vetoed.replace((to, reason)) != Some((to, reason)) {
            self.veto(to.to_owned(), reason.to_owned(), ctx);
        }
    }

    /// The last switch has made things worse.
    fn roll_back(&mut self, back: &RollBack, now: Time, ctx: &mut Context<'_>) -> Option<Decision> {
        let path = self.handed_off(ctx);
        let from = self.arm();
        let first = self.controller.switch_to(back.to, &path, now).ok()?;
        self.path = path;
        self.deferred = None;
        let why = match back.cause {
            Cause::Power(percent) => {
                format!("power fell to {percent} % of what it was with {}", back.to)
            }
            Cause::Lost(percent) => {
                format!("{percent} % was lost, for little more goodput than with {}", back.to)
            }
        };
        let rolled =
            Event::RolledBack { from: from.to_owned(), to: back.to.to_owned(), why: why.clone() };
        ctx.recorder.record(Some(self.id), &rolled);
        let (against, reason) = (from.to_owned(), why.clone());
        self.last_intervention = Some(Intervention { at: now, against, undone: true, reason });
        self.switched((self.driver.clone(), from), Why::because(why), first, now, ctx);
        Some(self.decision)
    }

    fn switched(
        &mut self,
        (driver, from): (String, &'static str),
        why: Why,
        first: Decision,
        now: Time,
        ctx: &mut Context<'_>,
    ) {
        self.vetoed = None;
        self.before = Some((driver, from));
        self.totals.switches += 1;
        self.arm_since = now;
        let event = Event::Switched {
            from: from.to_owned(),
            to: self.arm().to_owned(),
            why: why.text.clone(),
            features: why.features.iter().cloned().collect(),
        };
        ctx.recorder.record(Some(self.id), &event);
        self.why = why;
        let (first, raised) = self.guard.switched(first, &self.path, now, &ctx.setup.config.guard);
        if raised {
            self.record_clamps(Fired::one(Rule::RaisedBySwitch), first, now, ctx);
        }
        self.obey(first, now, ctx);
    }
}
