//! The last data units of a flow.

use std::collections::VecDeque;

/// How many are remembered.
pub const UNITS: usize = 16;
/// A unit's round trips count by so many values: see [`Past::rtt_points_ms`].
const POINTS: usize = 4;
const PERCENTILE: f64 = 0.95;

/// What is remembered of a unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past {
    /// When it ended, in seconds of the flow.
    pub end_s: f64,
    /// Payload delivered over its time.
    pub throughput_mbit_per_sec: f64,
    /// Mean round trip, if there was one.
    pub rtt_mean_ms: Option<f64>,
    pub rtt_min_ms: f64,
    /// The smallest, the largest, and one standard deviation to both sides of the mean.
    pub rtt_points_ms: [f64; POINTS],
    /// Squared distances of round trips from the mean of their report, summed.
    pub rtt_scatter_ms2: f64,
    /// Round trips less reports.
    pub rtt_freedom: f64,
    pub lost_pkts: f64,
    pub delivered_pkts: f64,
    /// A retransmission timeout fired.
    pub timed_out: bool,
}

/// The last units, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Pasts(VecDeque<Past>);

fn mean(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let count = values.clone().count();
    (count > 0).then(|| values.sum::<f64>() / count as f64)
}

/// Standard deviation over mean; unknown of fewer than two.
fn cov(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let count = values.clone().count();
    let mean = mean(values.clone()).filter(|mean| count > 1 && *mean > 0.0)?;
    let scatter: f64 = values.map(|value| (value - mean) * (value - mean)).sum();
    Some((scatter / (count - 1) as f64).sqrt() / mean)
}

impl Pasts {
    /// One more; the oldest one beyond [`UNITS`] is forgotten.
    pub fn push(&mut self, past: Past) {
        if self.0.len() == UNITS {
            self.0.pop_front();
        }
        self.0.push_back(past);
    }

    pub fn last(&self) -> Option<&Past> {
        self.0.back()
    }

    fn timed(&self) -> impl Iterator<Item = &Past> + Clone {
        self.0.iter().filter(|past| past.rtt_mean_ms.is_some())
    }

    /// Mean of their throughput.
    pub fn throughput_mean(&self) -> Option<f64> {
        mean(self.0.iter().map(|past| past.throughput_mbit_per_sec))
    }

    /// How much their throughput varies.
    pub fn throughput_cov(&self) -> Option<f64> {
        cov(self.0.iter().map(|past| past.throughput_mbit_per_sec))
    }

    /// How much their mean round trips vary.
    pub fn rtt_cov(&self) -> Option<f64> {
        cov(self.0.iter().filter_map(|past| past.rtt_mean_ms))
    }

    /// How much round trips vary within reports.
    pub fn rtt_cov_fast(&self) -> Option<f64> {
        let freedom: f64 = self.timed().map(|past| past.rtt_freedom).sum();
        let scatter: f64 = self.timed().map(|past| past.rtt_scatter_ms2).sum();
        let mean = mean(self.0.iter().filter_map(|past| past.rtt_mean_ms))?;
        (freedom > 0.0 && mean > 0.0).then(|| (scatter / freedom).sqrt() / mean)
    }

    /// The smallest round trip.
    pub fn rtt_min_ms(&self) -> Option<f64> {
        self.timed().map(|past| past.rtt_min_ms).min_by(f64::total_cmp)
    }

    /// The 95th percentile of their points.
    pub fn rtt_p95_ms(&self) -> Option<f64> {
        let mut room = [0.0; UNITS * POINTS];
        let all = self.timed().flat_map(|past| past.rtt_points_ms);
        let points = room.iter_mut().zip(all).map(|(place, point)| *place = point).count();
        let points = &mut room[..points];
        let rank = (points.len() as f64 * PERCENTILE).ceil() as usize;
        let at = rank.checked_sub(1)?;
        let (_, value, _) = points.select_nth_unstable_by(at, f64::total_cmp);
        Some(*value)
    }

    /// Segments lost, of those delivered or lost.
    pub fn lost_share(&self) -> Option<f64> {
        let lost: f64 = self.0.iter().map(|past| past.lost_pkts).sum();
        let all: f64 = self.0.iter().map(|past| past.delivered_pkts).sum::<f64>() + lost;
        (all > 0.0).then(|| lost / all)
    }

    /// How many of them saw a loss, as a share.
    pub fn lossy_share(&self) -> Option<f64> {
        mean(self.0.iter().map(|past| f64::from(past.lost_pkts > 0.0)))
    }

    /// How many of them saw a timeout.
    pub fn timeouts(&self) -> f64 {
        self.0.iter().filter(|past| past.timed_out).count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pasts(throughputs: &[f64]) -> Pasts {
        let mut pasts = Pasts::default();
        for &throughput_mbit_per_sec in throughputs {
            pasts.push(Past { throughput_mbit_per_sec, ..Past::default() });
        }
        pasts
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let mut many = vec![1_000.0];
        many.extend([2.0; UNITS]);
        assert_eq!(pasts(&many).throughput_mean(), Some(2.0));
    }

    #[test]
    fn one_unit_does_not_vary_and_none_has_no_mean() {
        assert_eq!(pasts(&[]).throughput_mean(), None);
        assert_eq!(pasts(&[3.0]).throughput_cov(), None);
        assert_eq!(pasts(&[1.0, 3.0]).throughput_cov(), Some(2f64.sqrt() / 2.0));
        assert_eq!(pasts(&[0.0, 0.0]).throughput_cov(), None, "of nothing there is no share");
    }

    #[test]
    fn the_percentile_is_over_all_points_of_all_units() {
        let mut pasts = Pasts::default();
        for unit in 0..5u32 {
            let first = f64::from(unit) * 4.0;
            let points = [first + 1.0, first + 2.0, first + 3.0, first + 4.0];
            let past = Past { rtt_mean_ms: Some(1.0), rtt_points_ms: points, ..Past::default() };
            pasts.push(past);
        }
        assert_eq!(pasts.rtt_p95_ms(), Some(19.0));
    }
}
