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

use crate::arm::{ArmInfo, ProgramId, Queue};
use crate::pcc::gradient::{Climber, Goal, SHARED, Tag};
use crate::pcc::monitor::Interval;
use crate::proteus::{self, PAIRS};
use crate::units::Bytes;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "proteus_s",
    summary: "background: goes away when round trips vary (PCC Proteus-S)",
    program: ProgramId("proteus_s/intervals"),
    make: Some(|_| Box::new(Climber::new(&ARM, GOAL))),
    queue: Some(Queue::Short),
    ..SHARED
};

const DEVIATION_WEIGHT: f64 = 1500.0;
/// What hosts and links do by themselves.
const DEVIATION_MIN_S: f64 = 0.000_3;
const GOAL: Goal = Goal { utility, pairs: PAIRS, keeps_what_is_delivered: false };

fn utility(interval: &Interval<Tag>, slope: f64, mss: Bytes) -> f64 {
    // The slope of its own: that of the queue before it may not have been counted.
    let varies =
        interval.rtt_slope_beyond_noise() != 0.0 || interval.rtt_deviation_s() > DEVIATION_MIN_S;
    let deviation_s = if varies { interval.rtt_deviation_s() } else { 0.0 };
    let x = interval.sent_mbit_per_sec(mss);
    proteus::utility(interval, slope, mss) - DEVIATION_WEIGHT * x * deviation_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcc::link::Link;

    #[test]
    fn alone_it_uses_most_of_a_link() {
        let mut link = Link::new(24, 40, 480_000);
        link.run(&mut *ARM.build().expect("it has a maker"), 60_000);
        assert!(link.filled(30_000) > 0.7, "{}", link.filled(30_000));
        assert!(link.queue_ms(30_000) < 40.0, "{}", link.queue_ms(30_000));
    }
}
