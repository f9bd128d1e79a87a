//! HyStart++: leaves slow start when the queue begins to fill, not when it overflows.
//!
//! RFC 9406. Linux' HyStart is its ancestor: the same delay threshold, plus ACK trains. The trains
//! are here too, as tcp_cubic.c has them: ACKs that follow each other closely for half a round trip
//! say that the window is half of what the path holds, before any queue does.
//!
//! Differs from RFC 9406:
//!   - leaves slow start at once when an ACK train is long enough;
//!   - works on reports: the samples of a report that straddles two rounds count for the second;
//!   - no limit L on the growth of one ACK: a report carries many ACKs;
//!   - the growth itself is the window's (window.rs), which asks [`HyStart::divisor`].

use crate::measurement::RttSamples;
use std::time::Duration;

/// RFC 9406 section 4.3: `MIN_RTT_THRESH`.
const RTT_THRESH_MIN: Duration = Duration::from_millis(4);
/// RFC 9406 section 4.3: `MAX_RTT_THRESH`.
const RTT_THRESH_MAX: Duration = Duration::from_millis(16);
/// RFC 9406 section 4.3: `MIN_RTT_DIVISOR`.
const RTT_DIVISOR: u32 = 8;
/// RFC 9406 section 4.3: `N_RTT_SAMPLE`.
const SAMPLES_MIN: u64 = 8;
/// RFC 9406 section 4.3: `CSS_GROWTH_DIVISOR`.
const CSS_GROWTH_DIVISOR: u64 = 4;
/// RFC 9406 section 4.3: `CSS_ROUNDS`.
const CSS_ROUNDS: u32 = 5;

/// tcp_cubic.c `hystart_update`: without pacing a train of half the minimum RTT ends slow start.
const TRAIN_DIVISOR: u32 = 2;

/// Conservative slow start: the queue seems to fill, let us see whether it really does.
#[derive(Clone, Copy, Debug)]
struct Css {
    baseline: Duration,
    rounds: u32,
}

/// The state of one slow start.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStart {
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u64,
    css: Option<Css>,
}

impl HyStart {
    /// By how much to divide the growth of slow start.
    pub fn divisor(&self) -> u64 {
        if self.css.is_some() { CSS_GROWTH_DIVISOR } else { 1 }
    }

    /// Whether a burst of this flow kept the bottleneck busy for half a round trip.
    pub fn train_is_long(ack_train: Duration, rtt_min: Option<Duration>) -> bool {
        rtt_min.is_some_and(|rtt_min| ack_train >= rtt_min / TRAIN_DIVISOR)
    }

    /// Takes in one report: whether slow start is over.
    pub fn observe(&mut self, rtt: Option<RttSamples>, round_ended: bool) -> bool {
        if round_ended && self.end_round() {
            return true;
        }
        if let Some(rtt) = rtt {
            self.round_min = Some(self.round_min.map_or(rtt.min, |min| min.min(rtt.min)));
            self.samples = self.samples.saturating_add(rtt.count);
        }
        if self.samples >= SAMPLES_MIN {
            self.judge();
        }
        false
    }

    /// Whether conservative slow start has lasted long enough.
    fn end_round(&mut self) -> bool {
        self.last_round_min = self.round_min.or(self.last_round_min);
        self.round_min = None;
        self.samples = 0;
        let Some(css) = &mut self.css else {
            return false;
        };
        css.rounds += 1;
        css.rounds >= CSS_ROUNDS
    }

    fn judge(&mut self) {
        let (Some(min), Some(last)) = (self.round_min, self.last_round_min) else {
            return;
        };
        match self.css {
            None => {
                let thresh = (last / RTT_DIVISOR).clamp(RTT_THRESH_MIN, RTT_THRESH_MAX);
                if min >= last.saturating_add(thresh) {
                    self.css = Some(Css { baseline: min, rounds: 0 });
                }
            }
            Some(css) if min < css.baseline => self.css = None,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round per RTT in milliseconds; `S` slow start, `C` conservative, `X` over.
    fn check(rtts_ms: &[u64], want: &str) {
        let mut hystart = HyStart::default();
        let mut over = false;
        let got: String = rtts_ms
            .iter()
            .map(|&ms| {
                let rtt = RttSamples { count: 8, ..RttSamples::one(Duration::from_millis(ms)) };
                over = over || hystart.observe(Some(rtt), true);
                match (over, hystart.divisor()) {
                    (true, _) => 'X',
                    (false, 1) => 'S',
                    (false, _) => 'C',
                }
            })
            .collect();
        assert_eq!(got, want);
    }

    #[test]
    fn slow_start_ends_five_rounds_after_the_queue_begins_to_fill() {
        check(&[40, 40, 42, 46, 50, 60, 70, 80, 90], "SSSSSCCCC");
        check(&[40, 40, 45, 50, 60, 70, 80, 90], "SSCCCCCX");
    }

    #[test]
    fn slow_start_goes_on_if_the_delay_was_a_spike() {
        check(&[40, 46, 44, 40, 40], "SCSSS");
    }

    #[test]
    fn a_train_of_half_a_round_trip_is_long() {
        let ms = Duration::from_millis;
        assert!(HyStart::train_is_long(ms(20), Some(ms(40))));
        assert!(!HyStart::train_is_long(ms(19), Some(ms(40))));
        assert!(!HyStart::train_is_long(ms(1_000), None));
    }

    #[test]
    fn fewer_than_eight_samples_decide_nothing() {
        let mut hystart = HyStart::default();
        for ms in [40, 80, 120] {
            let rtt = RttSamples { count: 7, ..RttSamples::one(Duration::from_millis(ms)) };
            hystart.observe(Some(rtt), true);
        }
        assert_eq!(hystart.divisor(), 1);
    }
}
