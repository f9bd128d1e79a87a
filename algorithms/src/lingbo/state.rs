//! The network's inputs (equation 2), from what was measured between decisions.
//!
//! `python/remuda/training/lingbo.py` computes the same from simulated paths. The inputs have no
//! unit: delays are in RTT_min, rates in windows of now per RTT_min.

use super::perception::RttMin;
use std::time::Duration;

/// Decisions that the network looks back at (section 4.4).
pub const HISTORY: usize = 8;
/// The signals with a history, in order, and the values without one.
pub const NAMES: [(&str, usize); 9] = [
    ("queue", HISTORY),
    ("send_rate", HISTORY),
    ("delivery_rate", HISTORY),
    ("loss", HISTORY),
    ("cwnd", HISTORY),
    ("interval", HISTORY),
    ("rtt_min", 1),
    ("rtt_min_std", 1),
    ("alpha", 1),
];
pub const INPUTS: usize = 6 * HISTORY + 3;

/// The signals are kept within these bounds, in training too.
const BOUNDS: [(f64, f64); 6] =
    [(-1.0, 12.0), (0.0, 8.0), (0.0, 8.0), (0.0, 1.0), (-6.0, 6.0), (-2.0, 3.0)];
/// Binary logarithm of 12.1 ms. On a shorter path many round trips pass between two decisions; it
/// looks like this one.
const RTT_MIN_LOW: f64 = 3.6;

/// What was measured between two decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// How long it lasted.
    pub span: Duration,
    /// The mean of its RTT samples, and their standard deviation.
    pub rtt: Duration,
    pub rtt_std: Duration,
    pub delivered_pkts: f64,
    pub lost_pkts: f64,
    /// The window at its end, before the decision.
    pub cwnd_pkts: f64,
}

impl Interval {
    /// Packets delivered a second.
    pub fn delivery_rate(&self) -> f64 {
        self.delivered_pkts / self.span.as_secs_f64().max(1e-6)
    }

    /// The mean queueing delay, in means of RTT_min.
    pub fn queued(&self, path: RttMin) -> f64 {
        self.rtt.as_secs_f64() / path.mean.as_secs_f64().max(1e-6) - 1.0
    }

    /// The share of packets lost, of those known to be delivered or lost.
    pub fn loss(&self) -> f64 {
        self.lost_pkts / (self.delivered_pkts + self.lost_pkts).max(1e-9)
    }
}

/// The last intervals, the latest last.
#[derive(Clone, Debug, Default)]
pub struct History {
    intervals: [Interval; HISTORY],
}

impl History {
    pub fn push(&mut self, interval: Interval) {
        // Before the first decision, the path was as it is now.
        if self.intervals[HISTORY - 1].span.is_zero() {
            self.intervals = [interval; HISTORY];
        }
        self.intervals.rotate_left(1);
        self.intervals[HISTORY - 1] = interval;
    }

    pub fn last(&self) -> &Interval {
        &self.intervals[HISTORY - 1]
    }

    /// The standard deviation of the RTT within an interval, a mean over all, in means of RTT_min.
    pub fn jitter(&self, path: RttMin) -> f64 {
        let sum_s: f64 = self.intervals.iter().map(|it| it.rtt_std.as_secs_f64()).sum();
        sum_s / HISTORY as f64 / path.mean.as_secs_f64().max(1e-6)
    }

    /// The highest delivery rate of an interval, in packets a second.
    pub fn fastest(&self) -> f64 {
        self.intervals.iter().map(Interval::delivery_rate).fold(0.0, f64::max)
    }

    /// The least share of packets lost in an interval.
    pub fn least_loss(&self) -> f64 {
        self.intervals.iter().map(Interval::loss).fold(1.0, f64::min)
    }

    /// The inputs of a decision.
    pub fn inputs(&self, path: RttMin, alpha: f64) -> [f32; INPUTS] {
        let mean_s = path.mean.as_secs_f64().max(1e-6);
        let now = self.last().cwnd_pkts.max(1.0);
        let mut inputs = [0.0; INPUTS];
        for (at, it) in self.intervals.iter().enumerate() {
            let span_s = it.span.as_secs_f64().max(1e-6);
            let per_window = mean_s / now / span_s;
            let signals = [
                it.queued(path),
                (it.delivered_pkts + it.lost_pkts) * per_window,
                it.delivered_pkts * per_window,
                it.loss(),
                libm::log2((it.cwnd_pkts / now).max(1e-9)),
                libm::log2(span_s / mean_s),
            ];
            let bounded = signals.into_iter().zip(BOUNDS);
            for (signal, (value, (low, high))) in bounded.enumerate() {
                inputs[signal * HISTORY + at] = value.clamp(low, high) as f32;
            }
        }
        let scalars = [libm::log2(mean_s * 1e3).max(RTT_MIN_LOW), path.std, alpha];
        for (at, value) in scalars.into_iter().enumerate() {
            inputs[6 * HISTORY + at] = value as f32;
        }
        inputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_in_windows_and_round_trips() {
        let mut history = History::default();
        let span = Duration::from_millis(100);
        let first = Interval {
            span,
            rtt: Duration::from_millis(50),
            rtt_std: Duration::ZERO,
            delivered_pkts: 90.0,
            lost_pkts: 10.0,
            cwnd_pkts: 50.0,
        };
        history.push(first);
        history.push(Interval { rtt: Duration::from_millis(75), cwnd_pkts: 100.0, ..first });
        let path = RttMin { mean: Duration::from_millis(50), std: 0.1 };
        let inputs = history.inputs(path, 3.0);
        let of = |signal: usize| &inputs[signal * HISTORY..][..HISTORY];
        assert_eq!((of(0)[6], of(0)[7]), (0.0, 0.5));
        // 100 packets in 100 ms are 50 in a round trip: half of a window of now.
        assert_eq!((of(1)[7], of(2)[7], of(3)[0]), (0.5, 0.45, 0.1));
        assert_eq!((of(4)[0], of(4)[7], of(5)[3]), (-1.0, 0.0, 1.0));
        assert_eq!(inputs[6 * HISTORY..], [50f32.log2(), 0.1, 3.0]);
    }
}
