//! The values of registers that go with an order, by register instead of by name.

use super::{Context, Flow};
use remuda_algorithms::OWN_REGISTERS_MAX;
use remuda_algorithms::signals::{REPORT_INTERVAL, REPORTS_PER_ROUND};
use remuda_wire::to_datapath::Update;
use remuda_wire::{Order, Register};

/// Window, rate, and how often to report; and the program's own registers.
const SETTINGS_MAX: usize = 4 + OWN_REGISTERS_MAX;

/// Values of registers for one order.
pub(super) struct Settings {
    updates: [Update; SETTINGS_MAX],
    count: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let nothing = Update { register: Register::Control(0), value: 0 };
        Self { updates: [nothing; SETTINGS_MAX], count: 0 }
    }
}

impl Settings {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn as_slice(&self) -> &[Update] {
        &self.updates[..self.count]
    }
}

impl Flow {
    /// Adds nothing for a register that the program does not have.
    fn add(&self, settings: &mut Settings, name: &str, value: u32) {
        let register = self.running.as_ref().and_then(|program| program.settable(name));
        if let (Some(register), Some(place)) = (register, settings.updates.get_mut(settings.count))
        {
            *place = Update { register, value: value.into() };
            settings.count += 1;
        }
    }

    /// The window in bytes, and the rate in bytes per second.
    pub(super) fn window_and_rate(&self, cwnd: u32, rate: u32) -> Settings {
        let mut settings = Settings::default();
        self.add(&mut settings, "Cwnd", cwnd);
        self.add(&mut settings, "Rate", rate);
        settings
    }

    /// Of the window, the rate and the program's own registers, those with another value than was
    /// sent last.
    pub(super) fn news(&self, cwnd: u32, rate: u32) -> Settings {
        let (sent_cwnd, sent_rate) = self.sent.unzip();
        let mut settings = Settings::default();
        for (name, value, before) in [("Cwnd", cwnd, sent_cwnd), ("Rate", rate, sent_rate)] {
            if before != Some(value) {
                self.add(&mut settings, name, value);
            }
        }
        for (name, value) in self.next_registers.as_slice() {
            let before = self.registers.as_slice().iter().find(|(of, _)| of == name);
            if before.map(|(_, before)| before) != Some(value) {
                self.add(&mut settings, name, *value);
            }
        }
        settings
    }

    /// The program's own control registers.
    pub(super) fn add_own(&self, settings: &mut Settings) {
        for (name, value) in self.registers.as_slice() {
            self.add(settings, name, *value);
        }
    }

    pub(super) fn add_reporting(&self, settings: &mut Settings) {
        let (interval_us, per_round) = self.reporting;
        self.add(settings, REPORT_INTERVAL, interval_us);
        self.add(settings, REPORTS_PER_ROUND, per_round);
    }

    /// New values for the program that runs.
    pub(super) fn send(&self, settings: &Settings, ctx: &mut Context<'_>) {
        (ctx.orders)(&Order::Update { sid: self.sid, updates: settings.as_slice() });
    }

    /// The flow runs its program from now on, and its native algorithm if it has one.
    pub(super) fn run(&self, settings: &Settings, ctx: &mut Context<'_>) {
        let Some(program) = &self.running else { return }; // its author has just left
        let sid = self.sid;
        if program.is_authored {
            (ctx.orders)(&Order::Install(&program.compiled.install));
        }
        (ctx.orders)(&Order::Run { sid, uid: program.uid, updates: settings.as_slice() });
        if let Some(name) = self.native {
            let ssthresh = self.path.ssthresh.unwrap_or_default();
            let ssthresh_bytes = u32::try_from(ssthresh.0).unwrap_or(u32::MAX);
            (ctx.orders)(&Order::Native { sid, name, ssthresh_bytes });
        }
    }
}
