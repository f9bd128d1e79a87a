//! The reward of an initial window, equation 4: throughput and round trip of its responses.
//!
//! ```text
//! X = alpha * throughput / throughput_max + (1 - alpha) * RTT_min / RTT
//! ```
//!
//! Throughput is in bytes/s, RTT in s. The reward of several responses is the mean of theirs, and
//! is linear in the mean throughput and in the mean of 1 / RTT. So sums of these two are kept, and
//! rewards are computed again, exactly, whenever `throughput_max` or `RTT_min` changes.

use super::record::Record;
use serde::{Deserialize, Serialize};

/// Sums over responses. A discounted sum has a count that is not whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcomes {
    pub count: f64,
    throughput_bytes_per_sec: f64,
    inverse_rtt_per_sec: f64,
}

/// The means of some responses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub throughput_bytes_per_sec: f64,
    /// The mean of 1 / RTT, in 1/s.
    pub inverse_rtt_per_sec: f64,
}

impl From<&Record> for Mean {
    fn from(record: &Record) -> Self {
        Self {
            throughput_bytes_per_sec: record.throughput_bytes_per_sec(),
            inverse_rtt_per_sec: record.inverse_rtt_per_sec(),
        }
    }
}

impl Outcomes {
    pub fn add(&mut self, of: Mean) {
        self.count += 1.0;
        self.throughput_bytes_per_sec += of.throughput_bytes_per_sec;
        self.inverse_rtt_per_sec += of.inverse_rtt_per_sec;
    }

    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.throughput_bytes_per_sec += other.throughput_bytes_per_sec;
        self.inverse_rtt_per_sec += other.inverse_rtt_per_sec;
    }

    /// Gives what has been added until now `gamma` times its weight.
    pub fn discount(&mut self, gamma: f64) {
        self.count *= gamma;
        self.throughput_bytes_per_sec *= gamma;
        self.inverse_rtt_per_sec *= gamma;
    }

    /// `None` if nothing has been added.
    pub fn mean(&self) -> Option<Mean> {
        (self.count > 0.0).then(|| Mean {
            throughput_bytes_per_sec: self.throughput_bytes_per_sec / self.count,
            inverse_rtt_per_sec: self.inverse_rtt_per_sec / self.count,
        })
    }

    pub(super) fn is_valid(&self) -> bool {
        let all = [self.count, self.throughput_bytes_per_sec, self.inverse_rtt_per_sec];
        all.iter().all(|it| it.is_finite() && *it >= 0.0)
    }
}

/// The largest throughput and the smallest round trip of a group so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    throughput_bytes_per_sec_max: f64,
    /// 1 / RTT_min, in 1/s.
    inverse_rtt_per_sec_max: f64,
}

impl Scale {
    pub fn widen(&mut self, by: Mean) {
        let Self { throughput_bytes_per_sec_max: throughput, inverse_rtt_per_sec_max: inverse } =
            self;
        *throughput = throughput.max(by.throughput_bytes_per_sec);
        *inverse = inverse.max(by.inverse_rtt_per_sec);
    }

    /// The reward; 0 to 1 for what the scale was widened by.
    pub fn reward(&self, alpha: f64, of: Mean) -> f64 {
        let share = |value: f64, most: f64| if most > 0.0 { value / most } else { 0.0 };
        let throughput = share(of.throughput_bytes_per_sec, self.throughput_bytes_per_sec_max);
        let rtt = share(of.inverse_rtt_per_sec, self.inverse_rtt_per_sec_max);
        alpha * throughput + (1.0 - alpha) * rtt
    }

    pub(super) fn is_valid(&self) -> bool {
        let both = [self.throughput_bytes_per_sec_max, self.inverse_rtt_per_sec_max];
        both.iter().all(|it| it.is_finite() && *it >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn the_reward_is_that_of_equation_4_and_follows_its_scale() {
        let of = |rate, srtt_ms| Mean::from(&record("192.0.2.1", 0, 10, rate, srtt_ms));
        let (fast, slow) = (of(2e6, 40.0), of(1e6, 20.0));
        let mut scale = Scale::default();
        scale.widen(fast);
        assert!((scale.reward(0.8, fast) - 1.0).abs() < 1e-9);
        scale.widen(slow);
        assert!((scale.reward(0.8, fast) - (0.8 + 0.2 * 0.5)).abs() < 1e-9);
        assert!((scale.reward(0.8, slow) - (0.8 * 0.5 + 0.2)).abs() < 1e-9);
        let mut both = Outcomes::default();
        [fast, slow].into_iter().for_each(|it| both.add(it));
        let mean = scale.reward(0.8, both.mean().expect("two"));
        let want = (scale.reward(0.8, fast) + scale.reward(0.8, slow)) / 2.0;
        assert!((mean - want).abs() < 1e-9, "the reward of both is the mean of their rewards");
    }
}
