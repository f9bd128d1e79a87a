//! The observations of a flow: only what a sender can measure.

use remuda_algorithms::Measurement;
use remuda_algorithms::units::Bytes;
use std::time::Duration;

/// A number of an observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feature {
    pub name: &'static str,
    /// The unit; 1 for a ratio.
    pub unit: &'static str,
    pub low: f32,
    pub high: f32,
    pub about: &'static str,
}

/// The numbers that an observation has of each step, in order. Values outside of a range are cut to
/// it, and all are 0 for steps before the episode.
#[rustfmt::skip]
pub const FEATURES: [Feature; 8] = [
    Feature { name: "send_ratio", unit: "1", low: 0.0, high: 5.0,
        about: "highest sending rate over highest delivery rate; above 1 a queue grows" },
    Feature { name: "latency_ratio", unit: "1", low: 0.0, high: 10.0,
        about: "mean round trip over the shortest seen; the last known one if none was measured" },
    Feature { name: "latency_gradient", unit: "s/s", low: -1.0, high: 1.0,
        about: "change of the mean round trip since the step before, over the length of a step" },
    Feature { name: "loss_rate", unit: "1", low: 0.0, high: 1.0,
        about: "segments lost over segments lost or delivered" },
    Feature { name: "ecn_rate", unit: "1", low: 0.0, high: 1.0,
        about: "segments marked over segments delivered" },
    Feature { name: "delivery_ratio", unit: "1", low: 0.0, high: 2.0,
        about: "delivered bytes per second over the fastest delivery seen" },
    Feature { name: "rate_ratio", unit: "1", low: 0.0, high: 10.0,
        about: "what the action changes: rate over the fastest delivery seen, or window over BDP" },
    Feature { name: "in_flight_bdp", unit: "1", low: 0.0, high: 10.0,
        about: "most bytes in flight over BDP: fastest delivery times shortest round trip seen" },
];

/// What was measured in a step; rewards are computed from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// The delivery rate in bytes per second.
    pub bytes_per_sec: f64,
    /// The mean round trip, in seconds; the last known one if none was measured.
    pub rtt_s: Option<f64>,
    /// Segments lost over segments lost or delivered.
    pub loss_rate: f64,
}

/// Computes features from measurements, and stores those of the last steps.
#[derive(Clone, Debug)]
pub struct Observer {
    history: Vec<f32>,
    mss_bytes: f64,
    rtt_min_s: Option<f64>,
    rtt_s: Option<f64>,
    delivery_max: f64,
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then_some(part / whole)
}

impl Observer {
    /// An observer before the start of a flow, for `history` steps.
    pub fn new(history: usize) -> Self {
        let history = vec![0.0; history * FEATURES.len()];
        Self { history, mss_bytes: 1.0, rtt_min_s: None, rtt_s: None, delivery_max: 0.0 }
    }

    /// Forgets everything, for the start of another flow with segments of this size.
    pub fn restart(&mut self, mss_bytes: u32) {
        self.history.fill(0.0);
        self.mss_bytes = f64::from(mss_bytes.max(1));
        (self.rtt_min_s, self.rtt_s, self.delivery_max) = (None, None, 0.0);
    }

    /// The shortest round trip so far, in seconds.
    pub fn rtt_min_s(&self) -> Option<f64> {
        self.rtt_min_s
    }

    /// The highest delivery rate so far, in bytes per second; `None` before the first.
    pub fn delivery_max(&self) -> Option<f64> {
        (self.delivery_max > 0.0).then_some(self.delivery_max)
    }

    /// The highest delivery rate times the shortest round trip, in bytes.
    pub fn bdp_bytes(&self) -> Option<f64> {
        Some(self.delivery_max()? * self.rtt_min_s?)
    }

    /// Processes one step of length `span`, in which `delivered` bytes arrived. That includes bytes
    /// behind a hole, so that filling the hole is no burst. `in_force` is called after the maxima
    /// are updated, and returns the rate or window as a share of what the path seems to carry.
    pub fn take(
        &mut self,
        m: &Measurement,
        delivered: Bytes,
        span: Duration,
        in_force: impl FnOnce(&Self) -> Option<f64>,
    ) -> Seen {
        let span_s = span.as_secs_f64();
        let before_s = self.rtt_s;
        if let Some(rtt) = m.rtt {
            let shortest_s = rtt.min.as_secs_f64();
            self.rtt_min_s = Some(self.rtt_min_s.map_or(shortest_s, |min| min.min(shortest_s)));
            self.rtt_s = Some(rtt.sum_us as f64 / 1e6 / rtt.count.max(1) as f64);
        }
        let delivery = m.delivery_rate.bytes_per_sec() as f64;
        self.delivery_max = self.delivery_max.max(delivery);

        let delivered_pkts = delivered.0 as f64 / self.mss_bytes;
        let lost_pkts = m.lost.0 as f64;
        let bytes_per_sec = ratio(delivered.0 as f64, span_s).unwrap_or(0.0);
        let loss_rate = ratio(lost_pkts, lost_pkts + delivered_pkts).unwrap_or(0.0);
        let latency = self.rtt_s.zip(self.rtt_min_s).and_then(|(rtt, min)| ratio(rtt, min));
        let rise_s = self.rtt_s.zip(before_s).map(|(now, before)| now - before);
        let sent = m.send_rate.bytes_per_sec() as f64;
        self.push([
            ratio(sent, delivery),
            latency,
            rise_s.and_then(|rise| ratio(rise, span_s)),
            Some(loss_rate),
            ratio(m.ecn_marked.0 as f64, delivered_pkts),
            ratio(bytes_per_sec, self.delivery_max),
            in_force(self),
            self.bdp_bytes().and_then(|bdp| ratio(m.in_flight.0 as f64, bdp)),
        ]);
        Seen { bytes_per_sec, rtt_s: self.rtt_s, loss_rate }
    }

    /// Unknown values become 0.
    fn push(&mut self, values: [Option<f64>; FEATURES.len()]) {
        self.history.copy_within(FEATURES.len().., 0);
        let newest = self.history.len() - FEATURES.len();
        for ((place, value), feature) in self.history[newest..].iter_mut().zip(values).zip(FEATURES)
        {
            let (low, high) = (f64::from(feature.low), f64::from(feature.high));
            *place = value.unwrap_or(0.0).clamp(low, high) as f32;
        }
    }

    /// The features of the last steps, the newest last.
    pub fn observation(&self) -> &[f32] {
        &self.history
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use remuda_algorithms::RttSamples;
    use remuda_algorithms::units::{Packets, Rate};

    const STEP: Duration = Duration::from_millis(40);
    const ARRIVED: Bytes = Bytes(40_000);

    fn measured(rtt_ms: u64) -> Measurement {
        Measurement {
            rtt: Some(RttSamples::one(Duration::from_millis(rtt_ms))),
            send_rate: Rate::from_bytes_per_sec(1_500_000),
            delivery_rate: Rate::from_bytes_per_sec(1_000_000),
            in_flight: Bytes(60_000),
            ..Measurement::QUIET
        }
    }

    fn started(history: usize) -> Observer {
        let mut observer = Observer::new(history);
        observer.restart(1_000);
        observer
    }

    #[test]
    fn a_step_shows_as_ratios() {
        let mut observer = started(2);
        observer.take(&measured(40), ARRIVED, STEP, |_| None);
        let lossy = Measurement { lost: Packets(10), ecn_marked: Packets(4), ..measured(60) };
        let seen = observer.take(&lossy, ARRIVED, STEP, |o| o.delivery_max().map(|it| 1.2e6 / it));
        assert_eq!(seen, Seen { bytes_per_sec: 1e6, rtt_s: Some(0.06), loss_rate: 0.2 });
        assert_eq!(
            observer.observation(),
            [[1.5, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.5], [1.5, 1.5, 0.5, 0.2, 0.1, 1.0, 1.2, 1.5]]
                .concat()
        );
    }

    #[test]
    fn a_step_without_acks_remembers_the_round_trip_only() {
        let mut observer = started(1);
        observer.take(&measured(40), ARRIVED, STEP, |_| None);
        observer.take(&measured(80), ARRIVED, STEP, |_| None);
        let seen = observer.take(&Measurement::QUIET, Bytes(0), STEP, |_| None);
        assert_eq!(seen, Seen { bytes_per_sec: 0.0, rtt_s: Some(0.08), loss_rate: 0.0 });
        assert_eq!(observer.observation(), [0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        observer.restart(1_000);
        assert_eq!(observer.observation(), [0.0; 8]);
        assert_eq!((observer.rtt_min_s(), observer.bdp_bytes()), (None, None));
    }

    #[test]
    fn the_oldest_step_leaves_first() {
        let mut observer = started(3);
        for rtt_ms in [10, 20, 30, 40] {
            observer.take(&measured(rtt_ms), ARRIVED, STEP, |_| None);
        }
        let latency: Vec<f32> = observer.observation().chunks(8).map(|step| step[1]).collect();
        assert_eq!(latency, [2.0, 3.0, 4.0]);
    }

    proptest! {
        #[test]
        fn nothing_leaves_its_range(
            bytes in any::<[u64; 3]>(), counts in any::<[u32; 2]>(), rtt_us in any::<u32>(),
            span_us in any::<u32>(), in_force in any::<f64>(),
        ) {
            let mut observer = started(2);
            let m = Measurement {
                lost: Packets(counts[0].into()),
                ecn_marked: Packets(counts[1].into()),
                rtt: Some(RttSamples::one(Duration::from_micros(rtt_us.into()))),
                send_rate: Rate::from_bytes_per_sec(bytes[1]),
                delivery_rate: Rate::from_bytes_per_sec(bytes[2]),
                ..Measurement::QUIET
            };
            let in_force = (!in_force.is_nan()).then_some(in_force);
            observer.take(&m, Bytes(bytes[0]), Duration::from_micros(span_us.into()), |_| in_force);
            for (value, feature) in observer.observation()[8..].iter().zip(FEATURES) {
                prop_assert!((feature.low..=feature.high).contains(value), "{}", feature.name);
            }
        }
    }
}
