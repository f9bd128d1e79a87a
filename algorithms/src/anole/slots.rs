//! The slots of a cycle, and what came of the rate that was sent in each.
//!
//! An ACK counts for the rate at which the newest segment that it acknowledges was sent: the
//! monitor intervals of PCC (pcc/monitor.rs), with four boundaries in flight instead of two, as
//! within one round trip the flow sends at the last stage's rate, at both candidates' and at a step
//! above.

use crate::pcc::monitor::Interval;
use crate::units::{Bytes, Packets};
use std::time::Duration;

/// The slot being acknowledged, and four boundaries behind it: as many as the program holds.
pub const OPEN_MAX: usize = 5;
/// A slot of fewer ACKs or reports says nothing by itself: it is merged with its neighbour.
const ACKS_MIN: f64 = 8.0;
const REPORTS_MIN: u32 = 3;
/// A slope counts only if it exceeds this many of its standard errors, and [`SLOPE_MIN`].
const SLOPE_ERRORS: f64 = 2.0;
const SLOPE_MIN: f64 = 0.003;
/// A slope counts only if the queue that it stands for has at least this many segments.
const QUEUED_MIN: Packets = Packets(2);
/// A rate caused its losses if it lost more than the lowest rate, by this share and by
/// [`LOSS_ERRORS`] standard errors.
const LOSS_EXCESS_MIN: f64 = 0.02;
const LOSS_ERRORS: f64 = 3.0;
/// The standard error of a loss rate is computed with at least this loss of the path.
const LOSS_FLOOR: f64 = 0.002;

/// The program: the shared signals, the slot of each ACK, and reports by round trip.
#[macro_export]
macro_rules! four_boundaries {
    () => {
        concat!(
            $crate::signals!(
                report: "(volatile crossed_bytes 0)",
                control: "(interval 0)
    (seen 0)
    (first_us 0)
    (second_us 0)
    (third_us 0)
    (fourth_us 0)"
            ),
            "(when (&& (|| (> interval seen) (< interval seen)) (> third_us 0))
    (:= fourth_us Ack.now)
    (:= seen interval)
    (fallthrough)
)
(when (&& (|| (> interval seen) (< interval seen)) (> second_us 0))
    (:= third_us Ack.now)
    (:= seen interval)
    (fallthrough)
)
(when (&& (|| (> interval seen) (< interval seen)) (> first_us 0))
    (:= second_us Ack.now)
    (:= seen interval)
    (fallthrough)
)
(when (|| (> interval seen) (< interval seen))
    (:= first_us Ack.now)
    (:= seen interval)
    (fallthrough)
)
(when (&& (&& (> first_us 0) (< Flow.rtt_sample_us 2000000000))
        (> (+ Ack.now 1) (+ first_us Flow.rtt_sample_us)))
    (:= Report.crossed_bytes (+ Ack.bytes_acked 1))
    (:= first_us second_us)
    (:= second_us third_us)
    (:= third_us fourth_us)
    (:= fourth_us 0)
    (:= Micros 0)
    (report)
)
",
            $crate::report_each_round!()
        )
    };
}

/// What a slot was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The lower of the candidates' rates.
    Low,
    /// The higher of the candidates' rates.
    High,
    /// A step above the flow's rate: equation 10's.
    Step,
    /// The flow's own rate, in the last round trip of the cycle.
    Prev,
    /// The flow's rate, or below it, between evaluations.
    Hold,
    /// A step of a climb.
    Climb,
}

/// What came of the rate of a slot. Rates are in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The rate that was sent.
    pub sent: f64,
    /// What of it arrived.
    pub delivered: f64,
    /// The slope of its round trips, in seconds a second; 0 if it is noise.
    pub slope: f64,
    /// Its mean round trip over the least one.
    pub rtt_ratio: f64,
    /// The share of its segments that was lost, 0 to 1.
    pub loss: f64,
    /// The part of `loss` that exceeds the path's own loss; 0 if it may be chance.
    pub loss_excess: f64,
    pub acks: f64,
    pub reports: u32,
    /// The application limited it, or a timeout stopped it.
    pub spoilt: bool,
}

impl Outcome {
    /// The outcome of a slot in which nothing came back.
    pub const NONE: Self = Self {
        sent: 0.0,
        delivered: 0.0,
        slope: 0.0,
        rtt_ratio: 1.0,
        loss: 0.0,
        loss_excess: 0.0,
        acks: 0.0,
        reports: 0,
        spoilt: false,
    };

    /// The outcome of an interval, on a path of that empty round trip, whose round trips deviate by
    /// a share `deviation` without a queue: a smaller rise is no slope.
    pub fn of<T>(done: &Interval<T>, mss: Bytes, empty: Duration, deviation: f64) -> Self {
        // The standard error of the rise of a line through so many reports.
        let error = libm::sqrt(12.0 / f64::from(done.reports().max(1)));
        let own_s = done.rtt_mean_s().unwrap_or_default() * deviation * error.min(1.0);
        // Pacing and delayed ACKs move the round trip by a segment or two.
        let segments_s = (QUEUED_MIN.to_bytes(mss) / done.rate).as_secs_f64();
        let least_s = (SLOPE_ERRORS * own_s).max(segments_s);
        let span_s = done.acked_for_s();
        let slope = done.rtt_slope_beyond(SLOPE_ERRORS, SLOPE_MIN);
        let slope = if slope.abs() * span_s < least_s { 0.0 } else { slope };
        let sent = done.sent_mbit_per_sec(mss);
        let loss = done.loss(mss);
        let least = empty.as_secs_f64();
        let rtt_ratio = match done.rtt_mean_s() {
            Some(mean) if least > 0.0 => mean / least,
            _ => 1.0,
        };
        Self {
            sent,
            delivered: sent * (1.0 - loss),
            slope,
            rtt_ratio,
            loss,
            loss_excess: 0.0,
            acks: done.acks(),
            reports: done.reports(),
            spoilt: done.spoilt,
        }
    }

    /// The same, on a path that loses so much of any rate.
    #[must_use]
    pub fn on_path_of_loss(self, path_loss: f64) -> Self {
        // A delayed ACK acknowledges two segments.
        let segments = (2.0 * self.acks).max(1.0);
        let error = libm::sqrt(path_loss.max(LOSS_FLOOR) / segments);
        let excess = self.loss - path_loss;
        let by_chance = excess < LOSS_EXCESS_MIN + LOSS_ERRORS * error;
        Self { loss_excess: if by_chance { 0.0 } else { excess }, ..self }
    }

    /// By how much the rate exceeds what the path takes, as a share of that: by the delay
    /// (equation 4), or by what a full buffer drops.
    pub fn excess(&self) -> f64 {
        let by_loss = self.loss_excess / (1.0 - self.loss_excess).max(0.1);
        self.slope.max(by_loss)
    }

    /// Whether its rate is more than the path takes.
    pub fn is_over(&self) -> bool {
        self.excess() > 0.0
    }

    /// Whether it holds enough to be judged.
    pub fn is_enough(&self) -> bool {
        self.acks >= ACKS_MIN && self.reports >= REPORTS_MIN
    }

    /// Both slots as one, weighted by their ACKs.
    pub fn merged(&self, other: &Self) -> Self {
        if self.acks + other.acks == 0.0 {
            return *self;
        }
        let all = self.acks + other.acks;
        let mean = |a: f64, b: f64| (a * self.acks + b * other.acks) / all;
        Self {
            sent: mean(self.sent, other.sent),
            delivered: mean(self.delivered, other.delivered),
            slope: mean(self.slope, other.slope),
            rtt_ratio: mean(self.rtt_ratio, other.rtt_ratio),
            loss: mean(self.loss, other.loss),
            loss_excess: mean(self.loss_excess, other.loss_excess),
            acks: self.acks + other.acks,
            reports: self.reports.saturating_add(other.reports),
            spoilt: self.spoilt || other.spoilt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_acks_or_reports_are_not_enough_and_two_slots_together_may_be() {
        let slot = Outcome { acks: 7.0, reports: 2, sent: 10.0, ..Outcome::NONE };
        assert!(!slot.is_enough() && slot.merged(&slot).is_enough());
        assert!(!Outcome { acks: 8.0, ..slot }.is_enough());
        let both = slot.merged(&Outcome { acks: 21.0, sent: 20.0, ..slot });
        assert_eq!((both.sent, both.acks, both.reports), (17.5, 28.0, 4));
        assert_eq!(Outcome::NONE.merged(&Outcome::NONE), Outcome::NONE);
    }

    #[test]
    fn what_a_full_buffer_drops_counts_as_excess() {
        let over = Outcome { loss_excess: 0.2, ..Outcome::NONE };
        assert!((over.excess() - 0.25).abs() < 1e-9 && over.is_over());
        let falling = Outcome { slope: -0.1, ..Outcome::NONE };
        assert!(!falling.is_over());
    }
}
