//! Measures the outcome of each state of a flow over the span of time that follows it, driven by
//! one arm.
//!
//! A flow has one open span at a time. A span begins at the end of a sample, or at a switch. It
//! ends, and gives an outcome, when it has lasted as long as the model's predictions look ahead. A
//! switch or the end of the flow ends a span early; it then counts if it has lasted a good part of
//! that time. So spans of a flow never overlap. Time is the flow's own, by the monotonic clock of
//! its datapath.

use remuda_algorithms::units::Time;
use remuda_algorithms::{Sample, Seen};
use remuda_selector::antelope::model::{Norm, Value, value};
use remuda_selector::features::Features;
use std::collections::BTreeMap;
use std::time::Duration;

/// The shortest span that counts when a switch or the flow's end cuts it short.
const SPAN_MIN: Duration = Duration::from_secs(4);
/// Flows tracked at once, as many as the BPF datapath has by default; a further flow replaces the
/// one silent for longest.
const FLOWS_MAX: usize = 8_192;

/// What was measured after a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub flow: u32,
    /// The arm that drove the flow.
    pub arm: &'static str,
    /// The features at the beginning of the span.
    pub features: Features,
    pub actual: Value,
    /// Whether no prediction of this flow has been scored before.
    pub is_first: bool,
}

/// A span that has not ended.
#[derive(Clone, Debug)]
struct Span {
    /// `None` until the first sample of the span.
    arm: Option<&'static str>,
    features: Features,
    lasted: Duration,
    /// Measured values, each multiplied by the time over which it was measured.
    sums: Seen,
}

impl Span {
    fn begin(features: Features) -> Self {
        Self { arm: None, features, lasted: Duration::ZERO, sums: Seen::default() }
    }

    fn add(&mut self, sample: &Sample) {
        let (seen, sums) = (&sample.seen, &mut self.sums);
        let span_s = seen.span_s;
        self.arm = Some(sample.arm);
        self.lasted = self.lasted.saturating_add(sample.until - sample.from);
        sums.span_s += span_s;
        sums.throughput_mbit_per_sec += seen.throughput_mbit_per_sec * span_s;
        sums.lost_mbit_per_sec += seen.lost_mbit_per_sec * span_s;
        sums.rtt_mean_ms += seen.rtt_mean_ms * span_s;
    }

    /// The outcome, if the span has lasted for `lasted` and the path's rate and RTT are known.
    fn outcome(&self, lasted: Duration) -> Option<(&'static str, Features, Value)> {
        if self.lasted < lasted || self.sums.span_s <= 0.0 {
            return None;
        }
        let of = |sum: f64| sum / self.sums.span_s;
        let seen = Seen {
            span_s: self.sums.span_s,
            throughput_mbit_per_sec: of(self.sums.throughput_mbit_per_sec),
            lost_mbit_per_sec: of(self.sums.lost_mbit_per_sec),
            rtt_mean_ms: of(self.sums.rtt_mean_ms),
        };
        let actual = Norm::of(&self.features)?.value(&seen);
        let is_known = actual.ln_throughput.is_finite() && actual.ln_delay.is_finite();
        is_known.then_some((self.arm?, self.features, actual))
    }
}

#[derive(Clone, Debug)]
struct Flow {
    /// Features at the end of the last sample, and the time of that end.
    features: Features,
    until: Time,
    span: Span,
    is_scored: bool,
    /// The number of the flow's last sample, counted over all flows.
    last_sample: u64,
}

/// The open spans of all flows.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    flows: BTreeMap<u32, Flow>,
    samples: u64,
    newest: u32,
}

/// Whether flow number `flow` was given after `other`: numbers count up and wrap.
pub fn is_after(flow: u32, other: u32) -> bool {
    (1..=u32::MAX / 2).contains(&flow.wrapping_sub(other))
}

impl Spans {
    /// The number of the flow that began last, among those with samples; 0, which is no flow's
    /// number, if no flow has samples.
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// Takes in a sample. Returns an outcome if the sample ends a span.
    pub fn add(&mut self, number: u32, sample: &Sample) -> Option<Outcome> {
        let features = Features(sample.features.as_ref().try_into().ok()?);
        self.samples += 1;
        if is_after(number, self.newest) {
            self.newest = number;
        }
        let Some(flow) = self.flows.get_mut(&number) else {
            self.make_room();
            let (until, last_sample, is_scored) = (sample.until, self.samples, false);
            let flow =
                Flow { features, until, span: Span::begin(features), is_scored, last_sample };
            self.flows.insert(number, flow);
            return None;
        };
        let follows = sample.from == flow.until;
        let is_same = flow.span.arm.is_none_or(|arm| arm == sample.arm);
        let mut ended = None;
        if follows && is_same {
            flow.span.add(sample);
            ended = flow.span.outcome(value::SPAN);
            if flow.span.lasted >= value::SPAN {
                flow.span = Span::begin(features);
            }
        } else {
            ended = ended.or_else(|| flow.span.outcome(SPAN_MIN));
            flow.span = Span::begin(features);
            if follows {
                // The arm has changed: the new span begins at the switch, which is the end of the
                // sample before.
                flow.span = Span::begin(flow.features);
                flow.span.add(sample);
            }
        }
        (flow.features, flow.until, flow.last_sample) = (features, sample.until, self.samples);
        let is_first = !flow.is_scored;
        ended.map(|(arm, features, actual)| Outcome {
            flow: number,
            arm,
            features,
            actual,
            is_first,
        })
    }

    /// Ends the flow. Returns the outcome of its open span, if that lasted long enough.
    pub fn ended(&mut self, number: u32) -> Option<Outcome> {
        let flow = self.flows.remove(&number)?;
        let (arm, features, actual) = flow.span.outcome(SPAN_MIN)?;
        Some(Outcome { flow: number, arm, features, actual, is_first: !flow.is_scored })
    }

    /// Notes that a prediction of the flow has been scored.
    pub fn scored(&mut self, number: u32) {
        if let Some(flow) = self.flows.get_mut(&number) {
            flow.is_scored = true;
        }
    }

    /// Restarts all spans for a new model, so that only later spans are scored.
    pub fn begin_anew(&mut self) {
        for flow in self.flows.values_mut() {
            flow.span = Span::begin(flow.features);
            flow.is_scored = false;
        }
    }

    fn make_room(&mut self) {
        if self.flows.len() < FLOWS_MAX {
            return;
        }
        let oldest = self.flows.iter().min_by_key(|(_, flow)| flow.last_sample);
        if let Some(number) = oldest.map(|(number, _)| *number) {
            self.flows.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_selector::features::{COUNT, schema};

    fn features(rate_max: f32, rtt_min_ms: f32) -> Box<[f32]> {
        let value = |name: &str| match name {
            "rate_max_mbit_per_sec" => rate_max,
            "rtt_min_ms" => rtt_min_ms,
            _ => f32::NAN,
        };
        schema().features.iter().map(|it| value(&it.name)).collect()
    }

    /// 10 Mbit/s of which 2 are lost, at 60 ms, on a path of 8 Mbit/s and 40 ms.
    fn sample(arm: &'static str, from_s: u64, until_s: u64) -> Sample {
        let at = |s| Time(Duration::from_secs(s));
        let seen = Seen {
            span_s: (until_s - from_s) as f64,
            throughput_mbit_per_sec: 10.0,
            lost_mbit_per_sec: 2.0,
            rtt_mean_ms: 60.0,
        };
        Sample { arm, from: at(from_s), until: at(until_s), seen, features: features(8.0, 40.0) }
    }

    /// The seconds at which an outcome was returned, with its arm.
    fn outcomes(samples: &[(&'static str, u64, u64)]) -> Vec<(u64, &'static str)> {
        let mut spans = Spans::default();
        let mut all = Vec::new();
        for (arm, from_s, until_s) in samples {
            let outcome = spans.add(7, &sample(arm, *from_s, *until_s));
            all.extend(outcome.map(|it| (*until_s, it.arm)));
        }
        all.extend(spans.ended(7).map(|it| (0, it.arm)));
        all
    }

    #[test]
    fn what_comes_is_beside_what_the_path_holds() {
        let mut spans = Spans::default();
        assert_eq!(spans.add(7, &sample("bbr", 0, 1)), None);
        let outcome = spans.add(7, &sample("bbr", 1, 13)).expect("of twelve seconds");
        assert_eq!((outcome.flow, outcome.arm, outcome.is_first), (7, "bbr", true));
        assert_eq!(outcome.actual.ln_throughput, 0.0, "10 - 2 of 8 Mbit/s");
        // 60 ms minus 20 ms of propagation there is 40 ms, twice the least.
        assert!((outcome.actual.ln_delay - 2f32.ln()).abs() < 1e-6);
        assert_eq!(outcome.features.get("rate_max_mbit_per_sec"), Some(8.0));
    }

    #[test]
    fn spans_last_as_long_as_values_are_about_and_do_not_overlap() {
        let steady: Vec<_> = (0..60).map(|s| ("bbr", s, s + 1)).collect();
        // The state at 1 s ends at 13 s, that one at 25 s, and so on; the flow ends at 60 s.
        let want = [(13, "bbr"), (25, "bbr"), (37, "bbr"), (49, "bbr"), (0, "bbr")];
        assert_eq!(outcomes(&steady), want);
        assert_eq!(outcomes(&steady[..16]), [(13, "bbr")], "three seconds to the end are too few");
    }

    #[test]
    fn a_switch_ends_a_span_and_begins_one_of_the_next_arm() {
        let switched: Vec<_> =
            (0..30).map(|s| (if s < 6 { "bbr" } else { "copa" }, s, s + 1)).collect();
        // The switch at 6 s is known from copa's first sample, from 6 to 7 s; its span lasts 12 s
        // from 6 s on.
        assert_eq!(outcomes(&switched), [(7, "bbr"), (18, "copa"), (30, "copa")]);
        let soon: Vec<_> =
            (0..14).map(|s| (if s < 4 { "bbr" } else { "copa" }, s, s + 1)).collect();
        assert_eq!(outcomes(&soon), [(0, "copa")], "three seconds of bbr are too few");
    }

    #[test]
    fn a_gap_ends_a_span_and_time_within_it_is_not_scored() {
        let gap = [("bbr", 0, 1), ("bbr", 1, 6), ("bbr", 8, 9), ("bbr", 9, 20), ("bbr", 20, 21)];
        assert_eq!(outcomes(&gap), [(9, "bbr"), (21, "bbr")]);
    }

    #[test]
    fn a_path_that_is_not_known_is_not_scored() {
        for unknown in [features(f32::NAN, 40.0), features(8.0, f32::NAN), features(8.0, 0.0)] {
            let mut spans = Spans::default();
            spans.add(7, &Sample { features: unknown, ..sample("bbr", 0, 1) });
            assert_eq!(spans.add(7, &sample("bbr", 1, 13)), None);
        }
        let mut spans = Spans::default();
        let odd = Sample { features: vec![0.0; COUNT + 1].into(), ..sample("bbr", 0, 1) };
        assert_eq!(spans.add(7, &odd), None, "of another schema");
    }

    #[test]
    fn nothing_that_began_before_another_model_is_scored() {
        let mut spans = Spans::default();
        spans.add(7, &sample("bbr", 0, 1));
        spans.add(7, &sample("bbr", 1, 12));
        spans.scored(7);
        spans.begin_anew();
        assert_eq!(spans.add(7, &sample("bbr", 12, 14)), None);
        let outcome = spans.add(7, &sample("bbr", 14, 24)).expect("twelve seconds of its own");
        assert!(outcome.is_first);
    }

    #[test]
    fn flows_are_bounded_and_the_latest_stay() {
        let mut spans = Spans::default();
        for flow in 1..=FLOWS_MAX as u32 + 10 {
            spans.add(1, &sample("bbr", u64::from(flow), u64::from(flow) + 1));
            spans.add(flow, &sample("bbr", 0, 1));
        }
        assert_eq!(spans.flows.len(), FLOWS_MAX);
        assert!(spans.flows.contains_key(&1) && !spans.flows.contains_key(&2));
        assert_eq!(spans.newest(), FLOWS_MAX as u32 + 10);
    }

    #[test]
    fn numbers_of_flows_wrap() {
        assert!(is_after(1, 0) && is_after(2, u32::MAX) && is_after(7, 6));
        assert!(!is_after(7, 7) && !is_after(6, 7) && !is_after(u32::MAX, 2));
    }
}
