//! PCC Proteus-P: Vivace for flows that matter: a shrinking queue earns nothing, and a decision is
//! of three pairs.
//!
//! T. Meng et al., "PCC Proteus: Scavenger Transport and Beyond", SIGCOMM 2020. With x the rate an
//! interval was sent at in Mbit/s, its RTTs' slope and L its loss, section 4.1:
//!
//! ```text
//! u_P = x^0.9 - 900 x max(0, dRTT/dt) - 11.35 x L
//! ```
//!
//! The scavenger, Proteus-S, is proteus_s.rs; the rate control is gradient.rs.
//!
//! Differs from the paper, section 5: of its three filters against noise, the tolerance within an
//! interval is here (a slope below its standard error is none), and the majority of three pairs;
//! the filter of single RTT samples and the one over six intervals are not.

use crate::arm::{ArmInfo, ProgramId};
use crate::pcc::gradient::{Climber, Goal, SHARED, Tag};
use crate::pcc::monitor::Interval;
use crate::units::Bytes;
use crate::vivace::{DELAY_WEIGHT, EXPONENT, LOSS_WEIGHT};

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "proteus",
    summary: "Vivace that ignores a shrinking queue, three pairs (PCC Proteus-P)",
    program: ProgramId("proteus/intervals"),
    make: Some(|_| Box::new(Climber::new(&ARM, GOAL))),
    ..SHARED
};

/// Section 5: the majority of three pairs.
pub const PAIRS: usize = 3;
const GOAL: Goal = Goal { utility, pairs: PAIRS, keeps_what_is_delivered: true };

pub fn utility(interval: &Interval<Tag>, slope: f64, mss: Bytes) -> f64 {
    let x = interval.sent_mbit_per_sec(mss);
    let costs = DELAY_WEIGHT * slope.max(0.0) + LOSS_WEIGHT * interval.loss(mss);
    libm::pow(x, EXPONENT) - x * costs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcc::link::Link;

    #[test]
    fn fills_a_link_with_a_short_queue() {
        let mut link = Link::new(24, 40, 480_000);
        link.run(&mut *ARM.build().expect("it has a maker"), 40_000);
        assert!(link.filled(20_000) > 0.88, "{}", link.filled(20_000));
        assert!(link.queue_ms(20_000) < 60.0, "{}", link.queue_ms(20_000));
    }
}
