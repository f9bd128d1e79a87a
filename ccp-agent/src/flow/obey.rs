//! A decision of the flow's controller on its way to the datapath: past the guard, then what is new
//! of it as an order.

use super::settings::Settings;
use super::{Context, Flow};
use crate::decode;
use crate::events::Event;
use crate::guard::Fired;
use remuda_algorithms::Decision;
use remuda_algorithms::units::Time;
use std::time::Duration;

/// At most one clamp is recorded per flow in this time.
const CLAMP_RECORD_INTERVAL: Duration = Duration::from_secs(1);

impl Flow {
    /// Guards a decision and sends what is new of it.
    pub(super) fn obey(&mut self, decision: Decision, now: Time, ctx: &mut Context<'_>) {
        let native = self.controller.native();
        let reporting = (ctx.report_us, self.controller.reports_per_round());
        if native.is_some() && native == self.native && self.program.is_some() {
            self.decision = decision; // it is the kernel's
            self.noted.is_guarded = false;
            self.guard.follow(decision.cwnd, now);
            if self.reporting != reporting {
                self.reporting = reporting;
                let mut settings = Settings::default();
                self.add_reporting(&mut settings);
                self.send(&settings, ctx);
            }
            return;
        }
        let (decision, rules) = self.guard.pass(decision, &self.path, now, &ctx.setup.config.guard);
        self.noted.is_guarded = rules.lower();
        if !rules.is_empty() {
            self.record_clamps(rules, decision, now, ctx);
        }
        self.decision = decision;
        self.path.rate = decision.rate;
        let enforced = self.path.enforceable(self.paced_jump(decision));
        let (cwnd, rate) = decode::registers(enforced);
        self.next_registers.clear();
        self.controller.registers(&mut self.next_registers);
        let program = self.controller.program();
        let is_new = self.program != Some(program) || self.native != native;
        if is_new {
            self.program = Some(program);
            self.native = native;
            self.delivered_pkts = None; // a new program counts from its own start
            self.running = ctx.setup.program(program);
        }
        let is_rate_new = is_new || self.reporting != reporting;
        let are_own_new = is_rate_new || self.registers != self.next_registers;
        let is_in_force = self.sent == Some((cwnd, rate)) && self.in_force(cwnd);
        let steers_itself = self.controller.steers_itself();
        let news = (steers_itself && !is_new).then(|| self.news(cwnd, rate));
        self.sent = Some((cwnd, rate));
        self.reporting = reporting;
        std::mem::swap(&mut self.registers, &mut self.next_registers);
        if let Some(settings) = news {
            if !settings.is_empty() {
                self.send(&settings, ctx);
            }
        } else if are_own_new || !is_in_force {
            let mut settings = self.window_and_rate(cwnd, rate);
            if are_own_new {
                self.add_own(&mut settings);
            }
            if is_rate_new {
                self.add_reporting(&mut settings);
            }
            if is_new {
                self.run(&settings, ctx);
            } else {
                self.send(&settings, ctx);
            }
        }
        self.path.cwnd = enforced.cwnd;
    }

    /// Whether the datapath already had this window: it changes it by itself after a timeout.
    fn in_force(&self, cwnd: u32) -> bool {
        let mss = self.path.mss.0.max(1);
        u64::from(cwnd) / mss == self.last.cwnd.0 / mss
    }

    pub(super) fn record_clamps(
        &mut self,
        rules: Fired,
        decision: Decision,
        now: Time,
        ctx: &mut Context<'_>,
    ) {
        let due = self.clamp_recorded.is_none_or(|at| now - at >= CLAMP_RECORD_INTERVAL);
        if !due {
            return;
        }
        self.clamp_recorded = Some(now);
        let clamped = Event::Clamped {
            rules: rules.iter().collect(),
            cwnd_bytes: decision.cwnd.0,
            rate_bytes_per_sec: decision.rate.map(|rate| rate.bytes_per_sec()),
        };
        ctx.recorder.record(Some(self.id), &clamped);
    }
}
