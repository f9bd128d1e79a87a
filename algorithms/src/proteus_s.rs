//! PCC Proteus-S, the scavenger: as soon as others make round trips vary, it goes away.
//!
//! T. Meng et al., "PCC Proteus: Scavenger Transport and Beyond", SIGCOMM 2020, section 4.2. With x
//! the rate an interval was sent at in Mbit/s and sigma the standard deviation of its RTTs in
//! seconds:
//!
//! ```text
//! u_S = u_P - 1500 x sigma                  u_P in proteus.rs
//! ```
//!
//! Differs from the paper as proteus.rs does. A deviation below that of a slope that is noise is
//! none.

use crate::Arm;
use crate::controller::{
    Controller, Decision, Measurement, ProgramId, REPORTS_PER_ROUND_MANY, Registers,
};
use crate::monitor_intervals;
use crate::path::PathState;
use crate::pcc::gradient::{Gradient, Tag};
use crate::pcc::monitor::{Interval, OWN_FIELDS};
use crate::proteus::{self, PAIRS};
use crate::units::{Bytes, Time};
use crate::vivace::slope;
use crate::window;

/// The family's program.
pub const PROGRAM: &str = monitor_intervals!();

/// Its line in [`crate::ARMS`].
pub const ARM: Arm = Arm {
    name: "proteus_s",
    summary: "background: goes away when round trips vary (PCC Proteus-S)",
    program: ProgramId("proteus_s/intervals"),
    program_text: PROGRAM,
    make: |_| Box::new(ProteusS::new()),
};

/// Section 4.2: d.
const DEVIATION_WEIGHT: f64 = 1500.0;
/// What hosts and links do by themselves.
const DEVIATION_MIN_S: f64 = 0.000_3;

/// PCC Proteus-S, for one flow.
#[derive(Clone, Debug)]
pub struct ProteusS {
    gradient: Gradient,
}

/// Section 4.2.
fn utility(interval: &Interval<Tag>, mss: Bytes) -> f64 {
    let varies = slope(interval) != 0.0 || interval.rtt_deviation_s() > DEVIATION_MIN_S;
    let deviation_s = if varies { interval.rtt_deviation_s() } else { 0.0 };
    let x = interval.sent_mbit_per_sec(mss);
    proteus::utility(interval, mss) - DEVIATION_WEIGHT * x * deviation_s
}

impl Controller for ProteusS {
    fn arm(&self) -> &'static str {
        ARM.name
    }

    fn program(&self) -> ProgramId {
        ARM.program
    }

    fn reports_per_round(&self) -> u32 {
        REPORTS_PER_ROUND_MANY
    }

    fn own_fields(&self) -> &'static [&'static str] {
        OWN_FIELDS
    }

    fn registers(&self) -> Registers {
        self.gradient.registers()
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        self.gradient = Gradient::resume(path, (utility, PAIRS), now);
        self.gradient.decision()
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.gradient.on_measurement(m, now)
    }

    fn hand_off(&self, path: &mut PathState) {
        self.gradient.hand_off(path);
    }
}

impl ProteusS {
    /// One that has no flow yet.
    pub fn new() -> Self {
        let no_path = window::no_path();
        Self { gradient: Gradient::resume(&no_path, (utility, PAIRS), Time::ZERO) }
    }
}

impl Default for ProteusS {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcc::link::Link;

    #[test]
    fn alone_it_uses_most_of_a_link() {
        let mut link = Link::new(24, 40, 480_000);
        link.run(&mut ProteusS::new(), 60_000);
        assert!(link.filled(30_000) > 0.7, "{}", link.filled(30_000));
        assert!(link.queue_ms(30_000) < 40.0, "{}", link.queue_ms(30_000));
    }
}
