//! The timer of a flow's arm: when the arm is woken, and what it decides then.
//!
//! [`crate::flows::Flows`] keeps the times of all flows and calls [`Flow::on_wake`].

use super::{Context, Flow};
use remuda_algorithms::units::Time;

/// Two wakes of a flow lie at least this far apart, in microseconds. Without this limit an arm that
/// asks for a moment in the past, or for every nanosecond, would take the agent's only thread from
/// all other flows. A millisecond is half of the least interval of reports by default, and finer
/// than the pauses of a host that sleeps between two events.
pub const WAKE_INTERVAL_US_MIN: u64 = 1_000;

/// What the flow engine notes of a flow's timer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timer {
    /// When the engine wakes the flow, in microseconds of the agent's clock.
    queued_us: Option<u64>,
    /// When the engine woke the flow last, by the same clock.
    woken_us: Option<u64>,
}

/// Rounded up, so that the arm is never woken before the moment that it asked for.
fn micros(at: Time) -> u64 {
    u64::try_from(at.0.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

impl Flow {
    /// The moment that the arm asks for, since the flow began, as all times of its arms are.
    pub fn wake_at(&self) -> Option<Time> {
        self.controller.wake_at()
    }

    /// When to wake the flow, in microseconds of the agent's clock: when its arm asks for it, but
    /// not sooner than [`WAKE_INTERVAL_US_MIN`] after the last wake. A flow in its datapath's own
    /// fallback is not woken, as no arm drives it.
    pub fn wake_us(&self) -> Option<u64> {
        let at = self.wake_at().filter(|_| !self.fell_back)?;
        let wanted_us = self.started_us.saturating_add(micros(at));
        let allowed_us =
            self.timer.woken_us.map_or(0, |at_us| at_us.saturating_add(WAKE_INTERVAL_US_MIN));
        Some(wanted_us.max(allowed_us))
    }

    /// The engine has queued this wake of the flow; returns the one queued before.
    pub fn queue_wake(&mut self, at_us: Option<u64>) -> Option<u64> {
        std::mem::replace(&mut self.timer.queued_us, at_us)
    }

    /// The earliest moment that a report may have: one that waited in a ring while the timer went
    /// off counts as of the wake, so that the arm's time never runs backwards.
    pub(super) fn not_before_us(&self) -> u64 {
        self.timer.woken_us.unwrap_or(0)
    }

    /// The arm's timer goes off. Before [`Self::wake_us`] this does nothing.
    pub fn on_wake(&mut self, ctx: &mut Context<'_>) {
        if self.wake_us().is_none_or(|at_us| ctx.now_us < at_us) {
            return;
        }
        self.at_us = ctx.now_us;
        self.timer.woken_us = Some(ctx.now_us);
        let now = self.now();
        let decision = self.controller.on_wake(now);
        self.record_stages(ctx);
        if let Some(decision) = decision {
            self.obey(decision, now, ctx);
        }
    }
}
