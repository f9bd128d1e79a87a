//! The observations of a flow: only what a sender can measure. The training environments of the
//! Python package and the arms that follow a trained network compute them by this code.

use crate::measurement::Measurement;
use crate::units::{Bytes, Rate};
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

/// How many of the features are ratios.
pub const RATIOS: usize = 8;

/// The features that an observation has of each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Features {
    /// The first [`RATIOS`] of [`FEATURES`]: the same on slow and fast paths.
    #[default]
    Ratios,
    /// All of [`FEATURES`]. Ratios alone cannot tell a flow with a large share of the bottleneck
    /// from one with a small share; the packets that it has in the queue can.
    Sizes,
}

impl Features {
    /// The features of the set, in order.
    pub fn list(self) -> &'static [Feature] {
        match self {
            Self::Ratios => &FEATURES[..RATIOS],
            Self::Sizes => &FEATURES,
        }
    }
}

/// The numbers that an observation has of each step, in order. Values outside of a range are cut to
/// it, and all are 0 for steps before the episode.
#[rustfmt::skip]
pub const FEATURES: [Feature; 12] = [
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
    Feature { name: "standing_ratio", unit: "1", low: 0.0, high: 10.0,
        about: "shortest round trip of the step over the shortest seen; above 1 a queue stands" },
    Feature { name: "in_flight_log2", unit: "log2(pkts)", low: 0.0, high: 20.0,
        about: "most segments in flight, plus 1" },
    Feature { name: "queued_log2", unit: "log2(pkts)", low: 0.0, high: 20.0,
        about: "segments of its own in queues, plus 1: in flight less what the step's rate needs" },
    Feature { name: "rtt_min_log2", unit: "log2(ms)", low: -5.0, high: 15.0,
        about: "shortest round trip seen" },
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
    features: &'static [Feature],
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
    /// An observer of these features before the start of a flow, for `history` steps.
    pub fn new(features: Features, history: usize) -> Self {
        let features = features.list();
        let history = vec![0.0; history * features.len()];
        Self { features, history, mss_bytes: 1.0, rtt_min_s: None, rtt_s: None, delivery_max: 0.0 }
    }

    /// Forgets everything, for the start of another flow with segments of this size.
    pub fn restart(&mut self, mss_bytes: u32) {
        self.history.fill(0.0);
        self.mss_bytes = f64::from(mss_bytes.max(1));
        (self.rtt_min_s, self.rtt_s, self.delivery_max) = (None, None, 0.0);
    }

    /// What is known of the path before the first step, when an arm takes over a running flow.
    pub fn know(&mut self, rtt_min: Option<Duration>, rtt: Option<Duration>, rate: Option<Rate>) {
        self.rtt_min_s = rtt_min.map(|rtt| rtt.as_secs_f64());
        self.rtt_s = rtt.map(|rtt| rtt.as_secs_f64());
        self.delivery_max = rate.map_or(0.0, |rate| rate.bytes_per_sec() as f64);
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

    /// The segments' size, in bytes.
    pub fn mss_bytes(&self) -> f64 {
        self.mss_bytes
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
        let standing_s = m.rtt.map(|rtt| rtt.min.as_secs_f64());
        let in_flight_pkts = m.in_flight.0 as f64 / self.mss_bytes;
        let needed_pkts = self.rtt_min_s.map(|rtt_s| bytes_per_sec * rtt_s / self.mss_bytes);
        let plus_1 = |pkts: f64| libm::log2(1.0 + pkts.max(0.0));
        self.push([
            ratio(sent, delivery),
            latency,
            rise_s.and_then(|rise| ratio(rise, span_s)),
            Some(loss_rate),
            ratio(m.ecn_marked.0 as f64, delivered_pkts),
            ratio(bytes_per_sec, self.delivery_max),
            in_force(self),
            self.bdp_bytes().and_then(|bdp| ratio(m.in_flight.0 as f64, bdp)),
            standing_s.zip(self.rtt_min_s).and_then(|(rtt, min)| ratio(rtt, min)),
            Some(plus_1(in_flight_pkts)),
            needed_pkts.map(|needed| plus_1(in_flight_pkts - needed)),
            self.rtt_min_s.filter(|rtt_s| *rtt_s > 0.0).map(|rtt_s| libm::log2(rtt_s * 1e3)),
        ]);
        Seen { bytes_per_sec, rtt_s: self.rtt_s, loss_rate }
    }

    /// Unknown values become 0.
    fn push(&mut self, values: [Option<f64>; FEATURES.len()]) {
        self.history.copy_within(self.features.len().., 0);
        let newest = self.history.len() - self.features.len();
        let places = self.history[newest..].iter_mut();
        for ((place, value), feature) in places.zip(values).zip(self.features) {
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
    use crate::measurement::RttSamples;
    use crate::units::Packets;
    use proptest::prelude::*;

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
        let mut observer = Observer::new(Features::Ratios, history);
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

    #[test]
    fn sizes_tell_how_many_segments_are_in_flight_and_queued() {
        let mut observer = Observer::new(Features::Sizes, 1);
        observer.restart(1_000);
        observer.take(&measured(40), ARRIVED, STEP, |_| None);
        let m = Measurement { in_flight: Bytes(71_000), ..measured(80) };
        observer.take(&m, ARRIVED, STEP, |_| None);
        // In flight: 71 segments, of which 1 MB/s needs 40 in 40 ms.
        let want = [2.0, 72.0_f32.log2(), 5.0, 40.0_f32.log2()];
        for (got, want) in observer.observation()[RATIOS..].iter().zip(want) {
            assert!((got - want).abs() < 1e-5, "{got} is not {want}");
        }
    }

    proptest! {
        #[test]
        fn nothing_leaves_its_range(
            bytes in any::<[u64; 3]>(), counts in any::<[u32; 2]>(), rtt_us in any::<u32>(),
            span_us in any::<u32>(), in_force in any::<f64>(),
        ) {
            let mut observer = Observer::new(Features::Sizes, 2);
            observer.restart(1_000);
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
            for (value, feature) in observer.observation()[FEATURES.len()..].iter().zip(FEATURES) {
                prop_assert!((feature.low..=feature.high).contains(value), "{}", feature.name);
            }
        }
    }
}
