//! The flow engine: it owns flows and what they share: what is remembered of destinations, which
//! flows go the same way, how often each may report, and when the arm of which wants to be woken.
//!
//! The agent puts sockets around it, the simulator its VM. Both feed it the same events, and the
//! same events give the same orders.

pub mod companions;
mod gathering;
mod spread;
#[cfg(test)]
mod tests;
mod totals;
mod wakes;

use crate::Setup;
use crate::config::Config;
use crate::events::Recorder;
use crate::flow::{Context, Flow, Orders};
use companions::Companions;
use gathering::Gathering;
use remuda_algorithms::Why;
use remuda_algorithms::units::Bytes;
use remuda_selector::antelope::memory::Memory;
use remuda_wire::Report;
use remuda_wire::to_agent::State;
use spread::Spread;
use std::collections::HashMap;
use std::time::Duration;
pub use totals::Totals;
use wakes::Wakes;

/// What a step of a flow needs of the engine's host.
pub struct Step<'a> {
    /// The configuration in force, and what is loaded and connected.
    pub setup: &'a Setup,
    pub recorder: &'a mut dyn Recorder,
    /// Where the flow's orders go.
    pub orders: &'a mut Orders<'a>,
    /// A clock that does not step, in microseconds.
    pub now_us: u64,
}

/// Seconds of the same clock.
fn seconds(now_us: u64) -> u64 {
    now_us / 1_000_000
}

/// Every flow of one agent, by the agent's number of it.
pub struct Flows {
    flows: HashMap<u32, Flow>,
    memory: Memory,
    companions: Companions,
    totals: Totals,
    spread: Spread,
    gathering: Gathering,
    wakes: Wakes,
}

impl std::fmt::Debug for Flows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flows").field("flows", &self.flows.len()).finish_non_exhaustive()
    }
}

impl Flows {
    /// Without flows, and with nothing remembered.
    pub fn new(config: &Config) -> Self {
        Self {
            flows: HashMap::new(),
            memory: Memory::new(&config.memory),
            companions: Companions::default(),
            totals: Totals::default(),
            spread: Spread::default(),
            gathering: Gathering::default(),
            wakes: Wakes::default(),
        }
    }

    /// What is remembered of the destinations of flows.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What the flows of each arm have done.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    pub fn get(&self, id: u32) -> Option<&Flow> {
        self.flows.get(&id)
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Flow> {
        self.flows.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.values_mut()
    }

    pub fn len(&self) -> usize {
        self.flows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// `flow` starts, with what is remembered of its destination.
    pub fn start(&mut self, mut flow: Flow, step: Step<'_>) {
        flow.look_up_destination(&mut self.memory, seconds(step.now_us));
        let report_us = self.spread.interval_us(&flow, &step.setup.config, step.now_us);
        flow.start(&mut context(step, report_us));
        self.wakes.follow(&mut flow);
        self.flows.insert(flow.id(), flow);
    }

    /// A flow reports. False: the report is of a flow that is not known, or of another program
    /// than the flow runs.
    pub fn report(&mut self, id: u32, report: &Report<'_>, step: Step<'_>) -> bool {
        let flow = self.flows.get_mut(&id).filter(|flow| flow.runs(report.uid));
        let Some(flow) = flow else { return false };
        let now_us = step.now_us;
        let companions = self.companions.beside(flow.remote(), flow.driver(), id, now_us);
        let report_us = self.spread.interval_us(flow, &step.setup.config, now_us);
        let mut ctx = context(step, report_us);
        let arm = flow.arm();
        let taken = flow.on_report(report, companions, &mut ctx);
        if taken {
            self.totals.add(arm, &flow.last_report());
            self.gathering.note(flow.last_rtt_us_min(), now_us);
            flow.jump_in_time(&mut self.memory, seconds(now_us), &mut ctx);
            flow.leave_in_time(&mut self.memory, seconds(now_us), ctx.recorder);
            self.wakes.follow(flow);
        }
        taken
    }

    /// A flow changed hands between the agent and its datapath, at `at_us` of the datapath's
    /// monotonic clock. True: the flow needs a poke.
    pub fn state(
        &mut self,
        id: u32,
        state: State,
        at_us: u64,
        cwnd: Bytes,
        recorder: &mut dyn Recorder,
    ) -> bool {
        let Some(flow) = self.flows.get_mut(&id) else { return false };
        let needs_poke = flow.on_state(state, at_us, cwnd, recorder);
        self.wakes.follow(flow);
        needs_poke
    }

    /// For how long the host may let reports wait, so that it answers several at once. Zero means
    /// that the host should answer at once.
    pub fn pause(&mut self, now_us: u64) -> Duration {
        self.gathering.pause(now_us)
    }

    /// When the next flow is to be woken, in microseconds of the clock of [`Step::now_us`].
    pub fn wake_us(&self) -> Option<u64> {
        self.wakes.first_us()
    }

    /// Takes a flow that is to be woken now, the one that has been due longest first. The caller
    /// wakes it: [`Self::wake`].
    pub fn take_due(&mut self, now_us: u64) -> Option<u32> {
        let id = self.wakes.take_due(now_us)?;
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.queue_wake(None);
        }
        Some(id)
    }

    /// The timer of a flow's arm goes off. Before its time this does nothing. A wake does not make
    /// a flow busy, so how often it reports stays as it is.
    pub fn wake(&mut self, id: u32, step: Step<'_>) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let report_us = flow.report_us();
        flow.on_wake(&mut context(step, report_us));
        self.wakes.follow(flow);
    }

    /// A flow carries out what has waited for it: an order of an operator, a late decision.
    pub fn poke(&mut self, id: u32, step: Step<'_>) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let report_us = self.spread.interval_us(flow, &step.setup.config, step.now_us);
        flow.on_poke(&mut context(step, report_us));
        self.wakes.follow(flow);
    }

    /// An operator wants a flow driven by `name`, from its next poke on.
    pub fn want(&mut self, id: u32, name: &str, why: &Why) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.want(name.to_owned(), why.clone());
        }
    }

    /// A flow ended: what it leaves behind is remembered.
    pub fn end(&mut self, id: u32, now_us: u64, recorder: &mut dyn Recorder) -> Option<Flow> {
        let mut flow = self.flows.remove(&id)?;
        self.companions.ended(flow.remote(), id);
        self.spread.ended(id);
        self.wakes.ended(&mut flow);
        flow.leave_for_good(&mut self.memory, seconds(now_us), recorder);
        flow.end(recorder);
        Some(flow)
    }

    /// The engine's host ends: what the flows leave behind is remembered.
    pub fn leave_all(&mut self, now_us: u64, recorder: &mut dyn Recorder) {
        for flow in self.flows.values_mut() {
            flow.leave_for_good(&mut self.memory, seconds(now_us), recorder);
        }
    }
}

fn context(step: Step<'_>, report_us: u32) -> Context<'_> {
    let Step { setup, recorder, orders, now_us } = step;
    Context { setup, recorder, orders, now_us, report_us }
}
