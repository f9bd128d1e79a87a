//! Reno: one segment more a round trip, half after a loss.
//!
//! RFC 5681, counting bytes as in RFC 3465; RFC 6582 for what is one loss (recovery.rs).
//!
//! Differs from the RFCs:
//!   - a report carries many ACKs, so RFC 3465's per-ACK limit L has no use here;
//!   - halves cwnd, as Linux does, where equation (4) halves FlightSize;
//!   - slow start, timeouts and the end of slow start are window.rs's, with its differences.

use crate::arm::{ArmInfo, ProgramId, Queue};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Bytes, Time};
use crate::window::{self, Rule, Window, WindowArm};

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "reno",
    summary: "one segment more a round trip, half after a loss (RFC 5681)",
    program: ProgramId("reno/report"),
    make: Some(window::make::<Reno>),
    queue: Some(Queue::Full),
    ..ArmInfo::DEFAULT
};

/// RFC 5681 equation (4): a half.
const BETA_DIVISOR: u64 = 2;

/// Reno, for one flow.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
    rule: Additive,
}

/// Additive increase. Westwood+ grows like this as well.
#[derive(Clone, Copy, Debug, Default)]
pub struct Additive {
    /// Bytes acked towards the next segment of growth (RFC 3465 section 2.1).
    credit: Bytes,
}

impl WindowArm for Reno {
    const INFO: &'static ArmInfo = &ARM;

    fn over(path: &PathState, now: Time) -> Self {
        Self { window: Window::resume(path, now), rule: Additive::default() }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn step(&mut self, m: &Measurement, now: Time) {
        self.window.step(&mut self.rule, m, now);
    }
}

impl Rule for Additive {
    /// RFC 5681 equation (2), as RFC 3465 puts it: a segment for each window of bytes.
    fn grow(&mut self, path: &PathState, acked: Bytes, _now: Time) -> Bytes {
        self.credit += acked;
        let mut cwnd = path.cwnd;
        while self.credit >= cwnd {
            self.credit = self.credit - cwnd;
            cwnd += path.mss;
        }
        cwnd
    }

    /// RFC 5681 equation (4).
    fn reduce(&mut self, path: &PathState) -> Bytes {
        self.credit = Bytes(0);
        Bytes(path.cwnd.0 / BETA_DIVISOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::script::{MSS, RTT, path, report, windows};
    use crate::units::Packets;

    fn check(script: &str, want_pkts: &str) {
        assert_eq!(windows(&mut Reno::new(), &path(10), script), want_pkts, "script {script:?}");
    }

    #[test]
    fn doubles_each_round_until_loss() {
        check("aaal", "20 40 80 40");
    }

    #[test]
    fn grows_one_segment_a_round_after_the_round_of_recovery() {
        check("alaaaa", "20 10 10 11 12 13");
    }

    #[test]
    fn a_report_of_many_round_trips_counts_them_all() {
        let mut rule = Additive::default();
        let ten = PathState::new(MSS, Packets(10).to_bytes(MSS));
        // 10 + 11 + 12 segments acknowledge three windows; two of 35 are left.
        let grown = rule.grow(&ten, Packets(35).to_bytes(MSS), Time::ZERO);
        assert_eq!((grown, rule.credit), (Packets(13).to_bytes(MSS), Packets(2).to_bytes(MSS)));
    }

    #[test]
    fn what_was_acknowledged_before_a_loss_counts() {
        check("aaL", "20 40 40");
        check("alaL", "20 10 10 5");
    }

    #[test]
    fn a_mark_is_answered_as_a_loss() {
        check("aaae", "20 40 80 40");
    }

    #[test]
    fn losses_in_one_recovery_are_one_reduction() {
        check("aalRRRa", "20 40 20 20 20 20 20");
    }

    #[test]
    fn a_recovery_flag_that_sticks_does_not_hide_losses_for_ever() {
        let script = format!("aal{}", "R".repeat(21));
        let want = format!("20 40 20{} 10 10", " 20".repeat(19));
        check(&script, &want);
    }

    #[test]
    fn a_recovery_flag_that_sticks_does_not_stop_growth_for_ever() {
        let script = format!("aal{}", "r".repeat(22));
        let want = format!("20 40 20{} 21 22", " 20".repeat(20));
        check(&script, &want);
    }

    #[test]
    fn timeout_restarts_from_two_segments_up_to_half() {
        check("aataaaaaa", "20 40 2 4 8 16 20 21 22");
    }

    #[test]
    fn slow_start_after_a_timeout_goes_on_while_the_datapath_repairs() {
        check("aatrrr", "20 40 2 4 8 16");
    }

    #[test]
    fn repeated_timeouts_hold_the_threshold() {
        check("aatttaaaaa", "20 40 2 2 2 4 8 16 20 21");
    }

    #[test]
    fn a_timeout_in_recovery_holds_the_threshold() {
        check("aalRtaaaaa", "20 40 20 20 2 4 8 16 20 21");
    }

    #[test]
    fn a_spurious_recovery_or_timeout_is_undone() {
        check("aalz", "20 40 20 40");
        check("aalaaz", "20 40 20 20 21 40");
        check("aatz", "20 40 2 40");
    }

    #[test]
    fn what_was_undone_is_not_undone_again_and_the_next_loss_counts() {
        check("aalzlaaz", "20 40 20 40 20 20 21 40");
        check("aalzz", "20 40 20 40 40");
        check("aazz", "20 40 40 40");
    }

    #[test]
    fn congestion_avoidance_goes_on_from_a_window_that_was_restored() {
        check("aalaalzaa", "20 40 20 20 21 10 21 22 23");
    }

    #[test]
    fn after_an_idle_time_slow_start_leads_back_to_the_threshold() {
        // The threshold of the loss, 20, is above three quarters of 24.
        check("aalaaaaaiaaaa", "20 40 20 20 21 22 23 24 10 20 21 22 23");
        check("aaiaaa", "20 40 10 20 40 80");
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        check("auuuu", "20 20 20 20 20");
        check("aluuaa", "20 10 10 10 11 12");
    }

    #[test]
    fn the_window_never_falls_below_two_segments() {
        check("lqlqlqlqlq", "5 5 2 2 2 2 2 2 2 2");
    }

    #[test]
    fn credit_beyond_a_segment_is_kept() {
        let mut reno = Reno::new();
        let mut path = path(10);
        path.ssthresh = Some(MSS);
        reno.resume(&path, Time::ZERO);
        for (acked_pkts, want_pkts) in [(8, 10), (8, 11), (5, 12)] {
            let cwnd = Packets(want_pkts).to_bytes(MSS);
            let m = Measurement { acked: Packets(acked_pkts).to_bytes(MSS), ..report('a', cwnd) };
            assert_eq!(reno.on_measurement(&m, Time(RTT)).cwnd, cwnd);
        }
    }

    #[test]
    fn a_switch_during_recovery_does_not_reduce_again() {
        let mut reno = Reno::new();
        let mut path = path(40);
        let cwnd = reno.resume(&path, Time(RTT)).cwnd;
        reno.on_measurement(&report('l', cwnd), Time(RTT));
        reno.hand_off(&mut path);
        let mut successor = Reno::new();
        let half = successor.resume(&path, Time(RTT + RTT / 2)).cwnd;
        assert_eq!(half, Packets(20).to_bytes(MSS));
        for quarter in [2, 3, 4, 8] {
            let now = Time(RTT + RTT / 4 * quarter);
            assert_eq!(successor.on_measurement(&report('R', half), now).cwnd, half);
        }
    }
}
