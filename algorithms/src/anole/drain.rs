//! Getting rid of a queue: equations 8 and 9.
//!
//! A queue of (RTT - RTTmin) C is there, of which (RTT - RTTmin) x is the flow's. A round trip at
//! RTTmin / RTT x consumes it; the rate is never below half.
//!
//! Differs from the paper: a queue that is tolerated, RTT / RTTmin <= 1 + mu, is consumed too, but
//! over the whole probing stage, so that it does not add up from cycle to cycle.

use crate::units::{Gain, Rate};
use std::time::Duration;

/// Equation 9: draining keeps at least half of the rate, in thousandths.
const LEAST: u64 = 500;

/// The queue of a path now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    pub rtt: Duration,
    pub rtt_min: Duration,
}

impl Queue {
    /// RTT / RTTmin; 1 where nothing is known.
    pub fn ratio(&self) -> f64 {
        if self.rtt_min.is_zero() {
            return 1.0;
        }
        (self.rtt.as_secs_f64() / self.rtt_min.as_secs_f64()).max(1.0)
    }

    /// Equation 9: the rate that consumes the flow's part of the queue in a round trip.
    pub fn drained(&self, rate: Rate) -> Rate {
        self.drained_over(rate, 1)
    }

    /// The same, over so many round trips.
    pub fn drained_over(&self, rate: Rate, rounds: u32) -> Rate {
        let queued = 1.0 - 1.0 / self.ratio();
        let kept = 1.0 - queued / f64::from(rounds.max(1));
        rate * Gain(((kept * 1e3) as u64).clamp(LEAST, 1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_at_the_lower_rate_consumes_the_queue() {
        let ms = Duration::from_millis;
        let rate = Rate::from_bytes_per_sec(1_000_000);
        let of = |rtt, rtt_min| Queue { rtt: ms(rtt), rtt_min: ms(rtt_min) };
        assert_eq!(of(62, 50).drained(rate), rate * Gain(806));
        assert_eq!(of(500, 50).drained(rate), rate * Gain(500), "half at least");
        assert_eq!(of(62, 50).drained_over(rate, 2), rate * Gain(903));
        assert_eq!(of(50, 50).drained(rate), rate);
        assert_eq!(of(50, 0).drained(rate), rate, "nothing is known");
    }
}
