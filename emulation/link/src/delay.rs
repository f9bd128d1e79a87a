//! Propagation delay, its jitter, and its changes.
//!
//! Packet k, which leaves the bottleneck at `t_k`, is delivered at
//!
//! ```text
//! x_k = c * x_(k-1) + sqrt(1 - c^2) * std * n_k        x_0 = std * n_0
//! d_k = t_k + max(0, delay + x_k)                      when jitter may reorder
//! d_k = max(d_(k-1), t_k + max(0, delay + x_k))        otherwise (the default)
//! ```
//!
//! x is an AR(1) process of mean 0 and standard deviation `std`; c is the correlation of one
//! packet's jitter with the next one's. n_k is a standard normal variate, approximated by the sum
//! of twelve uniform ones less six (Irwin–Hall). It has mean 0 and variance 1, never exceeds 6, and
//! is exact on every machine, which a logarithm is not.
//!
//! Both limits lift the mean delay above `delay`. Delay is never negative, so a `std` above a third
//! of the delay lifts the mean. Without reordering a late packet holds back those behind it, so the
//! mean is higher on a busy link.
//!
//! Where the path changes, `delay` is the value at the moment `t_k`. After a change to a shorter
//! path, packets would overtake the last ones on the longer path. They do so only if jitter may
//! reorder. Otherwise they wait, and arrive together with the last packet of the longer path.

use crate::schedule::{Cursor, Schedule};
use crate::time::Nanos;
use rand::RngCore;
use rand_chacha::ChaCha8Rng;

/// 2^32: the number of values one uniform draw can take.
const DRAWS: f64 = 4_294_967_296.0;

/// Decides when a packet that left the bottleneck reaches the other end.
#[derive(Clone, Debug)]
pub struct Delay {
    base: Nanos,
    /// A base delay that changes: its value at a moment, and its minimum.
    path: Option<Box<(Cursor<Nanos>, Nanos)>>,
    std_ns: f64,
    correlation: f64,
    reorders: bool,
    jitter_ns: Option<f64>,
    last: Nanos,
    rng: Box<ChaCha8Rng>,
}

impl Delay {
    pub fn fixed(base: Nanos, rng: ChaCha8Rng) -> Self {
        Self {
            base,
            path: None,
            std_ns: 0.0,
            correlation: 0.0,
            reorders: false,
            jitter_ns: None,
            last: Nanos::ZERO,
            rng: Box::new(rng),
        }
    }

    /// Changes the delay at set moments.
    pub fn with_steps(mut self, steps: Schedule<Nanos>) -> Self {
        let least = steps.values().min().unwrap_or(self.base);
        self.path = Some(Box::new((Cursor::new(steps), least)));
        self
    }

    /// Adds jitter of this standard deviation and packet-to-packet correlation (0 to 1).
    pub fn with_jitter(mut self, std: Nanos, correlation: f64) -> Self {
        self.std_ns = std.0 as f64;
        self.correlation = correlation;
        self
    }

    /// Allows jitter, and a change to a shorter path, to reorder packets.
    pub fn with_reordering(mut self, reorders: bool) -> Self {
        self.reorders = reorders;
        self
    }

    /// When a packet that leaves the bottleneck at `departed` is delivered. `departed` must not
    /// decrease from call to call.
    #[inline]
    pub fn deliver_at(&mut self, departed: Nanos) -> Nanos {
        if let Some(path) = &mut self.path {
            self.base = path.0.at(departed);
        }
        let mut at = departed + self.base;
        if self.std_ns > 0.0 {
            let span_ns = (self.base.0 as f64 + self.next_jitter_ns()).max(0.0);
            at = departed + Nanos(span_ns.round() as u64);
        }
        if !self.reorders {
            at = at.max(self.last);
        }
        self.last = at;
        at
    }

    /// The minimum delay of any packet.
    pub fn at_least(&self) -> Nanos {
        if self.std_ns > 0.0 {
            return Nanos::ZERO;
        }
        self.path.as_ref().map_or(self.base, |path| path.1)
    }

    /// Whether packets arrive in the order in which they left.
    pub fn keeps_order(&self) -> bool {
        !self.reorders || (self.std_ns == 0.0 && self.path.is_none())
    }

    fn next_jitter_ns(&mut self) -> f64 {
        let fresh = self.std_ns * self.standard_normal();
        let jitter = match self.jitter_ns {
            None => fresh,
            Some(before) => {
                let c = self.correlation;
                c * before + (1.0 - c * c).sqrt() * fresh
            }
        };
        self.jitter_ns = Some(jitter);
        jitter
    }

    fn standard_normal(&mut self) -> f64 {
        let sum: u64 = (0..12).map(|_| u64::from(self.rng.next_u32())).sum();
        // Each draw is the lower end of an interval: adding half a step per draw centres the sum.
        (sum as f64 + 6.0) / DRAWS - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const MS: f64 = 1e6;

    fn delay(std_ms: u64, correlation: f64, reorders: bool) -> Delay {
        Delay::fixed(Nanos::from_millis(50), ChaCha8Rng::seed_from_u64(7))
            .with_jitter(Nanos::from_millis(std_ms), correlation)
            .with_reordering(reorders)
    }

    /// Delays of packets sent a second apart, in ms, minus the base.
    fn deviations(mut delay: Delay, packets: u64) -> Vec<f64> {
        (0..packets)
            .map(|k| {
                let sent = Nanos::from_millis(1_000 * k);
                (delay.deliver_at(sent) - sent).0 as f64 / MS - 50.0
            })
            .collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn jitter_has_the_mean_the_deviation_and_the_correlation_asked_for() {
        for correlation in [0.0, 0.5, 0.9] {
            let x = deviations(delay(5, correlation, false), 200_000);
            let variance = mean(&x.iter().map(|v| v * v).collect::<Vec<_>>());
            let lag = mean(&x.windows(2).map(|w| w[0] * w[1]).collect::<Vec<_>>());
            assert!(mean(&x).abs() < 0.2, "mean {}", mean(&x));
            assert!((variance.sqrt() - 5.0).abs() < 0.15, "std {}", variance.sqrt());
            assert!((lag / variance - correlation).abs() < 0.03, "lag one {}", lag / variance);
        }
    }

    #[test]
    fn order_holds_unless_reordering_is_asked_for() {
        let order = |reorders| {
            let mut delay = delay(5, 0.0, reorders);
            let at: Vec<_> = (0..1_000).map(|k| delay.deliver_at(Nanos(k * 1_000_000))).collect();
            at.is_sorted()
        };
        assert!(order(false));
        assert!(!order(true));
    }

    #[test]
    fn a_shorter_path_overtakes_only_where_order_may_change() {
        // The delay is 50 ms, 20 ms from 10 ms on, and 80 ms from 60 ms on; a packet every 5 ms.
        let steps = [(10, 20), (60, 80)].map(|(at, ms)| (Nanos::from_millis(at), ms));
        let steps = steps.map(|(at, ms)| (at, Nanos::from_millis(ms))).to_vec();
        let arrivals = |reorders| {
            let steps = Schedule::new(Nanos::from_millis(50), steps.clone(), None);
            let mut delay = delay(0, 0.0, reorders).with_steps(steps);
            assert_eq!(delay.at_least(), Nanos::from_millis(20));
            assert_eq!(delay.keeps_order(), !reorders);
            let sent = [0, 5, 10, 15, 35, 40, 55, 60].map(Nanos::from_millis);
            sent.map(|sent| delay.deliver_at(sent).as_millis())
        };
        assert_eq!(arrivals(true), [50, 55, 30, 35, 55, 60, 75, 140]);
        assert_eq!(arrivals(false), [50, 55, 55, 55, 55, 60, 75, 140]);
    }

    #[test]
    fn no_jitter_is_exact() {
        let mut delay = delay(0, 0.0, false);
        assert_eq!(delay.deliver_at(Nanos(123)), Nanos(50_000_123));
    }
}
