//! PCC Vivace: up the slope of a utility of rate, growing delay and loss.
//!
//! M. Dong et al., "PCC Vivace: Online-Learning Congestion Control", NSDI 2018. With x the rate an
//! interval was sent at in Mbit/s, its RTTs' slope in seconds a second and L its loss, section 3:
//!
//! ```text
//! u = x^0.9 - 900 x dRTT/dt - 11.35 x L
//! ```
//!
//! The rate control is gradient.rs.
//!
//! Differs from the paper: a slope below 0.01, or below its own standard error, is none (the
//! authors' code has the 0.01); see gradient.rs for the control, and for what keeps the link fuller
//! than the paper's does.

use crate::arm::{ArmInfo, ProgramId};
use crate::pcc::gradient::{Climber, Goal, SHARED, Tag};
use crate::pcc::monitor::Interval;
use crate::units::Bytes;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "vivace",
    summary: "up the slope of a utility of rate, delay and loss (PCC Vivace)",
    program: ProgramId("vivace/intervals"),
    make: Some(|_| Box::new(Climber::new(&ARM, GOAL))),
    ..SHARED
};

/// Section 3: t, b and c.
pub const EXPONENT: f64 = 0.9;
/// See [`EXPONENT`].
pub const DELAY_WEIGHT: f64 = 900.0;
/// See [`EXPONENT`].
pub const LOSS_WEIGHT: f64 = 11.35;
/// Section 4.1: one pair decides.
const PAIRS: usize = 1;
const GOAL: Goal = Goal { utility, pairs: PAIRS, keeps_what_is_delivered: true };

fn utility(interval: &Interval<Tag>, slope: f64, mss: Bytes) -> f64 {
    let x = interval.sent_mbit_per_sec(mss);
    let costs = DELAY_WEIGHT * slope + LOSS_WEIGHT * interval.loss(mss);
    libm::pow(x, EXPONENT) - x * costs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::pcc::link::Link;
    use crate::units::Time;

    #[test]
    fn fills_a_link_with_a_short_queue() {
        let mut link = Link::new(24, 40, 480_000);
        link.run(&mut *ARM.build().expect("it has a maker"), 40_000);
        assert!(link.filled(20_000) > 0.93, "{}", link.filled(20_000));
        assert!(link.queue_ms(20_000) < 40.0, "{}", link.queue_ms(20_000));
    }

    #[test]
    fn one_percent_of_random_loss_does_not_stop_it() {
        let mut link = Link::new(24, 40, 120_000);
        link.loss = 0.01;
        link.run(&mut *ARM.build().expect("it has a maker"), 40_000);
        assert!(link.filled(20_000) > 0.88, "{}", link.filled(20_000));
    }

    #[test]
    fn a_known_path_is_taken_over_without_doubling() {
        let mut vivace = Climber::new(&ARM, GOAL);
        vivace.resume(&Link::new(24, 40, 120_000).known_path(), Time::ZERO);
        assert!(!vivace.is_starting());
    }
}
