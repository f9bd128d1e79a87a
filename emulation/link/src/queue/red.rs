//! RED: random early detection, with ECN.
//!
//! Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993, figure 2. Every arriving packet moves an average of the
//! queue's length, and is dropped (or marked) with a probability that grows with the average:
//!
//! ```text
//! average += weight * (length - average)             when the queue holds a packet
//! average *= (1 - weight)^m                          when it is empty: m packets' time of idleness
//! p_b = p_max * (average - min) / (max - min)        from min to max
//! p_b = p_max + (1 - p_max) * (average - max) / max  from max to 2 max (gentle)
//! p_a = p_b / (1 - count * p_b)                      count: packets since the last drop or mark
//! ```
//!
//! "Gentle" is Floyd's recommendation of March 2000; without it every packet is dropped from max
//! on. Beyond the last threshold packets are dropped, not marked, so that senders that ignore marks
//! do not fill the queue.
//!
//! Differs from the paper: idle time that is shorter than a packet's time is carried over, so that
//! m is an integer and the average is the same on every machine; and a queue measured in bytes
//! treats short packets like long ones, as RFC 7141 recommends.

use crate::chance::fraction;
use crate::queue::{DropReason, Length, Verdict};
use crate::time::Nanos;
use rand_chacha::ChaCha8Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedUnit {
    Packets,
    Bytes,
}

/// The settings of RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedParams {
    /// The unit of both thresholds.
    pub unit: RedUnit,
    /// Below this average no packet is dropped. Floyd and Jacobson section 7: 5 packets.
    pub min: f64,
    /// Must be above `min`. Floyd 1997, "RED: Discussions of Setting Parameters": three times
    /// `min`.
    pub max: f64,
    /// The probability at `max`. Floyd 1997: 0.1.
    pub probability_max: f64,
    /// The weight of a new length in the average. Floyd and Jacobson section 6: 0.002.
    pub weight: f64,
    /// Whether the probability rises to 1 between `max` and twice `max`, instead of jumping to 1 at
    /// `max`.
    pub gentle: bool,
    /// Marks packets of ECN-capable senders instead of dropping them.
    pub ecn: bool,
    /// How long the bottleneck takes for a full packet. While the queue is empty, the average
    /// decays once in this time.
    pub packet_time: Nanos,
}

impl Default for RedParams {
    fn default() -> Self {
        Self {
            unit: RedUnit::Packets,
            min: 5.0,
            max: 15.0,
            probability_max: 0.1,
            weight: 0.002,
            gentle: true,
            ecn: false,
            packet_time: Nanos(0),
        }
    }
}

/// The variables of figure 2 of the paper.
#[derive(Clone, Debug)]
pub(crate) struct Red {
    params: RedParams,
    rng: ChaCha8Rng,
    average: f64,
    /// Packets since the last drop or mark; `None` while the average is below `min`.
    count: Option<u32>,
    /// Since when the queue is empty. Moves on by the packet times that have been counted.
    empty_since: Nanos,
}

impl Red {
    pub(crate) fn new(params: RedParams, rng: ChaCha8Rng) -> Self {
        Self { params, rng, average: 0.0, count: None, empty_since: Nanos::ZERO }
    }

    /// The last waiting packet left the queue.
    pub(crate) fn emptied(&mut self, now: Nanos) {
        self.empty_since = now;
    }

    /// Decides about a packet that arrives when `waiting` is in the queue.
    pub(crate) fn judge(&mut self, waiting: Length, now: Nanos) -> Verdict {
        self.measure(waiting, now);
        let RedParams { min, max, probability_max, .. } = self.params;
        let p_b = if self.average < min {
            self.count = None;
            return Verdict::Pass;
        } else if self.average < max {
            probability_max * (self.average - min) / (max - min)
        } else if self.params.gentle && self.average < 2.0 * max {
            probability_max + (1.0 - probability_max) * (self.average - max) / max
        } else {
            self.count = Some(0);
            return Verdict::Drop(DropReason::Red);
        };
        let count = self.count.map_or(0, |count| count.saturating_add(1));
        self.count = Some(count);
        let left = 1.0 - f64::from(count) * p_b;
        // Draw even if the draw cannot matter, so that every arrival uses one draw.
        if fraction(&mut self.rng) * left >= p_b {
            return Verdict::Pass;
        }
        self.count = Some(0);
        if self.params.ecn {
            Verdict::MarkOrDrop(DropReason::Red)
        } else {
            Verdict::Drop(DropReason::Red)
        }
    }

    fn measure(&mut self, waiting: Length, now: Nanos) {
        if waiting.packets > 0 {
            let length = match self.params.unit {
                RedUnit::Packets => waiting.packets,
                RedUnit::Bytes => waiting.bytes,
            };
            self.average += self.params.weight * (length as f64 - self.average);
            return;
        }
        let packet_ns = self.params.packet_time.0;
        if let Some(packets) = (now - self.empty_since).0.checked_div(packet_ns) {
            self.average *= power(1.0 - self.params.weight, packets);
            self.empty_since = self.empty_since + Nanos(packets * packet_ns);
        }
    }
}

/// `base` to the power of `exponent`, by multiplications only: the same on every machine.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 && product > 0.0 {
        if exponent % 2 == 1 {
            product *= base;
        }
        base *= base;
        exponent /= 2;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::{Ect, overload};
    use crate::queue::{Discipline, Limit};
    use rand::SeedableRng;

    /// Judges packets of `bytes` at a queue of constant length. Returns the gaps between packets
    /// that were dropped or marked.
    fn gaps(params: RedParams, bytes: u32, packets: u64) -> Vec<f64> {
        let mut red = Red::new(params, ChaCha8Rng::seed_from_u64(5));
        let waiting = Length { packets, bytes: packets * u64::from(bytes) };
        let mut last = 0;
        let mut gaps = Vec::new();
        for at in 1..200_000 {
            if red.judge(waiting, Nanos::ZERO) != Verdict::Pass {
                gaps.push(f64::from(at - last));
                last = at;
            }
        }
        gaps.remove(0);
        gaps
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn packets_hit_lie_as_far_apart_as_the_paper_says() {
        // Figure 2 counts the packet itself: gaps are uniform below 1 / p_b, their mean is half.
        let params = RedParams { weight: 1.0, gentle: false, ..RedParams::default() };
        for (packets, p_b) in [(6, 0.01), (10, 0.05), (14, 0.09)] {
            let gaps = gaps(params, 1500, packets);
            let want = 0.5 / p_b;
            assert!((mean(&gaps) / want - 1.0).abs() < 0.02, "{} for {want}", mean(&gaps));
            let longest = gaps.iter().copied().fold(0.0, f64::max);
            assert!(longest <= 1.0 / p_b + 1.0, "{longest} at {p_b}");
        }
    }

    #[test]
    fn thresholds_bound_what_is_dropped() {
        let sharp = RedParams { weight: 1.0, gentle: false, ..RedParams::default() };
        let gentle = RedParams { gentle: true, ..sharp };
        let share = |params, packets| {
            let mut red = Red::new(params, ChaCha8Rng::seed_from_u64(5));
            let waiting = Length { packets, bytes: 0 };
            let hit = (0..1_000)
                .filter(|_| red.judge(waiting, Nanos::ZERO) == Verdict::Drop(DropReason::Red));
            hit.count()
        };
        assert_eq!((share(sharp, 4), share(gentle, 4)), (0, 0));
        assert_eq!((share(sharp, 15), share(gentle, 30)), (1_000, 1_000));
        // A fifth of the way from max to twice max: p_b = 0.28, and gaps of 1.8 packets.
        assert!((500..600).contains(&share(gentle, 18)), "{}", share(gentle, 18));
    }

    #[test]
    fn thresholds_in_bytes_look_at_bytes() {
        let (min, max, weight) = (7_500.0, 22_500.0, 1.0);
        let params = RedParams { unit: RedUnit::Bytes, min, max, weight, ..RedParams::default() };
        // At 15,000 bytes p_b is 0.05, in 10 packets as well as in 50.
        assert!((mean(&gaps(params, 1500, 10)) / 10.0 - 1.0).abs() < 0.02);
        assert!((mean(&gaps(params, 300, 50)) / 10.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn the_average_follows_the_queue_and_decays_while_it_is_empty() {
        let params = RedParams { packet_time: Nanos::from_millis(1), ..RedParams::default() };
        let mut red = Red::new(params, ChaCha8Rng::seed_from_u64(5));
        let waiting = Length { packets: 4, bytes: 6_000 };
        for _ in 0..500 {
            red.judge(waiting, Nanos::ZERO);
        }
        // Section 6: after n packets, average = 4 (1 - (1 - weight)^n).
        let want = 4.0 * (1.0 - 0.998f64.powi(500));
        assert!((red.average - want).abs() < 1e-9, "{} for {want}", red.average);
        red.emptied(Nanos::ZERO);
        let empty = Length { packets: 0, bytes: 0 };
        // 100.5 ms, then another 100.5 ms: 201 packets' time in all.
        red.judge(empty, Nanos(100_500_000));
        red.judge(empty, Nanos(201_000_000));
        assert!((red.average - want * 0.998f64.powi(201)).abs() < 1e-9, "{}", red.average);
    }

    #[test]
    fn it_marks_where_it_may_and_drops_where_it_must() {
        let params = RedParams { ecn: true, weight: 0.02, ..RedParams::default() };
        let limit = Limit { packets: Some(200), bytes: None };
        let marked = overload::<Ect>(Discipline::Red(params), limit, 1, 2);
        assert_eq!((marked.drops.iter().sum::<usize>(), marked.queue.marked()), (0, 0));
        let marked = overload::<Ect>(Discipline::Red(params), limit, 2, 2);
        assert!(marked.queue.marked() > 20, "{}", marked.queue.marked());
        let dropped = overload::<u32>(Discipline::Red(params), limit, 2, 2);
        assert_eq!(dropped.queue.marked(), 0);
        // At twice the rate half is dropped, and the queue stays near `max`.
        assert!(dropped.drops[1] > 900, "{:?}", dropped.drops);
        assert!((5..45).contains(&dropped.queue.packets()), "{}", dropped.queue.packets());
    }
}
